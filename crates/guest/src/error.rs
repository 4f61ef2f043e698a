//! Errors of guests, with the likely cause and the fix.

use std::io;
use std::path::PathBuf;

/// An error at the start or the end of a guest.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The User Mode Linux kernel is not installed.
    #[error(
        "virtual time needs the User Mode Linux kernel `{name}`, and it is not installed\n  \
         looked in: {looked}\n  in a checkout: make kernel; elsewhere: set THINGBED_KERNEL to its \
         path"
    )]
    NoKernel {
        /// The file's name.
        name: &'static str,
        /// The folders in which it could be.
        looked: String,
    },
    /// QEMU is not installed.
    #[error(
        "a CPU of finite speed needs qemu-system-x86_64, and it is not installed\n  apt install \
         qemu-system-x86; or use --cpu infinite"
    )]
    NoQemu,
    /// The kernel for QEMU is not installed.
    #[error(
        "a CPU of finite speed needs a kernel for QEMU in a folder `{name}`, and it is not installed\n  \
         looked in: {looked}\n  in a checkout: make qemu-kernel; elsewhere: set \
         THINGBED_QEMU_KERNEL to the folder; or use --cpu infinite"
    )]
    NoQemuKernel {
        /// The folder's name.
        name: &'static str,
        /// The folders in which it could be.
        looked: String,
    },
    /// `THINGBED_KERNEL` names no executable file.
    #[error("THINGBED_KERNEL is {}, which is not an executable file", .0.display())]
    WrongKernel(PathBuf),
    /// No folder has enough space for the guest's memory.
    #[error(
        "the guest needs up to {needed_mib} MiB of memory, and this machine has {free_mib} MiB \
         free in {}\n  end other programs, or run fewer cells at once with --jobs",
        .folder.display()
    )]
    Memory {
        /// Maximum memory of the guest in MiB.
        needed_mib: u64,
        /// Free space in MiB.
        free_mib: u64,
        /// The folder for the guest's memory.
        folder: PathBuf,
    },
    /// An operation on the host failed.
    #[error("could not {tried}: {source}")]
    Io {
        /// The operation, as a phrase after "could not".
        tried: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Programs, and files that they wrote, filled the guest's memory.
    #[error(
        "the guest ran out of memory before the run ended\n  its programs and all files that they \
         write share that memory: write less below /tmp, /run and /dev/shm, or set `limits: \
         {{memory: ...}}` of the nodes that need more, which makes the guest larger"
    )]
    OutOfMemory,
    /// The kernel of the host refused the guest's memory when it started. With the last lines of its
    /// console.
    #[error(
        "the guest could not map its memory when it started{0}\n  a limit of the address space (`ulimit \
         -v`) or of the host's committed memory (vm.overcommit_memory=2) is too low: `ulimit -v \
         unlimited`, or `sysctl vm.overcommit_memory=0` as root"
    )]
    Unmapped(String),
    /// The guest stopped before its command ended.
    #[error("the guest stopped before the run ended ({how}){words}")]
    Died {
        /// How its kernel ended.
        how: String,
        /// The last lines of its console.
        words: String,
    },
}

impl Error {
    pub(crate) fn io(tried: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { tried, source }
    }
}
