//! Quantities with units, times, histograms of times, reproducible random numbers, and tables of
//! limited size.
//!
//! This crate has no clock and no I/O. It parses quantities from text such as `20 ms`, `250
//! kbit/s`, `127 B` or `30 %`. It rejects a bare number and says what to write instead.

mod bounded_table;
mod draw;
mod electric;
mod histogram;
mod instant;
mod parse;
mod quantity;

pub use bounded_table::BoundedTable;
pub use draw::{Draw, Purpose, RandomStream, mix, words};
pub use electric::{Charge, Current, Frequency, Voltage};
pub use histogram::Histogram;
pub use instant::Instant;
pub use parse::ParseError;
pub use quantity::{Bytes, Rate, Ratio, Span};
