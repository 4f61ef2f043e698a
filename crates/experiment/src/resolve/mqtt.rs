//! Resolves MQTT workloads: brokers, clients and messages.

use super::checks::positive;
use super::context::Context;
use super::interaction::MAX_ROWS;
use super::payload;
use crate::file::{self, Tls};
use crate::limits::{self, MQTT_QOS, ONE};
use crate::mqtt::{Mqtt, MqttPattern, MqttTls};
use crate::problem::Problem;
use crate::read::{At, Sink};
use record::MqttVersion;
use std::path::PathBuf;
use units::Span;

const KEEP_ALIVE: Span = Span::from_ns(60_000_000_000);
const RECONNECT: [Span; 2] = [Span::from_ns(100_000_000), Span::from_ns(5_000_000_000)];
/// Range of the keep-alive interval, s: 5 is libmosquitto's minimum, 65535 the limit of MQTT's 16
/// bits.
const KEEP_ALIVE_S: std::ops::RangeInclusive<u64> = 5..=65_535;

/// Adds a problem at `place`.
fn report(sink: &mut Sink, at: crate::source::Place, text: impl Into<String>, label: &str) {
    sink.add(Problem::new(text).at(at).label(label));
}

impl Context<'_, '_> {
    /// Resolves the workload. `None`: the problem is in the sink.
    pub(super) fn mqtt(&self, name: String, typed: &file::Mqtt, sink: &mut Sink) -> Option<Mqtt> {
        let ends = self.mqtt_ends(typed, sink);
        let found = typed.payload.as_ref().and_then(|path| payload::find(path, self.base, sink));
        let every = mqtt_every(typed, sink);
        let duration = every.and_then(|every| self.mqtt_duration(typed, every, sink));
        let join = match &typed.join {
            Some(_) => Some(positive(&typed.join, "join", sink)?),
            None => None,
        };
        let qos = typed.qos.as_ref().map_or(0, |qos| qos.value);
        if let Some(at) = typed.qos.as_ref().filter(|qos| !MQTT_QOS.contains(&qos.value)) {
            report(sink, at.place, format!("a quality of service of {qos}"), "MQTT has 0, 1 and 2");
        }
        let port = port(typed, sink);
        let keep_alive = keep_alive(typed, sink);
        let reconnect = reconnect(typed, sink);
        let tls = match &typed.tls {
            Some(tls) => Some(self.tls(tls, sink)?),
            None => None,
        };
        let (broker, publishers, subscribers, network) = ends?;
        let (payload, payload_bytes) = found?;
        let mqtt = Mqtt {
            name,
            broker,
            port: port?,
            publishers,
            subscribers,
            pattern: typed.pattern.as_ref()?.value,
            // A larger one was reported above.
            qos: qos.min(*MQTT_QOS.end()) as u8,
            version: typed.version.as_ref().map_or(MqttVersion::V311, |version| version.value),
            tls,
            payload,
            payload_bytes,
            every: every?,
            duration: duration?,
            join,
            keep_alive: keep_alive?,
            clean_session: typed.clean_session.as_ref().is_none_or(|clean| clean.value),
            reconnect: reconnect?,
            network,
        };
        if mqtt.max_messages() > MAX_ROWS {
            let text =
                format!("{} messages, with one row in the results each", mqtt.max_messages());
            let label = format!("use at most {MAX_ROWS}: a lower rate, or a shorter time");
            report(sink, typed.place, text, &label);
            return None;
        }
        Some(mqtt)
    }

    /// Broker, publishers, subscribers and the network between them.
    fn mqtt_ends(
        &self,
        typed: &file::Mqtt,
        sink: &mut Sink,
    ) -> Option<(String, Vec<String>, Vec<String>, String)> {
        let broker = typed.broker.as_ref().and_then(|name| {
            let (group, nodes) = self.nodes.find(name, sink)?;
            if let [node] = &nodes[..] {
                return Some((group.to_owned(), node.clone()));
            }
            let text =
                format!("`{}` has {} nodes, but a broker is one node", name.value, nodes.len());
            report(sink, name.place, text, &format!("write for example `{}`", nodes[0]));
            None
        });
        let publishers = typed.publishers.as_ref().map(|list| {
            self.nonempty(list, "`publishers` matches no nodes", sink);
            self.nodes.find_all(&list.value, sink)
        });
        let subscribers = typed.subscribers.as_ref().map(|list| {
            self.nonempty(list, "`subscribers` matches no nodes", sink);
            self.nodes.find_all(&list.value, sink)
        });
        let (broker_group, broker) = broker?;
        let ((publishers, mut groups), (subscribers, more)) = (publishers?, subscribers?);
        if publishers.is_empty() || subscribers.is_empty() {
            return None;
        }
        for (list, nodes) in [(&typed.publishers, &publishers), (&typed.subscribers, &subscribers)]
        {
            if let Some(at) = list.as_ref().filter(|_| nodes.contains(&broker)) {
                let text = format!("the broker's node `{broker}` is also one of its clients");
                report(sink, at.place, text, "traffic within a node does not pass any network");
                return None;
            }
        }
        check_pattern(typed, &publishers, &subscribers, sink);
        groups.extend(more.into_iter().filter(|group| !groups.contains(group)).collect::<Vec<_>>());
        groups.push(broker_group);
        groups.dedup();
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let nodes: Vec<&String> = publishers.iter().chain(&subscribers).chain([&broker]).collect();
        let network = self.network(&typed.network, typed.place, &groups, &nodes, sink)?;
        Some((broker, publishers, subscribers, network))
    }

