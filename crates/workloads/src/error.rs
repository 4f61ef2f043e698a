//! What can go wrong in a program, with its likely cause and its mend.

use std::io;
use std::path::PathBuf;

/// Why a program could not do its work. Each text is one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The spec could not be read or makes no sense.
    #[error("could not use the interaction spec {path}: {why}")]
    Spec {
        /// The file.
        path: PathBuf,
        /// What is wrong and what would be right.
        why: String,
    },
    /// A payload could not be read or has no single place for the number.
    #[error("could not use the payload {path}: {why}")]
    Payload {
        /// The file.
        path: PathBuf,
        /// What is wrong and what would be right.
        why: String,
    },
    /// The events file could not be written.
    #[error(
        "could not write events to {path}: {source}; \
         the folder must exist, be writable and have space left"
    )]
    Events {
        /// The file.
        path: PathBuf,
        /// The kernel's word on it.
        source: io::Error,
    },
    /// The control channel is not what it should be.
    #[error("could not use the control channel: {0}")]
    Control(String),
    /// A socket could not be bound or connected.
    #[error("could not {tried}: {source}{hint}", hint = hint(.source))]
    Address {
        /// What was tried, with the address.
        tried: String,
        /// The stack's word on it.
        source: io::Error,
    },
    /// The libzmq in use cannot do PGM.
    #[error(
        "this libzmq ({version}) was built without PGM, which pgm/publish-subscribe needs; \
         on Debian or Ubuntu install libzmq5, whose build has it, \
         and see that no other libzmq comes first in the library path"
    )]
    NoPgm {
        /// Its version.
        version: String,
    },
    /// A broker, or the library that talks to it, refused something.
    #[error("could not {tried}: {why}")]
    Mqtt {
        /// What was tried, where.
        tried: String,
        /// The word of the broker or of the library on it, and the mend.
        why: String,
    },
    /// A protocol of exchanges, or its stack, cannot do what was asked for.
    #[error("could not {tried}: {why}")]
    Protocol {
        /// What was tried, where.
        tried: String,
        /// The stack's word on it, and the mend.
        why: String,
    },
    /// Anything else the kernel or libzmq refused.
    #[error("could not {tried}: {source}")]
    Io {
        /// What was tried.
        tried: String,
        /// The kernel's or libzmq's word on it.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: the kernel refused what was tried.
    pub(crate) fn io(tried: &str) -> impl FnOnce(io::Error) -> Self {
        let tried = tried.to_owned();
        move |source| Self::Io { tried, source }
    }

    /// What could not be done with a broker, and why.
    pub(crate) fn mqtt(tried: &str, why: impl std::fmt::Display) -> Self {
        Self::Mqtt { tried: tried.to_owned(), why: why.to_string() }
    }

    /// What could not be done by a protocol of exchanges, and why.
    pub(crate) fn protocol(tried: &str, why: impl std::fmt::Display) -> Self {
        Self::Protocol { tried: tried.to_owned(), why: why.to_string() }
    }

    /// For `map_err`: libzmq refused what was tried.
    pub(crate) fn zmq(tried: &str) -> impl FnOnce(zmq::Error) -> Self {
        let tried = tried.to_owned();
        move |error| Self::Io { tried, source: io::Error::other(error.message()) }
    }
}

/// The likely cause of a refused address, and its mend.
fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EADDRNOTAVAIL) => {
            "; no interface of this node has the address: compare the spec's address with `ip address`"
        }
        Some(libc::EADDRINUSE) => {
            "; another program of this node has the port: end it, or choose another port_down or port_up"
        }
        Some(libc::EACCES | libc::EPERM) => {
            "; this user may not: choose a port above 1023, or run as root"
        }
        Some(libc::EINVAL | libc::ENODEV) => {
            "; the interface or address is unknown here or is down: compare it with `ip address`"
        }
        Some(libc::EMFILE | libc::ENFILE) => {
            "; too many open files: raise the limit with `ulimit -n`"
        }
        _ => "",
    }
}
