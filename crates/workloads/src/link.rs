//! What a source and a sink need of a transport, and the hello that warms it.
//!
//! Before a program says that it is ready, each sink has heard a hello and the
//! source has heard from each sink: connections stand, multicast groups are
//! joined, neighbours are known. After that no hello is sent, so that what is
//! measured is the application's traffic alone.

use crate::clock::Nanos;
use crate::error::Error;
use std::os::fd::RawFd;

/// Begins every hello. No text or XML payload begins with a zero byte.
pub const HELLO: &[u8] = b"\0thingbed-hello\0";

/// The source's end of a transport.
pub trait SourceLink {
    /// The descriptors that become readable when something came.
    fn descriptors(&self) -> Result<Vec<RawFd>, Error>;
    /// Sends a hello to the sinks that have not answered one.
    fn hello(&mut self) -> Result<(), Error>;
    /// Whether every sink has answered.
    fn greeted(&self) -> bool;
    /// Sends a message to one sink, or to all of them.
    fn send(&mut self, peer: Option<usize>, message: &[u8]) -> Result<(), Error>;
    /// The next reply that is there, in `message`, and the sink it is from.
    fn receive(&mut self, message: &mut Vec<u8>) -> Result<Option<usize>, Error>;
    /// Whether something is there that a descriptor may not announce again:
    /// ZeroMQ's descriptors are edge-triggered.
    fn pending(&mut self) -> Result<bool, Error>;
    /// Does what a transport of ours has to do by itself; when it is to be called next.
    fn turn(&mut self) -> Result<Option<Nanos>, Error> {
        Ok(None)
    }
}

/// A sink's end of a transport.
pub trait SinkLink {
    /// The descriptors that become readable when something came.
    fn descriptors(&self) -> Result<Vec<RawFd>, Error>;
    /// Goes on with the answer to the source's hello; to be called until
    /// [`SinkLink::greeted`].
    fn greet(&mut self) -> Result<(), Error>;
    /// Whether a hello was heard and answered.
    fn greeted(&self) -> bool;
    /// The next message that is there, in `message`.
    fn receive(&mut self, message: &mut Vec<u8>) -> Result<bool, Error>;
    /// Sends a reply; false when the transport takes none at present.
    fn reply(&mut self, message: &[u8]) -> Result<bool, Error>;
    /// As for the source.
    fn pending(&mut self) -> Result<bool, Error>;
    /// As for the source.
    fn turn(&mut self) -> Result<Option<Nanos>, Error> {
        Ok(None)
    }
}

/// Says a thing once on standard error: what recurs a thousand times an hour
/// must not fill the log.
#[derive(Debug, Default)]
pub struct Warning(bool);

impl Warning {
    /// Says `text` if this is the first time.
    pub fn once(&mut self, text: impl FnOnce() -> String) {
        if !std::mem::replace(&mut self.0, true) {
            eprintln!("thingbed-workload: warning: {}; further ones are not printed", text());
        }
    }
}
