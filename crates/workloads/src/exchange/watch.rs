//! Waits for descriptors, a time, or a stop message.

use super::failure::{Failure, Reason};
use crate::control::Control;
use crate::error::Error;
use crate::wait::{next_wake, poll};
use record::control::{Command, Status};
use std::os::fd::RawFd;
use units::Instant;

/// The control channel, read wherever a side waits.
pub struct Watch<'c> {
    control: &'c mut Control,
    start: Option<Instant>,
    stopped: bool,
    ready: bool,
    set: Vec<libc::pollfd>,
}

impl<'c> Watch<'c> {
    pub(crate) fn new(control: &'c mut Control) -> Self {
        Self { control, start: None, stopped: false, ready: false, set: Vec::new() }
    }

    /// Reports that this side is reachable, or connected. Returns whether this is the first report.
    ///
    /// # Errors
    /// The control channel is broken.
    pub fn ready(&mut self) -> Result<bool, Error> {
        let is_first = !std::mem::replace(&mut self.ready, true);
        if is_first {
            self.control.send_status(&Status::Ready {})?;
        }
        Ok(is_first)
    }

    pub(crate) fn send_status(&mut self, status: &Status) -> Result<(), Error> {
        self.control.send_status(status)
    }

    /// Whether a stop message has arrived.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Start time of the schedules, once known.
    pub(crate) fn start(&self) -> Option<Instant> {
        self.start
    }

    /// Readable when a message has arrived: for a side with an event loop, which then calls
    /// [`Watch::read_control`].
    pub fn descriptor(&self) -> RawFd {
        self.control.descriptor()
    }

    /// Reads control messages. Blocks unless the descriptor is readable.
    pub fn read_control(&mut self) {
        match self.control.read() {
            Ok(commands) => {
                for command in commands {
                    match command {
                        Command::Start { at_ns } => {
                            self.start.get_or_insert(Instant::from_ns(at_ns));
                        }
                        Command::Stop {} => self.stopped = true,
                    }
                }
            }
            // Stop after an invalid message.
            Err(error) => {
                crate::log!("{error}");
                self.stopped = true;
            }
        }
    }

    /// Waits until one of `set` is ready, or until `until`; none waits indefinitely. Returns
    /// whether a descriptor is ready.
    ///
    /// # Errors
    /// After a stop message.
    pub fn wait(
        &mut self,
        set: &mut [libc::pollfd],
        until: Option<Instant>,
    ) -> Result<bool, Failure> {
        loop {
            if self.stopped {
                return Err(Failure::of(Reason::Stopped, "the run was stopped"));
            }
            let ready = self.poll_once(set, until)?;
            if ready || until.is_some_and(|until| clock::now() >= until) {
                return Ok(ready);
            }
            // A caller that waits for nothing else waits for the start.
            if set.is_empty() && until.is_none() && self.start.is_some() {
                return Ok(false);
            }
        }
    }

    /// Sleeps until `until`.
    ///
    /// # Errors
    /// After a stop message.
    pub fn sleep(&mut self, until: Instant) -> Result<(), Failure> {
        while clock::now() < until {
            self.wait(&mut [], Some(next_wake(until, clock::now())))?;
        }
        if self.stopped { Err(Failure::of(Reason::Stopped, "the run was stopped")) } else { Ok(()) }
    }

    fn poll_once(
        &mut self,
        set: &mut [libc::pollfd],
        until: Option<Instant>,
    ) -> Result<bool, Failure> {
        self.set.clear();
        self.set.push(libc::pollfd {
            fd: self.control.descriptor(),
            events: libc::POLLIN,
            revents: 0,
        });
        self.set.extend_from_slice(set);
        if !poll(&mut self.set, until).map_err(Failure::io("wait"))? {
            return Ok(false);
        }
        if self.set[0].revents != 0 {
            self.read_control();
        }
        let mut ready = false;
        // The first entry is the control channel's.
        for (one, seen) in set.iter_mut().zip(&self.set[1..]) {
            one.revents = seen.revents;
            ready |= seen.revents != 0;
        }
        Ok(ready)
    }
}
