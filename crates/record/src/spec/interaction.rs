//! The spec of one program of an interaction.

use super::{MAX_MESSAGE, Peer, Spec};
use crate::{DirectorModel, InteractionPattern};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;

/// Role of a program in the interaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends the messages and waits for replies.
    Source,
    /// Answers each message.
    Sink,
}

/// Spec of one program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InteractionSpec {
    /// Source or sink.
    pub role: Role,
    /// Name of this node.
    pub node: String,
    /// Transport of messages.
    pub down: InteractionPattern,
    /// Transport of replies.
    pub up: InteractionPattern,
    /// Address of this node.
    pub address: IpAddr,
    /// Multicast group, for PGM and the director.
    #[serde(default)]
    pub group: Option<IpAddr>,
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
    /// Initial frame loss ratio that the director assumes, 0 to 1.
    #[serde(default)]
    pub assume_loss: Option<f64>,
    /// Initial round-trip time that the director assumes, in ns.
    #[serde(default)]
    pub assume_round_trip_ns: Option<u64>,
    /// Whether the director starts without knowledge except the MTU.
    #[serde(default)]
    pub assume_nothing: bool,
    /// Time after which the director gives up a message, in ns.
    #[serde(default)]
    pub lifetime_ns: Option<u64>,
    /// Models of other stacks that the director may use.
    #[serde(default)]
    pub outside: Vec<DirectorModel>,
    /// Address of the director's MQTT broker.
    #[serde(default)]
    pub broker: Option<IpAddr>,
    /// All sinks, or the one source.
    pub peers: Vec<Peer>,
    /// Payload file of messages.
    pub payload: PathBuf,
    /// Payload file of replies.
    pub reply_payload: PathBuf,
    /// Output file of events.
    pub events: PathBuf,
    /// Interval between messages, in ns.
    pub every_ns: u64,
    /// Number of messages.
    pub messages: u64,
    /// Fan-out changes: message number, and number of sinks (the first ones) from there on; before
    /// that, all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fan_out: Vec<(u64, u64)>,
}

impl InteractionSpec {
    /// Number of sinks of a message, for transports that send to all.
    pub fn sinks_of(&self, message: u64) -> usize {
        let known = self.fan_out.iter().take_while(|(from, _)| *from <= message).last();
        known.map_or(self.peers.len(), |(_, to)| *to as usize)
    }

    fn check_peers(&self) -> Result<(), String> {
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
        // Replies are assigned to peers by address, over ZeroMQ also by name.
        if names.len() < self.peers.len() || addresses.len() < self.peers.len() {
            return Err("peers must differ in name and in address".into());
        }
        match (self.role, self.peers.len()) {
            (Role::Source, 0) => Err("a source needs at least one peer".into()),
            (Role::Sink, n) if n != 1 => {
                Err(format!("a sink must have one peer, the source, not {n}"))
            }
            _ => Ok(()),
        }
    }

    fn check_patterns(&self) -> Result<(), String> {
        let udp = InteractionPattern::UdpRequestResponse;
        for (pattern, key, fits) in
            [(self.down, "down", self.down.supports_down()), (self.up, "up", self.up.supports_up())]
        {
            if !fits {
                return Err(format!("{pattern} does not work for {key}"));
            }
        }
        if self.down.is_director() != self.up.is_director() {
            return Err("the director must carry both messages and answers, or neither".into());
        }
        if (self.down == udp) != (self.up == udp) {
            return Err("udp/request-response must be used both down and up, or not at all; \
                        the other models take tcp/request-reply up"
                .into());
        }
        Ok(())
    }

    fn check_ports(&self) -> Result<(), String> {
        let alone = self.down.is_bidirectional();
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
        if self.outside.contains(&DirectorModel::Mqtt) && self.broker.is_none() {
            return Err("mqtt needs the address of a broker".into());
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

impl Spec for InteractionSpec {
    const PROGRAM: &'static str = "interaction";

    fn check(&self) -> Result<(), String> {
        self.check_peers()?;
        self.check_patterns()?;
        self.check_ports()?;
        if self.mtu < 68 {
            return Err(format!("mtu {} is below 68, the minimum of IPv4", self.mtu));
        }
        if self.messages == 0 || self.messages - 1 > MAX_MESSAGE {
            return Err(format!(
                "messages is {}; it must be from 1 to 10,000,000,000",
                self.messages
            ));
        }
        // The last scheduled time must fit into 64 bits.
        if self.every_ns.checked_mul(self.messages).is_none() {
            return Err("every_ns x messages is longer than 584 years".into());
        }
        if self.down == InteractionPattern::PgmPublishSubscribe || self.down.is_director() {
            self.check_multicast()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::error_with;
    use super::*;
    use serde_json::{Value, json};

    fn example() -> Value {
        json!({"role": "source", "node": "utility", "down": "pgm/publish-subscribe",
            "up": "tcp/request-reply", "address": "10.0.0.1",
            "group": "239.192.0.1", "port_down": 5556, "port_up": 5557, "mtu": 113,
            "multicast_rate_bit_s": 100_000_000,
            "peers": [{"name": "consumer-1", "address": "10.0.0.2"}],
            "payload": "/p", "reply_payload": "/r", "events": "/e.csv",
            "every_ns": 150_000_000, "messages": 600})
    }

    #[test]
    fn a_spec_in_json_is_read() {
        let spec = InteractionSpec::parse(&example().to_string()).unwrap();
        assert_eq!(spec.role, Role::Source);
        assert_eq!(spec.down, InteractionPattern::PgmPublishSubscribe);
        assert_eq!(spec.peers[0].name, "consumer-1");
    }

    #[test]
    fn says_what_is_wrong() {
        for (key, value, word) in [
            ("role", json!("middle"), "middle"),
            ("node", json!("a,b"), "a,b"),
            ("down", json!("udp/request-response"), "both down and up"),
            ("down", json!("pgm/pair"), "pgm/pair"),
            ("down", json!("tcp/request-reply"), "does not work for down"),
            ("up", json!("tcp/router-dealer"), "does not work for up"),
            ("up", json!("director"), "both messages and answers"),
            ("address", json!("10.0.0"), "address"),
            ("group", json!("10.0.0.9"), "239.192.0.1"),
            ("port_up", json!(5556), "different ports"),
            ("mtu", json!(60), "68"),
            ("messages", json!(0), "messages"),
            ("every_ns", json!(u64::MAX), "years"),
            ("multicast_rate_bit_s", json!(0), "rate limit"),
            ("peers", json!([]), "at least one peer"),
            ("interface", json!("eth0"), "unknown field `interface`"),
        ] {
            let error = error_with::<InteractionSpec>(example(), key, value);
            assert!(error.contains(word), "{key}: {error}");
        }
        let mut two = example();
        two["role"] = json!("sink");
        let peers = json!([{"name": "a", "address": "10.0.0.2"},
                           {"name": "b", "address": "10.0.0.3"}]);
        assert!(error_with::<InteractionSpec>(two, "peers", peers).contains("one peer"));
        assert!(InteractionSpec::parse("{").is_err());
    }
}
