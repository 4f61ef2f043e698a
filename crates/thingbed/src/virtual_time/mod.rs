//! Runs in virtual time: each is one run of the tool itself in a guest kernel of its own.

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
