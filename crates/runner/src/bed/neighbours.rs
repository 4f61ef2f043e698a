//! Permanent neighbour entries: address resolution, whose times are random in the kernel, must not
//! change what programs send.

use experiment::{Exchange, Plan, PlannedLink, PlannedNode, Workload};
use link::PortVlans;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};

/// In networks of up to this many nodes all know each other: 4,032 entries.
/// The number grows with the square of the nodes (decision 45).
const MAX_ALL_NEIGHBOURS: usize = 64;

/// Addresses and link addresses, by node and network.
pub(super) type Neighbours = BTreeMap<(usize, usize), Vec<(IpAddr, [u8; 6])>>;

/// The entries of all nodes: for the two ends of each interaction, brokers and their clients, their
/// routers, and in small networks for all planned nodes. Other nodes use ARP and neighbour
/// discovery.
pub(super) fn neighbours(plan: &Plan) -> Neighbours {
    let nodes = plan.nodes.iter().enumerate();
    let networks = plan.networks.iter().enumerate();
    let mut known = Known {
        plan,
        place: nodes.map(|(number, node)| (node.name.as_str(), number)).collect(),
        segment: networks.map(|(number, network)| (network.name.as_str(), number)).collect(),
        entries: Neighbours::new(),
        ends: BTreeSet::new(),
    };
    plan.workloads.iter().for_each(|workload| known.add_workload(workload));
    known.add_broker();
    // After the workloads, whose ends it needs.
    known.add_routers();
    known.add_small_networks();
    known.entries
}

/// The entries of the nodes of `plan` from the index `first` on, which are added to it, with their
/// numbers from 0; and those that the nodes before need of them.
pub(super) fn added(plan: &Plan, first: usize) -> (Neighbours, Neighbours) {
    let new = plan.nodes.iter().skip(first).flat_map(|node| &node.links);
    let new: HashSet<IpAddr> = new.flat_map(PlannedLink::addresses).collect();
    let (mut own, mut others) = (Neighbours::new(), Neighbours::new());
    for ((node, segment), mut entries) in neighbours(plan) {
        match node.checked_sub(first) {
            Some(number) => drop(own.insert((number, segment), entries)),
            None => {
                entries.retain(|(address, _)| new.contains(address));
                if !entries.is_empty() {
                    others.insert((node, segment), entries);
                }
            }
        }
    }
    (own, others)
}

/// The entries so far.
struct Known<'p> {
    plan: &'p Plan,
    place: HashMap<&'p str, usize>,
    segment: HashMap<&'p str, usize>,
    entries: Neighbours,
    /// Nodes of workloads.
    ends: BTreeSet<usize>,
}

impl<'p> Known<'p> {
    /// Two nodes know each other on a network, if both are attached.
    fn know(&mut self, network: &str, one: &str, other: &str) {
        let (Some(&segment), Some(&one), Some(&other)) =
            (self.segment.get(network), self.place.get(one), self.place.get(other))
        else {
            return;
        };
        self.ends.extend([one, other]);
        self.know_by_number(segment, one, other);
    }

    fn know_by_number(&mut self, segment: usize, one: usize, other: usize) {
        let (Some(first), Some(second)) = (self.link(segment, one), self.link(segment, other))
        else {
            return;
        };
        let vlan = |link: &PlannedLink| link.vlans.as_ref().map(PortVlans::untagged);
        let is_same = first.network == second.network;
        if is_same && vlan(first) != vlan(second) {
            return;
        }
        for (node, peer, own, link) in [(one, other, first, second), (other, one, second, first)] {
            let Some(&segment) = self.segment.get(own.network.as_str()) else { continue };
            // A machine may have another address than the planned one.
            if !self.plan.nodes[peer].has_planned_mac() {
                continue;
            }
            let entries = self.entries.entry((node, segment)).or_default();
            for entry in link.addresses().map(|address| (address, link.mac.0)) {
                if !entries.contains(&entry) {
                    entries.push(entry);
                }
            }
        }
    }

