//! Runs in virtual time: each is one run of the tool itself in a guest kernel of its own.

mod cell;
mod files;
mod host;
mod pulse;
mod refusal;
mod wire;

pub use cell::cell;
pub(crate) use host::{check, in_guest};
pub(crate) use wire::Request;
