//! See `hostile::TARGETS`. The Parquet reader may panic on damaged files, which Thingbed catches.
#![no_main]

#[path = "../caught.rs"]
mod caught;

libfuzzer_sys::fuzz_target!(init: caught::keep(), |bytes: &[u8]| hostile::feed("replay", bytes));
