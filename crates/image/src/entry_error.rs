//! Why an entry of a layer was not extracted.

use std::io;

/// Why an entry was not extracted.
#[derive(Debug)]
pub(crate) enum EntryError {
    /// The entry is forbidden.
    Refused(String),
    /// The entry cannot be read.
    Damaged(io::Error),
    /// The entry cannot be written.
    Disk(io::Error),
}

impl From<io::Error> for EntryError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

impl From<nix::errno::Errno> for EntryError {
    fn from(errno: nix::errno::Errno) -> Self {
        Self::Disk(errno.into())
    }
}
