//! The command `run`: every cell of the matrix, every repeat.

mod definition;
mod disk;
mod execute;
mod prepare;

pub(crate) use definition::{Sweep, name, word, write};
pub use execute::run;
pub(crate) use execute::{again, have};
pub(crate) use prepare::{Prepared, begin, check_plans, prepare};
