//! Waits for the end of the process whose lab the page shows.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A process, which cannot be mistaken for a later one with the same number.
pub(crate) struct Process(OwnedFd);

impl Process {
    /// The process of this number.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn open(pid: u32) -> io::Result<Self> {
        // SAFETY: a plain system call; the descriptor that it returns is ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Returns when the process has ended.
    pub(crate) async fn ended(self) -> io::Result<()> {
        // SAFETY: nothing else closes the descriptor while it is registered.
        let process = unsafe { AsyncFd::register_with_interest(self.0, Interest::READABLE) }?;
        process.readable().await.map(drop)
    }
}
