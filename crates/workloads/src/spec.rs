//! The interaction spec, written by the runner for each program.

use crate::clock::Nanos;
use crate::error::Error;
use crate::payload::LARGEST;
use director::ModelId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Role of a program in the interaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends the messages and waits for replies.
    Source,
    /// Answers each message.
    Sink,
}

/// Transport of messages from the source to the sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Down {
    /// Datagrams, to one sink after the other.
    #[serde(rename = "udp/request-response")]
    UdpRequestResponse,
    /// ZeroMQ over TCP, to one sink after the other.
    #[serde(rename = "tcp/router-dealer")]
    TcpRouterDealer,
    /// ZeroMQ over TCP, each message to all.
    #[serde(rename = "tcp/publish-subscribe")]
    TcpPublishSubscribe,
    /// ZeroMQ over PGM in UDP, each message to all by multicast.
    #[serde(rename = "pgm/publish-subscribe")]
    PgmPublishSubscribe,
    /// The director, each message to all, with the model it chooses.
    #[serde(rename = "director")]
    Director,
    /// The director, fixed to plain datagrams.
    #[serde(rename = "director/udp-request-response")]
    DirectorUdp,
    /// The director, fixed to `udp-arq`.
    #[serde(rename = "director/udp-arq")]
    DirectorArq,
    /// The director, fixed to `multicast-fec`.
    #[serde(rename = "director/multicast-fec")]
    DirectorFec,
    /// The director, fixed to confirmable CoAP.
    #[serde(rename = "director/coap-confirmable")]
    DirectorCoap,
    /// The director, fixed to non-confirmable CoAP.
    #[serde(rename = "director/coap-non-confirmable")]
    DirectorCoapNon,
    /// The director, fixed to QUIC streams.
    #[serde(rename = "director/quic-streams")]
    DirectorQuic,
    /// The director, fixed to QUIC datagrams.
    #[serde(rename = "director/quic-datagrams")]
    DirectorQuicDatagrams,
    /// The director, fixed to ZeroMQ ROUTER and DEALER.
    #[serde(rename = "director/tcp-router-dealer")]
    DirectorRouterDealer,
    /// The director, fixed to ZeroMQ PUB and SUB over TCP.
    #[serde(rename = "director/tcp-publish-subscribe")]
    DirectorPublishTcp,
    /// The director, fixed to ZeroMQ PUB and SUB over PGM.
    #[serde(rename = "director/pgm-publish-subscribe")]
    DirectorPublishPgm,
    /// The director, fixed to MQTT.
    #[serde(rename = "director/mqtt")]
    DirectorMqtt,
}

impl Down {
    /// Whether each message goes to all sinks.
    pub fn to_all(self) -> bool {
        !matches!(self, Self::UdpRequestResponse | Self::TcpRouterDealer)
    }

    /// Whether the director carries messages and answers.
    pub fn is_director(self) -> bool {
        matches!(
            self,
            Self::Director
                | Self::DirectorUdp
                | Self::DirectorArq
                | Self::DirectorFec
                | Self::DirectorCoap
                | Self::DirectorCoapNon
                | Self::DirectorQuic
                | Self::DirectorQuicDatagrams
                | Self::DirectorRouterDealer
                | Self::DirectorPublishTcp
                | Self::DirectorPublishPgm
                | Self::DirectorMqtt
        )
    }
}

/// Transport of replies from the sinks to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Up {
    /// Datagrams on the socket of the messages.
    #[serde(rename = "udp/request-response")]
    UdpRequestResponse,
    /// ZeroMQ REQ and REP over TCP.
    #[serde(rename = "tcp/request-reply")]
    TcpRequestReply,
    /// The director, which also carries the messages.
    #[serde(
        rename = "director",
        alias = "director/udp-request-response",
        alias = "director/udp-arq",
        alias = "director/multicast-fec",
        alias = "director/coap-confirmable",
        alias = "director/coap-non-confirmable",
        alias = "director/quic-streams",
        alias = "director/quic-datagrams",
        alias = "director/tcp-router-dealer",
        alias = "director/tcp-publish-subscribe",
        alias = "director/pgm-publish-subscribe",
        alias = "director/mqtt"
    )]
    Director,
}

/// The other side of an interaction.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Peer {
    /// Node name.
    pub name: String,
    /// Address of the node.
    pub address: Ipv4Addr,
}

