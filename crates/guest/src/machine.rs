//! The configuration of a guest.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A folder of the host that the guest may write to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Absolute path on the host.
    pub host: PathBuf,
    /// Absolute path in the guest, which creates it.
    pub guest: PathBuf,
}

/// The engine that runs a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// User Mode Linux in time-travel mode: computation takes no time, and programs see the
    /// host's files.
    UserModeLinux {
        /// The path of the kernel, a program of the host.
        kernel: PathBuf,
    },
    /// QEMU, whose clock counts instructions: computation takes time, and the guest has its own
    /// files.
    Qemu {
        /// The kernel and its modules.
        kernel: QemuKernel,
        /// The speed of the guest's only CPU, in 10^6 instructions per second.
        mips: u32,
    },
}

/// A kernel for QEMU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QemuKernel {
    /// The path of its image.
    pub image: PathBuf,
    /// The modules that it needs, in the order of loading.
    pub modules: Vec<PathBuf>,
}

/// The configuration of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The engine.
    pub engine: Engine,
    /// The program that is both the guest's init and its command; its `main` calls
    /// [`crate::init`] when its first argument is [`crate::INIT`].
    pub tool: PathBuf,
    /// The arguments of the command.
    pub arguments: Vec<String>,
    /// The complete environment of the command.
    pub environment: Vec<(String, String)>,
    /// The command's working directory; same path as on the host.
    pub directory: PathBuf,
    /// Files and folders of the host that a guest with its own files gets, at the same paths,
    /// with the libraries and interpreters of programs among them. Omits missing ones.
    pub files: Vec<PathBuf>,
    /// Folders that the guest writes to. All other files of the host are read-only below a
    /// memory-backed overlay.
    pub writable: Vec<Mount>,
    /// Memory of the guest in bytes. The host allocates pages on first use.
    pub memory_bytes: u64,
    /// The seed of the random numbers of the guest's kernel, and so of programs.
    pub seed: u64,
    /// The folder for snapshots of booted guests of QEMU.
    pub cache: PathBuf,
    /// The guest's clock at its start, in s since 1970.
    pub start_s: u64,
}
