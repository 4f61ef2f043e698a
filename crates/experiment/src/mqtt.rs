//! MQTT workloads: clients and message schedule.

use crate::scalar::Word;
use record::MqttVersion;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use units::{Draw, Purpose, Span};

/// Pattern: which clients publish to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MqttPattern {
    /// All publishers to the one subscriber.
    ManyToOne,
    /// All clients publish and subscribe, each to a separate topic: client k publishes to the topic
    /// of client k - 1, and the first client to that of the last.
    OneToOne,
    /// Publisher k to subscriber k.
    Pairs,
}

impl Word for MqttPattern {
    const WHAT: &'static str = "a pattern of MQTT clients";
    const WORDS: &'static [(&'static str, Self)] =
        &[("many-to-one", Self::ManyToOne), ("one-to-one", Self::OneToOne), ("pairs", Self::Pairs)];
}

impl MqttPattern {
    /// Text form in files.
    pub fn text(self) -> &'static str {
        Self::WORDS.iter().find(|(_, pattern)| *pattern == self).map_or("", |(text, _)| text)
    }
}

/// Source of TLS certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MqttTls {
    /// Generated for the run.
    Generated,
    /// Files; absolute paths.
    Files {
        /// Certificate of the authority (CA) that signed the broker's certificate.
        ca: PathBuf,
        /// Client certificate.
        cert: Option<PathBuf>,
        /// Private key of the client certificate.
        key: Option<PathBuf>,
    },
}

/// Messages that clients publish through a broker to subscribers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mqtt {
    /// Name in the results.
    pub name: String,
    /// Node of the broker.
    pub broker: String,
    /// Port of the broker.
    pub port: u16,
    /// Nodes that publish, in order.
    pub publishers: Vec<String>,
    /// Nodes that subscribe, in order.
    pub subscribers: Vec<String>,
    /// Pattern: which clients publish to which.
    pub pattern: MqttPattern,
    /// Quality of service, 0 to 2.
    pub qos: u8,
    /// Protocol version.
    pub version: MqttVersion,
    /// TLS certificates, if connections are encrypted.
    pub tls: Option<MqttTls>,
    /// File with the payload of each message; absolute path.
    pub payload: PathBuf,
    /// Payload of each message, B.
    pub payload_bytes: u64,
    /// Time between two messages of all publishers together.
    pub every: Span,
    /// Duration of the messages after all clients have joined.
    pub duration: Span,
    /// Time between two clients' joins. `None`: all clients join before the start.
    pub join: Option<Span>,
    /// Keep-alive interval.
    pub keep_alive: Span,
    /// Whether the broker discards the session of a client when its connection ends.
    pub clean_session: bool,
    /// Minimum and maximum wait before a client reconnects.
    pub reconnect: [Span; 2],
    /// Network of the messages.
    pub network: String,
}

/// An MQTT client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MqttClient {
    /// Its node.
    pub node: String,
    /// Join time, from the start. `None`: before the start.
    pub joins: Option<Span>,
    /// Topic that it publishes to, and the index of the client that subscribes to it.
    pub publish: Option<(String, usize)>,
    /// Topic that it subscribes to.
    pub subscribe: Option<String>,
}

/// A message of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MqttMessage {
    /// Index of the publishing client.
    pub from: usize,
    /// Index of the receiving client.
    pub to: usize,
    /// Time, from the start.
    pub at: Span,
}

impl Mqtt {
    /// Clients in the order in which they join: subscribers first.
    pub fn clients(&self) -> Vec<MqttClient> {
        let mut nodes: Vec<&String> = self.subscribers.iter().collect();
        let known: std::collections::HashSet<&String> = self.subscribers.iter().collect();
        nodes.extend(self.publishers.iter().filter(|node| !known.contains(node)));
        let topic = |client: usize| format!("{}/{}", self.name, nodes[client]);
        let place: std::collections::HashMap<&String, usize> =
            nodes.iter().enumerate().map(|(place, node)| (*node, place)).collect();
        let pairs: std::collections::HashMap<usize, usize> = self
            .publishers
            .iter()
            .enumerate()
            .filter_map(|(k, node)| Some((*place.get(node)?, k.min(self.subscribers.len() - 1))))
            .collect();
        let receiver = |client: usize| match self.pattern {
            // The ring of the vNET validation (decision 21).
            MqttPattern::OneToOne => Some((client + nodes.len() - 1) % nodes.len()),
            MqttPattern::ManyToOne => pairs.contains_key(&client).then_some(0),
            MqttPattern::Pairs => pairs.get(&client).copied(),
        };
        let subscribes = |client: usize| {
            self.pattern == MqttPattern::OneToOne || client < self.subscribers.len()
        };
        (0..nodes.len())
            .map(|client| MqttClient {
                node: nodes[client].clone(),
                joins: self.join.map(|join| join * client as u64),
                publish: receiver(client).map(|to| (topic(to), to)),
                subscribe: subscribes(client).then(|| topic(client)),
            })
            .collect()
    }

