//! The traits that a protocol implements, one per side.

use super::body::Body;
use super::failure::Failure;
use super::log::Receipts;
use super::outcome::Outcome;
use super::sections::{Mark, Section, Sections};
use super::watch::Watch;
use crate::error::Error;
use std::os::fd::RawFd;
use units::Instant;

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
    fn rest(&mut self, watch: &mut Watch<'_>, until: Instant) -> Result<(), Failure> {
        watch.sleep(until)
    }

    /// Closes the kept connection at the end.
    fn tear_down(&mut self) {}
}

/// A protocol with connections, as exchanges use it; see [`Connecting`]. Connections include those
/// of one side only, such as a UDP socket.
pub trait Protocol {
    /// An open connection.
    type Connection;

    /// Opens a connection, in sections.
    ///
    /// # Errors
    /// Why there is none.
    fn connect(&mut self, turn: &mut Turn<'_, '_>) -> Result<Self::Connection, Failure>;

    /// Transfers a payload, in sections, until it is complete.
    ///
    /// # Errors
    /// Why the exchange failed; the connection is then [abandoned](Self::abandon).
    fn exchange(
        &mut self,
        turn: &mut Turn<'_, '_>,
        connection: &mut Self::Connection,
    ) -> Result<Outcome, Failure>;

    /// Closes a connection, in sections, until the peer has closed it, too.
    ///
    /// # Errors
    /// Why it is not closed.
    fn close(
        &mut self,
        turn: &mut Turn<'_, '_>,
        connection: Self::Connection,
    ) -> Result<(), Failure>;

    /// Drops a connection after a failed exchange.
    ///
    /// # Errors
    /// Only after a stop message.
    fn abandon(&mut self, _: &mut Turn<'_, '_>, _: Self::Connection) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether a kept connection can carry another exchange.
    fn is_open(&self, _: &Self::Connection) -> bool {
        true
    }

    /// See [`Driver::rest`]; `kept` is the kept connection, if there is one.
    ///
    /// # Errors
    /// Only after a stop message.
    fn rest(
        &mut self,
        _kept: &mut Option<Self::Connection>,
        watch: &mut Watch<'_>,
        until: Instant,
    ) -> Result<(), Failure> {
        watch.sleep(until)
    }

    /// Closes the kept connection at the end.
    fn tear_down(&mut self, _: Self::Connection) {}
}

/// The driver of a protocol with connections: all exchanges over one, or each over a new one.
pub struct Connecting<P: Protocol> {
    /// Declared before `protocol`, because connections use it and fields are dropped in this order.
    kept: Option<P::Connection>,
    protocol: P,
    persistent: bool,
}

impl<P: Protocol> Connecting<P> {
    /// A driver that keeps its connection between exchanges if `persistent`.
    pub fn new(protocol: P, persistent: bool) -> Self {
        Self { kept: None, protocol, persistent }
    }
}

impl<P: Protocol> Driver for Connecting<P> {
    fn set_up(&mut self, turn: &mut Turn<'_, '_>) -> Result<(), Failure> {
        if self.persistent {
            self.kept = Some(self.protocol.connect(turn)?);
        }
        Ok(())
    }

    fn exchange(&mut self, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure> {
        // Taken out, so that a failed exchange leaves none behind.
        let kept = self.kept.take().filter(|kept| self.protocol.is_open(kept));
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.protocol.connect(turn)?,
        };
        let outcome = self.protocol.exchange(turn, &mut connection);
        match &outcome {
            Ok(_) if self.persistent => self.kept = Some(connection),
            Ok(_) => self.protocol.close(turn, connection)?,
            Err(_) => self.protocol.abandon(turn, connection)?,
        }
        outcome
    }

    fn rest(&mut self, watch: &mut Watch<'_>, until: Instant) -> Result<(), Failure> {
        self.protocol.rest(&mut self.kept, watch, until)
    }

    fn tear_down(&mut self) {
        if let Some(connection) = self.kept.take() {
            self.protocol.tear_down(connection);
        }
    }
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

/// An exchange, as the driver sees it.
pub struct Turn<'t, 'c> {
    /// Number within the workload.
    pub number: u64,
    /// Payload size in bytes.
    pub size: usize,
    /// Deadline; the exchange fails after it.
    pub deadline: Instant,
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
    pub fn wait_until(
        &mut self,
        set: &mut [libc::pollfd],
        until: Instant,
    ) -> Result<bool, Failure> {
        let ready = self.watch.wait(set, Some(until.min(self.deadline)))?;
        match ready || until > self.deadline {
            // Also if there is data: a peer may send without end.
            true => self.check_time().map(|()| ready),
            false => Ok(false),
        }
    }

    /// For loops that may read without waiting.
    ///
    /// # Errors
    /// At the deadline.
    pub fn check_time(&self) -> Result<(), Failure> {
        if clock::now() >= self.deadline { Err(Failure::timeout()) } else { Ok(()) }
    }

    /// Waits until a frame passes the node's interface or until `until`; returns whether a frame
    /// passed. The kernel shows a frame before it processes it.
    ///
    /// # Errors
    /// At the deadline if that is first, or after a stop message.
    pub fn wait_for_frame(&mut self, until: Instant) -> Result<bool, Failure> {
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
