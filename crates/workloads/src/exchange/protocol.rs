//! The traits that a protocol implements, one per side.

use super::body::Body;
use super::failure::Failure;
use super::log::Receipts;
use super::sections::{Mark, Section, Sections};
use super::watch::Watch;
use crate::clock::Nanos;
use crate::error::Error;
use std::os::fd::RawFd;

/// The side that starts each exchange and detects its end.
pub trait Driver {
    /// Opens the connection that all exchanges share, if they share one. Called at the start, with
    /// the links already emulated, and retried for a while on failure. A permanent failure also
    /// fails each exchange.
    ///
    /// # Errors
    /// Why there is no connection.
    fn set_up(&mut self, _turn: &mut Turn<'_, '_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs one exchange to completion: returns when everything that belongs to it is done,
    /// including closing its connection if it has a separate one. It enters its sections in order
    /// with [`Turn::enter`], and waits with [`Turn::wait`], which ends at the exchange's deadline.
    ///
    /// After a failure, the next call starts over: a lost kept connection is reopened, as sections
    /// of that exchange.
    ///
    /// # Errors
    /// Why the exchange failed; the next one still starts on schedule.
    fn exchange(&mut self, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure>;

    /// Waits until the next exchange at `until`. Override it for protocols that must answer
    /// keep-alives in the meantime.
    ///
    /// # Errors
    /// Only after a stop message.
    fn rest(&mut self, watch: &mut Watch<'_>, until: Nanos) -> Result<(), Failure> {
        watch.sleep(until)
    }

    /// Closes the kept connection at the end.
    fn tear_down(&mut self) {}
}

/// The side that answers.
pub trait Server {
    /// Serves until a stop message: calls [`Watch::ready`] once it is reachable, then waits with
    /// [`Watch::wait`] on its descriptors (or polls [`Watch::descriptor`] in an event loop), and
    /// records each payload received.
    ///
    /// # Errors
    /// The server cannot continue; an invalid client message is not an error.
    fn serve(&mut self, watch: &mut Watch<'_>, receipts: &mut Receipts) -> Result<(), Error>;
}

/// Result of a successful exchange.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When the payload was complete, if the driver receives it.
    pub received: Option<Nanos>,
}

/// An exchange, as the driver sees it.
pub struct Turn<'t, 'c> {
    /// Number within the workload.
    pub number: u64,
    /// Payload size in bytes.
    pub size: usize,
    /// Deadline; the exchange fails after it.
    pub deadline: Nanos,
    /// Payload generator.
    pub body: &'t Body,
    pub(crate) watch: &'t mut Watch<'c>,
    pub(crate) sections: &'t mut Sections,
}

impl Turn<'_, '_> {
    /// Ends the previous section, if any, and starts this one now.
    pub fn enter(&mut self, section: Section) {
        self.sections.enter(section);
    }

    /// Ends the last section now, if work remains that belongs to no section.
    #[cfg_attr(not(feature = "opcua"), expect(dead_code, reason = "only OPC UA needs it"))]
    pub fn leave(&mut self) {
        self.sections.leave();
    }

    /// A possible section boundary.
    pub fn mark(&mut self) -> Mark {
        self.sections.mark()
    }

    /// Starts a section at a past boundary, with no other boundary since.
    pub fn enter_from(&mut self, mark: Mark, section: Section) {
        self.sections.enter_from(mark, section);
    }

    /// Waits until `fd` is ready for `events` (`POLLIN`, `POLLOUT`).
    ///
    /// # Errors
    /// At the deadline, or after a stop message.
    pub fn wait(&mut self, fd: RawFd, events: libc::c_short) -> Result<(), Failure> {
        let mut set = [libc::pollfd { fd, events, revents: 0 }];
        match self.wait_until(&mut set, self.deadline)? {
            true => Ok(()),
            false => Err(Failure::timeout()),
        }
    }

    /// Waits for one of `set` or until `until`; returns whether a descriptor is ready.
    ///
    /// # Errors
    /// At the deadline if that is first, or after a stop message.
    pub fn wait_until(&mut self, set: &mut [libc::pollfd], until: Nanos) -> Result<bool, Failure> {
        let ready = self.watch.wait(set, Some(until.min(self.deadline)))?;
        if !ready && until > self.deadline {
            return Err(Failure::timeout());
        }
        Ok(ready)
    }

    /// Waits until a frame passes the node's interface or until `until`; returns whether a frame
    /// passed. The kernel shows a frame before it processes it.
    ///
    /// # Errors
    /// At the deadline if that is first, or after a stop message.
    pub fn wait_for_frame(&mut self, until: Nanos) -> Result<bool, Failure> {
        let fd = self.sections.frames();
        self.wait_until(&mut [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }], until)
    }

    /// The payload of this exchange, with its number if there is room.
    pub fn payload(&self) -> Vec<u8> {
        self.body.message(Some(self.number), self.size)
    }

    /// Compares a received payload with the expected one.
    ///
    /// # Errors
    /// They differ.
    pub fn check(&self, payload: &[u8]) -> Result<(), Failure> {
        if payload.len() != self.size {
            let (got, size) = (payload.len(), self.size);
            return Err(Failure::corrupt(format!("received {got} bytes, expected {size}")));
        }
        match self.body.number(payload) {
            Some(None) => Ok(()),
            Some(Some(number)) if number == self.number => Ok(()),
            Some(Some(number)) => Err(Failure::corrupt(format!("it belongs to exchange {number}"))),
            None => Err(Failure::corrupt("the received bytes differ from the sent ones")),
        }
    }
}