    /// The link of a node to a network, or to one that a bridge joins with it.
    fn link(&self, segment: usize, node: usize) -> Option<&'p PlannedLink> {
        let (plan, network) = (self.plan, &self.plan.networks[segment]);
        let links = &plan.nodes[node].links;
        let is_joined = |link: &&PlannedLink| {
            plan.network(&link.network).is_some_and(|on| on.is_joined_with(network))
        };
        let own = links.iter().find(|link| link.network == network.name);
        own.or_else(|| links.iter().find(is_joined))
    }

    /// The broker and the nodes that reach it, so that no run has their address resolution.
    fn add_broker(&mut self) {
        let Some((network, broker)) = self.plan.broker() else { return };
        let has_link = |node: &&PlannedNode| {
            node.name != broker.on && node.links.iter().any(|link| link.network == network.name)
        };
        for other in self.plan.nodes.iter().filter(has_link) {
            self.know(&network.name, &broker.on, &other.name);
        }
    }

    fn add_workload(&mut self, workload: &'p Workload) {
        match workload {
            Workload::Interaction(i) => {
                i.sinks.iter().for_each(|other| self.know(&i.network, &i.source, other));
            }
            Workload::Mqtt(m) => {
                let clients: BTreeSet<&String> =
                    m.publishers.iter().chain(&m.subscribers).collect();
                clients.into_iter().for_each(|other| self.know(&m.network, &m.broker, other));
            }
            Workload::Exchange(exchange) => {
                for (one, other) in communicating_pairs(exchange) {
                    self.know(&exchange.network, one, other);
                }
            }
            Workload::Load(load) => {
                let Some(network) = &load.network else { return };
                for one in &load.on {
                    load.targets().iter().for_each(|other| self.know(network, one, other));
                }
            }
            Workload::Device(_) | Workload::Probe(_) | Workload::Command(_) => {}
        }
    }

    /// Adds next hops: those of nodes of workloads, and those of routers.
    fn add_routers(&mut self) {
        let plan = self.plan;
        let owner: HashMap<IpAddr, (usize, &str)> = plan
            .nodes
            .iter()
            .enumerate()
            .flat_map(|(number, node)| {
                let owned = node.links.iter().map(move |link| (number, link));
                owned.flat_map(|(number, link)| {
                    link.addresses().map(move |address| (address, (number, link.network.as_str())))
                })
            })
            .collect();
        for (number, node) in plan.nodes.iter().enumerate() {
            // Other hosts resolve addresses: a command has ARP in its bytes (decision 3).
            if !(node.forward || self.ends.contains(&number)) {
                continue;
            }
            for hop in node.next_hops() {
                if let Some((router, network)) = owner.get(&hop)
                    && let Some(segment) = self.segment.get(network).copied()
                {
                    self.know_by_number(segment, number, *router);
                    if hop.is_ipv6() && node.learned_gateways.contains(&hop) {
                        self.know_advertised(segment, number, *router);
                    }
                }
            }
        }
    }

    /// A node that learns a router by advertisements knows it by its link-local address.
    fn know_advertised(&mut self, segment: usize, node: usize, router: usize) {
        let (router, network) = (&self.plan.nodes[router], &self.plan.networks[segment].name);
        let link = router.links.iter().find(|link| link.network == *network);
        let Some(link) = link.filter(|_| router.has_planned_mac()) else { return };
        let entry = (link_local(link.mac.0).into(), link.mac.0);
        let entries = self.entries.entry((node, segment)).or_default();
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }

    fn add_small_networks(&mut self) {
        let plan = self.plan;
        for (segment, network) in plan.networks.iter().enumerate() {
            let is_set = |link: &PlannedLink| !link.by_dhcp && link.network == network.name;
            let here = |node: &PlannedNode| node.has_planned_mac() && node.links.iter().any(is_set);
            let nodes = plan.nodes.iter().enumerate().filter(|(_, node)| here(node));
            let nodes: Vec<usize> = nodes.map(|(number, _)| number).collect();
            if nodes.len() > MAX_ALL_NEIGHBOURS {
                continue;
            }
            for (at, one) in nodes.iter().enumerate() {
                for other in &nodes[at + 1..] {
                    self.know_by_number(segment, *one, *other);
                }
            }
        }
    }
}

/// The link-local address that a kernel makes of an Ethernet address (RFC 4291, appendix A).
fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let pair = |high, low| u16::from_be_bytes([high, low]);
    Ipv6Addr::new(0xfe80, 0, 0, 0, pair(a ^ 2, b), pair(c, 0xff), pair(0xfe, d), pair(e, f))
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_plan::plan;

    fn text(plan: &Plan, neighbours: &Neighbours, first: usize) -> Vec<String> {
        let lines = neighbours.iter().map(|((node, segment), entries)| {
            let addresses: Vec<_> =
                entries.iter().map(|(address, _)| address.to_string()).collect();
            let (node, network) = (&plan.nodes[first + node].name, &plan.networks[*segment].name);
            format!("{node} {network}: {}", addresses.join(" "))
        });
        lines.collect()
    }

    #[test]
    fn added_nodes_and_those_before_know_each_other() {
        let mut plan = plan(
            "experiment: e
nodes: {server: {}, meter: {count: 2}, far: {}}
networks:
  lan: {attach: [server, meter], subnet: 10.0.0.0/24}
  out: {attach: [server, far], subnet: 10.1.0.0/24}
duration: 1 s
",
        );
        let clones = plan.clones(1, 2, plan.nodes.len()).unwrap();
        let first = plan.nodes.len();
        plan.nodes.extend(clones);
        let (own, others) = added(&plan, first);
        assert_eq!(
            text(&plan, &own, first),
            [
                "meter-3 lan: 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.5",
                "meter-4 lan: 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4"
            ]
        );
        let new = "lan: 10.0.0.4 10.0.0.5";
        let all = ["server", "meter-1", "meter-2"].map(|node| format!("{node} {new}"));
        assert_eq!(text(&plan, &others, 0), all);
        let [(_, mac)] = own[&(0, 0)][..1] else { panic!("{own:?}") };
        assert_eq!(mac, plan.nodes[0].links[0].mac.0);
    }
}
