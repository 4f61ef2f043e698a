//! Merges an experiment's values over a profile's.

use crate::problem::Problem;
use crate::read::Sink;
use crate::tree::{Content, Key, Node};

/// Keys of the experiment, and the profile's keys that each replaces: a link has one loss model, a
/// grant one kind of request.
const INSTEAD: [(&str, &[&str]); 6] = [
    ("loss", &["gilbert_elliott", "markov"]),
    ("gilbert_elliott", &["loss", "markov"]),
    ("markov", &["loss", "gilbert_elliott"]),
    ("cycle", &["request_period", "delay"]),
    ("request_period", &["cycle"]),
    ("delay", &["cycle"]),
];
/// Keys that determine how a link sends: a link has one of them.
const SENDING: [&str; 3] = ["rate", "trace", "grant"];

/// `over`, with the values of `base`, the profile `name`, where keys are missing.
pub(super) fn overlay(base: &Node, over: &Node, name: &str, sink: &mut Sink) -> Node {
    let (Content::Map(below), Content::Map(above)) = (&base.content, &over.content) else {
        return if over.content == Content::Nothing { base.clone() } else { over.clone() };
    };
    let mut entries: Vec<(Key, Node)> = Vec::new();
    for (key, value) in below.iter().filter(|(key, _)| !replaced(&key.text, over)) {
        let value = match over.get(&key.text) {
            Some(said) => overlay(value, said, name, sink),
            None => value.clone(),
        };
        let place = above.iter().find(|(said, _)| said.text == key.text);
        entries.push((place.map_or(key, |(said, _)| said).clone(), value));
    }
    for (key, value) in above.iter().filter(|(key, _)| base.get(&key.text).is_none()) {
        if let Some(other) = contradicted(&key.text, base) {
            let text =
                format!("`{}` together with the `{other}` of the profile `{name}`", key.text);
            let label = format!("change its `{other}`, or do not use the profile");
            sink.add(Problem::new(text).at(key.place).label(label));
            continue;
        }
        entries.push((key.clone(), value.clone()));
    }
    Node { place: over.place, content: Content::Map(entries) }
}

/// Whether a key in `over` replaces the profile's `key`.
fn replaced(key: &str, over: &Node) -> bool {
    let said =
        |(typed, dropped): &(&str, &[&str])| dropped.contains(&key) && over.get(typed).is_some();
    over.get(key).is_none() && INSTEAD.iter().any(said)
}

/// A key of `base` that contradicts `key`.
fn contradicted(key: &str, base: &Node) -> Option<&'static str> {
    if !SENDING.contains(&key) {
        return None;
    }
    SENDING.into_iter().find(|other| *other != key && base.get(other).is_some())
}
