//! Containerlab topologies: nodes become nodes, links become networks of two nodes.

use super::links::{Bridges, links};
use super::names::{Names, Wanted, host_name};
use super::program;
use super::reader::{Reader, entries, get, text, variables};
use super::writer::{Draft, Group};
use crate::problem::Problem;
use crate::tree::{Key, Node};

/// Keys of a node that are carried over, or that need no counterpart.
const KNOWN: [&str; 7] = ["kind", "image", "cmd", "entrypoint", "env", "exec", "group"];
/// Kinds whose containers run ordinary programs.
const ORDINARY: [&str; 2] = ["linux", "ext-container"];
/// Kinds that connect their links: each becomes a network.
const BRIDGES: [&str; 2] = ["bridge", "ovs-bridge"];

pub(super) fn convert(
    root: &Node,
    host_programs: bool,
    reader: &mut Reader,
) -> Result<Draft, Problem> {
    reader.unknown(root, "the file", &["name", "prefix", "topology"]);
    let Some(topology) = get(root, "topology") else {
        return Err(Problem::new("the topology is empty").at(root.place));
    };
    reader.unknown(topology, "the topology", &["defaults", "kinds", "groups", "nodes", "links"]);
    let all = get(topology, "nodes").map(entries).unwrap_or_default();
    if all.is_empty() {
        return Err(Problem::new("the topology has no nodes").at(topology.place));
    }
    shared(topology, reader);
    let name = get(root, "name").and_then(|name| {
        Some(reader.with_defaults(text(name)?, "the name of the topology", name.place))
    });
    let name = host_name(name.as_deref().unwrap_or("lab"));
    let mut draft = Draft { name, ..Draft::default() };
    let all: Vec<TopologyNode<'_>> =
        all.into_iter().map(|(key, node)| TopologyNode::of(key, node, topology)).collect();
    let (bridges, nodes): (Vec<_>, Vec<_>) =
        all.iter().partition(|node| BRIDGES.contains(&node.kind));
    if nodes.is_empty() {
        return Err(Problem::new("the topology has only bridges").at(topology.place));
    }
    let one = |foreign| Wanted { foreign, many: false };
    let names = Names::of_nodes(&nodes.iter().map(|node| one(&node.key.text)).collect::<Vec<_>>());
    for node in nodes {
        let name = names.get(&node.key.text).unwrap_or_default();
        let group = node.group(name, host_programs, &mut draft, reader);
        draft.groups.push(group);
    }
    let mut bridges =
        Bridges::of(&bridges.iter().map(|bridge| bridge.key.text.as_str()).collect::<Vec<_>>());
    links(topology, &names, &mut bridges, &mut draft, reader);
    Ok(draft)
}

/// Notes what several nodes have in common and experiments do not have.
fn shared(topology: &Node, reader: &mut Reader) {
    let mut note = |node: &Node, what: &str| {
        reader.unknown(node, what, &KNOWN);
        exec(node, what, reader);
    };
    if let Some(defaults) = get(topology, "defaults") {
        note(defaults, "the defaults");
    }
    for (map, one) in [("kinds", "kind"), ("groups", "group")] {
        for (key, node) in get(topology, map).map(entries).unwrap_or_default() {
            note(node, &format!("the {one} {}", key.text));
        }
    }
}

fn exec(node: &Node, what: &str, reader: &mut Reader) {
    if let Some(exec) = get(node, "exec") {
        let text = "run it with `thingbed exec`; addresses come from the network's subnet";
        reader.note(exec.place, format!("`exec` of {what}: {text}"));
    }
}

/// A node of a topology.
struct TopologyNode<'n> {
    key: &'n Key,
    node: &'n Node,
    kind: &'n str,
    /// The node, its group, its kind, and the defaults: the first that has a key wins.
    levels: Vec<&'n Node>,
}

impl<'n> TopologyNode<'n> {
    fn of(key: &'n Key, node: &'n Node, topology: &'n Node) -> Self {
        let defaults = get(topology, "defaults");
        let word = |node: Option<&'n Node>, key: &str| get(node?, key).and_then(text);
        let group_of = |name: Option<&str>| get(get(topology, "groups")?, name?);
        // The order of containerlab's own look-up.
        let kind = word(Some(node), "kind")
            .or_else(|| word(group_of(word(Some(node), "group")), "kind"))
            .or_else(|| word(group_of(word(defaults, "group")), "kind"))
            .or_else(|| word(defaults, "kind"))
            .unwrap_or("linux");
        let of_kind = get(topology, "kinds").and_then(|kinds| get(kinds, kind));
        let group = word(Some(node), "group")
            .or_else(|| word(of_kind, "group"))
            .or_else(|| word(defaults, "group"));
        let levels = [Some(node), group_of(group), of_kind, defaults];
        Self { key, node, kind, levels: levels.into_iter().flatten().collect() }
    }

    fn get(&self, key: &str) -> Option<&'n Node> {
        self.levels.iter().find_map(|level| get(level, key))
    }

    /// The node as a group of one.
    fn group(
        &self,
        name: &str,
        host_programs: bool,
        draft: &mut Draft,
        reader: &mut Reader,
    ) -> Group {
        let Self { key, node, kind, levels } = self;
        let what = format!("the node {}", key.text);
        reader.unknown(node, &what, &KNOWN);
        let mut group = Group { name: name.to_owned(), ..Group::default() };
        if group.name != key.text {
            reader.note(key.place, format!("the name {}: a node is `{}`", key.text, group.name));
        }
        if !ORDINARY.contains(kind) {
            let text = "containerlab prepares such nodes; here only the image's program starts";
            reader.note(key.place, format!("the kind {kind} of {what}: {text}"));
        }
        exec(node, &what, reader);
        if let Some(image) = self.get("image").and_then(text) {
            if host_programs {
                let text = format!("the image of {what}: programs of this machine run instead");
                reader.note(key.place, text);
            } else {
                program::root(image, &what, key.place, &mut group, draft, reader);
            }
        }
        let mut words = Vec::new();
        for part in ["entrypoint", "cmd"] {
            if let Some(node) = self.get(part) {
                words.extend(program::words(node, &format!("`{part}` of {what}"), reader));
            }
        }
        program::run(&mut group, words, &what, key.place, reader);
        // From the defaults to the node, since the last of a name wins.
        for environment in levels.iter().rev().filter_map(|level| get(level, "env")) {
            for (name, value, place) in &variables(environment) {
                let value = Some(value.as_deref().unwrap_or_default());
                let variable = program::Variable { name, value, place: *place };
                program::variable(&mut group, &variable, &what, reader);
            }
        }
        program::without_program(&mut group, &what, key.place, reader);
        group
    }
}
