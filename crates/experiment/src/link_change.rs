//! Changes of a running link, with the file's keys, checks and errors.

use crate::file::Impairment;
use crate::problem::{Errors, Problem};
use crate::read::{Read, Sink};
use crate::resolve::changed_keys;
use crate::source::Source;
use crate::tree::{self, Content, Node};
use link::{ChannelWait, Direction, Keys};
use serde_json::Value;
use std::sync::Arc;
use units::Bytes;

/// One direction of a running link.
#[derive(Debug, Clone, Copy)]
pub struct RunningLink<'a> {
    /// How the links of its network share it.
    pub channel: &'a link::Channel,
    /// MTU of its network.
    pub mtu: Bytes,
    /// Direction.
    pub way: Direction,
    /// Its configured impairments.
    pub configured: &'a link::Impairment,
}

/// Resolves changes such as `loss=10%`: each is a key of an impairment and its value as text. An
/// empty value removes the key from the link. `links` are all links to change.
///
/// # Errors
/// If a file with these keys would be invalid, or a key contradicts the configured impairments of a
/// link.
pub fn link_change(keys: &[(String, String)], links: &[RunningLink<'_>]) -> Result<Keys, Errors> {
    // Alone first, so that an invalid key is one error and not one for each link.
    let changes = read(keys)?;
    links.iter().try_for_each(|link| check(keys, link))?;
    Ok(changes)
}

/// Reads the keys alone.
fn read(keys: &[(String, String)]) -> Result<Keys, Errors> {
    let source = source(keys, "");
    let fail = |problems| Errors::new(source.clone(), problems);
    let (set, _, mut sink) = parse(&source).map_err(fail)?;
    let Some(set) = set.filter(|_| sink.is_clean()) else {
        return Err(fail(sink.problems.into_iter().map(for_nodes).collect()));
    };
    let mut changes = changed_keys(&set, &mut sink);
    if !sink.is_clean() {
        return Err(fail(sink.problems));
    }
    let removed = keys.iter().filter(|(_, value)| value.is_empty());
    changes.0.extend(removed.map(|(key, _)| (key.clone(), Value::Null)));
    Ok(changes)
}

/// Adds where to set a key that is not one of links but of nodes.
fn for_nodes(problem: Problem) -> Problem {
    let named =
        problem.message().strip_prefix("unknown key `").map(|key| key.trim_end_matches('`'));
    match ["cpus", "cpu", "memory", "hostname", "mtu"].into_iter().find(|key| Some(*key) == named) {
        Some(key) => {
            problem.note(format!("`{key}` is a key of nodes: `thingbed set NODE {key}=...`"))
        }
        None => problem,
    }
}

/// Checks the keys together with the configured impairments of a link.
fn check(keys: &[(String, String)], link: &RunningLink<'_>) -> Result<(), Errors> {
    let stays = link.configured.keys().0;
    let stays = stays.iter().filter(|(key, _)| !keys.iter().any(|(new, _)| new == *key));
    let stays: String = stays.map(|(key, value)| format!("  {key}: {value}\n")).collect();
    // One text of both, read and checked like a file (decision 48): errors quote what was typed.
    let source = source(keys, &stays);
    let fail = |problems| Errors::new(source.clone(), problems);
    let (set, base, mut sink) = parse(&source).map_err(fail)?;
    let complete = set.unwrap_or_default().after(&base.unwrap_or_default());
    complete.check(channel_wait(link.channel, link.way), &mut sink);
    complete.check_mtu(link.mtu, &mut sink);
    if sink.is_clean() {
        return Ok(());
    }
    let advice = "`KEY=` removes a key of the link; `thingbed link show` lists the keys that it \
                  has";
    let problems = sink.problems.into_iter().map(|problem| problem.note(advice));
    Err(fail(problems.collect()))
}

/// What frames of a direction wait for.
fn channel_wait(channel: &link::Channel, way: Direction) -> ChannelWait {
    match channel {
        link::Channel::Shared(_) | link::Channel::Csma(_) | link::Channel::Wifi(_)
            if way == Direction::Up =>
        {
            ChannelWait::Shared
        }
        link::Channel::Cell { .. } => ChannelWait::Cell,
        _ => ChannelWait::No,
    }
}

/// The text that errors quote: the keys as typed, and the link's current keys.
fn source(keys: &[(String, String)], configured: &str) -> Arc<Source> {
    let mut text = "set:\n".to_owned();
    for (key, value) in keys {
        // A control character would end the line, and no valid value has one.
        let value: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        text += &format!("  {key}: {value}\n");
    }
    if !configured.is_empty() {
        text += &format!("configured now:\n{configured}");
    }
    Arc::new(Source { file: "link set".into(), text })
}

type Parsed = (Option<Impairment>, Option<Impairment>, Sink);

fn parse(source: &Source) -> Result<Parsed, Vec<Problem>> {
    let (tree, problems) = tree::parse(&source.text).map_err(|problem| vec![problem])?;
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut sink = Sink::default();
    let mut part = |name: &str| Impairment::read(child(&tree, name)?, &mut sink);
    let (set, base) = (part("set"), part("configured now"));
    Ok((set, base, sink))
}

fn child<'n>(tree: &'n Node, name: &str) -> Option<&'n Node> {
    let Content::Map(entries) = &tree.content else { return None };
    entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
}

#[cfg(test)]
#[path = "link_change_tests.rs"]
mod tests;
