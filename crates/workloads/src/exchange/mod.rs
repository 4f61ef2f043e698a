//! Exchanges: a data source sends a payload to a data sink, repeatedly, with one of several
//! protocols. Each exchange is measured in sections: connect, payload, close, each with its time
//! and its frames on the wire.
//!
//! Two programs take part, each in a separate node. The driver starts each exchange on schedule
//! and detects its end. The server answers. Where the source pushes (UDP, TCP, MQTT, CoAP PUT and
//! POST), the source drives; where the sink requests (CoAP GET), the sink drives.
//!
//! A protocol ([`crate::protocols`]) implements both sides.

pub(crate) mod body;
mod drive;
pub(crate) mod failure;
pub(crate) mod log;
pub(crate) mod outcome;
pub(crate) mod protocol;
pub(crate) mod sections;
pub(crate) mod watch;
mod wire;

use crate::control::Control;
use crate::error::Error;
use crate::protocols;
use record::spec::{ExchangeSpec, Side};

/// Runs one side of an exchange workload until the stop message.
///
/// # Errors
/// A socket or file cannot be opened, or the protocol does not support the spec. A failed exchange
/// is not an error.
pub fn run(spec: &ExchangeSpec, control: &mut Control) -> Result<(), Error> {
    prepare_kernel(spec);
    match spec.side {
        Side::Drive => drive::run(spec, control, protocols::driver(spec)?),
        Side::Serve => drive::serve(spec, control, protocols::server(spec)?),
    }
}

/// Applies the kernel settings of the spec to this node.
fn prepare_kernel(spec: &ExchangeSpec) {
    let Some(timestamps) = spec.tcp_timestamps else { return };
    let path = "/proc/sys/net/ipv4/tcp_timestamps";
    let value = if timestamps { "1" } else { "0" };
    if let Err(error) = std::fs::write(path, value) {
        crate::log!("could not set TCP timestamps: {path}: {error}");
    }
}

#[cfg(test)]
pub(crate) mod tests;
