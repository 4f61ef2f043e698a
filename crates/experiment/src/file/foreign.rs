//! Models of the medium that deserialise themselves.

use crate::file::radio::StatesKeys;
use crate::file::radio_channel::{AlohaKeys, CsmaKeys, WifiKeys};
use crate::problem::Problem;
use crate::read::{Read, Sink};
use crate::source::Place;
use crate::tree::{Content, Node};
use link::{AlohaSpec, CsmaSpec, StatesSpec, WifiSpec};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A model that knows its keys and checks their values.
pub(crate) trait Model: DeserializeOwned + Clone {
    /// Name of the model, for errors.
    const WHAT: &'static str;
    /// Its keys with types and meanings, for the schema.
    type Keys: JsonSchema;
    /// Names of the keys, for errors.
    const KEYS: &'static [&'static str] = &[];
    /// Reads each value as that of any other key, only for the errors.
    fn check_keys(_node: &Node, _sink: &mut Sink) {}
    /// Checks the values. The error says what is wrong and, after `; `, the fix.
    fn check(&self) -> Result<(), String>;
}

/// A model deserialised by the medium's own code. Errors point at the position in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Foreign<T>(pub T);

impl<T: Model> Read for Foreign<T> {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let map = matches!(node.content, Content::Map(_) | Content::Nothing);
        if !map {
            sink.expected(&format!("{}, a map of keys and values", T::WHAT), node);
            return None;
        }
        let known = sink.problems.len();
        T::check_keys(node, sink);
        if sink.problems.len() > known {
            return None;
        }
        let label = match T::KEYS {
            [] => String::new(),
            keys => format!("keys of {}: {}", T::WHAT, keys.join(", ")),
        };
        let model: T = match serde_json::from_value(value(node)) {
            Ok(model) => model,
            Err(error) => {
                let text = error.to_string();
                // serde's messages have the wrong word in backquotes, and a list of what it
                // expected at the end.
                let named = text.split('`').nth(1).and_then(|word| find(node, word));
                let label = keys_of_part::<T>(&text).unwrap_or(label);
                let text = text.split(", expected").next().unwrap_or_default().to_owned();
                sink.add(Problem::new(text).at(named.unwrap_or(node.place)).label(label));
                return None;
            }
        };
        if let Err(text) = model.check() {
            let (wrong, fix) = text.split_once("; ").unwrap_or((&text, ""));
            sink.add(Problem::new(wrong).at(node.place).label(fix));
            return None;
        }
        Some(Self(model))
    }
}

/// Names the keys of the part of a model with an unknown key, if serde's message has others than
/// those of the model.
fn keys_of_part<T: Model>(message: &str) -> Option<String> {
    let (_, expected) = message.split_once(", expected ")?;
    let keys: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let is_key = message.starts_with("unknown field");
    (is_key && keys != T::KEYS).then(|| format!("keys here: {}", keys.join(", ")))
}

fn value(node: &Node) -> Value {
    match &node.content {
        Content::Nothing | Content::Broken => Value::Object(serde_json::Map::new()),
        // Scalars of the tree are texts; serde needs JSON's types.
        Content::Scalar(text) => match (text.parse::<u64>(), text.as_str()) {
            (Ok(number), _) => number.into(),
            (_, "true") => true.into(),
            (_, "false") => false.into(),
            (_, text) => text.into(),
        },
        Content::List(items) => items.iter().map(value).collect(),
        Content::Map(entries) => {
            Value::Object(entries.iter().map(|(k, v)| (k.text.clone(), value(v))).collect())
        }
    }
}

/// Finds `word` below `node`, as a key or a value.
fn find(node: &Node, word: &str) -> Option<Place> {
    match &node.content {
        Content::Scalar(text) => (text == word).then_some(node.place),
        Content::List(items) => items.iter().find_map(|item| find(item, word)),
        Content::Map(entries) => entries.iter().find_map(|(key, value)| match key.text == word {
            true => Some(key.place),
            false => find(value, word),
        }),
        Content::Nothing | Content::Broken => None,
    }
}

impl Model for StatesSpec {
    const WHAT: &'static str = "a radio's states";
    type Keys = StatesKeys;
    const KEYS: &'static [&'static str] = &["states", "initial", "half_duplex"];
    fn check(&self) -> Result<(), String> {
        self.check()
    }
}

impl Model for CsmaSpec {
    const WHAT: &'static str = "a channel under CSMA-CA";
    type Keys = CsmaKeys;
    fn check_keys(node: &Node, sink: &mut Sink) {
        CsmaKeys::read(node, sink);
    }
    fn check(&self) -> Result<(), String> {
        self.check()
    }
}

impl Model for AlohaSpec {
    const WHAT: &'static str = "an ALOHA channel";
    type Keys = AlohaKeys;
    fn check_keys(node: &Node, sink: &mut Sink) {
        AlohaKeys::read(node, sink);
    }
    fn check(&self) -> Result<(), String> {
        self.check()
    }
}

impl Model for WifiSpec {
    const WHAT: &'static str = "a Wi-Fi channel";
    type Keys = WifiKeys;
    fn check_keys(node: &Node, sink: &mut Sink) {
        WifiKeys::read(node, sink);
    }
    fn check(&self) -> Result<(), String> {
        self.check()
    }
}
