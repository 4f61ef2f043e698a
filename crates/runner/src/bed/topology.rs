//! Converts a plan's nodes and networks to the input of lab and medium.

use crate::bed::roots::Roots;
use engine::{Change, Endpoint, Place, SegmentSpec};
use experiment::{
    Backend, Exchange, Plan, PlannedChangeKind, PlannedNode, SourceAddresses, Workload,
};
use lab::{Interface, Limits, Member, NodeSpec, Setting};
use link::Direction;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;

/// A plan in the terms of lab and medium.
#[derive(Debug)]
pub(crate) struct Topology {
    /// The nodes, in the plan's order.
    pub members: Vec<Member>,
    /// The hosts file of all nodes.
    pub hosts: String,
    /// The networks, in the plan's order.
    pub segments: Vec<SegmentSpec>,
    /// The endpoint of each TAP, in the order of the lab's descriptors.
    pub places: Vec<Place>,
    /// The node at each endpoint of each segment.
    pub owners: Vec<Vec<usize>>,
    /// The `node:interface` at each endpoint of each segment.
    pub names: Vec<Vec<String>>,
}

impl Topology {
    /// The topology of `plan`; `roots` has the nodes' root file systems.
    pub(crate) fn of(plan: &Plan, roots: &Roots) -> Self {
        let index: HashMap<&str, usize> =
            plan.networks.iter().enumerate().map(|(i, n)| (n.name.as_str(), i)).collect();
        let mut topology = Self {
            members: Vec::new(),
            hosts: hosts(plan),
            segments: plan
                .networks
                .iter()
                .enumerate()
                .map(|(i, network)| SegmentSpec {
                    channel: network.channel.clone(),
                    endpoints: Vec::new(),
                    // An Ethernet header and a VLAN tag.
                    longest: (!network.offload).then_some(network.mtu.get() as usize + 18),
                    prefix: if network.offload { lab::VNET_HEADER } else { 0 },
                    own_addresses_only: network.source_addresses == SourceAddresses::Own,
                    query_interval: network.query_interval,
                    replay: None,
                    timetable: Vec::new(),
                    // Links of different networks use different random streams.
                    seed: plan.impairment_seed().wrapping_add((i as u64) << 32),
                    impaired: false,
                })
                .collect(),
            places: Vec::new(),
            owners: vec![Vec::new(); plan.networks.len()],
            names: vec![Vec::new(); plan.networks.len()],
        };
        let mut neighbours = neighbours(plan);
        for (node, planned) in plan.nodes.iter().enumerate() {
            let mut interfaces = Vec::new();
            for link in &planned.links {
                let Some(&segment) = index.get(link.network.as_str()) else { continue };
                let network = &plan.networks[segment];
                let interface = Interface {
                    name: link.interface.clone(),
                    mac: link.mac.0,
                    address: match link.by_dhcp {
                        true => std::net::Ipv4Addr::UNSPECIFIED,
                        false => link.address,
                    },
                    prefix: network.prefix,
                    mtu: network.mtu.get() as u32,
                    offload: network.offload,
                    neighbours: neighbours.remove(&(node, segment)).unwrap_or_default(),
                };
                // Hardware has its own interface; its placeholder node in the lab has none.
                interfaces.extend(planned.external.is_none().then_some(interface));
                let endpoint = topology.owners[segment].len();
                topology.places.push(Place { segment, endpoint });
                topology.owners[segment].push(node);
                topology.names[segment].push(format!("{}:{}", planned.name, link.interface));
                // The medium leaves frames that the kernel impairs unchanged.
                let (up, down) = match network.backend {
                    Backend::Medium => (link.up.clone(), link.down.clone()),
                    Backend::Netem => Default::default(),
                };
                topology.segments[segment].endpoints.push(Endpoint {
                    up,
                    down,
                    mac: planned.external.is_none().then_some(link.mac.0),
                    states: link.states.clone(),
                });
            }
            let limits = limits(planned);
            let setting = Setting {
                root: roots.root(planned),
                devices: planned.devices.clone(),
                clock_ahead: planned.clock_offset.map_or(0, units::Span::as_ns),
                cores: planned.cores.clone(),
                resolver: planned.resolver,
                gateway: planned.gateway,
                forwards: planned.services.is_some_and(|services| services.nat),
                capabilities: planned.capabilities.clone(),
                privileged: planned.privileged,
                storage: planned.limits.storage.map_or(0, units::Bytes::get),
            };
            let spec = NodeSpec { name: planned.name.clone(), interfaces, setting };
            topology.members.push(Member { spec, limits });
        }
        for (segment, network) in plan.networks.iter().enumerate() {
            let changes = network.timetable.iter();
            topology.segments[segment].timetable = changes
                .map(|change| (change.at, topology.change(plan, segment, &change.what)))
                .collect();
        }
        topology
    }

    /// The endpoints of `nodes` on a segment.
    fn endpoints(&self, plan: &Plan, segment: usize, nodes: &[String]) -> Vec<usize> {
        let owners = self.owners[segment].iter().enumerate();
        let named = owners.filter(|(_, node)| nodes.contains(&plan.nodes[**node].name));
        named.map(|(endpoint, _)| endpoint).collect()
    }

