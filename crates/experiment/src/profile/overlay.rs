//! Merges an experiment's values over a profile's.

use crate::problem::Problem;
use crate::read::Sink;
use crate::tree::{Content, Key, Node};
use link::{Keys, SCHEDULERS};

/// Keys of a grant, and the profile's keys that each replaces: it has one kind of request.
const REPLACES: [(&str, &[&str]); 3] = [
    ("cycle", &["request_period", "delay"]),
    ("request_period", &["cycle"]),
    ("delay", &["cycle"]),
];

/// `over`, with the values of `base`, the profile `name`, where keys are missing.
pub(super) fn overlay(base: &Node, over: &Node, name: &str, sink: &mut Sink) -> Node {
    let (Content::Map(below), Content::Map(above)) = (&base.content, &over.content) else {
        return if over.content == Content::Nothing { base.clone() } else { over.clone() };
    };
    let mut entries: Vec<(Key, Node)> = Vec::new();
    for (key, value) in below.iter().filter(|(key, _)| !replaced(&key.text, over)) {
        let value = match over.get(&key.text) {
            Some(own) => overlay(value, own, name, sink),
            None => value.clone(),
        };
        let place = above.iter().find(|(own, _)| own.text == key.text);
        entries.push((place.map_or(key, |(own, _)| own).clone(), value));
    }
    for (key, value) in above.iter().filter(|(key, _)| base.get(&key.text).is_none()) {
        // It could mean the end of the grant, or a mistake; the figures differ by half (decision
        // 26).
        if let Some(other) = conflict(&key.text, base) {
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
    let own =
        |(typed, dropped): &(&str, &[&str])| dropped.contains(&key) && over.get(typed).is_some();
    let Content::Map(entries) = &over.content else { return false };
    let named = entries.iter().map(|(key, _)| (key.text.clone(), true.into())).collect();
    let is_replaced = link::Impairment::replaced(&Keys(named)).contains(&key);
    over.get(key).is_none() && (is_replaced || REPLACES.iter().any(own))
}

/// A key of `base` that contradicts `key`.
fn conflict(key: &str, base: &Node) -> Option<&'static str> {
    if !SCHEDULERS.contains(&key) {
        return None;
    }
    SCHEDULERS.into_iter().find(|other| *other != key && base.get(other).is_some())
}
