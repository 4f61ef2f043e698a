//! Capsules: one self-contained file with an experiment and all inputs of its runs, to reproduce
//! the runs on another machine. Each run is a guest's image; files are stored by digest.

mod archive;
mod capsule;
mod manifest;

pub use capsule::{Capsule, ENDING, is_capsule};
pub use manifest::{FORMAT, HOME, Manifest, Packed, digest};
