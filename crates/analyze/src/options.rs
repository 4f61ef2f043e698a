//! Options of an analysis.

use std::str::FromStr;
use std::time::Duration;
use units::Ipv6Prefix;

/// A protocol whose messages are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// MQTT 3.1, 3.1.1 and 5, over TCP.
    Mqtt,
    /// CoAP (RFC 7252), over UDP.
    Coap,
    /// ZMTP 2 and 3, ZeroMQ's protocol, over TCP.
    Zmtp,
    /// OPC UA's binary protocol over TCP (OPC 10000-6, section 7.1).
    OpcUa,
}

impl Protocol {
    /// Its name in options and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mqtt => "mqtt",
            Self::Coap => "coap",
            Self::Zmtp => "zmtp",
            Self::OpcUa => "opcua",
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Mqtt, Self::Coap, Self::Zmtp, Self::OpcUa];
        let found = all.into_iter().find(|protocol| protocol.name() == text);
        found.ok_or_else(|| {
            format!(
                "`{text}` is not a protocol that analyze decodes; use mqtt, coap, zmtp or \
                     opcua"
            )
        })
    }
}

/// What to analyse, and memory limits.
#[derive(Debug, Clone)]
pub struct Options {
    /// The capture points to include, by name; empty for all.
    pub points: Vec<String>,
    /// The two points, from and to, between which to measure loss and latency. Needed for
    /// captures without packet directions.
    pub between: Option<(String, String)>,
    /// The timeout between two points; a packet that takes longer is lost. Default: 10 s.
    pub within: Duration,
    /// Ports of a protocol, in addition to those of IANA. A stream whose first bytes
    /// identify its protocol needs none.
    pub ports: Vec<(Protocol, u16)>,
    /// Prefixes of 6LoWPAN contexts by number, from 0 to 15. They take precedence over those that the
    /// capture names.
    pub contexts: Vec<(u8, Ipv6Prefix)>,
    /// The maximum number of separate flows and addresses. Beyond it, those that were idle
    /// for longest are added up in one row. Default: 65,536.
    pub flows: usize,
    /// The maximum of bytes that wait for a missing segment, over all streams. Default: 64
    /// MiB.
    pub waiting: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            between: None,
            within: Duration::from_secs(10),
            ports: Vec::new(),
            contexts: Vec::new(),
            flows: 65_536,
            waiting: 64 << 20,
        }
    }
}

impl Options {
    /// The protocol that uses one of these ports.
    pub(crate) fn protocol(&self, ports: [u16; 2], udp: bool) -> Option<Protocol> {
        let known = |(protocol, port): &(Protocol, u16)| {
            // CoAP is decoded over UDP only: over TCP (RFC 8323) its header is another one.
            (ports.contains(port) && (*protocol == Protocol::Coap) == udp).then_some(*protocol)
        };
        // The user's ports first: they may say that an assigned port carries another protocol.
        let own = self.ports.iter().find_map(known);
        own.or_else(|| ASSIGNED.iter().find_map(known))
    }
}

/// IANA's Service Name and Transport Protocol Port Number Registry.
const ASSIGNED: [(Protocol, u16); 3] =
    [(Protocol::Mqtt, 1883), (Protocol::Coap, 5683), (Protocol::OpcUa, 4840)];
