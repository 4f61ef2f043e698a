//! A socket with the options that all uses need.

use super::{Error, last_error};
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::RawFd;

/// Limits of a socket's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of queued messages per peer and direction; 0 for no limit.
    pub queue: c_int,
    /// Time to send queued messages after the socket is closed, in ms.
    pub linger_ms: c_int,
    /// Maximum size of a received message, in bytes; none for no limit.
    pub largest: Option<i64>,
}

/// A ZeroMQ socket.
pub struct Socket {
    socket: zmq::Socket,
    name: &'static str,
}

type Call = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;

impl Socket {
    /// Creates a socket.
    ///
    /// # Errors
    /// libzmq has no socket left, or rejects an option.
    pub fn new(
        context: &zmq::Context,
        kind: zmq::SocketType,
        limits: Limits,
    ) -> Result<Self, Error> {
        let name = name(kind);
        let socket = context.socket(kind).map_err(Error::io(format!("create a {name} socket")))?;
        let mut created = Self { socket, name };
        for (option, value, what) in [
            (zmq_sys::ZMQ_SNDHWM, limits.queue, "set the send high-water mark"),
            (zmq_sys::ZMQ_RCVHWM, limits.queue, "set the receive high-water mark"),
            (zmq_sys::ZMQ_LINGER, limits.linger_ms, "set the linger time"),
            // A client may start before the server; hundreds of clients must not retry ten times
            // a second each.
            (zmq_sys::ZMQ_RECONNECT_IVL, 100, "set the reconnect interval"),
            (zmq_sys::ZMQ_RECONNECT_IVL_MAX, 1_000, "set the maximum reconnect interval"),
            // All clients connect at once; the default of 100 would drop some connection requests,
            // which costs those clients a second.
            (zmq_sys::ZMQ_BACKLOG, 4_096, "set the backlog"),
        ] {
            created.set(option, value, what)?;
        }
        if let Some(largest) = limits.largest {
            created.option(zmq_sys::ZMQ_MAXMSGSIZE, &largest.to_ne_bytes(), || {
                format!("limit received messages to {largest} B")
            })?;
        }
        Ok(created)
    }

    /// Sets an int option; `what` is the operation, for errors.
    ///
    /// # Errors
    /// libzmq rejects it.
    pub fn set(&mut self, option: u32, value: c_int, what: &str) -> Result<(), Error> {
        let name = self.name;
        self.option(option, &value.to_ne_bytes(), || {
            format!("{what} of a {name} socket to {value}")
        })
    }

    fn option(
        &mut self,
        option: u32,
        value: &[u8],
        operation: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        let (socket, option) = (self.socket.as_mut_ptr(), option as c_int);
        // SAFETY: the socket is open; the value outlives the call, and its size is given.
        let result =
            unsafe { zmq_sys::zmq_setsockopt(socket, option, value.as_ptr().cast(), value.len()) };
        if result < 0 {
            return Err(Error::Io { operation: operation(), source: last_error() });
        }
        Ok(())
    }

    /// Sets the routing id, which peers see.
    ///
    /// # Errors
    /// libzmq rejects it.
    pub fn set_name(&mut self, id: &[u8]) -> Result<(), Error> {
        let name = self.name;
        self.option(zmq_sys::ZMQ_ROUTING_ID, id, || format!("name a {name} socket"))
    }

    /// Subscribes to messages that begin with `topic`.
    ///
    /// # Errors
    /// libzmq rejects it.
    pub fn subscribe(&mut self, topic: &[u8]) -> Result<(), Error> {
        self.option(zmq_sys::ZMQ_SUBSCRIBE, topic, || "subscribe to messages".to_owned())
    }

    /// The underlying socket.
    pub fn raw(&self) -> &zmq::Socket {
        &self.socket
    }

    /// Binds to an endpoint.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn bind(&mut self, endpoint: &str) -> Result<(), Error> {
        self.attach(endpoint, "bind", zmq_sys::zmq_bind)
    }

    /// Connects to an endpoint, which may not exist yet.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn connect(&mut self, endpoint: &str) -> Result<(), Error> {
        self.attach(endpoint, "connect", zmq_sys::zmq_connect)
    }

    /// Calls libzmq directly: crate `zmq` panics on unknown error numbers.
    fn attach(&mut self, endpoint: &str, how: &str, call: Call) -> Result<(), Error> {
        // Only then: with this option, sockets for IPv4 addresses are IPv6 sockets, too.
        if endpoint.contains('[') {
            self.set(zmq_sys::ZMQ_IPV6, 1, "set the use of IPv6")?;
        }
        let error = |source| Error::Address {
            operation: format!("{how} {} to {endpoint}", self.name),
            source,
        };
        let text = CString::new(endpoint).map_err(|nul| error(io::Error::other(nul)))?;
        // SAFETY: the socket is open; the string is NUL-terminated and outlives the call.
        let result = unsafe { call(self.socket.as_mut_ptr(), text.as_ptr()) };
        if result < 0 { Err(error(last_error())) } else { Ok(()) }
    }

    /// The descriptor that signals changes, once each (edge-triggered).
    ///
    /// # Errors
    /// libzmq cannot tell it.
    pub fn descriptor(&self) -> Result<RawFd, Error> {
        let operation = format!("get the {} socket's descriptor", self.name);
        self.socket.get_fd().map_err(Error::io(operation))
    }

    /// Whether the socket is readable, or also writable if `writing`.
    ///
    /// # Errors
    /// libzmq cannot tell it.
    pub fn pending(&self, writing: bool) -> Result<bool, Error> {
        let operation = || format!("read the events of a {} socket", self.name);
        let events = self.socket.get_events().map_err(|error| Error::io(operation())(error))?;
        let mask = if writing { zmq::POLLIN | zmq::POLLOUT } else { zmq::POLLIN };
        Ok(events.intersects(mask))
    }

    /// Receives the next message part; false if there is none.
    ///
    /// # Errors
    /// libzmq reports anything else.
    pub fn receive(&self, message: &mut zmq::Message) -> Result<bool, Error> {
        self.completed(self.socket.recv(message, zmq::DONTWAIT), "receive from")
    }

    /// Sends a message; false if no peer can take it.
    ///
    /// # Errors
    /// libzmq reports anything else.
    pub fn send(&self, message: &[u8], flags: c_int) -> Result<bool, Error> {
        self.completed(self.socket.send(message, flags | zmq::DONTWAIT), "send on")
    }

    fn completed(&self, result: zmq::Result<()>, operation: &str) -> Result<bool, Error> {
        match result {
            Ok(()) => Ok(true),
            Err(zmq::Error::EAGAIN | zmq::Error::EINTR | zmq::Error::EHOSTUNREACH) => Ok(false),
            Err(error) => Err(Error::io(format!("{operation} a {} socket", self.name))(error)),
        }
    }
}

fn name(kind: zmq::SocketType) -> &'static str {
    match kind {
        zmq::ROUTER => "ROUTER",
        zmq::DEALER => "DEALER",
        zmq::PUB => "PUB",
        zmq::XPUB => "XPUB",
        zmq::SUB => "SUB",
        zmq::REQ => "REQ",
        zmq::REP => "REP",
        _ => "ZeroMQ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_not_here_is_named() {
        let context = crate::zeromq::context().unwrap();
        let limits = Limits { queue: 0, linger_ms: 0, largest: Some(1 << 20) };
        let mut socket = Socket::new(&context, zmq::REP, limits).unwrap();
        let error = socket.bind("tcp://192.0.2.1:5557").unwrap_err().to_string();
        assert!(error.contains("REP") && error.contains("192.0.2.1:5557"), "{error}");
    }
}
