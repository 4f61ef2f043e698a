//! See `hostile::TARGETS`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hostile::feed("capsule", bytes));
