//! Link profiles: impairments of a network technology, with the source and quality of each value.
//!
//! Each profile is a separate file; some are built in. An experiment names one and may override any
//! value: [`expand`] merges the profile's tree below the experiment's values before the file is
//! read.

mod expand;
mod known;
mod overlay;
mod value;

pub(crate) use expand::expand;
pub use value::{Quality, Value};

use crate::file::{Channel, Link};
use crate::nearest::advice;
use crate::problem::{Errors, Problem};
use crate::read::{Fields, Named, Read, Sink};
use crate::resolve;
use crate::scalar::Word;
use crate::source::{Place, Source};
use crate::tree::{self, Content, Key, Node};
use indexmap::IndexMap;
use link::{Impairment, Scheduler, Service, StatesSpec};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use units::Bytes;

/// Impairments of a technology's links, and the quality of each value.
#[derive(Debug, Clone, Serialize)]
pub struct LinkProfile {
    /// Name.
    pub name: String,
    /// Technology, in a few words.
    pub technology: String,
    /// Scope: what the profile covers and what it does not.
    pub about: String,
    /// Values of the links.
    pub values: Vec<Value>,
    /// Known values that the medium cannot model, and why.
    pub not_modelled: Vec<Value>,
    /// Sources, by the names that values refer to.
    pub sources: IndexMap<String, String>,
    /// Uplink: from a node into the network.
    #[serde(skip)]
    pub up: Impairment,
    /// Downlink: from the network to a node.
    #[serde(skip)]
    pub down: Impairment,
    /// States of a node's radio.
    #[serde(skip)]
    pub states: Option<StatesSpec>,
    /// Rate of a channel that all links share.
    #[serde(skip)]
    pub shared: Option<units::Rate>,
    /// The equivalent text in an experiment.
    #[serde(skip)]
    pub(crate) typed: Typed,
}

/// The parts of a profile as an experiment would write them.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    /// `up`, `down` and `states`.
    pub link: Node,
    pub channel: Option<Node>,
    pub mtu: Option<Node>,
}

/// Maximum size of a profile file, B.
const MAX_FILE_BYTES: u64 = 1 << 20;

impl LinkProfile {
    /// Names of the built-in profiles.
    pub fn known() -> impl Iterator<Item = &'static str> + Clone {
        known::KNOWN.iter().map(|(name, _)| *name)
    }

    /// Whether `name` is a path instead of a known name.
    pub fn is_path(name: &str) -> bool {
        name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml")
    }

    /// Returns the built-in profile `name`, or reads the file at this path, relative to `base`.
    pub fn find(name: &str, base: &Path) -> Result<Self, Errors> {
        if Self::is_path(name) {
            return Self::read(&base.join(name));
        }
        match known::KNOWN.iter().find(|(known, _)| *known == name) {
            Some((name, text)) => Self::parse(text, Path::new(&format!("profiles/{name}.yaml"))),
            None => {
                let known: Vec<&str> = Self::known().collect();
                let problem = Problem::new(format!("unknown profile `{name}`"));
                Err(Errors::bare(problem.label(advice(name, &known))))
            }
        }
    }

    fn read(path: &Path) -> Result<Self, Errors> {
        let cannot = |why: String| {
            let text = format!("could not read the profile {}: {why}", path.display());
            let problem = Problem::new(text);
            Errors::bare(problem.label("check the path; it is relative to the experiment file"))
        };
        let text = input::read_to_string(path, MAX_FILE_BYTES)
            .map_err(|error| cannot(error.to_string()))?;
        Self::parse(&text, path)
    }

    /// Reads and checks `text`; errors call it `file`.
    pub fn parse(text: &str, file: &Path) -> Result<Self, Errors> {
        // Some editors write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
        let source = Arc::new(Source { file: file.to_owned(), text });
        let fail = |problems| Errors::new(source.clone(), problems);
        let (tree, problems) = tree::parse(&source.text).map_err(|problem| fail(vec![problem]))?;
        let mut sink = Sink { problems, ..Sink::default() };
        let base = file.parent().unwrap_or(Path::new(""));
        match of(&tree, base, &mut sink) {
            Some(profile) if sink.is_clean() => Ok(profile),
            _ if sink.is_clean() => {
                Err(fail(vec![Problem::new("this is not a profile").at(tree.place)]))
            }
            _ => Err(fail(sink.problems)),
        }
    }

    /// Summary of its quality: the number of values of each quality.
    pub fn quality(&self) -> String {
        if self.values.is_empty() {
            return "no values".to_owned();
        }
        let count = |quality| self.values.iter().filter(|value| value.quality == quality).count();
        let counts = Quality::WORDS.iter().map(|(word, quality)| (count(*quality), word));
        let counts = counts.filter(|(count, _)| *count > 0);
        counts.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }

    /// Rates up and down, bit/s: of the channel, the link, its grants, or the time per byte in a
    /// slow service.
    pub fn rates(&self) -> [Option<f64>; 2] {
        let slow = self.states.as_ref().and_then(|states| match states.states[..] {
            [ref only] => only.service,
            _ => None,
        });
        let slow = match slow {
            Some(Service::Slow { up, down }) => [Some(up), Some(down)],
            _ => [None, None],
        };
        let of = |impairment: &Impairment, slow: Option<link::Slow>| {
            let radio = match &impairment.transmission.scheduler {
                Some(Scheduler::Grant(grant)) => Some(grant.bit_s()),
                Some(Scheduler::Lora(lora)) => Some(lora.bit_s()),
                _ => None,
            };
            if radio.is_some() {
                return radio;
            }
            let own = impairment.rate().or(self.shared).map(|rate| rate.bit_s() as f64);
            // Bits per byte, and nanoseconds per second.
            own.or(slow.map(|slow| 8e9 / slow.byte.as_ns().max(1) as f64))
        };
        [of(&self.up, slow[0]), of(&self.down, slow[1])]
    }
}

