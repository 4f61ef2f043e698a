//! Quantities with units, times, histograms of times, reproducible random numbers, prefixes of IPv6,
//! and tables of limited size.
//!
//! This crate has no clock and no I/O. It parses quantities from text such as `20 ms`, `250
//! kbit/s`, `127 B` or `30 %`. It rejects a bare number and says what to write instead.
//!
//! Without the feature `std` it has times and the quantities that are not electric, and needs an
//! allocator only: the director's core computes with them on microcontrollers.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

#[cfg(feature = "std")]
mod bounded_table;
#[cfg(feature = "std")]
mod draw;
#[cfg(feature = "std")]
mod electric;
#[cfg(feature = "std")]
mod histogram;
mod instant;
mod parse;
#[cfg(feature = "std")]
mod prefix;
mod quantity;
#[cfg(feature = "std")]
mod radio;

#[cfg(feature = "std")]
pub use bounded_table::BoundedTable;
#[cfg(feature = "std")]
pub use draw::{Draw, Purpose, RandomStream, mix, words};
#[cfg(feature = "std")]
pub use electric::{Charge, Current, Frequency, Voltage};
#[cfg(feature = "std")]
pub use histogram::Histogram;
pub use instant::Instant;
pub use parse::ParseError;
#[cfg(feature = "std")]
pub use prefix::{Contexts, Ipv6Prefix};
pub use quantity::{Bytes, Rate, Ratio, Span};
#[cfg(feature = "std")]
pub use radio::{Attenuation, Distance, PowerLevel};
