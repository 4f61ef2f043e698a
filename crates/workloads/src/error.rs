//! Errors of a program, with the likely cause and the fix.

use std::io;
use std::path::PathBuf;

/// Why a program failed. Each text is one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The spec is unreadable or invalid.
    #[error("could not use the interaction spec {path}: {why}")]
    Spec {
        /// The spec file.
        path: PathBuf,
        /// What is wrong, and what is valid.
        why: String,
    },
    /// The payload is unreadable, or has no unique place for the message number.
    #[error("could not use the payload {path}: {why}")]
    Payload {
        /// The payload file.
        path: PathBuf,
        /// What is wrong, and what is valid.
        why: String,
    },
    /// Cannot write the events file.
    #[error(
        "could not write events to {path}: {source}; \
         the folder must exist, be writable and have space left"
    )]
    Events {
        /// The events file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The control channel is unusable.
    #[error("could not use the control channel: {0}")]
    Control(String),
    /// Cannot bind or connect a socket.
    #[error("could not {operation}: {source}{hint}", hint = hint(.source))]
    Address {
        /// The operation and the address.
        operation: String,
        /// The stack's error.
        source: io::Error,
    },
    /// The installed libzmq has no PGM support.
    #[error(
        "this libzmq ({version}) was built without PGM, which pgm/publish-subscribe needs; \
         on Debian or Ubuntu install libzmq5, which includes it, \
         and make sure that no other libzmq is first in the library path"
    )]
    NoPgm {
        /// The installed libzmq version.
        version: String,
    },
    /// The broker or its client library reported an error.
    #[error("could not {operation}: {why}")]
    Mqtt {
        /// The operation and the broker.
        operation: String,
        /// The error of the broker or library, and the fix.
        why: String,
    },
    /// A protocol or its stack does not support the requested operation.
    #[error("could not {operation}: {why}")]
    Protocol {
        /// The operation and its target.
        operation: String,
        /// The stack's error, and the fix.
        why: String,
    },
    /// Any other error of the system or libzmq.
    #[error("could not {operation}: {source}")]
    Io {
        /// The operation.
        operation: String,
        /// The error of the system or libzmq.
        source: io::Error,
    },
}

impl Error {
    /// For `map_err`: an I/O error of `operation`.
    pub(crate) fn io(operation: &str) -> impl FnOnce(io::Error) -> Self {
        let operation = operation.to_owned();
        move |source| Self::Io { operation, source }
    }

    /// An MQTT error of `operation`.
    pub(crate) fn mqtt(operation: &str, why: impl std::fmt::Display) -> Self {
        Self::Mqtt { operation: operation.to_owned(), why: why.to_string() }
    }

    /// A protocol error of `operation`.
    pub(crate) fn protocol(operation: &str, why: impl std::fmt::Display) -> Self {
        Self::Protocol { operation: operation.to_owned(), why: why.to_string() }
    }

    /// A pattern for replies only, as the pattern of messages.
    pub(crate) fn up_only() -> Self {
        Self::protocol("send messages with tcp/request-reply", "it only carries replies")
    }
}

impl From<stacks::zeromq::Error> for Error {
    fn from(error: stacks::zeromq::Error) -> Self {
        use stacks::zeromq::Error;
        match error {
            Error::Address { operation, source } => Self::Address { operation, source },
            Error::NoPgm { version } => Self::NoPgm { version },
            Error::Io { operation, source } => Self::Io { operation, source },
        }
    }
}

impl From<stacks::mqtt::Error> for Error {
    fn from(stacks::mqtt::Error { operation, why }: stacks::mqtt::Error) -> Self {
        Self::Mqtt { operation, why }
    }
}

/// Likely cause and fix of a socket address error.
fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EADDRNOTAVAIL) => {
            "; no interface of this node has the address: compare the spec's address with `ip address`"
        }
        Some(libc::EADDRINUSE) => {
            "; another program on this node uses the port: stop it, or give it or this workload another port"
        }
        Some(libc::EACCES | libc::EPERM) => {
            "; permission denied: choose a port above 1023, or run as root"
        }
        Some(libc::EINVAL | libc::ENODEV) => {
            "; the interface or address is unknown or down: compare it with `ip address`"
        }
        Some(libc::EMFILE | libc::ENFILE) => {
            "; too many open files: raise the limit with `ulimit -n`"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_used_has_its_likely_cause() {
        for (code, words) in [
            (libc::EADDRNOTAVAIL, "compare the spec's address with `ip address`"),
            (libc::EADDRINUSE, "another program on this node uses the port"),
            (libc::EACCES, "choose a port above 1023"),
            (libc::EPERM, "choose a port above 1023"),
            (libc::ENODEV, "unknown or down"),
            (libc::EMFILE, "`ulimit -n`"),
        ] {
            let source = io::Error::from_raw_os_error(code);
            let error = Error::Address { operation: "bind 10.0.0.1:7".to_owned(), source };
            let text = error.to_string();
            assert!(text.starts_with("could not bind 10.0.0.1:7: "), "{text}");
            assert!(text.contains(words) && !text.contains('\n'), "{text}");
        }
    }
}
