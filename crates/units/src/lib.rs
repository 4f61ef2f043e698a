//! Quantities that carry their unit, and random draws that belong to a place.
//!
//! Everything here is pure: no clock, no I/O. A quantity is read from text such
//! as `20 ms`, `250 kbit/s`, `127 B` or `30 %`; a bare number is refused with a
//! sentence that says what to write.

mod draw;
mod electric;
mod parse;
mod quantity;
mod timeline;

pub use draw::{Draw, Lot, Purpose, words};
pub use electric::{Charge, Current, Frequency, Voltage};
pub use parse::ParseError;
pub use quantity::{Bytes, Rate, Ratio, Span};
pub use timeline::{Quarter, Timeline};
