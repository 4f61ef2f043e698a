//! MQTT clients with libmosquitto. A client starts no thread: the library reads and writes when
//! the caller's poll says so.

mod callbacks;
mod ffi;
mod retry;
mod session;

pub use callbacks::SessionEvent;
pub use retry::Retry;
pub use session::Session;

use std::ffi::c_int;
use std::path::PathBuf;

/// An error of libmosquitto, or of a text that it cannot take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not {operation}: {why}")]
pub struct Error {
    /// The operation and its target.
    pub operation: String,
    /// The error, as libmosquitto words it.
    pub why: String,
}

impl Error {
    fn new(operation: &str, why: impl std::fmt::Display) -> Self {
        Self { operation: operation.to_owned(), why: why.to_string() }
    }
}

/// Protocol version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Version {
    /// MQTT 3.1.1.
    #[default]
    V311,
    /// MQTT 5.
    V5,
}

/// Certificates of a connection over TLS, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The authority that signs the broker's certificate.
    pub ca: PathBuf,
    /// The client's own certificate.
    pub cert: Option<PathBuf>,
    /// The key of that certificate.
    pub key: Option<PathBuf>,
}

/// A broker, and how a client connects to it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Client identifier, unique at the broker: a broker disconnects the older of two clients.
    pub client: String,
    /// Host name or address. A certificate is checked against it.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Protocol version.
    pub version: Version,
    /// Whether the broker forgets the client's state when the connection ends.
    pub clean_session: bool,
    /// Keep-alive interval, in s.
    pub keep_alive_s: u16,
    /// TLS; none for plain TCP.
    pub tls: Option<Tls>,
    /// User name and password.
    pub credentials: Option<(String, String)>,
    /// Whether data is sent without waiting for the acknowledgement of earlier data (TCP_NODELAY).
    pub no_delay: bool,
    /// The clock of the times in events, in ns.
    pub clock: fn() -> u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            client: String::new(),
            host: String::new(),
            port: 1883,
            version: Version::V311,
            clean_session: true,
            keep_alive_s: 60,
            tls: None,
            credentials: None,
            no_delay: false,
            clock: || 0,
        }
    }
}

/// Reason codes from here on are refusals, in SUBACK and in MQTT 5 (section 2.4).
pub const MIN_REFUSAL: c_int = 128;

/// Whether libmosquitto's code is a TLS error, usually a certificate.
pub fn is_tls(code: c_int) -> bool {
    code == ffi::TLS
}