    /// Total duration of the messages, joins included.
    pub fn planned_duration(&self) -> Span {
        let clients = || self.clients().len() as u64;
        let joining = self.join.map_or(Span::ZERO, |join| join * clients());
        joining + self.duration
    }

    /// Maximum number of messages.
    pub fn max_messages(&self) -> u64 {
        self.planned_duration().as_ns().div_ceil(self.every.as_ns().max(1))
    }

    /// The messages, ordered by time; a message's number is its position.
    ///
    /// The publisher of each message is drawn uniformly from all publishers. While clients join,
    /// messages whose publisher or receiver has not joined yet are skipped, so the rate grows with
    /// the number of clients. `number` is the workload's position in the plan.
    pub fn schedule(&self, seed: u64, number: usize) -> Vec<MqttMessage> {
        let clients = self.clients();
        let publishers: Vec<(usize, usize)> = clients
            .iter()
            .enumerate()
            .filter_map(|(client, c)| Some((client, c.publish.as_ref()?.1)))
            .collect();
        if publishers.is_empty() {
            return Vec::new();
        }
        // A client has joined by the time the next one joins.
        let join = self.join.unwrap_or(Span::ZERO);
        // Otherwise a slow handshake would show as messages sent late (decision 21).
        let there = |client: usize| join * (client as u64 + 1);
        // Links use stream numbers from 0 up; workloads count down from the maximum.
        let draw = Draw::new(seed, u64::MAX - number as u64, 0);
        let drawn = |k: u64| {
            let share = draw.uniform(Purpose::Publisher, k);
            publishers[((share * publishers.len() as f64) as usize).min(publishers.len() - 1)]
        };
        (0..self.max_messages())
            .map(|k| {
                let (from, to) = drawn(k);
                MqttMessage { from, to, at: self.every * k }
            })
            .filter(|m| m.at >= there(m.from) && m.at >= there(m.to) || self.join.is_none())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    fn mqtt(pattern: MqttPattern, publishers: &[&str], subscribers: &[&str]) -> Mqtt {
        Mqtt {
            name: "m".to_owned(),
            broker: "broker".to_owned(),
            port: 1883,
            publishers: names(publishers),
            subscribers: names(subscribers),
            pattern,
            qos: 1,
            version: MqttVersion::V311,
            tls: None,
            payload: PathBuf::new(),
            payload_bytes: 9,
            every: Span::from_ns(10),
            duration: Span::from_ns(100_000),
            join: Some(Span::from_ns(1000)),
            keep_alive: Span::from_ns(1),
            clean_session: true,
            reconnect: [Span::from_ns(1); 2],
            network: "n".to_owned(),
        }
    }

    #[test]
    fn many_publish_to_one() {
        let clients = mqtt(MqttPattern::ManyToOne, &["a", "b"], &["s"]).clients();
        let publish: Vec<_> = clients.iter().map(|c| c.publish.clone()).collect();
        let to = Some(("m/s".to_owned(), 0));
        assert_eq!(publish, [None, to.clone(), to]);
        assert_eq!(clients[0].subscribe.as_deref(), Some("m/s"));
        assert_eq!(clients[2].subscribe, None);
        assert_eq!(clients[2].joins, Some(Span::from_ns(2000)));
    }

    #[test]
    fn in_one_to_one_each_has_one_who_writes_and_one_who_reads() {
        let clients = mqtt(MqttPattern::OneToOne, &["a", "b", "s"], &["s"]).clients();
        let to: Vec<_> = clients.iter().map(|c| c.publish.as_ref().unwrap().1).collect();
        assert_eq!(to, [2, 0, 1]);
        assert!(clients.iter().all(|c| c.subscribe == Some(format!("m/{}", c.node))));
    }

    #[test]
    fn pairs_keep_their_order() {
        let clients = mqtt(MqttPattern::Pairs, &["a", "b"], &["y", "z"]).clients();
        let to: Vec<_> = clients.iter().map(|c| c.publish.as_ref().map(|p| p.1)).collect();
        assert_eq!(to, [None, None, Some(0), Some(1)]);
    }

    #[test]
    fn the_rate_grows_with_the_clients_and_the_seed_decides() {
        let mqtt = mqtt(MqttPattern::ManyToOne, &["a", "b", "c", "d"], &["s"]);
        let schedule = mqtt.schedule(7, 0);
        assert_eq!(schedule, mqtt.schedule(7, 0));
        assert_ne!(schedule, mqtt.schedule(8, 0));
        assert_ne!(schedule, mqtt.schedule(7, 1));
        // No client publishes before it has joined; then each sends one in four messages.
        let within = |from: u64, to: u64| {
            schedule.iter().filter(|m| (from..to).contains(&m.at.as_ns())).count()
        };
        assert_eq!(within(0, 2000), 0);
        assert!((10..45).contains(&within(2000, 3000)), "{}", within(2000, 3000));
        assert_eq!(within(5000, 105_000), 10_000, "all clients have connected");
        let of = |client| schedule.iter().filter(|m| m.from == client).count();
        assert!((2300..2700).contains(&of(4)), "{}", of(4));
        assert!(schedule.iter().all(|m| m.to == 0 && m.from > 0));
    }
}
