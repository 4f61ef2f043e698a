//! MQTT client with libmosquitto: publishes on schedule, receives its subscription, and records
//! the events of each message.

mod client;
mod ffi;
mod retry;
mod session;

pub use client::run;
pub(crate) use session::{Session, SessionEvent};

/// Whether libmosquitto's code is a TLS error, usually a certificate.
pub(crate) fn is_tls(code: std::ffi::c_int) -> bool {
    code == ffi::TLS
}
