//! Protocols of exchanges and their options.

use crate::MqttVersion;
use crate::word::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Span;

/// Lifetime of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    /// Each exchange opens a new connection.
    New,
    /// One connection, made before the start, serves all exchanges.
    Kept,
}

words!(Connection, "a lifetime of connections": "new" => Self::New, "kept" => Self::Kept);

/// CoAP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The sink requests the payload.
    Get,
    /// The source sends the payload with PUT.
    Put,
    /// The source sends the payload with POST.
    Post,
    /// The source deletes the resource; there is no payload.
    Delete,
}

words!(
    Method, "a method":
    "get" => Self::Get, "put" => Self::Put, "post" => Self::Post, "delete" => Self::Delete
);

/// Transport of CoAP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoapTransport {
    /// UDP (RFC 7252).
    Udp,
    /// DTLS over UDP (RFC 7252).
    Dtls,
    /// TCP (RFC 8323).
    Tcp,
    /// TLS over TCP (RFC 8323).
    Tls,
}

words!(
    CoapTransport, "a transport of CoAP":
    "udp" => Self::Udp, "dtls" => Self::Dtls, "tcp" => Self::Tcp, "tls" => Self::Tls
);

impl CoapTransport {
    /// Whether the transport is encrypted.
    pub fn is_secure(self) -> bool {
        matches!(self, Self::Dtls | Self::Tls)
    }

    /// Whether it is a byte stream.
    pub fn is_stream(self) -> bool {
        matches!(self, Self::Tcp | Self::Tls)
    }
}

/// Options of CoAP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Coap {
    /// Method.
    pub method: Method,
    /// Whether messages are confirmable.
    pub confirmable: bool,
    /// Block size, B: 16, 32 and so on to 1024.
    pub block: u32,
    /// Transport.
    pub transport: CoapTransport,
    /// Whether the sink observes the resource and the source notifies it.
    pub observe: bool,
    /// Whether one multicast request goes to all nodes at the other end.
    pub group: bool,
    /// Whether several blocks are sent at a time (Q-Block, RFC 9177).
    pub q_block: bool,
    /// Time within which members of a group answer (RFC 7252, section 8.2).
    #[schemars(with = "String")]
    pub leisure: Span,
    /// Initial acknowledgement timeout of a confirmable message.
    #[schemars(with = "String")]
    pub ack_timeout: Span,
    /// Maximum retransmissions of a confirmable message.
    pub max_retransmit: u32,
}

impl Default for Coap {
    /// The times and the number of retransmissions are those of RFC 7252, sections 4.8 and 8.2.
    fn default() -> Self {
        Self {
            method: Method::Get,
            confirmable: true,
            block: 1024,
            transport: CoapTransport::Udp,
            observe: false,
            group: false,
            q_block: false,
            leisure: Span::from_ns(5_000_000_000),
            ack_timeout: Span::from_ns(2_000_000_000),
            max_retransmit: 4,
        }
    }
}

/// Options of MQTT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MqttChoice {
    /// Quality of service, 0 to 2.
    pub qos: u8,
    /// Protocol version.
    pub version: MqttVersion,
}

/// Timestamps that an OPC UA server sends with each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timestamps {
    /// Source timestamp: when the value was created.
    Source,
    /// Server timestamp: when the server received it.
    Server,
    /// Both timestamps.
    Both,
    /// No timestamps.
    Neither,
}

words!(
    Timestamps, "a choice of timestamps":
    "source" => Self::Source,
    "server" => Self::Server,
    "both" => Self::Both,
    "neither" => Self::Neither,
);

/// Options of OPC UA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Opcua {
    /// Number of variables that hold a payload together, [`Opcua::VARIABLES`].
    pub variables: u32,
    /// Timestamps of each value.
    pub timestamps: Timestamps,
}

impl Opcua {
    /// Range of variables per Read.
    pub const VARIABLES: std::ops::RangeInclusive<u32> = 1..=10;
}

/// HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// The sink requests the payload.
    Get,
    /// The source sends the payload with PUT.
    Put,
    /// The source sends the payload with POST.
    Post,
}

words!(
    HttpMethod, "a method": "get" => Self::Get, "put" => Self::Put, "post" => Self::Post
);

/// Options of HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Method.
    pub method: HttpMethod,
}

/// Options of QUIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quic {
    /// Whether a new connection to a known sink carries payload at once (0-RTT).
    pub early_data: bool,
    /// Whether QUIC probes for packets larger than 1200 B.
    pub mtu_discovery: bool,
}

/// A protocol and its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExchangeProtocol {
    /// Plain UDP.
    Udp,
    /// Plain TCP.
    Tcp,
    /// CoAP.
    Coap(Coap),
    /// MQTT.
    Mqtt(MqttChoice),
    /// OPC UA.
    Opcua(Opcua),
    /// HTTP/1.1.
    Http(Http),
    /// QUIC.
    Quic(Quic),
}

impl ExchangeProtocol {
    /// Its name in specifications and results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Coap(_) => "coap",
            Self::Mqtt(_) => "mqtt",
            Self::Opcua(_) => "opcua",
            Self::Http(_) => "http",
            Self::Quic(_) => "quic",
        }
    }

    /// Whether the sink requests the payload, and so starts each exchange.
    pub fn is_pull(&self) -> bool {
        match self {
            Self::Coap(coap) => coap.method == Method::Get && !coap.observe,
            Self::Opcua(_) => true,
            Self::Http(http) => http.method == HttpMethod::Get,
            _ => false,
        }
    }

    /// Whether each exchange involves all nodes at the other end.
    pub fn is_to_all(&self) -> bool {
        matches!(self, Self::Coap(coap) if coap.group)
    }

    /// Default lifetime of connections.
    pub fn default_connection(&self) -> Connection {
        match self {
            Self::Coap(coap) if coap.observe => Connection::Kept,
            Self::Opcua(_) => Connection::Kept,
            _ => Connection::New,
        }
    }

    /// Default port.
    pub fn default_port(&self, tls: bool) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 7000,
            Self::Coap(coap) => 5683 + u16::from(coap.transport.is_secure()),
            Self::Mqtt(_) if tls => 8883,
            Self::Mqtt(_) => 1883,
            Self::Opcua(_) => 4840,
            Self::Http(_) => 80,
            Self::Quic(_) => 4433,
        }
    }
}
