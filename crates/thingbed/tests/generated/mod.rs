//! Random sequences of the lab's commands, each result compared with a model.
//!
//! `scenario` draws a lab file, `generate` the next command; `model` and `link` compute the
//! expected state of each node (pure: no lab, no I/O). `perform`, `race` and `ending` execute a command and
//! check its effects. `session` runs the commands as a user does,
//! `checks` inspects the lab, `isolation` gives each lab separate namespaces.

mod capture;
mod checks;
mod dice;
mod ending;
mod failure;
mod generate;
mod inside;
mod isolation;
mod link;
mod model;
mod operation;
mod perform;
mod race;
mod refused;
mod scenario;
mod sequence;
mod session;

pub use sequence::{Counts, sequence};