    /// Converts a planned change to the medium's terms.
    fn change(&self, plan: &Plan, segment: usize, what: &PlannedChangeKind) -> Change {
        let links = |nodes: &[String], ways: &[Direction]| {
            let ends = self.endpoints(plan, segment, nodes);
            ends.into_iter().flat_map(|end| ways.iter().map(move |way| (end, *way))).collect()
        };
        match what {
            PlannedChangeKind::Set { nodes, ways, set, over } => {
                Change::Set { links: links(nodes, ways), set: set.clone(), over: *over }
            }
            PlannedChangeKind::Down { nodes, down } => {
                Change::Down { links: links(nodes, &[Direction::Up, Direction::Down]), down: *down }
            }
            PlannedChangeKind::Multicast { passes } => Change::Multicast(*passes),
            PlannedChangeKind::Partition { parts } if parts.is_empty() => Change::Partition(None),
            PlannedChangeKind::Partition { parts } => {
                // Nodes that are not named form a separate part, number 0.
                let mut part = vec![0; self.owners[segment].len()];
                for (number, nodes) in parts.iter().enumerate() {
                    for endpoint in self.endpoints(plan, segment, nodes) {
                        part[endpoint] = number as u32 + 1;
                    }
                }
                Change::Partition(Some(part))
            }
        }
    }
}

/// The limits of a node in the lab's terms.
fn limits(planned: &PlannedNode) -> Limits {
    Limits {
        cpus: planned.limits.cpus,
        memory: planned.limits.memory.map(units::Bytes::get),
        reserved_cpus: planned.limits.reserved_cpus,
        reserved_memory: planned.limits.reserved_memory.map(units::Bytes::get),
        processes: planned.limits.processes.map(u64::from),
    }
}

/// The networks of a plan in the medium's terms, in the plan's order, with their schedules;
/// impairments wait for the start.
///
/// # Errors
/// When the image of a node's root cannot be prepared.
pub fn segments(plan: &Plan) -> Result<Vec<SegmentSpec>, crate::Error> {
    Ok(Topology::of(plan, &Roots::of(plan)?).segments)
}

/// The hosts file with all nodes of `plan`.
pub(crate) fn hosts(plan: &Plan) -> String {
    hosts_of(plan, |_| true)
}

/// The hosts file with the nodes that `is_up` selects, by their index in the plan.
pub(crate) fn hosts_of(plan: &Plan, is_up: impl Fn(usize) -> bool) -> String {
    let mut hosts = String::from("127.0.0.1 localhost\n::1 localhost ip6-localhost\n");
    for (_, node) in plan.nodes.iter().enumerate().filter(|(place, _)| is_up(*place)) {
        for link in &node.links {
            let _ = writeln!(hosts, "{} {}", link.address, node.name);
        }
    }
    hosts
}

/// In networks of up to this many nodes all know each other: 4,032 entries.
const MAX_ALL_NEIGHBOURS: usize = 64;

type Neighbours = BTreeMap<(usize, usize), Vec<(std::net::Ipv4Addr, [u8; 6])>>;

/// The pairs of nodes that communicate in an exchange.
fn communicating_pairs(exchange: &Exchange) -> Vec<(&str, &str)> {
    let mut both = Vec::new();
    for pair in exchange.pairs() {
        for server in pair.servers {
            match pair.broker {
                Some(broker) => both.extend([(pair.driver, broker), (server, broker)]),
                None => both.push((pair.driver, server)),
            }
        }
    }
    both
}

/// Permanent neighbour entries, by node and network: for the two ends of each interaction, brokers
/// and their clients, and in small networks for all planned nodes. So address resolution, whose
/// times are random in the kernel, does not change what programs send. Other nodes use ARP.
fn neighbours(plan: &Plan) -> Neighbours {
    let place: HashMap<&str, usize> =
        plan.nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
    let segment: HashMap<&str, usize> =
        plan.networks.iter().enumerate().map(|(i, n)| (n.name.as_str(), i)).collect();
    let link = |node: usize, network: &str| {
        let link = plan.nodes[node].links.iter().find(|link| link.network == network)?;
        Some((link.address, link.mac.0))
    };
    let mut known = Neighbours::new();
    let mut know = |name: &str, one: &str, other: &str| {
        let (Some(&network), Some(&one), Some(&other)) =
            (segment.get(name), place.get(one), place.get(other))
        else {
            return;
        };
        for (one, other) in [(one, other), (other, one)] {
            let entries = known.entry((one, network)).or_default();
            let entry = link(other, name);
            entries.extend(entry.filter(|entry| !entries.contains(entry)));
        }
    };
    for workload in &plan.workloads {
        let (network, source, others) = match workload {
            Workload::Interaction(i) => (&i.network, &i.source, i.sinks.iter().collect()),
            Workload::Mqtt(m) => {
                let clients: BTreeSet<&String> =
                    m.publishers.iter().chain(&m.subscribers).collect();
                (&m.network, &m.broker, clients.into_iter().collect::<Vec<_>>())
            }
            Workload::Exchange(exchange) => {
                for (one, other) in communicating_pairs(exchange) {
                    know(&exchange.network, one, other);
                }
                continue;
            }
            Workload::Load(load) => {
                let Some(network) = &load.network else { continue };
                for (one, other) in load
                    .on
                    .iter()
                    .flat_map(|one| load.targets().iter().map(move |other| (one, other)))
                {
                    know(network, one, other);
                }
                continue;
            }
            Workload::Device(_) | Workload::Probe(_) | Workload::Command(_) => continue,
        };
        for other in others {
            know(network, source, other);
        }
    }
    for network in &plan.networks {
        let here = |node: &&PlannedNode| {
            let links = node.links.iter().filter(|link| !link.by_dhcp);
            node.external.is_none() && links.clone().any(|link| link.network == network.name)
        };
        let names: Vec<&str> =
            plan.nodes.iter().filter(here).map(|node| node.name.as_str()).collect();
        if names.len() > MAX_ALL_NEIGHBOURS {
            continue;
        }
        for (at, one) in names.iter().enumerate() {
            for other in &names[at + 1..] {
                know(&network.name, one, other);
            }
        }
    }
    known
}
