//! Random sequences of the lab's commands, each result compared with a model.
//!
//! `scenario` draws a lab file, `generate` the next command, `model` and `link` say what
//! each node must see after it (pure: no lab, no I/O). `session` types the commands as
//! a user does, `checks` looks, `isolation` gives each lab namespaces without other labs.

mod capture;
mod checks;
mod dice;
mod failure;
mod generate;
mod inside;
mod isolation;
mod link;
mod model;
mod operation;
mod perform;
mod refused;
mod scenario;
mod sequence;
mod session;

pub use sequence::{Counts, sequence};
