//! The interaction spec: what the runner writes for each program.

use crate::clock::Nanos;
use crate::error::Error;
use crate::payload::LARGEST;
use director::ModelId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Which end of the interaction a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends the messages and waits for replies.
    Source,
    /// Answers each message.
    Sink,
}

/// How messages travel from the source to the sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Down {
    /// Datagrams to one sink after the other.
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
    /// The director, each message to all by the model that it chooses.
    #[serde(rename = "director")]
    Director,
    /// The director, held to plain datagrams.
    #[serde(rename = "director/udp-request-response")]
    DirectorUdp,
    /// The director, held to `udp-arq`.
    #[serde(rename = "director/udp-arq")]
    DirectorArq,
    /// The director, held to `multicast-fec`.
    #[serde(rename = "director/multicast-fec")]
    DirectorFec,
    /// The director, held to CoAP with confirmation.
    #[serde(rename = "director/coap-confirmable")]
    DirectorCoap,
    /// The director, held to CoAP without.
    #[serde(rename = "director/coap-non-confirmable")]
    DirectorCoapNon,
    /// The director, held to streams of QUIC.
    #[serde(rename = "director/quic-streams")]
    DirectorQuic,
    /// The director, held to datagrams of QUIC.
    #[serde(rename = "director/quic-datagrams")]
    DirectorQuicDatagrams,
    /// The director, held to ZeroMQ's ROUTER and DEALER.
    #[serde(rename = "director/tcp-router-dealer")]
    DirectorRouterDealer,
    /// The director, held to ZeroMQ's PUB and SUB over TCP.
    #[serde(rename = "director/tcp-publish-subscribe")]
    DirectorPublishTcp,
    /// The director, held to ZeroMQ's PUB and SUB over PGM.
    #[serde(rename = "director/pgm-publish-subscribe")]
    DirectorPublishPgm,
    /// The director, held to MQTT.
    #[serde(rename = "director/mqtt")]
    DirectorMqtt,
}

impl Down {
    /// Whether each message goes to all sinks.
    pub fn to_all(self) -> bool {
        !matches!(self, Self::UdpRequestResponse | Self::TcpRouterDealer)
    }

    /// Whether the director carries messages, and answers too.
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

/// How replies travel from the sinks to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Up {
    /// Datagrams on the socket that the messages use.
    #[serde(rename = "udp/request-response")]
    UdpRequestResponse,
    /// ZeroMQ's REQ and REP over TCP.
    #[serde(rename = "tcp/request-reply")]
    TcpRequestReply,
    /// By the director, which carries the messages.
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

/// Someone at the other end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Peer {
    /// The node's name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
}

/// What one program is to do.
#[derive(Debug, Clone, Deserialize)]
pub struct Spec {
    /// Source or sink.
    pub role: Role,
    /// The name of this node.
    pub node: String,
    /// How messages travel.
    pub down: Down,
    /// How replies travel.
    pub up: Up,
    /// The address of this node.
    pub address: Ipv4Addr,
    /// The multicast group, for PGM.
    #[serde(default)]
    pub group: Option<Ipv4Addr>,
    /// The port for messages.
    pub port_down: u16,
    /// The port for replies, for ZeroMQ; the director's other stacks take those behind it.
    #[serde(default)]
    pub port_up: u16,
    /// The largest IP packet that the link takes.
    pub mtu: u16,
    /// PGM's rate limit in bit/s; PGM never sends without one.
    #[serde(default)]
    pub multicast_rate_bit_s: u64,
    /// The share of frames lost that the director begins with.
    #[serde(default)]
    pub assume_loss: Option<f64>,
    /// The round trip that it begins with.
    #[serde(default)]
    pub assume_round_trip_ns: Option<Nanos>,
    /// The models of other stacks that it has.
    #[serde(default)]
    pub outside: Vec<ModelId>,
    /// The address of its MQTT broker.
    #[serde(default)]
    pub broker: Option<Ipv4Addr>,
    /// All sinks, or the one source.
    pub peers: Vec<Peer>,
    /// The file with the messages' payload.
    pub payload: PathBuf,
    /// The file with the replies' payload.
    pub reply_payload: PathBuf,
    /// The file that gets the events.
    pub events: PathBuf,
    /// From one message to the next.
    pub every_ns: Nanos,
    /// How many messages.
    pub messages: u64,
    /// From which message on they go to how many of the sinks, the first ones; to all before.
    #[serde(default)]
    pub fan_out: Vec<(u64, u64)>,
}

impl Spec {
    /// To how many sinks a message of a pattern goes that goes to all.
    pub fn sinks_of(&self, message: u64) -> usize {
        let known = self.fan_out.iter().take_while(|(from, _)| *from <= message).last();
        known.map_or(self.peers.len(), |(_, to)| *to as usize)
    }
}

/// Reads a program's spec from its file, and has it checked.
pub(crate) fn read<S: DeserializeOwned>(
    path: &Path,
    check: fn(&S) -> Result<(), String>,
) -> Result<S, Error> {
    let error = |why: String| Error::Spec { path: path.into(), why };
    let text = std::fs::read_to_string(path).map_err(|source| error(source.to_string()))?;
    parse(&text, check).map_err(error)
}

/// The same from its text.
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
            // The name is a ZeroMQ routing id and a field of the events file.
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
                return Err(format!("a sink has one peer, the source, and not {n}"));
            }
            _ => {}
        }
        let udp = (self.down == Down::UdpRequestResponse, self.up == Up::UdpRequestResponse);
        if self.down.is_director() != (self.up == Up::Director) {
            return Err("the director carries messages and answers, or neither".into());
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
            return Err(format!("port_up is {}; other stacks need three behind it", self.port_up));
        }
        if self.outside.contains(&ModelId::Mqtt) && self.broker.is_none() {
            return Err("mqtt needs the address of a broker".into());
        }
        if self.mtu < 68 {
            return Err(format!("mtu {} is below 68, the least that IPv4 allows", self.mtu));
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
        // libzmq takes kbit/s in an int, and computes bytes a second in one.
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
