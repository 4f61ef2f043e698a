//! ZeroMQ sockets with the options that all models need, and libzmq's features.

use crate::error::Error;
use std::ffi::{CString, c_int, c_void};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;

/// Version and features of the installed libzmq, as JSON.
pub fn info() -> String {
    let has = |capability| zmq::has(capability).unwrap_or(false);
    serde_json::json!({
        "version": version(),
        "pgm": has("pgm"),
        "norm": has("norm"),
        "curve": has("curve"),
        "ipc": has("ipc"),
        "draft": has("draft"),
    })
    .to_string()
}

/// Version of the installed libzmq.
pub fn version() -> String {
    let (major, minor, patch) = zmq::version();
    format!("{major}.{minor}.{patch}")
}

/// A context with one I/O thread: a test bed with hundreds of nodes on two cores gains nothing
/// from more.
pub fn context() -> Result<zmq::Context, Error> {
    let context = zmq::Context::new();
    context.set_io_threads(1).map_err(Error::zmq("set the number of ZeroMQ's I/O threads"))?;
    Ok(context)
}

/// A TCP endpoint to bind to.
pub fn listen_at(address: Ipv4Addr, port: u16) -> String {
    format!("tcp://{address}:{port}")
}

/// A TCP endpoint to connect to, from a given address: the server identifies its peers by address.
pub fn connect_to(from: Ipv4Addr, address: Ipv4Addr, port: u16) -> String {
    format!("tcp://{from}:0;{address}:{port}")
}

/// A ZeroMQ socket.
pub struct Socket {
    socket: zmq::Socket,
    name: &'static str,
}

impl Socket {
    /// Creates a socket with the options that all sockets need.
    pub fn new(context: &zmq::Context, kind: zmq::SocketType) -> Result<Self, Error> {
        let name = name(kind);
        let socket =
            context.socket(kind).map_err(Error::zmq(&format!("create a {name} socket")))?;
        let mut created = Self { socket, name };
        for (option, value, what) in [
            // Without limits, nothing is dropped or blocked inside the program: all loss happens
            // in the network, where it is measured.
            (zmq_sys::ZMQ_SNDHWM, 0, "set the send high-water mark"),
            (zmq_sys::ZMQ_RCVHWM, 0, "set the receive high-water mark"),
            // Close at once, without waiting for queued data.
            (zmq_sys::ZMQ_LINGER, 0, "set the linger time"),
            // A sink may start before the source; hundreds of sinks must not retry ten times a
            // second each.
            (zmq_sys::ZMQ_RECONNECT_IVL, 100, "set the reconnect interval"),
            (zmq_sys::ZMQ_RECONNECT_IVL_MAX, 1_000, "set the maximum reconnect interval"),
            // All sinks connect at once; the default of 100 would drop some connection requests,
            // which costs those sinks a second.
            (zmq_sys::ZMQ_BACKLOG, 4_096, "set the backlog"),
            // No heartbeats: they would add traffic that the model does not have.
            (zmq_sys::ZMQ_HEARTBEAT_IVL, 0, "set the heartbeat interval"),
        ] {
            created.set(option, value, what)?;
        }
        Ok(created)
    }

    /// Sets an int option.
    pub fn set(&mut self, option: u32, value: c_int, what: &str) -> Result<(), Error> {
        // SAFETY: the socket is open; the value is an int that outlives the call, with its size.
        let result = unsafe {
            zmq_sys::zmq_setsockopt(
                self.socket.as_mut_ptr(),
                option as c_int,
                std::ptr::from_ref(&value).cast::<c_void>(),
                size_of::<c_int>(),
            )
        };
        if result < 0 {
            let operation = format!("{what} of a {} socket to {value}", self.name);
            return Err(Error::Io { operation, source: last_error() });
        }
        Ok(())
    }

    /// The underlying socket.
    pub fn raw(&self) -> &zmq::Socket {
        &self.socket
    }

    /// Binds to an endpoint.
    pub fn bind(&mut self, endpoint: &str) -> Result<(), Error> {
        self.attach(endpoint, "bind", zmq_sys::zmq_bind)
    }

    /// Connects to an endpoint, which may not exist yet.
    pub fn connect(&mut self, endpoint: &str) -> Result<(), Error> {
        self.attach(endpoint, "connect", zmq_sys::zmq_connect)
    }

    /// Calls libzmq directly: crate `zmq` panics on unknown error numbers.
    fn attach(
        &mut self,
        endpoint: &str,
        how: &str,
        call: unsafe extern "C" fn(*mut c_void, *const std::ffi::c_char) -> c_int,
    ) -> Result<(), Error> {
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
    pub fn descriptor(&self) -> Result<RawFd, Error> {
        self.socket
            .get_fd()
            .map_err(Error::zmq(&format!("get the {} socket's descriptor", self.name)))
    }

    /// Whether the socket is readable, or also writable if `writing`.
    pub fn pending(&self, writing: bool) -> Result<bool, Error> {
        let events = self
            .socket
            .get_events()
            .map_err(Error::zmq(&format!("read the events of a {} socket", self.name)))?;
        let mask = if writing { zmq::POLLIN | zmq::POLLOUT } else { zmq::POLLIN };
        Ok(events.intersects(mask))
    }

    /// Receives the next available message into `message`; returns whether there is one.
    pub fn receive(&self, message: &mut zmq::Message) -> Result<bool, Error> {
        self.completed(self.socket.recv(message, zmq::DONTWAIT), "receive from")
    }

    /// Sends a message; false if no peer can take it.
    pub fn send(&self, message: &[u8], flags: c_int) -> Result<bool, Error> {
        self.completed(self.socket.send(message, flags | zmq::DONTWAIT), "send on")
    }

    fn completed(&self, result: zmq::Result<()>, operation: &str) -> Result<bool, Error> {
        match result {
            Ok(()) => Ok(true),
            Err(zmq::Error::EAGAIN | zmq::Error::EINTR | zmq::Error::EHOSTUNREACH) => Ok(false),
            Err(error) => Err(Error::zmq(&format!("{operation} a {} socket", self.name))(error)),
        }
    }
}

fn last_error() -> io::Error {
    // SAFETY: reads the calling thread's error number.
    let number = unsafe { zmq_sys::zmq_errno() };
    if number < zmq_sys::ZMQ_HAUSNUMERO as c_int {
        return io::Error::from_raw_os_error(number);
    }
    io::Error::other(zmq::Error::from_raw(number).message())
}

fn name(kind: zmq::SocketType) -> &'static str {
    match kind {
        zmq::ROUTER => "ROUTER",
        zmq::DEALER => "DEALER",
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
    fn says_what_libzmq_can_do() {
        let info: serde_json::Value = serde_json::from_str(&info()).unwrap();
        assert_eq!(info["version"], version());
        assert!(info["pgm"].is_boolean() && info["norm"].is_boolean());
    }

    #[test]
    fn an_address_that_is_not_here_is_named_with_a_hint() {
        let context = context().unwrap();
        let mut socket = Socket::new(&context, zmq::REP).unwrap();
        let error = socket.bind("tcp://192.0.2.1:5557").unwrap_err().to_string();
        assert!(error.contains("REP") && error.contains("192.0.2.1:5557"), "{error}");
        assert!(error.contains("ip address"), "{error}");
    }
}
