//! File format: impairments of a link in one direction, read by the keys of their stages.

use crate::problem::Problem;
use crate::read::{Fields, Read, Sink};
use crate::scalar::{one_of, raw};
use crate::source::Place;
use crate::tree::{Content, Node};
use link::{ChannelWait, Contradictions, Key, Keys, Kind, Limit, Model, SignedBytes};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use units::{Bytes, Rate, Ratio, Span};

/// Impairments of a link in one direction: keys with valid values, and their positions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Impairment {
    pub keys: Keys,
    /// Keys without a value: a change resets them to their defaults.
    resets: Vec<&'static str>,
    /// By key, and for the keys in it, such as `markov.p14` and `outage.0.every`.
    places: BTreeMap<String, Place>,
}

impl Read for Impairment {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut places = BTreeMap::new();
        let fields = Fields::of(node, "an impairment", sink)?;
        let keys = read_keys(link::Impairment::all_keys(), fields, "", &mut places);
        let names = link::Impairment::all_keys().map(|key| key.name);
        let is_empty =
            |name: &&str| node.get(name).is_some_and(|value| value.content == Content::Nothing);
        Some(Self { keys, resets: names.filter(is_empty).collect(), places })
    }
}

impl Impairment {
    /// Returns these keys, with those of `base` where they are missing.
    pub fn over(&self, base: &Self) -> Self {
        let mut all = base.clone();
        for key in self.keys.0.keys() {
            all.remove(key);
        }
        all.keys.0.extend(self.keys.0.clone());
        all.places.extend(self.places.clone());
        all
    }

    /// The impairments of a link after these keys change `before`.
    pub fn after(&self, before: &Self) -> Self {
        let mut before = before.clone();
        for key in self.removed() {
            before.remove(key);
        }
        self.over(&before)
    }

    /// The keys that a change by these keys removes: those without a value, and other models.
    pub fn removed(&self) -> Vec<&'static str> {
        [&*self.resets, &*link::Impairment::replaced(&self.keys)].concat()
    }

    fn remove(&mut self, key: &str) {
        self.keys.0.remove(key);
        self.places.retain(|path, _| path.split('.').next() != Some(key));
    }

    /// Reports contradictions in a direction whose frames wait so.
    pub fn check(&self, wait: ChannelWait, sink: &mut Sink) {
        self.report(link::Impairment::check(&self.keys, wait), sink);
    }

    /// Reports keys that do not suit packets of `mtu` with their Ethernet header.
    pub fn check_mtu(&self, mtu: Bytes, sink: &mut Sink) {
        self.report(link::Impairment::check_longest(&self.keys, mtu.get() + 14), sink);
    }

    /// The settings; problems with the files that they name are reported. File names are relative
    /// to `base`.
    pub fn resolve(&self, base: &Path, sink: &mut Sink) -> link::Impairment {
        // A key that is missing in a map was reported before.
        let mut settings = link::Impairment::read(&self.keys).unwrap_or_default();
        self.report(settings.load(base), sink);
        settings
    }

    fn report(&self, found: Contradictions, sink: &mut Sink) {
        for found in found.0 {
            let problem = Problem::new(found.text).at(self.place(&found.at)).label(found.fix);
            sink.add(problem);
        }
    }

    /// Whether a key such as `distribution.table` is given.
    pub fn has(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }

    /// Position of a key such as `markov.p14`; of the later one for `codel|red`.
    pub fn place(&self, path: &str) -> Place {
        let place = |path: &str| self.places.get(path).copied();
        path.split('|').filter_map(place).max().unwrap_or_default()
    }
}

/// Reads the keys of one map; the position of each goes to `places`, below `path`.
fn read_keys<'k>(
    known: impl IntoIterator<Item = &'k Key>,
    mut fields: Fields<'_, '_>,
    path: &str,
    places: &mut BTreeMap<String, Place>,
) -> Keys {
    let mut keys = Keys::default();
    for key in known {
        let Some(node) = fields.value(key.name, key.is_required) else { continue };
        let path = format!("{path}{}", key.name);
        if let Some(value) = read_value(&key.kind, node, &path, places, fields.sink) {
            keys.0.insert(key.name.to_owned(), value);
            places.insert(path, node.place);
        }
    }
    fields.finish();
    keys
}

fn read_value(
    kind: &Kind,
    node: &Node,
    path: &str,
    places: &mut BTreeMap<String, Place>,
    sink: &mut Sink,
) -> Option<Value> {
    match kind {
        Kind::Flag => bool::read(node, sink).map(Value::from),
        Kind::Count { .. } => u32::read(node, sink).map(Value::from),
        Kind::Share => raw::<Ratio>(node, sink),
        Kind::Time => raw::<Span>(node, sink),
        Kind::Size => raw::<Bytes>(node, sink),
        Kind::SignedSize => raw::<SignedBytes>(node, sink),
        Kind::Rate => raw::<Rate>(node, sink),
        Kind::Limit => Limit::read(node, sink).and_then(|limit| serde_json::to_value(limit).ok()),
        Kind::File => raw::<String>(node, sink),
        Kind::Word(what, words) => one_of(node, what, words, sink).map(Value::from),
        Kind::WordOr(_, model) if matches!(node.content, Content::Map(_)) => {
            read_model(model, node, path, places, sink)
        }
        Kind::WordOr(words, model) => {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            one_of(node, model.what, &words, sink).map(Value::from)
        }
        Kind::Map(model) => read_model(model, node, path, places, sink),
        Kind::OneOrMore(model) => {
            let nodes = match &node.content {
                Content::List(nodes) => nodes.as_slice(),
                _ => std::slice::from_ref(node),
            };
            let mut values = Vec::new();
            for node in nodes {
                let path = format!("{path}.{}", values.len());
                values.extend(read_model(model, node, &path, places, sink));
                places.insert(path, node.place);
            }
            Some(Value::Array(values))
        }
    }
}

fn read_model(
    model: &Model,
    node: &Node,
    path: &str,
    places: &mut BTreeMap<String, Place>,
    sink: &mut Sink,
) -> Option<Value> {
    let fields = Fields::of(node, model.what, sink)?;
    Some(Value::Object(read_keys(model.keys, fields, &format!("{path}."), places).0))
}
