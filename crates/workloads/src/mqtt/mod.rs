//! An MQTT client over libmosquitto, that publishes by a schedule, takes what it
//! has subscribed to, and writes down what became of each message.

mod client;
mod ffi;
mod retry;
mod session;
mod spec;

pub use client::run;
pub(crate) use session::{Happened, Session};
pub use spec::{MqttSpec, Tls, Version};

/// Whether the library's code says that TLS went wrong: a certificate mostly.
pub(crate) fn is_tls(code: std::ffi::c_int) -> bool {
    code == ffi::TLS
}
