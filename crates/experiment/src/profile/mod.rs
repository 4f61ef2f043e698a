//! Profiles of links: what a technology does to frames, with the source and the
//! quality of each value.
//!
//! A file of its own for each, some built in. An experiment names one, and may
//! say otherwise of any value: [`expand`] puts the profile's tree below what the
//! experiment says, before anything is read from it.

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
use medium::{Impairment, Service, StatesSpec};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use units::Bytes;

/// What a technology's links do to frames, and how well that is known.
#[derive(Debug, Clone, Serialize)]
pub struct LinkProfile {
    /// Its name.
    pub name: String,
    /// Which technology, in a few words.
    pub technology: String,
    /// What it is, and what it is not.
    pub about: String,
    /// The values that links get.
    pub values: Vec<Value>,
    /// What is known and the medium cannot have, and why.
    pub not_modelled: Vec<Value>,
    /// Where values are from, by the names that they give.
    pub sources: IndexMap<String, String>,
    /// From a node into the network.
    #[serde(skip)]
    pub up: Impairment,
    /// From the network to a node.
    #[serde(skip)]
    pub down: Impairment,
    /// The states of a node's radio.
    #[serde(skip)]
    pub states: Option<StatesSpec>,
    /// The rate of a channel that all links share.
    #[serde(skip)]
    pub shared: Option<units::Rate>,
    /// What an experiment would have typed.
    #[serde(skip)]
    pub(crate) typed: Typed,
}

/// A profile's parts as an experiment would have them.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    /// `up`, `down` and `states`.
    pub link: Node,
    pub channel: Option<Node>,
    pub mtu: Option<Node>,
}

/// A larger file is no profile.
const LARGEST: u64 = 1 << 20;

impl LinkProfile {
    /// The names of those that come with the tool.
    pub fn known() -> impl Iterator<Item = &'static str> + Clone {
        known::KNOWN.iter().map(|(name, _)| *name)
    }

    /// Whether `name` is a path and not one of the known names.
    pub fn is_path(name: &str) -> bool {
        name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml")
    }

    /// The one of this name that comes with the tool; or the file of this path,
    /// relative to `base`.
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
        match std::fs::metadata(path) {
            Ok(found) if found.len() > LARGEST => {
                return Err(cannot("it is over 1 MiB".to_owned()));
            }
            _ => {}
        }
        let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
        Self::parse(&text, path)
    }

    /// Reads and checks `text`; errors call it `file`.
    pub fn parse(text: &str, file: &Path) -> Result<Self, Errors> {
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

    /// How good its values are: how many there are of each quality.
    pub fn quality(&self) -> String {
        let count = |quality| self.values.iter().filter(|value| value.quality == quality).count();
        let counts = Quality::WORDS.iter().map(|(word, quality)| (count(*quality), word));
        let counts = counts.filter(|(count, _)| *count > 0);
        counts.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }

    /// The rates up and down in bit/s: of the channel, the link, its blocks, or
    /// what a byte takes in slow service.
    pub fn rates(&self) -> [Option<f64>; 2] {
        let slow = self.states.as_ref().and_then(|states| match states.states[..] {
            [ref only] => only.service,
            _ => None,
        });
        let slow = match slow {
            Some(Service::Slow { up, down }) => [Some(up), Some(down)],
            _ => [None, None],
        };
        let of = |asked: &Impairment, slow: Option<medium::Slow>| {
            if let Some(grant) = &asked.grant {
                return Some(grant.bit_s());
            }
            let own = asked.rate.or(self.shared).map(|rate| rate.bit_s() as f64);
            own.or(slow.map(|slow| 8e9 / slow.byte.as_ns().max(1) as f64))
        };
        [of(&self.up, slow[0]), of(&self.down, slow[1])]
    }
}

/// The profile in `tree`; what is wrong is in the sink.
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
    let link = rooted(&link, base);
    let unmodelled = unmodelled.iter().map(|(key, _, node)| (key.to_owned(), node.clone()));
    let unmodelled: Vec<_> = unmodelled.collect();
    let unmodelled =
        unmodelled.iter().filter_map(|(key, node)| value::value(node, key, true, &sources, sink));
    let not_modelled = unmodelled.collect();
    let typed = Typed { link, channel, mtu };
    let read = typed.read(base, sink)?;
    let way = |way: Option<medium::Impairment>| way.unwrap_or_default();
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

/// What a profile comes to in the medium's terms.
struct InMedium {
    up: Option<Impairment>,
    down: Option<Impairment>,
    states: Option<StatesSpec>,
    shared: Option<units::Rate>,
}

impl Typed {
    /// Reads and checks it as if an experiment had typed it.
    fn read(&self, base: &Path, sink: &mut Sink) -> Option<InMedium> {
        let link = Link::read(&self.link, sink)?;
        let channel = self.channel.as_ref().and_then(|node| Channel::read(node, sink));
        let channel = channel.as_ref();
        if let Some(mtu) = &self.mtu {
            Bytes::read(mtu, sink);
        }
        let mut way = |asked: &Option<crate::file::Impairment>, up| {
            asked.as_ref().map(|asked| resolve::way(asked, channel, up, base, sink))
        };
        let (up, down) = (way(&link.up, true), way(&link.down, false));
        let shared = match channel {
            Some(Channel::Shared(rate)) => Some(*rate),
            Some(Channel::Csma(csma)) => Some(csma.rate),
            _ => None,
        };
        let states = link.states.map(|at| at.value.0);
        Some(InMedium { up, down, states, shared })
    }
}

/// `node` with all its parts standing at `place`.
fn moved(node: &Node, place: Place) -> Node {
    let content = match &node.content {
        Content::Map(entries) => Content::Map(
            entries
                .iter()
                .map(|(key, value)| (Key { text: key.text.clone(), place }, moved(value, place)))
                .collect(),
        ),
        Content::List(items) => {
            Content::List(items.iter().map(|item| moved(item, place)).collect())
        }
        other => other.clone(),
    };
    Node { place, content }
}

/// `node` with the files that it names by their whole paths: they are relative to
/// the profile, and not to the experiment that it comes into.
fn rooted(node: &Node, base: &Path) -> Node {
    let content = match &node.content {
        Content::Map(entries) => Content::Map(
            entries
                .iter()
                .map(|(key, value)| match (key.text.as_str(), &value.content) {
                    ("trace" | "table", Content::Scalar(file)) => {
                        let file = base.join(file);
                        let file = std::path::absolute(&file).unwrap_or(file);
                        let content = Content::Scalar(file.to_string_lossy().into_owned());
                        (key.clone(), Node { place: value.place, content })
                    }
                    _ => (key.clone(), rooted(value, base)),
                })
                .collect(),
        ),
        other => other.clone(),
    };
    Node { place: node.place, content }
}
