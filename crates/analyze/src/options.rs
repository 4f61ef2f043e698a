//! Options of an analysis.

use std::str::FromStr;
use std::time::Duration;

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

/// What to analyze, and how much memory it may take.
#[derive(Debug, Clone)]
pub struct Options {
    /// Only these capture points, by name; empty for all.
    pub points: Vec<String>,
    /// The points between which to measure loss and latency, from and to, for captures
    /// whose packets do not say which way they went.
    pub between: Option<(String, String)>,
    /// How long a packet may take between two points; one that takes longer is lost.
    /// Default: 10 s.
    pub within: Duration,
    /// Ports that carry a protocol, besides those that IANA gave it. A stream
    /// whose first bytes show what it is needs none.
    pub ports: Vec<(Protocol, u16)>,
    /// Flows and addresses that are kept apart; of more, those that have been
    /// silent for longest are added up in one row. Default: 65,536.
    pub flows: usize,
    /// Bytes in all that wait for a missing segment. Default: 64 MiB.
    pub waiting: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            between: None,
            within: Duration::from_secs(10),
            ports: Vec::new(),
            flows: 65_536,
            waiting: 64 << 20,
        }
    }
}

impl Options {
    /// The protocol that one of these ports is for.
    pub(crate) fn protocol(&self, ports: [u16; 2], udp: bool) -> Option<Protocol> {
        let known = |(protocol, port): &(Protocol, u16)| {
            (ports.contains(port) && (*protocol == Protocol::Coap) == udp).then_some(*protocol)
        };
        let own = self.ports.iter().find_map(known);
        own.or_else(|| ASSIGNED.iter().find_map(known))
    }
}

/// IANA's register of service names and ports.
const ASSIGNED: [(Protocol, u16); 3] =
    [(Protocol::Mqtt, 1883), (Protocol::Coap, 5683), (Protocol::OpcUa, 4840)];
