//! Merges link profiles into an experiment's tree; the experiment's own values override theirs.

use super::overlay::overlay;
use super::{LinkProfile, at_place};
use crate::defaults::has_link;
use crate::nearest::advice;
use crate::problem::Problem;
use crate::read::Sink;
use crate::tree::{Content, Key, Node};
use std::path::Path;

/// The word for no profile.
const NONE: &str = "none";

/// Returns the experiment `root` with the values of link profiles. Names in its own `profiles` are
/// left to the reader and take precedence.
pub(crate) fn expand(root: &Node, base: &Path, sink: &mut Sink) -> Node {
    let own = root.get("profiles").map(keys).unwrap_or_default();
    let mut expansion = Expansion { own, groups: root.get("nodes"), base, sink };
    with(root, |key, node| match key {
        "networks" => with(node, |_, network| expansion.network(network)),
        "profiles" => with(node, |_, profile| expansion.links(profile)),
        _ => node.clone(),
    })
}

struct Expansion<'e> {
    /// Names of the experiment's own profiles.
    own: Vec<String>,
    groups: Option<&'e Node>,
    base: &'e Path,
    sink: &'e mut Sink,
}

impl Expansion<'_> {
    /// Expands a network: its profile applies to its channel and to all links without another
    /// profile.
    fn network(&mut self, network: &Node) -> Node {
        let named = network.get("profile").and_then(scalar);
        let Some((name, at)) =
            named.filter(|(name, _)| !self.own.iter().any(|own| own.as_str() == *name))
        else {
            return self.links(network);
        };
        // To the reader, `profile` of a network is one of the experiment's own, which excludes
        // `channel` and `links`.
        let without = keep(network, |key| key != "profile");
        let Some(profile) = self.find(name, at).filter(|_| name != NONE) else {
            return self.links(&without);
        };
        let nothing = Node { place: at.place, content: Content::Map(Vec::new()) };
        let given = without.get("links").unwrap_or(&nothing);
        let mut links = match &given.content {
            Content::Map(entries) => entries.clone(),
            // The reader reports the problem.
            _ => return without.clone(),
        };
        for group in network.get("attach").map(scalars).unwrap_or_default() {
            if !has_link(&links, &group, self.groups) {
                links.push((Key { text: group, place: at.place }, nothing.clone()));
            }
        }
        for (_, link) in &mut links {
            if link.get("profile").is_none() {
                *link = self.link(&profile, at, link);
            }
        }
        let links = Node { place: given.place, content: Content::Map(links) };
        let mut merged = with_key(&without, "links", links);
        let typed = [("channel", &profile.typed.channel), ("mtu", &profile.typed.mtu)];
        for (key, of_profile) in typed {
            let Some(of_profile) = of_profile else { continue };
            let of_profile = at_place(of_profile, at.place);
            let value = match merged.get(key) {
                Some(own_keys) => overlay(&of_profile, own_keys, name, self.sink),
                None => of_profile,
            };
            merged = with_key(&merged, key, value);
        }
        self.links(&merged)
    }

    /// Expands `links`, each with an optional profile.
    fn links(&mut self, of: &Node) -> Node {
        with(of, |key, node| match key {
            "links" => with(node, |_, link| self.named(link)),
            _ => node.clone(),
        })
    }

    fn named(&mut self, link: &Node) -> Node {
        let Some((name, at)) = link.get("profile").and_then(scalar) else { return link.clone() };
        if link.get(EXPANDED).is_some() {
            return keep(link, |key| key != EXPANDED);
        }
        let without = keep(link, |key| key != "profile");
        if name == NONE {
            return without;
        }
        let Some(profile) = self.find(name, at) else { return without };
        let parts = [("channel", &profile.typed.channel), ("mtu", &profile.typed.mtu)];
        if let Some((part, _)) = parts.iter().find(|(_, part)| part.is_some()) {
            let text = format!("the profile `{name}` is for whole networks: it has a `{part}`");
            let problem = Problem::new(text).at(at.place);
            self.sink.add(problem.label("use it on the network, next to `links`"));
            return without;
        }
        let merged = self.link(&profile, at, &without);
        keep(&merged, |key| key != EXPANDED)
    }

    /// Expands a link: the profile at `at`, overridden by `own_keys`.
    fn link(&mut self, profile: &LinkProfile, at: &Node, own_keys: &Node) -> Node {
        let below = at_place(&profile.typed.link, at.place);
        let merged = overlay(&below, own_keys, &profile.name, self.sink);
        if !matches!(merged.content, Content::Map(_)) {
            // The reader reports the problem.
            return merged;
        }
        with_key(&with_key(&merged, "profile", at.clone()), EXPANDED, at.clone())
    }

    fn find(&mut self, name: &str, at: &Node) -> Option<LinkProfile> {
        if name == NONE {
            return None;
        }
        if !LinkProfile::is_path(name) && !LinkProfile::known().any(|known| known == name) {
            let problem = Problem::new(format!("unknown profile `{name}`")).at(at.place);
            let others = LinkProfile::known().map(str::to_owned);
            let known: Vec<String> = self.own.iter().cloned().chain(others).collect();
            self.sink.add(problem.label(advice(name, &known)));
            return None;
        }
        match LinkProfile::find(name, self.base) {
            Ok(profile) => Some(profile),
            Err(errors) => {
                let mut problem = Problem::new(format!("the profile `{name}` has errors"));
                for wrong in errors.problems() {
                    problem = problem.note(match errors.position(wrong) {
                        Some((line, column)) => {
                            format!("{name}:{line}:{column}: {}", wrong.message())
                        }
                        None => wrong.message().to_owned(),
                    });
                }
                self.sink
                    .add(problem.at(at.place).label("`thingbed profiles show` lists them all"));
                None
            }
        }
    }
}

/// Marks a link whose profile is merged already.
const EXPANDED: &str = "(profile is there)";

/// A map with each value changed; other values unchanged.
fn with(node: &Node, mut change: impl FnMut(&str, &Node) -> Node) -> Node {
    let Content::Map(entries) = &node.content else { return node.clone() };
    let entries = entries.iter().map(|(key, value)| (key.clone(), change(&key.text, value)));
    Node { place: node.place, content: Content::Map(entries.collect()) }
}

fn keep(node: &Node, keep_key: impl Fn(&str) -> bool) -> Node {
    let Content::Map(entries) = &node.content else { return node.clone() };
    let entries = entries.iter().filter(|(key, _)| keep_key(&key.text)).cloned();
    Node { place: node.place, content: Content::Map(entries.collect()) }
}

/// A map with `value` at `key`.
fn with_key(node: &Node, key: &str, value: Node) -> Node {
    let mut entries = match keep(node, |other| other != key).content {
        Content::Map(entries) => entries,
        _ => Vec::new(),
    };
    entries.push((Key { text: key.to_owned(), place: value.place }, value));
    Node { place: node.place, content: Content::Map(entries) }
}

fn keys(node: &Node) -> Vec<String> {
    match &node.content {
        Content::Map(entries) => entries.iter().map(|(key, _)| key.text.clone()).collect(),
        _ => Vec::new(),
    }
}

fn scalar(node: &Node) -> Option<(&str, &Node)> {
    match &node.content {
        Content::Scalar(text) => Some((text, node)),
        _ => None,
    }
}

/// A text, or all texts in a list.
fn scalars(node: &Node) -> Vec<String> {
    match &node.content {
        Content::List(items) => items.iter().flat_map(scalars).collect(),
        _ => scalar(node).map(|(text, _)| text.to_owned()).into_iter().collect(),
    }
}
