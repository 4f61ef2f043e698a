//! What a protocol does: the traits of its two sides.

use super::body::Body;
use super::failure::Failure;
use super::log::Receipts;
use super::sections::{Mark, Section, Sections};
use super::watch::Watch;
use crate::clock::Nanos;
use crate::error::Error;
use std::os::fd::RawFd;

/// The side that begins each exchange and knows its end.
pub trait Driver {
    /// Makes the connection that is kept for all exchanges, if one is. At the start,
    /// over the links as they are from then on; tried again for a while where it
    /// fails. One that fails for good does so in each exchange, too.
    ///
    /// # Errors
    /// Why there is no connection.
    fn set_up(&mut self, _turn: &mut Turn<'_, '_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Has one exchange, from its beginning to its end: returns when all that belongs
    /// to it has happened, a connection of its own closed again included. It enters
    /// its sections one after the other by [`Turn::enter`], and waits by
    /// [`Turn::wait`], which ends at the exchange's deadline.
    ///
    /// After a failure, the next call begins anew: a connection that was kept and is
    /// lost is made again, as sections of that exchange.
    ///
    /// # Errors
    /// Why it failed: it counts as failed, and the next begins in its time.
    fn exchange(&mut self, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure>;

    /// Waits for `until`, when the next exchange is due. For a protocol that has to
    /// answer signs of life meanwhile.
    ///
    /// # Errors
    /// When told to stop; nothing else is one.
    fn rest(&mut self, watch: &mut Watch<'_>, until: Nanos) -> Result<(), Failure> {
        watch.sleep(until)
    }

    /// Says goodbye when all is over.
    fn tear_down(&mut self) {}
}

/// The side that answers.
pub trait Server {
    /// Serves until told to stop: says [`Watch::ready`] once it can be reached, then
    /// waits by [`Watch::wait`] on its descriptors (or, with a loop of its own, on
    /// [`Watch::descriptor`] beside them), and notes each payload that has come.
    ///
    /// # Errors
    /// When it cannot go on at all; a client's mistake is none.
    fn serve(&mut self, watch: &mut Watch<'_>, receipts: &mut Receipts) -> Result<(), Error>;
}

/// What a driver knows of an exchange that went well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When the payload was there, where the driver is the one who gets it.
    pub received: Option<Nanos>,
}

/// One exchange, as its driver sees it.
pub struct Turn<'t, 'c> {
    /// Its number among all of the workload.
    pub number: u64,
    /// Bytes of payload.
    pub size: usize,
    /// When it counts as failed.
    pub deadline: Nanos,
    /// Where payloads come from.
    pub body: &'t Body,
    pub(super) watch: &'t mut Watch<'c>,
    pub(super) sections: &'t mut Sections,
}

impl Turn<'_, '_> {
    /// Ends the section before, if there is one, and begins this: the border is now.
    pub fn enter(&mut self, section: Section) {
        self.sections.enter(section);
    }

    /// Ends the last section now, where something is still to do that is not of it.
    #[cfg_attr(not(feature = "opcua"), expect(dead_code, reason = "only OPC UA needs it"))]
    pub fn leave(&mut self) {
        self.sections.leave();
    }

    /// A border that may turn out to have been one.
    pub fn mark(&mut self) -> Mark {
        self.sections.mark()
    }

    /// Begins a section at a border in the past, after which no other was.
    pub fn enter_from(&mut self, mark: Mark, section: Section) {
        self.sections.enter_from(mark, section);
    }

    /// Waits until `fd` has what `events` asks for (`POLLIN`, `POLLOUT`).
    ///
    /// # Errors
    /// At the deadline, and when told to stop.
    pub fn wait(&mut self, fd: RawFd, events: libc::c_short) -> Result<(), Failure> {
        let mut set = [libc::pollfd { fd, events, revents: 0 }];
        match self.wait_until(&mut set, self.deadline)? {
            true => Ok(()),
            false => Err(Failure::timeout()),
        }
    }

    /// Waits for one of `set`, or for `until`, which may be sooner than the deadline;
    /// says whether it was the former.
    ///
    /// # Errors
    /// At the deadline if that comes first, and when told to stop.
    pub fn wait_until(&mut self, set: &mut [libc::pollfd], until: Nanos) -> Result<bool, Failure> {
        let ready = self.watch.wait(set, Some(until.min(self.deadline)))?;
        if !ready && until > self.deadline {
            return Err(Failure::timeout());
        }
        Ok(ready)
    }

    /// Waits until a frame passes the node's interface, or until `until`; says whether it
    /// was the former. The kernel shows a frame before it takes it in.
    ///
    /// # Errors
    /// At the deadline if that comes first, and when told to stop.
    pub fn wait_for_frame(&mut self, until: Nanos) -> Result<bool, Failure> {
        let fd = self.sections.frames();
        self.wait_until(&mut [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }], until)
    }

    /// The payload of this exchange, with its number in it where there is room.
    pub fn payload(&self) -> Vec<u8> {
        self.body.message(Some(self.number), self.size)
    }

    /// Holds what has come against what was asked for.
    ///
    /// # Errors
    /// When it is something else.
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
