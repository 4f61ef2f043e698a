//! What a guest is given.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A folder of the host that the guest may write to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Absolute path on the host.
    pub host: PathBuf,
    /// Absolute path in the guest; made there.
    pub guest: PathBuf,
}

/// A guest that is to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The guest's kernel, a program of the host.
    pub kernel: PathBuf,
    /// The program that is both the guest's init and its command; its `main` calls
    /// [`crate::init`] when its first argument is [`crate::INIT`].
    pub tool: PathBuf,
    /// The arguments of the command.
    pub arguments: Vec<String>,
    /// Its environment, whole.
    pub environment: Vec<(String, String)>,
    /// The folder that it starts in, with the path that it has on the host.
    pub directory: PathBuf,
    /// Folders that the guest writes to. All other files of the host are read-only below a
    /// memory-backed overlay.
    pub writable: Vec<Mount>,
    /// Memory of the guest in bytes. The host gives pages when they are first used.
    pub memory_bytes: u64,
    /// What all random numbers of the guest's kernel come from, and so those of programs.
    pub seed: u64,
    /// The guest's clock at its start, in s since 1970.
    pub start_s: u64,
}
