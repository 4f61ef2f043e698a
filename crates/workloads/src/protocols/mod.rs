//! The protocols of interactions and exchanges, each in a folder or file: everything about a
//! protocol that is not the schedule, the log or the measurement.
//!
//! A protocol implements the roles that it has:
//!
//! | role | trait | purpose |
//! | --- | --- | --- |
//! | source, sink | [`SourceLink`], [`SinkLink`] | messages to many peers and their replies, interleaved, sent on time |
//! | driver, server | [`Protocol`], [`Server`] | one exchange at a time, taken apart into sections |
//!
//! A [`Protocol`] connects, exchanges and closes; [`Connecting`] makes the [`Driver`] of it. These are
//! two pairs and not one, because they contradict each other: a source must never wait for a peer,
//! and a driver must wait for each step to measure it.
//!
//! [`Protocol`]: crate::exchange::protocol::Protocol
//! [`Connecting`]: crate::exchange::protocol::Connecting

mod coap;
mod director;
mod http;
pub(crate) mod mqtt;
#[cfg_attr(not(feature = "opcua"), path = "no_opcua.rs")]
mod opcua;
mod quic;
mod reactor;
mod tcp;
pub(crate) mod udp;
pub(crate) mod zeromq;

use crate::error::Error;
use crate::exchange::protocol::{Driver, Server};
use crate::link::{SinkLink, SourceLink};
use record::spec::{ExchangeSpec, InteractionSpec};
use record::{ExchangeProtocol, InteractionPattern};

/// The source's side of an interaction model.
pub fn source(spec: &InteractionSpec) -> Result<Box<dyn SourceLink>, Error> {
    Ok(match spec.down {
        InteractionPattern::UdpRequestResponse => Box::new(udp::interaction::UdpSource::new(spec)?),
        InteractionPattern::TcpRouterDealer => Box::new(zeromq::router::RouterSource::new(spec)?),
        InteractionPattern::TcpPublishSubscribe | InteractionPattern::PgmPublishSubscribe => {
            Box::new(zeromq::publish::PublishSource::new(spec)?)
        }
        InteractionPattern::Director(_) => Box::new(director::DirectorSource::new(spec)?),
        InteractionPattern::TcpRequestReply => return Err(Error::up_only()),
    })
}

/// A sink's side of an interaction model.
pub fn sink(spec: &InteractionSpec) -> Result<Box<dyn SinkLink>, Error> {
    Ok(match spec.down {
        InteractionPattern::UdpRequestResponse => Box::new(udp::interaction::UdpSink::new(spec)?),
        InteractionPattern::TcpRouterDealer => Box::new(zeromq::router::ZmqSink::dealer(spec)?),
        InteractionPattern::TcpPublishSubscribe | InteractionPattern::PgmPublishSubscribe => {
            Box::new(zeromq::publish::subscriber(spec)?)
        }
        InteractionPattern::Director(_) => Box::new(director::DirectorSink::new(spec)?),
        InteractionPattern::TcpRequestReply => return Err(Error::up_only()),
    })
}

/// The side of an exchange that starts it.
pub fn driver(spec: &ExchangeSpec) -> Result<Box<dyn Driver>, Error> {
    match &spec.protocol {
        ExchangeProtocol::Udp => Ok(udp::exchange::driver(spec)),
        ExchangeProtocol::Tcp => Ok(tcp::exchange::driver(spec)),
        ExchangeProtocol::Coap(options) => coap::driver(spec, options),
        ExchangeProtocol::Mqtt(options) => mqtt::driver(spec, options),
        ExchangeProtocol::Opcua(options) => opcua::driver(spec, options),
        ExchangeProtocol::Http(options) => http::driver(spec, options),
        ExchangeProtocol::Quic(options) => quic::driver(spec, *options),
    }
}

/// The side of an exchange that answers.
pub fn server(spec: &ExchangeSpec) -> Result<Box<dyn Server>, Error> {
    match &spec.protocol {
        ExchangeProtocol::Udp => udp::exchange::server(spec),
        ExchangeProtocol::Tcp => tcp::exchange::server(spec),
        ExchangeProtocol::Coap(options) => coap::server(spec, options),
        ExchangeProtocol::Mqtt(options) => mqtt::server(spec, options),
        ExchangeProtocol::Opcua(options) => opcua::server(spec, options),
        ExchangeProtocol::Http(_) => http::server(spec),
        ExchangeProtocol::Quic(options) => quic::server(spec, *options),
    }
}