/// Spec of one program.
#[derive(Debug, Clone, Deserialize)]
pub struct Spec {
    /// Source or sink.
    pub role: Role,
    /// Name of this node.
    pub node: String,
    /// Transport of messages.
    pub down: Down,
    /// Transport of replies.
    pub up: Up,
    /// Address of this node.
    pub address: Ipv4Addr,
    /// Multicast group, for PGM and the director.
    #[serde(default)]
    pub group: Option<Ipv4Addr>,
    /// Port for messages.
    pub port_down: u16,
    /// Port for replies with ZeroMQ; the director's other stacks use the ports after it.
    #[serde(default)]
    pub port_up: u16,
    /// MTU of the link in bytes.
    pub mtu: u16,
    /// PGM's rate limit in bit/s; PGM always has one.
    #[serde(default)]
    pub multicast_rate_bit_s: u64,
    /// Initial frame loss ratio that the director assumes.
    #[serde(default)]
    pub assume_loss: Option<f64>,
    /// Initial round-trip time that the director assumes.
    #[serde(default)]
    pub assume_round_trip_ns: Option<Nanos>,
    /// Models of other stacks that the director may use.
    #[serde(default)]
    pub outside: Vec<ModelId>,
    /// Address of the director's MQTT broker.
    #[serde(default)]
    pub broker: Option<Ipv4Addr>,
    /// All sinks, or the one source.
    pub peers: Vec<Peer>,
    /// Payload file of messages.
    pub payload: PathBuf,
    /// Payload file of replies.
    pub reply_payload: PathBuf,
    /// Output file of events.
    pub events: PathBuf,
    /// Interval between messages.
    pub every_ns: Nanos,
    /// Number of messages.
    pub messages: u64,
    /// Fan-out changes: message number, and number of sinks (the first ones) from there on; before
    /// that, all.
    #[serde(default)]
    pub fan_out: Vec<(u64, u64)>,
}

impl Spec {
    /// Number of sinks of a message, for transports that send to all.
    pub fn sinks_of(&self, message: u64) -> usize {
        let known = self.fan_out.iter().take_while(|(from, _)| *from <= message).last();
        known.map_or(self.peers.len(), |(_, to)| *to as usize)
    }
}

/// Reads and checks a program's spec from its file.
pub(crate) fn read<S: DeserializeOwned>(
    path: &Path,
    check: fn(&S) -> Result<(), String>,
) -> Result<S, Error> {
    let error = |why: String| Error::Spec { path: path.into(), why };
    let text = std::fs::read_to_string(path).map_err(|source| error(source.to_string()))?;
    parse(&text, check).map_err(error)
}

/// Parses and checks a program's spec.
pub(crate) fn parse<S: DeserializeOwned>(
    text: &str,
    check: fn(&S) -> Result<(), String>,
) -> Result<S, String> {
    let spec = serde_json::from_str(text).map_err(|error| error.to_string())?;
    check(&spec)?;
    Ok(spec)
}

impl Spec {
    /// Reads and checks a spec.
    pub fn read(path: &Path) -> Result<Self, Error> {
        read(path, Self::check)
    }

