//! Converts a plan's nodes and networks to the input of lab and medium.

use crate::bed::neighbours::{Neighbours, neighbours};
use crate::bed::roots::Roots;
use engine::{Change, Endpoint, Place, SegmentSpec, VlanPort};
use experiment::{
    BROKER_NAME, Backend, BrokerKind, Destination, Plan, PlannedBridge, PlannedChangeKind,
    PlannedLink, PlannedNetwork, PlannedNode, SourceAddresses,
};
use lab::{Bridge, Interface, Limits, Member, NodeSpec, Route, Setting};
use link::{Direction, PortVlans};
use std::collections::HashMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

/// Name of a node's bridge, as `ip link` shows it.
pub(super) const BRIDGE: &str = "br0";

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
    /// The node's interface at each of these.
    pub interfaces: Vec<String>,
    /// The node at each endpoint of each segment.
    pub owners: Vec<Vec<usize>>,
    /// The `node:interface` at each endpoint of each segment.
    pub names: Vec<Vec<String>>,
}

impl Topology {
    /// The topology of `plan`; `roots` has the nodes' root file systems.
    pub(crate) fn of(plan: &Plan, roots: &Roots) -> Self {
        Self::with(plan, roots, neighbours(plan))
    }

    /// The same with these permanent neighbours, which may include nodes that are not in `plan`.
    pub(super) fn with(plan: &Plan, roots: &Roots, mut neighbours: Neighbours) -> Self {
        let index: HashMap<&str, usize> =
            plan.networks.iter().enumerate().map(|(i, n)| (n.name.as_str(), i)).collect();
        // The links of a VLAN are on its switch.
        let switch = |network: usize| {
            let vlan = plan.networks[network].vlan.as_ref();
            vlan.and_then(|vlan| index.get(vlan.switch.as_str()).copied()).unwrap_or(network)
        };
        let mut topology = Self {
            members: Vec::new(),
            hosts: hosts(plan),
            segments: without_endpoints(plan),
            places: Vec::new(),
            interfaces: Vec::new(),
            owners: vec![Vec::new(); plan.networks.len()],
            names: vec![Vec::new(); plan.networks.len()],
        };
        for (node, planned) in plan.nodes.iter().enumerate() {
            let mut interfaces = Vec::new();
            let mut bridge = None;
            for (number, link) in planned.links.iter().enumerate() {
                let Some(&own) = index.get(link.network.as_str()) else { continue };
                let (network, segment) = (&plan.networks[own], switch(own));
                // A machine's kernel sets its addresses and neighbours.
                let tap = planned.tap(number).cloned();
                let neighbours = neighbours.remove(&(node, own)).unwrap_or_default();
                let mut interface = Interface {
                    name: link.interface.clone(),
                    mac: link.mac.0,
                    addresses: if tap.is_some() { Vec::new() } else { addresses(link, network) },
                    mtu: network.mtu.get() as u32,
                    offload: network.offload,
                    neighbours: if tap.is_some() { Vec::new() } else { neighbours },
                    advertised: link.slaac_address(),
                    is_advertised: (link.by_dhcp || link.by_slaac)
                        && tap.is_none()
                        && network.subnet_of(true).is_some(),
                    tap,
                    tun: planned.tun(number).cloned(),
                    is_port: false,
                };
                if let Some(planned) = planned.bridge.as_ref().filter(|_| planned.is_port(link)) {
                    interface = port(interface, planned, &mut bridge);
                }
                // Hardware has its own interface; its placeholder node in the lab has none.
                interfaces.extend(planned.external.is_none().then_some(interface));
                topology.interfaces.push(link.interface.clone());
                if let (Some(_), Some(PortVlans::Access(vlan))) = (&link.trunk, &link.vlans) {
                    topology.add_vlan_port(segment, *vlan);
                    continue;
                }
                topology.places.push(Place { segment, endpoint: topology.owners[segment].len() });
                topology.owners[segment].push(node);
                topology.names[segment].push(format!("{}:{}", planned.name, link.interface));
                let end = endpoint(planned, link, network);
                topology.segments[segment].endpoints.push(end);
            }
            // A node without interfaces is a member too: lab and plan number nodes alike.
            let limits = limits(planned);
            let setting = Setting { bridge, ..setting(planned, roots) };
            let spec = NodeSpec { name: planned.name.clone(), interfaces, setting };
            topology.members.push(Member { spec, limits });
        }
        // After all nodes, because a change names endpoints by number.
        for (segment, network) in plan.networks.iter().enumerate() {
            let changes = network.timetable.iter();
            topology.segments[segment].timetable = changes
                .map(|change| (change.at, topology.change(plan, segment, &change.what)))
                .collect();
        }
        topology
    }

