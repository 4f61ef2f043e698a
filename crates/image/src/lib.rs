//! Container images: reads a `docker save` archive or an OCI image layout without Docker
//! and unpacks it into a cache.
//!
//! Archives are untrusted input. Unpacking never writes outside the target folder: every
//! entry is created with system calls that cannot leave that folder.

mod archive;
mod budget;
mod cache;
mod config;
mod digest;
mod entry_error;
mod error;
mod layer;
mod manifest;
mod platform;
mod source;
mod tree;
mod zstd;

pub use archive::Archive;
pub use cache::{Cache, Cached, Unpacked};
pub use config::Config;
pub use error::{Error, Fault};
pub use platform::Platform;
