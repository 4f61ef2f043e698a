//! Runs in virtual time: for each run, a separate guest kernel executes the tool itself.

mod cell;
mod files;
mod hold;
mod host;
mod pause;
mod refusal;
mod session;
mod stall;
mod wire;

pub use cell::cell;
pub(crate) use host::{FOLDER, cache, check, failed, finished, in_guest, machine, results};
pub(crate) use wire::Request;
