//! A step that failed inside a node or its fork server.

use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use std::io;

/// A step that failed inside a node.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
pub struct Failure {
    /// The step, e.g. `open /dev/net/tun`.
    pub tried: String,
    /// The kernel's error number.
    pub errno: i32,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.tried, io::Error::from_raw_os_error(self.errno))
    }
}

impl Failure {
    pub(crate) fn of(tried: impl Into<String>, errno: Errno) -> Self {
        Self { tried: tried.into(), errno: errno as i32 }
    }
}

/// What was tried, for an error of a system call.
pub(crate) fn of(tried: impl Into<String>) -> impl FnOnce(Errno) -> Failure {
    let tried = tried.into();
    move |errno| Failure::of(tried, errno)
}

/// What was tried, for an error of a file.
pub(crate) fn io(tried: impl Into<String>) -> impl FnOnce(std::io::Error) -> Failure {
    let tried = tried.into();
    move |error| Failure::of(tried, Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
}
