//! A clock of a node's own: a time namespace (time_namespaces(7)), in which
//! CLOCK_MONOTONIC and CLOCK_BOOTTIME are ahead of the machine's. The kernel has one
//! CLOCK_REALTIME for all.

use crate::wire::Failure;
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe, read, write};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A time namespace that programs may be put into.
#[derive(Debug)]
pub(crate) struct Clock(OwnedFd);

impl Clock {
    /// One that is `ahead` of the machine's, in ns.
    ///
    /// Who makes one has all of its children in it from then on, and without root
    /// cannot go back; so a child makes it, and is gone.
    pub fn ahead(ahead: u64) -> Result<Self, Failure> {
        let failed = |errno| Failure::of("make a time namespace", errno);
        let (said, say) = pipe().map_err(failed)?;
        // SAFETY: this process has one thread, so that the child may go on in Rust.
        match unsafe { fork() }.map_err(failed)? {
            ForkResult::Child => {
                let errno = match set(ahead) {
                    Ok(()) => 0,
                    Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
                };
                let _ = write(&say, &errno.to_ne_bytes());
                loop {
                    nix::unistd::pause();
                }
            }
            ForkResult::Parent { child } => {
                drop(say);
                let made = take(&said, child);
                let _ = kill(child, Signal::SIGKILL);
                while waitpid(child, None) == Err(Errno::EINTR) {}
                made.map(Self).map_err(failed)
            }
        }
    }

    /// Puts a program that is to be started into it.
    pub fn give(&self, command: &mut Command) {
        let clock = self.0.as_raw_fd();
        // SAFETY: between fork and exec, a system call alone; the descriptor is the
        // init's own and lives as long as it does.
        unsafe {
            command.pre_exec(move || match libc::setns(clock, libc::CLONE_NEWTIME) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
    }
}

/// Makes the namespace, for children of this process, and sets it.
fn set(ahead: u64) -> io::Result<()> {
    unshare(CloneFlags::from_bits_retain(libc::CLONE_NEWTIME))?;
    let (s, ns) = (ahead / 1_000_000_000, ahead % 1_000_000_000);
    fs::write("/proc/self/timens_offsets", format!("monotonic {s} {ns}\nboottime {s} {ns}\n"))
}

/// Takes what the child has made, once it says so.
fn take(said: &OwnedFd, child: Pid) -> Result<OwnedFd, Errno> {
    let mut errno = [0; 4];
    if read(said, &mut errno)? != errno.len() {
        return Err(Errno::EIO);
    }
    match i32::from_ne_bytes(errno) {
        0 => {
            let namespace = File::open(format!("/proc/{child}/ns/time_for_children"));
            let errno =
                |error: io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
            namespace.map(OwnedFd::from).map_err(errno)
        }
        errno => Err(Errno::from_raw(errno)),
    }
}