    fn check(&self) -> Result<(), String> {
        let named = std::iter::once(&self.node).chain(self.peers.iter().map(|peer| &peer.name));
        for name in named {
            // The name is used as ZeroMQ routing id and as a field of the events file.
            if name.is_empty() || name.len() > 255 || name.contains([',', '"', '\n', '\r', '\0']) {
                return Err(format!(
                    "the node name {name:?} must have 1 to 255 bytes and no comma, quote or line end"
                ));
            }
        }
        let names: HashSet<_> = self.peers.iter().map(|peer| &peer.name).collect();
        let addresses: HashSet<_> = self.peers.iter().map(|peer| peer.address).collect();
        if names.len() < self.peers.len() || addresses.len() < self.peers.len() {
            return Err("peers must differ in name and in address".into());
        }
        match (self.role, self.peers.len()) {
            (Role::Source, 0) => return Err("a source needs at least one peer".into()),
            (Role::Sink, n) if n != 1 => {
                return Err(format!("a sink must have one peer, the source, not {n}"));
            }
            _ => {}
        }
        let udp = (self.down == Down::UdpRequestResponse, self.up == Up::UdpRequestResponse);
        if self.down.is_director() != (self.up == Up::Director) {
            return Err("the director must carry both messages and answers, or neither".into());
        }
        let alone = udp.0 || self.down.is_director();
        if udp.0 != udp.1 {
            return Err("udp/request-response must be used both down and up, or not at all; \
                        the other models take tcp/request-reply up"
                .into());
        }
        if self.port_down == 0 || (!alone && (self.port_up == 0 || self.port_up == self.port_down))
        {
            return Err("port_down and port_up must be two different ports from 1 to 65535".into());
        }
        if !self.outside.is_empty() && !(1..=65_000).contains(&self.port_up) {
            return Err(format!(
                "port_up is {}; use 1 to 65000, because other stacks need the three ports after it",
                self.port_up
            ));
        }
        if self.outside.contains(&ModelId::Mqtt) && self.broker.is_none() {
            return Err("mqtt needs the address of a broker".into());
        }
        if self.mtu < 68 {
            return Err(format!("mtu {} is below 68, the minimum of IPv4", self.mtu));
        }
        if self.messages == 0 || self.messages - 1 > LARGEST {
            return Err(format!(
                "messages is {}; it must be from 1 to 10,000,000,000",
                self.messages
            ));
        }
        if self.every_ns.checked_mul(self.messages).is_none() {
            return Err("every_ns x messages is longer than 584 years".into());
        }
        if self.down == Down::PgmPublishSubscribe || self.down.is_director() {
            self.check_multicast()?;
        }
        Ok(())
    }

    fn check_multicast(&self) -> Result<(), String> {
        match self.group {
            Some(group) if group.is_multicast() => {}
            _ => {
                return Err("multicast needs a multicast group, \
                            such as \"group\": \"239.192.0.1\""
                    .into());
            }
        }
        // libzmq takes kbit/s as an int, and computes bytes per second in one.
        if !(8_000..=10_000_000_000).contains(&self.multicast_rate_bit_s) {
            return Err(format!(
                "multicast_rate_bit_s is {}; PGM always has a rate limit, \
                 from 8000 (8 kbit/s) to 10000000000 (10 Gbit/s)",
                self.multicast_rate_bit_s
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    pub(crate) fn example() -> Value {
        json!({"role": "source", "node": "utility", "down": "pgm/publish-subscribe",
            "up": "tcp/request-reply", "address": "10.0.0.1", "interface": "eth0",
            "group": "239.192.0.1", "port_down": 5556, "port_up": 5557, "mtu": 113,
            "multicast_rate_bit_s": 100_000_000,
            "peers": [{"name": "consumer-1", "address": "10.0.0.2"}],
            "payload": "/p", "reply_payload": "/r", "events": "/e.csv",
            "every_ns": 150_000_000, "messages": 600})
    }

    fn with(key: &str, value: Value) -> Result<Spec, String> {
        let mut spec = example();
        spec[key] = value;
        parse(&spec.to_string(), Spec::check)
    }

    #[test]
    fn reads_what_the_runner_writes() {
        let spec = parse(&example().to_string(), Spec::check).unwrap();
        assert_eq!((spec.role, spec.down), (Role::Source, Down::PgmPublishSubscribe));
        assert_eq!(spec.peers[0].name, "consumer-1");
        assert!(spec.down.to_all());
    }

    #[test]
    fn says_what_is_wrong() {
        for (key, value, word) in [
            ("role", json!("middle"), "middle"),
            ("node", json!("a,b"), "a,b"),
            ("down", json!("udp/request-response"), "both down and up"),
            ("down", json!("pgm/pair"), "pgm/pair"),
            ("address", json!("10.0.0"), "address"),
            ("group", json!("10.0.0.9"), "239.192.0.1"),
            ("port_up", json!(5556), "different ports"),
            ("mtu", json!(60), "68"),
            ("messages", json!(0), "messages"),
            ("every_ns", json!(u64::MAX), "years"),
            ("multicast_rate_bit_s", json!(0), "rate limit"),
            ("peers", json!([]), "at least one peer"),
        ] {
            let error = with(key, value).unwrap_err();
            assert!(error.contains(word), "{key}: {error}");
        }
        let mut two = example();
        two["role"] = json!("sink");
        two["peers"] = json!([{"name": "a", "address": "10.0.0.2"},
                              {"name": "b", "address": "10.0.0.3"}]);
        assert!(parse(&two.to_string(), Spec::check).unwrap_err().contains("one peer"));
        assert!(parse("{", Spec::check).is_err());
    }
}
