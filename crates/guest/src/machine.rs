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

/// What runs a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// User Mode Linux in time-travel mode: programs cost no time, and see the host's files.
    UserModeLinux {
        /// The kernel, a program of the host.
        kernel: PathBuf,
    },
    /// QEMU, whose clock counts instructions: programs take time, and the guest has its own
    /// files.
    Qemu {
        /// The kernel and its modules.
        kernel: QemuKernel,
        /// The speed of the guest's one processor, in million instructions a second.
        mips: u32,
    },
}

/// A kernel for QEMU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QemuKernel {
    /// Its image.
    pub image: PathBuf,
    /// The modules that it needs, in the order in which they are to be loaded.
    pub modules: Vec<PathBuf>,
}

/// A guest that is to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// What runs it.
    pub engine: Engine,
    /// The program that is both the guest's init and its command; its `main` calls
    /// [`crate::init`] when its first argument is [`crate::INIT`].
    pub tool: PathBuf,
    /// The arguments of the command.
    pub arguments: Vec<String>,
    /// Its environment, whole.
    pub environment: Vec<(String, String)>,
    /// The folder that it starts in, with the path that it has on the host.
    pub directory: PathBuf,
    /// Files and folders of the host that a guest with its own files gets, at the same paths, with
    /// what programs among them need. Those that are not there are left out.
    pub files: Vec<PathBuf>,
    /// Folders that the guest writes to. All other files of the host are read-only below a
    /// memory-backed overlay.
    pub writable: Vec<Mount>,
    /// Memory of the guest in bytes. The host gives pages when they are first used.
    pub memory_bytes: u64,
    /// What all random numbers of the guest's kernel come from, and so those of programs.
    pub seed: u64,
    /// The folder in which states of started guests are kept, for guests of QEMU.
    pub cache: PathBuf,
    /// The guest's clock at its start, in s since 1970.
    pub start_s: u64,
}
