//! Runs in virtual time: for each run, a separate guest kernel executes the tool itself.

mod cell;
mod files;
mod hold;
mod host;
mod pulse;
mod refusal;
mod session;
mod wire;
mod wish;

pub use cell::cell;
pub(crate) use host::{FOLDER, cache, check, failed, finished, in_guest, machine, results};
pub(crate) use wire::Request;
