//! Transport interface of sources and sinks, with a warm-up handshake.
//!
//! Before a program reports ready, each sink has received a hello and the source has received an
//! answer from each sink. Connections are then open, multicast groups joined and neighbours
//! resolved. No hello is sent later, so that only application traffic is measured.

use crate::error::Error;
use std::os::fd::RawFd;
use units::Instant;

/// Prefix of every hello. No text or XML payload starts with a zero byte.
pub const HELLO: &[u8] = b"\0thingbed-hello\0";

/// The source's side of a transport.
pub trait SourceLink {
    /// Descriptors that become readable when data arrives.
    fn descriptors(&self) -> Result<Vec<RawFd>, Error>;
    /// Sends a hello to the sinks that have not answered yet.
    fn hello(&mut self) -> Result<(), Error>;
    /// Whether every sink has answered.
    fn greeted(&self) -> bool;
    /// Sends a message to one sink, or to all.
    fn send(&mut self, peer: Option<usize>, message: &[u8]) -> Result<(), Error>;
    /// Receives the next reply into `message`; returns its sink, or none.
    fn receive(&mut self, message: &mut Vec<u8>) -> Result<Option<usize>, Error>;
    /// Whether data is available that no descriptor signals again: ZeroMQ's descriptors are
    /// edge-triggered.
    fn pending(&mut self) -> Result<bool, Error>;
    /// Processes timers of the transport; returns when to call it next.
    fn turn(&mut self) -> Result<Option<Instant>, Error> {
        Ok(None)
    }
}

/// A sink's side of a transport.
pub trait SinkLink {
    /// Descriptors that become readable when data arrives.
    fn descriptors(&self) -> Result<Vec<RawFd>, Error>;
    /// Continues to answer the source's hello; call it until [`SinkLink::greeted`].
    fn greet(&mut self) -> Result<(), Error>;
    /// Whether a hello was received and answered.
    fn greeted(&self) -> bool;
    /// Receives the next message into `message`; returns whether there is one.
    fn receive(&mut self, message: &mut Vec<u8>) -> Result<bool, Error>;
    /// Sends a reply; false if the transport accepts none now.
    fn reply(&mut self, message: &[u8]) -> Result<bool, Error>;
    /// See [`SourceLink::pending`].
    fn pending(&mut self) -> Result<bool, Error>;
    /// See [`SourceLink::turn`].
    fn turn(&mut self) -> Result<Option<Instant>, Error> {
        Ok(None)
    }
}

/// A warning that is printed once on standard error, so that repeated events do not fill the log.
#[derive(Debug, Default)]
pub struct Warning(bool);

impl Warning {
    /// Prints `text` on the first call.
    pub fn once(&mut self, text: impl FnOnce() -> String) {
        if !std::mem::replace(&mut self.0, true) {
            crate::log!("warning: {}; further ones are not printed", text());
        }
    }
}
