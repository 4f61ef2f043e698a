//! Models of the medium that deserialise themselves.

use crate::problem::Problem;
use crate::read::{Read, Sink};
use crate::source::Place;
use crate::tree::{Content, Node};
use link::{CsmaSpec, StatesSpec};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A model that knows its keys and checks their values.
pub(crate) trait Model: DeserializeOwned + Clone {
    /// Name of the model, for errors.
    const WHAT: &'static str;
    /// Name of the model in the schema.
    const NAME: &'static str;
    /// Its meaning.
    const DOC: &'static str;
    /// Keys that must be given.
    const REQUIRED: &'static [&'static str] = &[];
    /// Keys of the model and their meanings.
    const KEYS: &'static [(&'static str, &'static str)];
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
        let keys: Vec<&str> = T::KEYS.iter().map(|(key, _)| *key).collect();
        let label = format!("keys of {}: {}", T::WHAT, keys.join(", "));
        let model: T = match serde_json::from_value(value(node)) {
            Ok(model) => model,
            Err(error) => {
                let text = error.to_string();
                let named = text.split('`').nth(1).and_then(|word| find(node, word));
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

fn value(node: &Node) -> Value {
    match &node.content {
        Content::Nothing | Content::Broken => Value::Object(serde_json::Map::new()),
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
    const NAME: &'static str = "LinkStates";
    const DOC: &'static str = "States of a device's radio.";
    const REQUIRED: &'static [&'static str] = &["states"];
    const KEYS: &'static [(&'static str, &'static str)] = &[
        (
            "states",
            "Radio states, from the lowest power to the highest capacity; at least one. Values: list \
             of maps.",
        ),
        ("initial", "State at the start. Values: name of a state. Default: the first."),
        (
            "half_duplex",
            "The device does not receive while it sends, nor `guard` before and after that. \
             Values: `{guard: TIME}`.",
        ),
    ];
    fn check(&self) -> Result<(), String> {
        self.check()
    }
}

impl Model for CsmaSpec {
    const WHAT: &'static str = "a channel under CSMA-CA";
    const NAME: &'static str = "Csma";
    const DOC: &'static str =
        "Unslotted CSMA-CA of IEEE 802.15.4. The defaults are the standard's values at 2.4 GHz.";
    const KEYS: &'static [(&'static str, &'static str)] = &[
        (
            "rate",
            "Data rate on air, also of headers and acknowledgements. Values: rate. Default: 250 \
             kbit/s.",
        ),
        (
            "phy_header",
            "Bytes before each frame and acknowledgement: preamble (4 B), start of frame (1 B), \
             length (1 B). Values: size. Default: 6 B.",
        ),
        (
            "unit_backoff",
            "Backoff unit: aUnitBackoffPeriod, 20 symbols. Values: time. Default: 320 us.",
        ),
        (
            "min_be",
            "Initial backoff exponent: the first backoff is 0 to 2^`min_be` - 1 units. Values: \
             whole number, 0 to `max_be`. Default: 3.",
        ),
        (
            "max_be",
            "Maximum backoff exponent; each busy clear channel assessment (CCA) adds one. \
             Values: whole number, 3 to 8. Default: 5.",
        ),
        (
            "max_backoffs",
            "Maximum number of consecutive busy CCAs; after one more, the frame is given up. \
             Values: whole number, 0 to 5. Default: 4.",
        ),
        (
            "cca",
            "Duration of a CCA: 8 symbols. Any transmission during this time makes the channel \
             busy. Values: time. Default: 128 us.",
        ),
        (
            "turnaround",
            "Time to switch between reception and transmission: aTurnaroundTime, 12 symbols. \
             Also the time from the end of a frame to its acknowledgement. Values: time. \
             Default: 192 us.",
        ),
        (
            "acknowledge",
            "Whether unicast frames are acknowledged, and retransmitted without \
             acknowledgement. Values: true or false. Default: true.",
        ),
        ("ack", "Length of an acknowledgement, without `phy_header`. Values: size. Default: 5 B."),
        (
            "ack_wait",
            "Acknowledgement timeout after the end of a frame: macAckWaitDuration, 54 symbols. \
             Values: time. Default: 864 us.",
        ),
        (
            "retries",
            "Maximum number of retransmissions of an unacknowledged frame. Values: whole \
             number, 0 to 7. Default: 3.",
        ),
        (
            "lifs",
            "Interframe space after a frame of more than 18 B and its acknowledgement: 40 \
             symbols. Values: time. Default: 640 us.",
        ),
        (
            "sifs",
            "Interframe space after a shorter frame: 12 symbols. Values: time. Default: 192 us.",
        ),
        (
            "carries",
            "What the channel carries: Ethernet frames, or those of simulated radios, which \
             acknowledge and retransmit themselves, so that `acknowledge` and `retries` have no \
             effect. Values: `ethernet`, `openthread` or `zep`. Default: `ethernet`.",
        ),
    ];
    fn check(&self) -> Result<(), String> {
        self.check()
    }
}
