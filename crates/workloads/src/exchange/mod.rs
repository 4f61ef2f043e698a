//! Exchanges: a payload goes from a data source to a data sink by one protocol or
//! another, again and again, and each exchange is taken apart into its sections:
//! connecting, payload, closing, each with its time and its frames on the wire.
//!
//! Two programs take part, in a node each. One drives: it begins each exchange by its
//! schedule, and knows its end. The other serves. Where the source pushes (UDP, TCP,
//! MQTT, CoAP PUT and POST) it drives; where the sink asks (CoAP GET) the sink does.
//!
//! A protocol is a file of its own here: a [`Driver`] and a [`Server`], and a line in
//! [`PROTOCOLS`].

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

/// A protocol: its name in specs, and how each of its sides is made.
struct Protocol {
    name: &'static str,
    driver: fn(&ExchangeSpec) -> Result<Box<dyn Driver>, Error>,
    server: fn(&ExchangeSpec) -> Result<Box<dyn Server>, Error>,
}

/// All protocols that there are.
const PROTOCOLS: &[Protocol] = &[
    Protocol { name: "udp", driver: udp::driver, server: udp::server },
    Protocol { name: "tcp", driver: tcp::driver, server: tcp::server },
    Protocol { name: "coap", driver: coap::driver, server: coap::server },
    Protocol { name: "mqtt", driver: mqtt::driver, server: mqtt::server },
    Protocol { name: "opcua", driver: opcua::driver, server: opcua::server },
    Protocol { name: "http", driver: http::driver, server: http::server },
    Protocol { name: "quic", driver: quic::driver, server: quic::server },
];

/// Runs one side of an exchange until it is told to stop.
///
/// # Errors
/// When the spec names no protocol of ours, a socket or a file cannot be had, or what
/// is asked of the protocol cannot be done at all. An exchange that fails is none.
pub fn run(spec: &ExchangeSpec, control: &mut Control) -> Result<(), Error> {
    let name = spec.protocol.as_str();
    let Some(protocol) = PROTOCOLS.iter().find(|protocol| protocol.name == name) else {
        let known: Vec<_> = PROTOCOLS.iter().map(|protocol| protocol.name).collect();
        let why = format!("unknown protocol; use one of {}", known.join(", "));
        return Err(Error::protocol(&format!("exchange by {name}"), why));
    };
    spec.prepare_kernel();
    match spec.side {
        Side::Drive => drive::run(spec, control, (protocol.driver)(spec)?),
        Side::Serve => drive::serve(spec, control, (protocol.server)(spec)?),
    }
}
