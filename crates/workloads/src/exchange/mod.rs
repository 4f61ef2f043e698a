//! Exchanges: a data source sends a payload to a data sink, repeatedly, with one of several
//! protocols. Each exchange is measured in sections: connect, payload, close, each with its time
//! and its frames on the wire.
//!
//! Two programs take part, each in a separate node. The driver starts each exchange on schedule
//! and detects its end. The server answers. Where the source pushes (UDP, TCP, MQTT, CoAP PUT and
//! POST), the source drives; where the sink requests (CoAP GET), the sink drives.
//!
//! Each protocol has a separate module: a [`Driver`], a [`Server`], and a line in [`PROTOCOLS`].

mod body;
mod coap;
mod drive;
mod failure;
mod http;
mod log;
mod mqtt;
#[cfg_attr(not(feature = "opcua"), path = "no_opcua.rs")]
mod opcua;
mod protocol;
mod quic;
mod reactor;
mod sections;
mod spec;
mod stream;
mod tcp;
mod udp;
mod watch;
mod wire;

pub use spec::ExchangeSpec;

use crate::control::Control;
use crate::error::Error;
use protocol::{Driver, Server};
use spec::Side;

/// A protocol: its name in specs, and the constructors of both sides.
struct Protocol {
    name: &'static str,
    driver: fn(&ExchangeSpec) -> Result<Box<dyn Driver>, Error>,
    server: fn(&ExchangeSpec) -> Result<Box<dyn Server>, Error>,
}

/// All protocols.
const PROTOCOLS: &[Protocol] = &[
    Protocol { name: "udp", driver: udp::driver, server: udp::server },
    Protocol { name: "tcp", driver: tcp::driver, server: tcp::server },
    Protocol { name: "coap", driver: coap::driver, server: coap::server },
    Protocol { name: "mqtt", driver: mqtt::driver, server: mqtt::server },
    Protocol { name: "opcua", driver: opcua::driver, server: opcua::server },
    Protocol { name: "http", driver: http::driver, server: http::server },
    Protocol { name: "quic", driver: quic::driver, server: quic::server },
];

/// Runs one side of an exchange workload until the stop message.
///
/// # Errors
/// The protocol is unknown, a socket or file cannot be opened, or the protocol does not support
/// the spec. A failed exchange is not an error.
pub fn run(spec: &ExchangeSpec, control: &mut Control) -> Result<(), Error> {
    let name = spec.protocol.as_str();
    let Some(protocol) = PROTOCOLS.iter().find(|protocol| protocol.name == name) else {
        let known: Vec<_> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
        let why = format!("unknown protocol; use one of {}", known.join(", "));
        return Err(Error::protocol(&format!("use the protocol {name}"), why));
    };
    spec.prepare_kernel();
    match spec.side {
        Side::Drive => drive::run(spec, control, (protocol.driver)(spec)?),
        Side::Serve => drive::serve(spec, control, (protocol.server)(spec)?),
    }
}
