//! Images of programs with all that they need: an archive as `docker save` writes
//! it, or an OCI image layout, read without Docker and unpacked into a cache.
//!
//! An archive comes from somewhere else and may hold anything. Whatever it holds,
//! nothing is written outside the folder that it is unpacked into: each entry is
//! placed by calls that cannot leave it.

mod archive;
mod cache;
mod config;
mod digest;
mod error;
mod layer;
mod manifest;
mod source;
mod tree;
mod zstd;

pub use archive::Archive;
pub use cache::{Cache, Cached, Unpacked};
pub use config::Config;
pub use error::{Error, Fault};