    /// Adds an interface of a VLAN to the last endpoint of a segment, which is a trunk.
    fn add_vlan_port(&mut self, segment: usize, vlan: u16) {
        let port = self.places.len();
        let endpoints = &mut self.segments[segment].endpoints;
        let endpoint = endpoints.len().saturating_sub(1);
        self.places.push(Place { segment, endpoint });
        if let Some(trunk) = endpoints.get_mut(endpoint) {
            trunk.vlan_ports.push(VlanPort { vlan, port });
            // Queries of the network have no tag, so such interfaces answer none.
            trunk.is_bridge = true;
        }
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

/// The endpoint of a node's link.
fn endpoint(planned: &PlannedNode, link: &PlannedLink, network: &PlannedNetwork) -> Endpoint {
    // The medium leaves frames that the kernel impairs unchanged.
    let (up, down) = match network.backend {
        Backend::Medium => (link.up.clone(), link.down.clone()),
        Backend::Netem => Default::default(),
    };
    Endpoint {
        up,
        down,
        mac: planned.has_planned_mac().then_some(link.mac.0),
        states: link.states.clone(),
        place: None,
        vlans: link.vlans.clone(),
        is_bridge: planned.is_port(link),
        vlan_ports: Vec::new(),
    }
}

/// The networks, without endpoints.
fn without_endpoints(plan: &Plan) -> Vec<SegmentSpec> {
    plan.networks
        .iter()
        .enumerate()
        .map(|(i, network)| SegmentSpec {
            channel: network.channel.clone(),
            reception: plan.reception(network),
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
        .collect()
}

/// An interface of a node as a port of its bridge, which has the address of the first port and the
/// neighbours of all.
fn port(interface: Interface, planned: &PlannedBridge, bridge: &mut Option<Bridge>) -> Interface {
    let port = Interface {
        addresses: Vec::new(),
        neighbours: Vec::new(),
        is_port: true,
        ..interface.clone()
    };
    match bridge {
        None => {
            let interface = Interface { name: BRIDGE.to_owned(), offload: false, ..interface };
            *bridge = Some(Bridge { interface, stp: planned.stp });
        }
        Some(Bridge { interface: own, .. }) => {
            own.mtu = own.mtu.min(interface.mtu);
            own.neighbours.extend(interface.neighbours);
        }
    }
    port
}

/// The addresses of an interface that the lab sets, with their prefix lengths.
fn addresses(link: &PlannedLink, network: &PlannedNetwork) -> Vec<(IpAddr, u8)> {
    let set = link.addresses().zip(network.subnets());
    let set = set.filter(|(address, _)| !link.is_own(address.is_ipv6()));
    set.map(|(address, subnet)| (address, subnet.prefix())).collect()
}

/// The settings of a node in the lab's terms.
fn setting(planned: &PlannedNode, roots: &Roots) -> Setting {
    Setting {
        root: roots.root(planned),
        devices: planned.devices.clone(),
        clock_ahead: planned.clock_offset.unwrap_or_default(),
        cores: planned.cores.clone(),
        resolver: planned.resolver,
        forwards: planned.services.is_some_and(|services| services.nat),
        // The kernel routes between a firmware's tunnel and the network.
        is_router: planned.forward || planned.tun(0).is_some(),
        bridge: None,
        // A machine with its own network stack has its own routes.
        routes: if planned.tap(0).is_none() { routes(planned) } else { Vec::new() },
        capabilities: planned.capabilities.clone(),
        privileged: planned.privileged,
        storage: planned.limits.storage.map_or(0, units::Bytes::get),
    }
}

/// The routes of a node in the lab's terms.
fn routes(planned: &PlannedNode) -> Vec<Route> {
    let routes = planned.routes.iter().map(|route| (route.to, route.via));
    let default = planned.gateways().map(|via| (Destination::all(via.is_ipv6()), via));
    let all = routes.chain(default);
    all.map(|(to, via)| Route { to: to.base(), prefix: to.prefix(), via }).collect()
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
        for link in node.links_with_addresses() {
            for address in link.addresses() {
                let _ = writeln!(hosts, "{address} {}", node.name);
            }
        }
    }
    if let Some(address) = broker_address(plan, &is_up) {
        let _ = writeln!(hosts, "{address} {BROKER_NAME}");
    }
    hosts
}

/// Where programs find the broker of a network: each at its own gateway, or at the broker's node.
fn broker_address(plan: &Plan, is_up: impl Fn(usize) -> bool) -> Option<IpAddr> {
    let (network, broker) = plan.broker()?;
    if broker.broker == BrokerKind::Gateway {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    let node = plan.nodes.iter().position(|node| node.name == broker.on)?;
    let links = plan.nodes[node].links.iter();
    let link = links.into_iter().find(|link| link.network == network.name)?;
    is_up(node).then_some(link.address)
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
