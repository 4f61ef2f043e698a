//! Links of containerlab topologies as networks.

use super::names::Names;
use super::reader::{Reader, get, list, text, text_of};
use super::variables::Expanded;
use super::writer::{Draft, Network};
use crate::resolve::is_mtu;
use crate::source::Place;
use crate::tree::Node;
use std::collections::{HashMap, HashSet};
use units::Bytes;

/// Bridges; linked ones are one network.
pub(super) struct Bridges {
    numbers: HashMap<String, usize>,
    names: Names,
    /// The bridge before, of the same network; the same number for the first.
    before: Vec<usize>,
    foreign: Vec<String>,
}

impl Bridges {
    pub fn of(foreign: &[&str]) -> Self {
        let numbers = foreign.iter().enumerate().map(|(number, name)| ((*name).to_owned(), number));
        Self {
            numbers: numbers.collect(),
            names: Names::of_networks(foreign),
            before: (0..foreign.len()).collect(),
            foreign: foreign.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// The number of the first bridge of the network of this one.
    fn first(&mut self, mut number: usize) -> usize {
        // Union-find with path halving: chains of bridges may be as long as the file.
        while self.before[number] != number {
            // Shortens the path (union-find), so that long chains of bridges stay fast.
            self.before[number] = self.before[self.before[number]];
            number = self.before[number];
        }
        number
    }

    fn join(&mut self, one: usize, two: usize) {
        let (one, two) = (self.first(one), self.first(two));
        // The first bridge in the file names the network, in whatever order links come.
        // The first bridge of the file gives the network its name.
        self.before[one.max(two)] = one.min(two);
    }

    fn name(&self, number: usize) -> &str {
        self.names.get(&self.foreign[number]).unwrap_or_default()
    }
}

/// An end of a link.
struct End {
    node: String,
    interface: String,
}

impl End {
    /// `NODE:INTERFACE`, or a map.
    fn of(node: &Node) -> Option<Self> {
        let (node, interface) = match text(node) {
            Some(text) => text.split_once(':')?,
            None => (text_of(node, "node")?, text_of(node, "interface")?),
        };
        Some(Self { node: node.to_owned(), interface: interface.to_owned() })
    }
}

/// A link of known nodes and bridges.
struct Link<'n> {
    number: usize,
    node: &'n Node,
    ends: [End; 2],
}

/// Adds the networks of links; links to bridges of one network share it.
pub(super) fn links(
    topology: &Node,
    names: &Names,
    bridges: &mut Bridges,
    draft: &mut Draft,
    reader: &mut Reader,
) {
    let links = known(topology, names, bridges, reader);
    for link in &links {
        let [one, two] = link.ends.each_ref().map(|end| bridges.numbers.get(&end.node).copied());
        if let (Some(one), Some(two)) = (one, two) {
            bridges.join(one, two);
        }
    }
    let mut of_bridges: HashMap<usize, usize> = HashMap::new();
    let mut attached = Attached::default();
    for link in &links {
        let bridge = link.ends.iter().find_map(|end| bridges.numbers.get(&end.node).copied());
        let first = bridge.map(|bridge| bridges.first(bridge));
        let known = first.and_then(|first| of_bridges.get(&first).copied());
        let mtu = mtu(link.node, reader);
        let index = known.unwrap_or(draft.networks.len());
        match draft.networks.get(index) {
            Some(network) if mtu.is_some() && network.mtu != mtu => {
                let text = format!("`mtu` of a link: the network `{}` has another", network.name);
                reader.note(link.node.place, text);
            }
            Some(_) => {}
            None => {
                let name = match first {
                    Some(first) => bridges.name(first).to_owned(),
                    None => bridges.names.add(&format!("link-{}", link.number), false),
                };
                of_bridges.extend(first.map(|first| (first, index)));
                let place = link.node.place;
                draft.networks.push(Network { name, place, mtu, ..Network::default() });
            }
        }
        attached.add(link, index, names, &mut draft.networks[index], reader);
    }
    note_bridges(&links, bridges, reader);
    attached.note_interfaces(reader);
}

/// The links whose ends are known.
fn known<'n>(
    topology: &'n Node,
    names: &Names,
    bridges: &Bridges,
    reader: &mut Reader,
) -> Vec<Link<'n>> {
    let mut links = Vec::new();
    let all = get(topology, "links").map(list).unwrap_or_default();
    for (number, node) in (1..).zip(all) {
        reader.unknown(node, "a link", &["endpoints", "mtu", "type"]);
        let ends = get(node, "endpoints").map(list).unwrap_or_default();
        let ends: Vec<End> = ends.into_iter().filter_map(End::of).collect();
        let Ok(ends) = <[End; 2]>::try_from(ends) else {
            reader.note(node.place, "a link that does not have two endpoints `NODE:INTERFACE`");
            continue;
        };
        let known =
            |end: &End| bridges.numbers.contains_key(&end.node) || names.get(&end.node).is_some();
        if !ends.iter().all(known) {
            let [first, second] = ends;
            let text = format!(
                "the link of {} and {}: not both are nodes (host, mgmt-net and macvlan have no counterpart)",
                first.node, second.node
            );
            reader.note(node.place, text);
            continue;
        }
        links.push(Link { number, node, ends });
    }
    links
}

/// The MTU of a link.
fn mtu(link: &Node, reader: &mut Reader) -> Option<String> {
    let fits = |text: &str| text.trim().parse().is_ok_and(|mtu| is_mtu(Bytes::new(mtu)));
    let mtu: Expanded = reader.number(get(link, "mtu")?, "`mtu` of a link", fits)?;
    Some(mtu.text.trim().to_owned())
}

/// Notes bridges that share a network.
fn note_bridges(links: &[Link<'_>], bridges: &mut Bridges, reader: &mut Reader) {
    for link in links {
        let [one, two] = &link.ends;
        let first = bridges.numbers.get(&one.node).copied();
        if let Some(first) = first.filter(|_| bridges.numbers.contains_key(&two.node)) {
            let first = bridges.first(first);
            let text = format!(
                "the bridges {} and {} are one network, `{}`",
                one.node,
                two.node,
                bridges.name(first)
            );
            reader.note(link.node.place, text);
        }
    }
}

/// The nodes at networks, with the interfaces of the topology.
#[derive(Default)]
struct Attached {
    known: HashSet<(String, usize)>,
    all: Vec<Interface>,
}

/// An interface of a node.
struct Interface {
    node: String,
    network: usize,
    name: String,
    place: Place,
}

impl Attached {
    /// Attaches the nodes of a link to its network, which is the one at `index`.
    fn add(
        &mut self,
        link: &Link<'_>,
        index: usize,
        names: &Names,
        network: &mut Network,
        reader: &mut Reader,
    ) {
        let place = link.node.place;
        for end in &link.ends {
            let Some(node) = names.get(&end.node) else { continue };
            if !self.known.insert((node.to_owned(), index)) {
                let text = format!("the second interface of {node} on `{}`", network.name);
                reader.note(place, text);
                continue;
            }
            network.attach.push(node.to_owned());
            let (node, name) = (node.to_owned(), end.interface.clone());
            self.all.push(Interface { node, network: index, name, place });
        }
    }

    /// Notes other names of interfaces: those of a node are numbered in the order of its networks.
    fn note_interfaces(mut self, reader: &mut Reader) {
        self.all.sort_by_key(|interface| interface.network);
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for Interface { node, name, place, .. } in &self.all {
            let count = counts.entry(node).or_default();
            if *name != format!("eth{count}") {
                reader.note(*place, format!("the interface {name} of {node} is eth{count}"));
            }
            *count += 1;
        }
    }
}
