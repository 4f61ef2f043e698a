//! One subnet for the edges that bridges join.

use crate::edges::free::Free;
use crate::edges::pair::Pair;
use crate::joined::Joined;
use crate::limits::NODES;
use crate::tree::{Content, Node};
use std::collections::{HashMap, HashSet};

/// Gives edges without a subnet that of the networks and edges that bridges join them with, or a free
/// one for all of them. Edges that nothing joins get none.
pub(super) fn share_subnets(root: &Node, pairs: &mut [Pair<'_>], free: &mut Free) {
    let Some(groups) = root.get("nodes").map(|nodes| &nodes.content) else { return };
    let Content::Map(groups) = groups else { return };
    let bridges: HashMap<&str, Bridge<'_>> = groups
        .iter()
        .filter_map(|(name, group)| Some((name.text.as_str(), Bridge::of(group)?)))
        .collect();
    if bridges.is_empty() {
        return;
    }
    let networks: &[_] = match root.get("networks").map(|networks| &networks.content) {
        Some(Content::Map(networks)) => networks,
        _ => &[],
    };
    let mut joined = Joined::new(networks.len() + pairs.len());
    // The first network of each bridge.
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut join = |network: usize, name: &str, node: &str| {
        for bridge in nodes_of(node, &bridges, name) {
            let own = *first.entry(bridge).or_insert(network);
            joined.join(own, network);
        }
    };
    for (number, (name, network)) in networks.iter().enumerate() {
        let attached = network.get("attach").map(texts).unwrap_or_default();
        attached.iter().for_each(|node| join(number, &name.text, node));
    }
    for (number, pair) in pairs.iter().enumerate() {
        pair.names.iter().for_each(|node| join(networks.len() + number, &pair.name, node));
    }
    let mut sets: HashMap<usize, Set> = HashMap::new();
    for (number, (_, network)) in networks.iter().enumerate() {
        let set = sets.entry(joined.first(number)).or_default();
        set.subnet = set.subnet.take().or_else(|| network.get("subnet").cloned());
    }
    for (number, pair) in pairs.iter().enumerate() {
        let set = sets.entry(joined.first(networks.len() + number)).or_default();
        set.subnet = set.subnet.take().or_else(|| pair.subnet.clone());
        set.edges += 1;
    }
    for (number, pair) in pairs.iter_mut().enumerate() {
        let Some(set) = sets.get_mut(&joined.first(networks.len() + number)) else { continue };
        let place = pair.ends[1].place;
        if set.subnet.is_none() && set.edges > 1 {
            // Each edge has two nodes, and the bridge another address on each.
            set.subnet = Some(free.take_for(2 * set.edges, place));
        }
        if pair.subnet.is_none() {
            // An error is reported at the edge.
            pair.subnet = set.subnet.clone().map(|subnet| Node { place, ..subnet });
        }
    }
}

/// Networks and edges that bridges join.
#[derive(Default)]
struct Set {
    subnet: Option<Node>,
    edges: u32,
}

/// A group whose nodes are bridges, as written.
struct Bridge<'a> {
    count: u32,
    /// Names of the networks that it joins; `None`: all.
    networks: Option<HashSet<&'a str>>,
}

impl<'a> Bridge<'a> {
    fn of(group: &'a Node) -> Option<Self> {
        let count = match group.get("count").map(|count| &count.content) {
            // More are refused later.
            Some(Content::Scalar(count)) => count.parse().unwrap_or(1).min(*NODES.end()),
            _ => 1,
        };
        let bridge = group.get("bridge")?;
        match &bridge.content {
            Content::Scalar(text) if text.eq_ignore_ascii_case("true") => {
                Some(Self { count, networks: None })
            }
            Content::List(_) => {
                Some(Self { count, networks: Some(texts(bridge).into_iter().collect()) })
            }
            _ => None,
        }
    }

    fn joins(&self, network: &str) -> bool {
        self.networks.as_ref().is_none_or(|networks| networks.contains(network))
    }
}

/// The bridges that `node`, a group or a single node, has on `network`.
fn nodes_of(node: &str, bridges: &HashMap<&str, Bridge<'_>>, network: &str) -> Vec<String> {
    if let Some(group) = bridges.get(node) {
        let own = group.joins(network);
        let names = (1..=group.count).map(|number| match group.count {
            1 => node.to_owned(),
            _ => format!("{node}-{number}"),
        });
        return names.filter(|_| own).collect();
    }
    let group = node.rsplit_once('-').and_then(|(group, _)| bridges.get(group));
    group.filter(|group| group.joins(network)).map(|_| node.to_owned()).into_iter().collect()
}

/// The texts of a node: one, or a list.
fn texts(node: &Node) -> Vec<&str> {
    match &node.content {
        Content::Scalar(text) => vec![text],
        Content::List(items) => items.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}
