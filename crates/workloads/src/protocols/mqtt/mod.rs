//! MQTT with libmosquitto: a client that publishes on schedule, receives its subscription, and
//! records the events of each message; and both sides of exchanges.

#[cfg(test)]
pub(crate) mod broker;
mod client;
mod exchange;
mod subscriber;

pub use client::run;
pub(crate) use exchange::driver;
pub(crate) use subscriber::server;

use record::MqttVersion;
use record::spec::TlsFiles;
use stacks::mqtt::{Options, Tls, Version};

/// Options of a session with this version and security; events have times of the run's clock.
pub(crate) fn options(version: MqttVersion, tls: Option<&TlsFiles>) -> Options {
    Options {
        version: match version {
            MqttVersion::V311 => Version::V311,
            MqttVersion::V5 => Version::V5,
        },
        tls: tls.cloned().map(|TlsFiles { ca, cert, key }| Tls { ca, cert, key }),
        clock: clock::now_ns,
        ..Options::default()
    }
}
