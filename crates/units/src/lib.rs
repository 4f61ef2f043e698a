//! Quantities with units, times, histograms of times, and reproducible random numbers.
//!
//! This crate has no clock and no I/O. It parses quantities from text such as `20 ms`, `250
//! kbit/s`, `127 B` or `30 %`. It rejects a bare number and says what to write instead.

mod draw;
mod electric;
mod histogram;
mod instant;
mod parse;
mod quantity;

pub use draw::{Draw, Purpose, RandomStream, mix, words};
pub use electric::{Charge, Current, Frequency, Voltage};
pub use histogram::Histogram;
pub use instant::Instant;
pub use parse::ParseError;
pub use quantity::{Bytes, Rate, Ratio, Span};
