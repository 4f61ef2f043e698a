//! Containerlab topologies: nodes become nodes, links become networks of two nodes.

use super::command::{with_variables, words};
use super::reader::{Reader, entries, get, list, text, text_of, variables};
use super::writer::{Draft, Group, Network, host_name, scalar};
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
    let nodes = get(topology, "nodes").map(entries).unwrap_or_default();
    if nodes.is_empty() {
        return Err(Problem::new("the topology has no nodes").at(topology.place));
    }
    let name = host_name(text_of(root, "name").unwrap_or("lab"));
    let mut draft = Draft { name, ..Draft::default() };
    let mut bridges = Vec::new();
    for (key, node) in nodes {
        let lookup = Lookup { topology, node };
        let kind = lookup.text("kind").unwrap_or("linux");
        if BRIDGES.contains(&kind) {
            bridges.push(key.text.clone());
            continue;
        }
        let group = group(key, &lookup, kind, host_programs, &mut draft, reader);
        draft.groups.push(group);
    }
    links(topology, &bridges, &mut draft, reader);
    Ok(draft)
}

/// A node, with the values of its kind and the defaults below its own.
struct Lookup<'n> {
    topology: &'n Node,
    node: &'n Node,
}

impl<'n> Lookup<'n> {
    fn get(&self, key: &str) -> Option<&'n Node> {
        let defaults = get(self.topology, "defaults");
        let kind = get(self.node, "kind").or_else(|| get(defaults?, "kind")).and_then(text);
        let of_kind = kind.and_then(|kind| get(get(self.topology, "kinds")?, kind));
        let all = [Some(self.node), of_kind, defaults];
        all.into_iter().flatten().find_map(|level| get(level, key))
    }

    fn text(&self, key: &str) -> Option<&'n str> {
        text(self.get(key)?)
    }
}

fn group(
    key: &Key,
    lookup: &Lookup<'_>,
    kind: &str,
    host_programs: bool,
    draft: &mut Draft,
    reader: &mut Reader,
) -> Group {
    let what = format!("the node {}", key.text);
    reader.unknown(lookup.node, &what, &KNOWN);
    let mut group = Group { name: host_name(&key.text), ..Group::default() };
    if group.name != key.text {
        reader.note(key.place, format!("the name {}: a node is `{}`", key.text, group.name));
    }
    if !ORDINARY.contains(&kind) {
        let text = "containerlab prepares such nodes; here only the image's program starts";
        reader.note(key.place, format!("the kind {kind} of {what}: {text}"));
    }
    if let Some(exec) = get(lookup.node, "exec") {
        let text = "run it with `thingbed exec`; addresses come from the network's subnet";
        reader.note(exec.place, format!("`exec` of {what}: {text}"));
    }
    if let Some(image) = lookup.text("image") {
        if host_programs {
            reader.note(
                key.place,
                format!("the image of {what}: programs of this machine run instead"),
            );
        } else {
            let archive = draft.archive(image);
            group.keys.push(("root", scalar(&archive)));
        }
    }
    let entry = lookup.text("entrypoint").map(words).unwrap_or_default();
    let command = lookup.text("cmd").map(words).unwrap_or_default();
    group.run = entry.into_iter().chain(command).map(|word| with_variables(&word)).collect();
    for (name, value, _) in lookup.get("env").map(variables).unwrap_or_default() {
        group.env.push((name, with_variables(&value.unwrap_or_default())));
    }
    if group.run.is_empty()
        && !group.env.is_empty()
        && (host_programs || lookup.text("image").is_none())
    {
        reader.note(key.place, format!("`env` of {what}: it has no program"));
        group.env.clear();
    }
    group
}

/// Links as networks; links to the same bridge share one.
fn links(topology: &Node, bridges: &[String], draft: &mut Draft, reader: &mut Reader) {
    let all = get(topology, "links").map(list).unwrap_or_default();
    let mut interfaces: Vec<(String, usize)> = Vec::new();
    for (number, link) in all.iter().enumerate() {
        reader.unknown(link, "a link", &["endpoints", "mtu", "type"]);
        let ends: Vec<(String, String)> = get(link, "endpoints")
            .map(list)
            .unwrap_or_default()
            .into_iter()
            .filter_map(endpoint)
            .collect();
        let [(first, _), (second, _)] = ends.as_slice() else {
            reader.note(link.place, "a link that does not have two endpoints `NODE:INTERFACE`");
            continue;
        };
        let is_node =
            |name: &String| draft.groups.iter().any(|group| group.name == host_name(name));
        let known = |name: &String| bridges.contains(name) || is_node(name);
        if !(known(first) && known(second)) {
            let text = format!(
                "the link of {first} and {second}: not both are nodes (host, mgmt-net and macvlan have no counterpart)"
            );
            reader.note(link.place, text);
            continue;
        }
        let bridge = [first, second].into_iter().find(|name| bridges.contains(name));
        let name =
            bridge.map_or_else(|| format!("link-{}", number + 1), |bridge| host_name(bridge));
        let subnet = format!("10.{}.0.0/24", draft.networks.len() + 1);
        if !draft.networks.iter().any(|network| network.name == name) {
            let mtu = text_of(link, "mtu").map(str::to_owned);
            draft.networks.push(Network { name: name.clone(), subnet, mtu, attach: Vec::new() });
        }
        for (node, interface) in ends.iter().filter(|(node, _)| !bridges.contains(node)) {
            let node = host_name(node);
            let own = interfaces.iter().filter(|(known, _)| *known == node).count();
            interfaces.push((node.clone(), own));
            if *interface != format!("eth{own}") {
                reader.note(link.place, format!("the interface {interface} of {node} is eth{own}"));
            }
            let network = draft.networks.iter_mut().find(|network| network.name == name);
            if let Some(network) = network.filter(|network| !network.attach.contains(&node)) {
                network.attach.push(node);
            }
        }
    }
}

/// Node and interface of an endpoint: `NODE:INTERFACE`, or a map.
fn endpoint(node: &Node) -> Option<(String, String)> {
    match text(node) {
        Some(text) => text.split_once(':').map(|(node, port)| (node.to_owned(), port.to_owned())),
        None => Some((text_of(node, "node")?.to_owned(), text_of(node, "interface")?.to_owned())),
    }
}
