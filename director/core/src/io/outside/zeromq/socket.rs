//! A ZeroMQ socket. Calls libzmq directly where the crate `zmq` lacks a function or panics.

use crate::io::Error;
use crate::io::outside::Endpoints;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;

/// Maximum number of queued messages per peer, and maximum size of a received one in bytes.
const MAX_WAITING: c_int = 4_096;
const LONGEST: i64 = 64 << 20;
/// Time to send queued messages after the session ends, in ms.
const LINGER: c_int = 500;
/// PGM's retransmission window: time at full rate in ms, and maximum number of packets, each of
/// which takes memory for a slot and a packet.
const REPAIR_MS: u64 = 60_000;
const REPAIR_PACKETS: u64 = 65_536;

/// Wraps an I/O error with the failed operation.
pub fn socket_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    |source| Error::Socket { what, source }
}

/// The error for an invalid address.
pub fn unusable() -> io::Error {
    io::ErrorKind::AddrNotAvailable.into()
}

fn last_error() -> io::Error {
    // SAFETY: only reads the calling thread's error number.
    let number = unsafe { zmq_sys::zmq_errno() };
    if number < zmq_sys::ZMQ_HAUSNUMERO as c_int {
        return io::Error::from_raw_os_error(number);
    }
    io::Error::other(format!("ZeroMQ error {number}"))
}

/// A ZeroMQ socket.
pub struct Socket {
    own: zmq::Socket,
    kind: zmq::SocketType,
}

type Call = unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int;

impl Socket {
    /// A socket with the common options.
    pub fn new(context: &zmq::Context, kind: zmq::SocketType) -> Result<Self, Error> {
        let socket_error =
            |error| socket_error("cannot open a ZeroMQ socket")(io::Error::other(error));
        let mut socket = Self { own: context.socket(kind).map_err(socket_error)?, kind };
        for (option, value) in [
            (zmq_sys::ZMQ_SNDHWM, MAX_WAITING),
            (zmq_sys::ZMQ_RCVHWM, MAX_WAITING),
            (zmq_sys::ZMQ_LINGER, LINGER),
            // Limit reconnects: hundreds of members would otherwise each try ten times a second.
            (zmq_sys::ZMQ_RECONNECT_IVL, 100),
            (zmq_sys::ZMQ_RECONNECT_IVL_MAX, 1_000),
            // All members connect at the same time.
            (zmq_sys::ZMQ_BACKLOG, 4_096),
        ] {
            socket.set(option, value)?;
        }
        socket.option(zmq_sys::ZMQ_MAXMSGSIZE, LONGEST)?;
        Ok(socket)
    }

    /// Sets an option of type int.
    pub fn set(&mut self, option: u32, value: c_int) -> Result<(), Error> {
        self.option(option, value)
    }

    fn option<T: Copy>(&mut self, option: u32, value: T) -> Result<(), Error> {
        let bytes = std::ptr::from_ref(&value).cast::<c_void>();
        self.option_of(option, bytes, size_of::<T>())
    }

    fn text(&mut self, option: u32, text: &[u8]) -> Result<(), Error> {
        self.option_of(option, text.as_ptr().cast(), text.len())
    }

    fn option_of(&mut self, option: u32, value: *const c_void, length: usize) -> Result<(), Error> {
        let socket = self.own.as_mut_ptr();
        // SAFETY: the socket is open; the value has this length and outlives the call.
        let result = unsafe { zmq_sys::zmq_setsockopt(socket, option as c_int, value, length) };
        if result < 0 {
            return Err(socket_error(format!("cannot set ZeroMQ option {option}"))(last_error()));
        }
        Ok(())
    }

    /// Sets the routing id, which peers see.
    pub fn name(&mut self, name: &[u8]) -> Result<(), Error> {
        self.text(zmq_sys::ZMQ_ROUTING_ID, name)
    }

    /// Subscribes to topics with this prefix.
    pub fn subscribe(&mut self, topic: &[u8]) -> Result<(), Error> {
        self.text(zmq_sys::ZMQ_SUBSCRIBE, topic)
    }

    /// Listens at an address.
    pub fn bind(self, at: &str) -> Result<Self, Error> {
        self.attach(&format!("tcp://{at}"), zmq_sys::zmq_bind)
    }

    /// Connects to an address from the local one; the peer may start later.
    pub fn connect(self, ends: &Endpoints, at: &str) -> Result<Self, Error> {
        let from = ends.local.ip();
        let endpoint = match from.is_unspecified() {
            true => format!("tcp://{at}"),
            false => format!("tcp://{from}:0;{at}"),
        };
        self.attach(&endpoint, zmq_sys::zmq_connect)
    }

    /// Publishes to a multicast group or subscribes to it, with PGM over UDP: raw PGM needs root.
    pub fn multicast(mut self, ends: &Endpoints, at: &str) -> Result<Self, Error> {
        if !zmq::has("pgm").unwrap_or(false) {
            let (major, minor, patch) = zmq::version();
            let source = io::Error::from(io::ErrorKind::Unsupported);
            return Err(
                socket_error(format!("libzmq {major}.{minor}.{patch} has no PGM support"))(source),
            );
        }
        let rate = (ends.rate_bit_s / 1e3).clamp(1.0, f64::from(c_int::MAX)) as c_int;
        let each_ms = (rate as u64 / 8).max(1);
        let window = (REPAIR_PACKETS * u64::from(ends.mtu) / each_ms).clamp(1, REPAIR_MS);
        self.set(zmq_sys::ZMQ_MULTICAST_MAXTPDU, c_int::from(ends.mtu))?;
        self.set(zmq_sys::ZMQ_RATE, rate)?;
        self.set(zmq_sys::ZMQ_RECOVERY_IVL, window as c_int)?;
        self.set(zmq_sys::ZMQ_MULTICAST_HOPS, 1)?;
        // A message is a burst of packets, so the buffer is large.
        self.set(zmq_sys::ZMQ_RCVBUF, 4 << 20)?;
        self.attach(&format!("epgm://{};{at}", ends.local.ip()), zmq_sys::zmq_connect)
    }

    fn attach(mut self, endpoint: &str, call: Call) -> Result<Self, Error> {
        let text =
            CString::new(endpoint).map_err(|nul| socket_error(endpoint)(io::Error::other(nul)))?;
        // SAFETY: the socket is open; the text ends with a zero and outlives the call.
        let result = unsafe { call(self.own.as_mut_ptr(), text.as_ptr()) };
        if result < 0 { Err(socket_error(endpoint)(last_error())) } else { Ok(self) }
    }

    /// The poll item; `None` for publishers, which receive nothing.
    pub fn item(&self) -> Option<zmq::PollItem<'_>> {
        (self.kind != zmq::PUB).then(|| self.own.as_poll_item(zmq::POLLIN))
    }

    /// The last part of the next message; the parts before are addresses.
    pub fn receive(&self) -> Option<Vec<u8>> {
        if self.kind == zmq::PUB {
            return None;
        }
        self.own.recv_multipart(zmq::DONTWAIT).ok()?.pop()
    }

    /// Sends a message of these parts; `false` if no peer can take it now.
    pub fn send(&self, parts: &[&[u8]]) -> bool {
        self.own.send_multipart(parts.iter().copied(), zmq::DONTWAIT).is_ok()
    }
}
