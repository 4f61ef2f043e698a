//! Why a load cannot run.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use trace::CoapError;

/// Why a load cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing to send.
    #[error("there is nothing to send: the trace has no requests{0}")]
    Nothing(String),
    /// Settings that contradict each other or do not fit the protocol.
    #[error("invalid settings: {0}")]
    Settings(#[from] CoapError),
    /// A socket cannot be created.
    #[error("could not bind a UDP socket to {from}: {source}")]
    Socket {
        /// The local address.
        from: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The file of operations cannot be written.
    #[error("could not write {path}: {source}")]
    Operations {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A sender thread did not start, or panicked.
    #[error("sender thread: {0}")]
    Thread(String),
}
