//! ZeroMQ sockets with libzmq. Calls libzmq directly where the crate `zmq` lacks a function or
//! panics.

mod multicast;
mod socket;

pub use multicast::Multicast;
pub use socket::{Limits, Socket};
pub use zmq::{Context, DONTWAIT, Message, POLLIN, PollItem, SNDMORE, SocketType, has, poll};
pub use zmq::{DEALER, PUB, REP, REQ, ROUTER, SUB, XPUB};
pub use zmq_sys::{
    ZMQ_IMMEDIATE as IMMEDIATE, ZMQ_ROUTER_HANDOVER as ROUTER_HANDOVER,
    ZMQ_ROUTER_MANDATORY as ROUTER_MANDATORY, ZMQ_XPUB_VERBOSE as XPUB_VERBOSE,
};

use std::io;
use std::net::{IpAddr, SocketAddr};

/// An error of libzmq.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A socket cannot be bound or connected.
    #[error("could not {operation}: {source}")]
    Address {
        /// The operation and the address.
        operation: String,
        /// The error.
        source: io::Error,
    },
    /// The installed libzmq has no PGM support.
    #[error("this libzmq ({version}) was built without PGM")]
    NoPgm {
        /// The installed version.
        version: String,
    },
    /// Any other error.
    #[error("could not {operation}: {source}")]
    Io {
        /// The operation.
        operation: String,
        /// The error.
        source: io::Error,
    },
}

impl Error {
    fn io(operation: String) -> impl FnOnce(zmq::Error) -> Self {
        move |error| Self::Io { operation, source: io::Error::other(error.message()) }
    }
}

/// Version of the installed libzmq.
pub fn version() -> String {
    let (major, minor, patch) = zmq::version();
    format!("{major}.{minor}.{patch}")
}

/// A context with one I/O thread: a few connections gain nothing from more.
///
/// # Errors
/// libzmq cannot start the thread.
pub fn context() -> Result<Context, Error> {
    let context = Context::new();
    let operation = "set the number of ZeroMQ's I/O threads".to_owned();
    context.set_io_threads(1).map_err(Error::io(operation))?;
    Ok(context)
}

/// A TCP endpoint to bind to.
pub fn listen_at(at: SocketAddr) -> String {
    format!("tcp://{at}")
}

/// A TCP endpoint to connect to, from a given address if it is specified: a server can identify
/// its peers by address.
pub fn connect_to(from: IpAddr, to: SocketAddr) -> String {
    match from.is_unspecified() {
        true => format!("tcp://{to}"),
        false => format!("tcp://{};{to}", SocketAddr::new(from, 0)),
    }
}

fn last_error() -> io::Error {
    // SAFETY: reads the calling thread's error number.
    let number = unsafe { zmq_sys::zmq_errno() };
    // Below are error numbers of the system, from there on those that libzmq adds.
    if number < zmq_sys::ZMQ_HAUSNUMERO as i32 {
        return io::Error::from_raw_os_error(number);
    }
    io::Error::other(zmq::Error::from_raw(number).message())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_name_both_addresses() {
        let to = SocketAddr::from(([10, 0, 0, 1], 5556));
        assert_eq!(listen_at(to), "tcp://10.0.0.1:5556");
        assert_eq!(connect_to([0; 4].into(), to), "tcp://10.0.0.1:5556");
        assert_eq!(connect_to([10, 0, 0, 2].into(), to), "tcp://10.0.0.2:0;10.0.0.1:5556");
        let from: IpAddr = "fd00::2".parse().unwrap();
        let to = "[fd00::1]:5556".parse().unwrap();
        assert_eq!(connect_to(from, to), "tcp://[fd00::2]:0;[fd00::1]:5556");
    }
}
