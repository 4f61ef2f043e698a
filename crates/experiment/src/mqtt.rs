//! An MQTT workload of a plan: its clients, and the schedule of its messages.

use crate::scalar::Word;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use units::{Draw, Purpose, Span};

/// Who publishes to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MqttPattern {
    /// All publishers to the one subscriber.
    ManyToOne,
    /// All clients publish and subscribe, each to a topic of its own: client k
    /// publishes what client k - 1 has subscribed to, and the first what the last has.
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
    /// The text that files use.
    pub fn text(self) -> &'static str {
        Self::WORDS.iter().find(|(_, pattern)| *pattern == self).map_or("", |(text, _)| text)
    }
}

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MqttVersion {
    /// MQTT 3.1.1 (OASIS 2014).
    #[serde(rename = "3.1.1")]
    V311,
    /// MQTT 5.0 (OASIS 2019).
    #[serde(rename = "5")]
    V5,
}

impl Word for MqttVersion {
    const WHAT: &'static str = "a version of MQTT";
    const WORDS: &'static [(&'static str, Self)] = &[("3.1.1", Self::V311), ("5", Self::V5)];
}

impl MqttVersion {
    /// The text that files use.
    pub fn text(self) -> &'static str {
        Self::WORDS.iter().find(|(_, version)| *version == self).map_or("", |(text, _)| text)
    }
}

/// Where the certificates for TLS come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MqttTls {
    /// Made for the run.
    Generated,
    /// Files; absolute paths.
    Files {
        /// The certificate of whoever signed the broker's.
        ca: PathBuf,
        /// The clients' own.
        cert: Option<PathBuf>,
        /// Its key.
        key: Option<PathBuf>,
    },
}

/// Messages that clients publish by a broker to those who subscribe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mqtt {
    /// Its name in the results.
    pub name: String,
    /// The node that the broker runs on.
    pub broker: String,
    /// The port that it listens on.
    pub port: u16,
    /// The nodes that publish, in order.
    pub publishers: Vec<String>,
    /// The nodes that subscribe, in order.
    pub subscribers: Vec<String>,
    /// Who publishes to whom.
    pub pattern: MqttPattern,
    /// Quality of service, 0 to 2.
    pub qos: u8,
    /// The protocol's version.
    pub version: MqttVersion,
    /// Whether and how connections are encrypted.
    pub tls: Option<MqttTls>,
    /// The file that each message carries; absolute.
    pub payload: PathBuf,
    /// The length of each message.
    pub payload_bytes: u64,
    /// Time between two messages of all publishers.
    pub every: Span,
    /// How long messages are sent once all clients have joined.
    pub duration: Span,
    /// Time between two clients' joining; without one all are there before the start.
    pub join: Option<Span>,
    /// After how long a client shows that it lives.
    pub keep_alive: Span,
    /// Whether the broker forgets clients whose connection ends.
    pub clean_session: bool,
    /// The least and the most time before a client connects again.
    pub reconnect: [Span; 2],
    /// The network that it goes over.
    pub network: String,
}

/// One client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MqttClient {
    /// Its node.
    pub node: String,
    /// When it joins, from the start; without one it is there before.
    pub joins: Option<Span>,
    /// The topic that it publishes to, and the client who has subscribed to that.
    pub publish: Option<(String, usize)>,
    /// The topic that it subscribes to.
    pub subscribe: Option<String>,
}

/// One message of the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MqttMessage {
    /// Who publishes it: the place among the clients.
    pub from: usize,
    /// Whom it is for.
    pub to: usize,
    /// When, from the start.
    pub at: Span,
}

impl Mqtt {
    /// The clients in the order of their joining: subscribers first.
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
                joins: self.join.map(|join| times(join, client as u64)),
                publish: receiver(client).map(|to| (topic(to), to)),
                subscribe: subscribes(client).then(|| topic(client)),
            })
            .collect()
    }

    /// How long messages are sent, joining included.
    pub fn lasts(&self) -> Span {
        let clients = || self.clients().len() as u64;
        let joining = self.join.map_or(Span::ZERO, |join| times(join, clients()));
        Span::from_ns(joining.as_ns().saturating_add(self.duration.as_ns()))
    }

    /// How many messages there are at most.
    pub fn most_messages(&self) -> u64 {
        self.lasts().as_ns().div_ceil(self.every.as_ns().max(1))
    }

    /// The messages, in the order of their times; a message's number is its place.
    ///
    /// The publisher of each is drawn from all who publish, each as likely. While
    /// clients join, those whose publisher or receiver is not there yet fall out, so
    /// that the rate grows with the clients. `number` is the workload's place in the
    /// plan.
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
        // A client has joined when the next one's turn comes.
        let join = self.join.unwrap_or(Span::ZERO);
        let there = |client: usize| times(join, client as u64 + 1);
        // Links have numbers from 0; workloads count down from the other end.
        let draw = Draw::new(seed, u64::MAX - number as u64, 0);
        let drawn = |k: u64| {
            let share = draw.uniform(Purpose::Publisher, k);
            publishers[((share * publishers.len() as f64) as usize).min(publishers.len() - 1)]
        };
        (0..self.most_messages())
            .map(|k| {
                let (from, to) = drawn(k);
                MqttMessage { from, to, at: times(self.every, k) }
            })
            .filter(|m| m.at >= there(m.from) && m.at >= there(m.to) || self.join.is_none())
            .collect()
    }
}

fn times(span: Span, n: u64) -> Span {
    Span::from_ns(span.as_ns().saturating_mul(n))
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
        // Nobody publishes before its turn is over; then one in four messages is its.
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