    /// Duration of the messages after all clients have joined.
    fn mqtt_duration(&self, typed: &file::Mqtt, every: Span, sink: &mut Sink) -> Option<Span> {
        if let Some(count) = &typed.count {
            if count.value < ONE {
                report(sink, count.place, "`count` is 0, so no message is sent", "use 1 or more");
                return None;
            }
            return Some(every * count.value);
        }
        if typed.duration.is_some() {
            return positive(&typed.duration, "duration", sink);
        }
        // Otherwise it may only be missing because its value was reported as invalid.
        if self.duration.is_none() && sink.is_clean() {
            let label = "add `duration: 90 s` to the experiment, or `count` here";
            report(sink, typed.place, "the number of messages is not defined", label);
        }
        self.duration
    }

    pub(super) fn tls(&self, tls: &At<Tls>, sink: &mut Sink) -> Option<MqttTls> {
        let files = match &tls.value {
            Tls::Generated => return Some(MqttTls::Generated),
            Tls::Files(files) => files,
        };
        let mut find = |path: &At<String>| -> Option<PathBuf> {
            let full = self.base.join(&path.value);
            if full.is_file() {
                return Some(std::path::absolute(&full).unwrap_or(full));
            }
            let text = format!("the file `{}` does not exist", path.value);
            let problem = Problem::new(text).at(path.place);
            let problem = problem.label("paths are relative to the experiment file");
            sink.add(problem.note(format!("Thingbed looked for {}", full.display())));
            None
        };
        let ca = files.ca.as_ref().and_then(&mut find);
        let (cert, key) = (files.cert.as_ref().map(&mut find), files.key.as_ref().map(&mut find));
        Some(MqttTls::Files { ca: ca?, cert: cert.flatten(), key: key.flatten() })
    }
}

/// Checks the lists of clients against the pattern.
fn check_pattern(
    typed: &file::Mqtt,
    publishers: &[String],
    subscribers: &[String],
    sink: &mut Sink,
) {
    let (Some(pattern), Some(at)) = (&typed.pattern, &typed.subscribers) else { return };
    match pattern.value {
        MqttPattern::ManyToOne => {
            if subscribers.len() != 1 {
                let text = format!("{} subscribers, but many-to-one has one", subscribers.len());
                report(sink, at.place, text, &format!("write for example `{}`", subscribers[0]));
            } else if publishers.contains(&subscribers[0]) {
                let text = format!("the subscriber `{}` is also a publisher", subscribers[0]);
                report(sink, at.place, text, "use another node");
            }
        }
        MqttPattern::OneToOne => {
            let own = publishers.len() == 1 && *publishers == *subscribers;
            if own {
                let label = "one-to-one needs two or more clients";
                report(sink, at.place, "only one client", label);
            }
        }
        MqttPattern::Pairs => {
            let (p, s) = (publishers.len(), subscribers.len());
            if p != s {
                let text =
                    format!("{p} publishers and {s} subscribers, but pairs need one of each");
                report(sink, at.place, text, "use as many of both");
            } else if let Some((own, _)) = publishers.iter().zip(subscribers).find(|(a, b)| a == b)
            {
                let text = format!("`{own}` would publish to itself");
                report(sink, at.place, text, "change the order");
            }
        }
    }
}

/// Time between two messages of all publishers.
fn mqtt_every(typed: &file::Mqtt, sink: &mut Sink) -> Option<Span> {
    match (&typed.rate, &typed.every) {
        (Some(rate), Some(_)) => {
            let text = "`rate` and `every` together";
            report(sink, rate.place, text, "remove one of them");
            None
        }
        (Some(rate), None) => Some(rate.value.period()),
        (None, Some(_)) => positive(&typed.every, "every", sink),
        (None, None) => {
            if sink.is_clean() {
                let text = "the message rate is not defined";
                report(sink, typed.place, text, "add `rate: 100/s` or `every: 10 ms`");
            }
            None
        }
    }
}

fn port(typed: &file::Mqtt, sink: &mut Sink) -> Option<u16> {
    // The ports that IANA has registered for MQTT.
    let default = if typed.tls.is_some() { 8883 } else { 1883 };
    port_or(&typed.port, default, sink)
}

/// The given port, or the default.
pub(super) fn port_or(port: &Option<At<u32>>, default: u16, sink: &mut Sink) -> Option<u16> {
    match port {
        Some(at) => limits::port(at, Some(default), sink),
        None => Some(default),
    }
}

fn keep_alive(typed: &file::Mqtt, sink: &mut Sink) -> Option<Span> {
    let Some(at) = &typed.keep_alive else { return Some(KEEP_ALIVE) };
    let ns = at.value.as_ns();
    // MQTT's interval is a number of whole seconds (MQTT 3.1.1, section 3.1.2.10).
    if !ns.is_multiple_of(1_000_000_000) || !KEEP_ALIVE_S.contains(&(ns / 1_000_000_000)) {
        let text = format!("`keep_alive` is {}", at.value);
        report(sink, at.place, text, "use whole seconds, 5 s to 65535 s");
        return None;
    }
    Some(at.value)
}

fn reconnect(typed: &file::Mqtt, sink: &mut Sink) -> Option<[Span; 2]> {
    let Some(typed) = &typed.reconnect else { return Some(RECONNECT) };
    let min = match &typed.min {
        Some(_) => positive(&typed.min, "min", sink)?,
        None => RECONNECT[0],
    };
    // A `min` above the default of `max` raises that default: only a given `max` can be wrong.
    let max = typed.max.as_ref().map_or(RECONNECT[1].max(min), |max| max.value);
    if let Some(at) = typed.max.as_ref().filter(|_| max < min) {
        report(
            sink,
            at.place,
            format!("`max` of {max} is below `min` of {min}"),
            "it must not be below `min`",
        );
        return None;
    }
    Some([min, max])
}
