//! A separate clock for a node: a time namespace (time_namespaces(7)), in which CLOCK_MONOTONIC and
//! CLOCK_BOOTTIME are ahead of the machine's. The kernel has only one CLOCK_REALTIME.

use crate::failure::Failure;
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
use units::Span;

/// A time namespace for programs.
#[derive(Debug)]
pub(crate) struct Clock(OwnedFd);

impl Clock {
    /// Creates a namespace that is `ahead` of the machine's clocks.
    ///
    /// A process that creates one has all of its later children in it, and cannot return without
    /// root; so a short-lived child creates it.
    ///
    /// # Errors
    /// When the kernel has no time namespaces, or refuses one.
    pub fn ahead(ahead: Span) -> Result<Self, Failure> {
        let failed = |errno| Failure::of("make a time namespace", errno);
        let (report, reporter) = pipe().map_err(failed)?;
        // SAFETY: this process has one thread, so the child may continue in Rust.
        match unsafe { fork() }.map_err(failed)? {
            ForkResult::Child => {
                let errno = match set(ahead) {
                    Ok(()) => 0,
                    Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
                };
                // The parent opens the namespace in /proc, so the child must live until then.
                let _ = write(&reporter, &errno.to_ne_bytes());
                loop {
                    nix::unistd::pause();
                }
            }
            ForkResult::Parent { child } => {
                drop(reporter);
                let made = take(&report, child);
                let _ = kill(child, Signal::SIGKILL);
                while waitpid(child, None) == Err(Errno::EINTR) {}
                made.map(Self).map_err(failed)
            }
        }
    }

    /// Starts `command` in the namespace.
    pub fn give(&self, command: &mut Command) {
        let clock = self.0.as_raw_fd();
        // SAFETY: only a system call between fork and exec; the descriptor is the init's and lives
        // as long as the init.
        unsafe {
            command.pre_exec(move || match libc::setns(clock, libc::CLONE_NEWTIME) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
    }
}

/// Creates the namespace for children of this process and sets its offsets.
fn set(ahead: Span) -> io::Result<()> {
    unshare(CloneFlags::from_bits_retain(libc::CLONE_NEWTIME))?;
    let (s, ns) = (ahead.as_ns() / 1_000_000_000, ahead.as_ns() % 1_000_000_000);
    fs::write("/proc/self/timens_offsets", format!("monotonic {s} {ns}\nboottime {s} {ns}\n"))
}

/// Opens the child's namespace once the child signals that it exists.
fn take(report: &OwnedFd, child: Pid) -> Result<OwnedFd, Errno> {
    let mut errno = [0; 4];
    if read(report, &mut errno)? != errno.len() {
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
