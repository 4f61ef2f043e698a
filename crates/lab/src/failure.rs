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
