//! How a machine ends: by itself, or because that is requested.

use crate::error::Error;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags};
use std::io::{PipeReader, Read};
use std::os::fd::{AsFd, IntoRawFd};
use std::process::Child;
use std::sync::atomic::{AtomicI32, Ordering};
use units::{Instant, Span};

/// How long a machine may take for SIGTERM before it gets SIGINT.
const PATIENCE: Span = Span::from_ms(1_000);

/// Where the handler notes signals; -1 before there is one.
static NOTES: AtomicI32 = AtomicI32::new(-1);

/// The end of a machine. Requests to end pass this program by: the machine is in the same process group and gets
/// them as well, and what it prints until it ends belongs to the log. One that goes on is interrupted as
/// by Ctrl-C. What it started ends with it: the helpers of RIOT's block all signals but SIGKILL, and would
/// keep its terminal and its interface.
#[derive(Debug)]
pub(super) struct Ending {
    signals: PipeReader,
    /// When the machine is interrupted, unless it has ended by then.
    at: Option<Instant>,
    has_ended: bool,
}

impl Ending {
    /// Handles the signals of this process. Their handlers, unlike ignored signals, are not inherited.
    pub fn new() -> Result<Self, Error> {
        extern "C" fn nothing(_: libc::c_int) {}
        extern "C" fn note(signal: libc::c_int) {
            let note = signal as u8;
            // SAFETY: `write` may be called in handlers of signals, and does not block here.
            unsafe { libc::write(NOTES.load(Ordering::Relaxed), (&raw const note).cast(), 1) };
        }
        let failed = Error::io("create a pipe");
        let (signals, notes) = std::io::pipe().map_err(failed)?;
        for end in [signals.as_fd(), notes.as_fd()] {
            fcntl(end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
                .map_err(|errno| Error::io("create a pipe")(errno.into()))?;
        }
        // It stays open as long as the handler: until this process ends.
        NOTES.store(notes.into_raw_fd(), Ordering::Relaxed);
        let [note, nothing] = [note as *const (), nothing as *const ()];
        let handlers = [
            (libc::SIGTERM, note),
            (libc::SIGCHLD, note),
            (libc::SIGINT, nothing),
            (libc::SIGHUP, nothing),
        ];
        for (signal, handler) in handlers {
            // SAFETY: the handlers are functions of the type that signals need.
            unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        }
        Ok(Self { signals, at: None, has_ended: false })
    }

    /// What to wait for.
    pub fn descriptor(&self) -> PollFd<'_> {
        PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)
    }

    /// Takes signals that have come, and interrupts a machine that did not end in time. Returns
    /// whether it has ended: what it printed can still be read.
    pub fn serve(&mut self, now: Instant, machine: &mut Child) -> bool {
        let mut notes = [0; 64];
        let length = self.signals.read(&mut notes).unwrap_or(0);
        let has_come = |signal: libc::c_int| notes[..length].contains(&(signal as u8));
        if has_come(libc::SIGTERM) {
            self.at = Some(now + PATIENCE);
        }
        if has_come(libc::SIGCHLD) && matches!(machine.try_wait(), Ok(Some(_))) {
            self.has_ended = true;
            end_others();
        }
        if !self.has_ended && self.at.is_some_and(|at| at <= now) {
            self.at = None;
            // SAFETY: a plain system call; the number is the machine's until its status is read.
            unsafe { libc::kill(machine.id() as libc::pid_t, libc::SIGINT) };
        }
        self.has_ended
    }

    /// How long to wait until there is something to do: `None` without an end.
    pub fn pause(&self, now: Instant) -> Option<Span> {
        match self.has_ended {
            true => Some(Span::ZERO),
            false => self.at.map(|at| at - now),
        }
    }
}

/// Kills the other processes of this group, by leaving it first.
fn end_others() {
    // SAFETY: plain system calls.
    unsafe {
        let (own, of_the_parent) = (libc::getpgrp(), libc::getpgid(libc::getppid()));
        // 0 is a group outside of the node.
        if of_the_parent > 0 && of_the_parent != own && libc::setpgid(0, of_the_parent) == 0 {
            libc::kill(-own, libc::SIGKILL);
        }
    }
}
