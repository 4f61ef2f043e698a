//! What can go wrong with a guest, with the likely cause and the fix.

use std::io;
use std::path::PathBuf;

/// Why a guest did not start or did not end as it should.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no kernel for it.
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
    /// There is no emulator.
    #[error(
        "a CPU of finite speed needs qemu-system-x86_64, and it is not installed\n  apt install \
         qemu-system-x86; or use --cpu infinite"
    )]
    NoQemu,
    /// There is no kernel for the emulator.
    #[error(
        "a CPU of finite speed needs a kernel for QEMU in a folder `{name}`, and there is none\n  \
         looked in: {looked}\n  in a checkout: make qemu-kernel; elsewhere: set \
         THINGBED_QEMU_KERNEL to the folder; or use --cpu infinite"
    )]
    NoQemuKernel {
        /// The folder's name.
        name: &'static str,
        /// The folders in which it could be.
        looked: String,
    },
    /// The kernel that the environment names is not there.
    #[error("THINGBED_KERNEL is {}, which is not an executable file", .0.display())]
    WrongKernel(PathBuf),
    /// There is no folder for the guest's memory.
    #[error(
        "the guest needs up to {needed_mib} MiB of memory, and this machine has {free_mib} MiB \
         free in {}\n  end other programs, or run fewer cells at once with --jobs",
        .folder.display()
    )]
    Memory {
        /// MiB that the guest may come to use.
        needed_mib: u64,
        /// MiB that are free.
        free_mib: u64,
        /// Where its memory would be.
        folder: PathBuf,
    },
    /// The host refused something.
    #[error("could not {tried}: {source}")]
    Io {
        /// What was tried.
        tried: &'static str,
        /// The host's answer.
        source: io::Error,
    },
    /// Programs, and files that they wrote, filled the guest's memory.
    #[error(
        "the guest ran out of memory before the run ended\n  its programs and all files that they \
         write share that memory: write less below /tmp, /run and /dev/shm, or set `limits: \
         {{memory: ...}}` of the nodes that need more, which makes the guest larger"
    )]
    OutOfMemory,
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