/// Reads the profile in `tree`; problems go to the sink.
fn of(tree: &Node, base: &Path, sink: &mut Sink) -> Option<LinkProfile> {
    let mut fields = Fields::of(tree, "a profile", sink)?;
    let name: Option<String> = fields.required("profile");
    let technology = fields.required("technology");
    let about: Option<String> = fields.optional("about");
    let sources: Named<String> = fields.required("sources").unwrap_or_default();
    let parts = ["up", "down", "states"];
    let parts = parts.map(|key| fields.optional::<Node>(key).map(|node| (key, node)));
    let (channel, mtu) = (fields.optional::<Node>("channel"), fields.optional::<Node>("mtu"));
    let unmodelled: Named<Node> = fields.optional("not_modelled").unwrap_or_default();
    fields.finish();
    let (name, mut values) = (name?, Vec::new());
    let mut strip = |key: &str, node: &Node| value::strip(node, key, &sources, &mut values, sink);
    let channel = channel.map(|node| strip("channel", &node));
    let mtu = mtu.map(|node| strip("mtu", &node));
    let link = parts
        .into_iter()
        .flatten()
        .map(|(key, node)| (Key { text: key.to_owned(), place: node.place }, strip(key, &node)));
    let link = Node { place: tree.place, content: Content::Map(link.collect()) };
    let link = with_absolute_files(&link, base);
    let unmodelled = unmodelled.iter().map(|(key, _, node)| (key.to_owned(), node.clone()));
    let unmodelled: Vec<_> = unmodelled.collect();
    let unmodelled =
        unmodelled.iter().filter_map(|(key, node)| value::value(node, key, true, &sources, sink));
    let not_modelled = unmodelled.collect();
    let typed = Typed { link, channel, mtu };
    // Checked here, so that an error is one of the profile and not of each experiment with it.
    let read = typed.read(base, sink)?;
    let way = |way: Option<link::Impairment>| way.unwrap_or_default();
    Some(LinkProfile {
        name,
        technology: technology?,
        about: about.unwrap_or_default().trim().to_owned(),
        values,
        not_modelled,
        sources: sources.iter().map(|(name, _, text)| (name.to_owned(), text.clone())).collect(),
        up: way(read.up),
        down: way(read.down),
        states: read.states,
        shared: read.shared,
        typed,
    })
}

/// A profile in the medium's types.
struct Converted {
    up: Option<Impairment>,
    down: Option<Impairment>,
    states: Option<StatesSpec>,
    shared: Option<units::Rate>,
}

impl Typed {
    /// Reads and checks the profile as if an experiment contained it.
    fn read(&self, base: &Path, sink: &mut Sink) -> Option<Converted> {
        let link = Link::read(&self.link, sink)?;
        let channel = self.channel.as_ref().and_then(|node| Channel::read(node, sink));
        let channel = channel.as_ref();
        if let Some(mtu) = &self.mtu {
            Bytes::read(mtu, sink);
        }
        let mut way = |impairment: &Option<crate::file::Impairment>, up| {
            impairment
                .as_ref()
                .map(|impairment| resolve::direction(impairment, channel, up, base, sink))
        };
        let (up, down) = (way(&link.up, true), way(&link.down, false));
        let shared = match channel {
            Some(Channel::Shared(rate)) => Some(*rate),
            Some(Channel::Csma(csma)) => Some(csma.rate),
            Some(Channel::Wifi(wifi)) => Some(wifi.rate),
            _ => None,
        };
        let states = link.states.map(|at| at.value.0);
        Some(Converted { up, down, states, shared })
    }
}

/// `node` with all its parts at the position `place`.
fn at_place(node: &Node, place: Place) -> Node {
    let content = match &node.content {
        Content::Map(entries) => Content::Map(
            entries
                .iter()
                .map(|(key, value)| (Key { text: key.text.clone(), place }, at_place(value, place)))
                .collect(),
        ),
        Content::List(items) => {
            Content::List(items.iter().map(|item| at_place(item, place)).collect())
        }
        other => other.clone(),
    };
    Node { place, content }
}

/// `node` with absolute file names: they are relative to the profile, not to the experiment that
/// uses it.
fn with_absolute_files(node: &Node, base: &Path) -> Node {
    let content = match &node.content {
        Content::Map(entries) => Content::Map(
            entries
                .iter()
                .map(|(key, value)| match (key.text.as_str(), &value.content) {
                    (
                        "trace" | "table" | "light" | "heavy" | "size_delays",
                        Content::Scalar(file),
                    ) => {
                        let file = base.join(file);
                        let file = std::path::absolute(&file).unwrap_or(file);
                        let content = Content::Scalar(file.to_string_lossy().into_owned());
                        (key.clone(), Node { place: value.place, content })
                    }
                    _ => (key.clone(), with_absolute_files(value, base)),
                })
                .collect(),
        ),
        other => other.clone(),
    };
    Node { place: node.place, content }
}
