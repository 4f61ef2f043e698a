//! Exchanges: a data source sends a payload to a data sink, repeatedly, with one of several
//! protocols. Each exchange is measured in sections: connect, payload, close, each with its time
//! and its frames on the wire.
//!
//! Two programs take part, each in a separate node. The driver starts each exchange on schedule
//! and detects its end. The server answers. Where the source pushes (UDP, TCP, MQTT, CoAP PUT and
//! POST), the source drives; where the sink requests (CoAP GET), the sink drives.
//!
//! Each protocol has a separate module: a [`Driver`], a [`Server`], and an arm in `driver` and in
//! `server`.

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
mod stream;
mod tcp;
mod udp;
mod watch;
mod wire;

use crate::control::Control;
use crate::error::Error;
use protocol::{Driver, Server};
use record::ExchangeProtocol;
use record::spec::{ExchangeSpec, Side};

/// Runs one side of an exchange workload until the stop message.
///
/// # Errors
/// A socket or file cannot be opened, or the protocol does not support the spec. A failed exchange
/// is not an error.
pub fn run(spec: &ExchangeSpec, control: &mut Control) -> Result<(), Error> {
    prepare_kernel(spec);
    match spec.side {
        Side::Drive => drive::run(spec, control, driver(spec)?),
        Side::Serve => drive::serve(spec, control, server(spec)?),
    }
}

fn driver(spec: &ExchangeSpec) -> Result<Box<dyn Driver>, Error> {
    match &spec.protocol {
        ExchangeProtocol::Udp => Ok(udp::driver(spec)),
        ExchangeProtocol::Tcp => Ok(tcp::driver(spec)),
        ExchangeProtocol::Coap(options) => coap::driver(spec, options),
        ExchangeProtocol::Mqtt(options) => mqtt::driver(spec, options),
        ExchangeProtocol::Opcua(options) => opcua::driver(spec, options),
        ExchangeProtocol::Http(options) => http::driver(spec, options),
        ExchangeProtocol::Quic(options) => quic::driver(spec, *options),
    }
}

fn server(spec: &ExchangeSpec) -> Result<Box<dyn Server>, Error> {
    match &spec.protocol {
        ExchangeProtocol::Udp => udp::server(spec),
        ExchangeProtocol::Tcp => tcp::server(spec),
        ExchangeProtocol::Coap(options) => coap::server(spec, options),
        ExchangeProtocol::Mqtt(options) => mqtt::server(spec, options),
        ExchangeProtocol::Opcua(options) => opcua::server(spec, options),
        ExchangeProtocol::Http(_) => http::server(spec),
        ExchangeProtocol::Quic(options) => quic::server(spec, *options),
    }
}

/// Applies the kernel settings of the spec to this node.
fn prepare_kernel(spec: &ExchangeSpec) {
    let Some(timestamps) = spec.tcp_timestamps else { return };
    let path = "/proc/sys/net/ipv4/tcp_timestamps";
    let value = if timestamps { "1" } else { "0" };
    if let Err(error) = std::fs::write(path, value) {
        eprintln!("thingbed-workload: could not set TCP timestamps: {path}: {error}");
    }
}
