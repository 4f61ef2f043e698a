//! Computes routes between networks: the fewest routers, by breadth-first search from each network.

use crate::destination::Destination;
use crate::plan::{PlannedNetwork, PlannedNode, PlannedRoute};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;

/// Nodes and networks, with indices in place of names.
struct Graph<'p> {
    nodes: &'p [PlannedNode],
    networks: &'p [PlannedNetwork],
    /// Networks of each node, in the order of its links.
    links: Vec<Vec<usize>>,
    /// Number of a node's first link to each of its networks.
    first_links: Vec<HashMap<usize, usize>>,
    /// Routers of each network, in the order of the plan.
    routers: Vec<Vec<usize>>,
    /// Whether each network is the first of those that bridges join it with.
    is_first: Vec<bool>,
    /// Networks with a gateway to the outside.
    outward: HashSet<usize>,
}

/// The next router on the way to a network.
#[derive(Debug, Clone, Copy)]
struct Hop {
    router: usize,
    /// Number of routers on the way.
    hops: u32,
}

/// A network that a node reaches by a router.
#[derive(Debug, Clone, Copy)]
struct Found {
    network: usize,
    hops: u32,
    via: IpAddr,
}

/// The routes of each node: routers have one for each network, other nodes a default route and those
/// that differ from it.
pub(super) fn routes(nodes: &[PlannedNode], networks: &[PlannedNetwork]) -> Vec<Vec<PlannedRoute>> {
    let graph = Graph::of(nodes, networks);
    // Hosts with the same links have the same routes: thousands of them are computed once.
    let (members, class_of) = graph.classes();
    let mut routes: Vec<Vec<PlannedRoute>> = vec![Vec::new(); members.len()];
    for is_ipv6 in [false, true] {
        let mut found: Vec<Vec<Found>> = vec![Vec::new(); members.len()];
        let of_family = (0..networks.len())
            .filter(|n| graph.is_first[*n] && networks[*n].subnet_of(is_ipv6).is_some());
        for network in of_family {
            let next = graph.next_hops(network, is_ipv6);
            for (node, found) in members.iter().zip(&mut found) {
                found.extend(graph.find(*node, network, &next, is_ipv6));
            }
        }
        for ((node, found), routes) in members.iter().zip(&found).zip(&mut routes) {
            routes.extend(graph.choose(*node, found, is_ipv6));
        }
    }
    class_of.into_iter().map(|class| routes[class].clone()).collect()
}

impl<'p> Graph<'p> {
    fn of(nodes: &'p [PlannedNode], networks: &'p [PlannedNetwork]) -> Self {
        // Networks that a bridge joins are one.
        let mut first = HashMap::new();
        let index: HashMap<&str, usize> = networks
            .iter()
            .enumerate()
            .map(|(n, own)| (own.name.as_str(), *first.entry(own.subnet).or_insert(n)))
            .collect();
        let mut graph = Self {
            nodes,
            networks,
            links: Vec::with_capacity(nodes.len()),
            first_links: Vec::with_capacity(nodes.len()),
            routers: vec![Vec::new(); networks.len()],
            is_first: networks
                .iter()
                .enumerate()
                .map(|(n, own)| index[own.name.as_str()] == n)
                .collect(),
            outward: HashSet::new(),
        };
        for (number, node) in nodes.iter().enumerate() {
            let own = node.links.iter().filter_map(|link| index.get(link.network.as_str()));
            let own: Vec<usize> = own.copied().collect();
            if node.forward {
                own.iter().for_each(|network| graph.routers[*network].push(number));
            }
            if node.services.is_some_and(|services| services.nat) {
                graph.outward.extend(&own);
            }
            // Backwards, so that the first link stays.
            graph.first_links.push(own.iter().enumerate().rev().map(|(n, on)| (*on, n)).collect());
            graph.links.push(own);
        }
        graph
    }

    /// Nodes whose routes are the same: one node of each class, and the class of each node. Each
    /// router is a class.
    fn classes(&self) -> (Vec<usize>, Vec<usize>) {
        let mut members = Vec::new();
        let mut known = HashMap::new();
        let class_of = self.nodes.iter().enumerate().map(|(number, node)| {
            let own = node.links.iter().map(|link| [link.is_own(false), link.is_own(true)]);
            let own: Vec<_> = own.collect();
            // Routers with equal links differ: neither is its own next hop. Hardware has no routes.
            let only = self.has_all_routes(number) || node.external.is_some();
            let gateways: Vec<IpAddr> = node.gateways().collect();
            let key = (&self.links[number], own, gateways, only.then_some(number));
            *known.entry(key).or_insert_with(|| {
                members.push(number);
                members.len() - 1
            })
        });
        let class_of = class_of.collect();
        (members, class_of)
    }

    /// Whether the node has a route for each network, because others use it as a router.
    fn has_all_routes(&self, node: usize) -> bool {
        let node = &self.nodes[node];
        node.forward || node.services.is_some_and(|services| services.nat)
    }

    /// For each network, the next hop to `to`.
    fn next_hops(&self, to: usize, is_ipv6: bool) -> Vec<Option<Hop>> {
        let mut next = vec![None; self.networks.len()];
        let mut seen = HashSet::new();
        // First in, first out: each network is reached by the fewest routers.
        let mut queue = VecDeque::from([(to, 0)]);
        while let Some((network, hops)) = queue.pop_front() {
            // In the plan's order: of equal ways the first router wins, so that routes depend on
            // the file only (decision 95).
            for &router in self.routers[network].iter().filter(|router| seen.insert(**router)) {
                for &other in &self.links[router] {
                    let is_new = other != to && next[other].is_none();
                    if is_new && self.networks[other].subnet_of(is_ipv6).is_some() {
                        next[other] = Some(Hop { router, hops: hops + 1 });
                        queue.push_back((other, hops + 1));
                    }
                }
            }
        }
        next
    }

    /// The first of a node's links with the fewest routers to a network that it is not attached to.
    /// A router is never its own next hop: if the link on the way to the network is not usable yet, the
    /// search has reached the router's other links through the router.
    fn find(
        &self,
        node: usize,
        network: usize,
        next: &[Option<Hop>],
        is_ipv6: bool,
    ) -> Option<Found> {
        let planned = &self.nodes[node];
        if planned.external.is_some() || self.first_links[node].contains_key(&network) {
            return None;
        }
        let links = planned.links.iter().zip(&self.links[node]);
        // Such an address is not there yet when the lab sets the routes.
        let usable = links.filter(|(link, _)| !link.is_own(is_ipv6));
        let hops = usable.filter_map(|(_, on)| Some((*on, next[*on]?)));
        let hops = hops.filter(|(_, hop)| hop.router != node);
        let (on, Hop { router, hops }) = hops.min_by_key(|(_, hop)| hop.hops)?;
        let link = self.first_links[router].get(&on)?;
        let via = self.nodes[router].links.get(*link)?.address_of(is_ipv6)?;
        Some(Found { network, hops, via })
    }

    /// The routes to the networks that were found.
    fn choose(&self, node: usize, found: &[Found], is_ipv6: bool) -> Vec<PlannedRoute> {
        let default = self.default_hop(node, found, is_ipv6);
        let is_covered = |via| !self.has_all_routes(node) && default == Some(via);
        let all = default.map(|via| PlannedRoute { to: Destination::all(is_ipv6), via });
        let others = found.iter().filter(|found| !is_covered(found.via)).filter_map(|found| {
            let to = self.networks[found.network].subnet_of(is_ipv6)?.into();
            Some(PlannedRoute { to, via: found.via })
        });
        all.into_iter().chain(others).collect()
    }

    /// Next hop of the default route: towards the nearest gateway to the outside, else the next hop
    /// to most networks. Routers have none without such a gateway.
    fn default_hop(&self, node: usize, found: &[Found], is_ipv6: bool) -> Option<IpAddr> {
        let planned = &self.nodes[node];
        let has_gateway = planned.gateways().any(|via| via.is_ipv6() == is_ipv6);
        if has_gateway || planned.services.is_some_and(|services| services.nat) {
            return None;
        }
        let outward = found.iter().filter(|found| self.outward.contains(&found.network));
        if let Some(nearest) = outward.min_by_key(|found| found.hops) {
            return Some(nearest.via);
        }
        if planned.forward {
            return None;
        }
        let mut counts: Vec<(IpAddr, usize)> = Vec::new();
        for found in found {
            match counts.iter_mut().find(|(via, _)| *via == found.via) {
                Some((_, count)) => *count += 1,
                None => counts.push((found.via, 1)),
            }
        }
        // The first of the largest.
        counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(via, _)| via)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Experiment, Only, Plan};

    fn plan(text: &str) -> Plan {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("e.yaml");
        std::fs::write(&file, format!("experiment: r\n{text}duration: 1 s\n")).unwrap();
        let experiment = Experiment::read(&file).unwrap_or_else(|error| panic!("{error}"));
        let cells = experiment.cells(&Only::all()).unwrap();
        experiment.plan(&cells[0], 0, 1).unwrap()
    }

    fn routes(plan: &Plan, node: &str) -> Vec<String> {
        plan.node(node).unwrap().routes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn hosts_have_a_default_route_and_routers_one_for_each_network() {
        let plan = plan(
            "nodes: {a: {count: 2}, r: {forward: true}, s: {forward: true}, b: {}}
networks:
  left: {attach: [a, r], subnet: 10.1.0.0/24}
  middle: {attach: [r, s], subnet: [10.2.0.0/24, 'fd00:2::/64']}
  right: {attach: [s, b], subnet: [10.3.0.0/24, 'fd00:3::/64']}
",
        );
        assert_eq!(routes(&plan, "a-2"), ["default via 10.1.0.3"]);
        assert_eq!(routes(&plan, "r"), ["10.3.0.0/24 via 10.2.0.2", "fd00:3::/64 via fd00:2::2"]);
        // No IPv6 on the left.
        assert_eq!(routes(&plan, "s"), ["10.1.0.0/24 via 10.2.0.1"]);
        assert_eq!(routes(&plan, "b"), ["default via 10.3.0.1", "default via fd00:3::1"]);
        let way = plan.way("a-1", "right").unwrap();
        assert_eq!((way.link.network.as_str(), way.address), ("left", [10, 1, 0, 1].into()));
        assert_eq!(plan.way("b", "right").unwrap().address, std::net::IpAddr::from([10, 3, 0, 2]));
    }

    #[test]
    fn of_two_ways_the_shorter_one_is_used() {
        // A ring of four routers, and a host at the first.
        let plan = plan(
            "nodes: {h: {}, r: {count: 1, forward: true}, s: {forward: true}, t: {forward: true}, u: {forward: true}}
networks:
  own: {attach: [h, r], subnet: 10.0.0.0/24}
  rs: {attach: [r, s], subnet: 10.1.0.0/24}
  st: {attach: [s, t], subnet: 10.2.0.0/24}
  tu: {attach: [t, u], subnet: 10.3.0.0/24}
  ur: {attach: [u, r], subnet: 10.4.0.0/24}
",
        );
        assert_eq!(routes(&plan, "r"), ["10.2.0.0/24 via 10.1.0.2", "10.3.0.0/24 via 10.4.0.1"]);
        // Both ways have two routers: the one of the first link is used.
        assert_eq!(routes(&plan, "t")[0], "10.0.0.0/24 via 10.2.0.1");
        assert_eq!(routes(&plan, "h"), ["default via 10.0.0.2"]);
    }

    #[test]
    fn two_routers_of_a_network_share_the_destinations() {
        let plan = plan(
            "nodes: {h: {}, r: {forward: true}, s: {forward: true}}
networks:
  own: {attach: [h, r, s], subnet: 10.0.0.0/24}
  one: {attach: r, subnet: 10.1.0.0/24}
  two: {attach: r, subnet: 10.2.0.0/24}
  three: {attach: s, subnet: 10.3.0.0/24}
",
        );
        assert_eq!(routes(&plan, "h"), ["default via 10.0.0.2", "10.3.0.0/24 via 10.0.0.3"]);
    }

    #[test]
    fn the_default_route_leads_to_the_gateway_and_back() {
        let plan = plan(
            "nodes: {h: {}, r: {forward: true}, s: {forward: true}}
networks:
  own: {attach: [h, r, s], subnet: 10.0.0.0/24}
  one: {attach: r, subnet: 10.1.0.0/24}
  out: {attach: s, subnet: 10.2.0.0/24, nat: true}
",
        );
        assert_eq!(routes(&plan, "h"), ["default via 10.0.0.3", "10.1.0.0/24 via 10.0.0.2"]);
        assert_eq!(routes(&plan, "r"), ["default via 10.0.0.3", "10.2.0.0/24 via 10.0.0.3"]);
        let back = ["10.0.0.0/24 via 10.2.0.1", "10.1.0.0/24 via 10.2.0.1"];
        assert_eq!(routes(&plan, "out-services"), back);
        assert_eq!(plan.node("s").unwrap().gateway, Some([10, 2, 0, 254].into()));
    }

    #[test]
    fn each_family_has_its_gateway() {
        let plan = plan(
            "nodes: {h: {}, r: {forward: true}, s: {forward: true}}
networks:
  own: {attach: [h, r, s], subnet: [10.0.0.0/24, 'fd00::/64']}
  old: {attach: r, subnet: 10.1.0.0/24, nat: true}
  new: {attach: s, subnet: 'fd02::/64', nat: true}
",
        );
        assert_eq!(routes(&plan, "h"), ["default via 10.0.0.2", "default via fd00::3"]);
        assert_eq!(routes(&plan, "r"), ["default via fd00::3", "fd02::/64 via fd00::3"]);
        assert_eq!(routes(&plan, "new-services"), ["fd00::/64 via fd02::1"]);
        let gateways = |node: &str| plan.node(node).unwrap().gateways().collect::<Vec<_>>();
        assert_eq!(gateways("r"), [std::net::IpAddr::from([10, 1, 0, 254])]);
        assert_eq!(gateways("s"), ["fd02::ff:ffff".parse::<std::net::IpAddr>().unwrap()]);
    }

    #[test]
    fn a_router_that_asks_for_its_address_is_not_its_next_hop() {
        let plan = plan(
            "nodes: {b: {forward: true}, a: {forward: true, address: dhcp}, c: {}, d: {}}
networks:
  out: {attach: [a, b], subnet: 10.0.0.0/24, dhcp: true}
  far: {attach: [b, c], subnet: 10.1.0.0/24}
  near: {attach: [a, d], subnet: 10.2.0.0/24}
",
        );
        // The default route, by DHCP, leads there.
        assert!(routes(&plan, "a").is_empty());
        assert_eq!(routes(&plan, "d"), ["default via 10.2.0.1"]);
        assert_eq!(routes(&plan, "b"), ["10.2.0.0/24 via 10.0.0.1"]);
    }

    #[test]
    fn without_routers_there_are_no_routes() {
        let plan = plan(
            "nodes: {h: {}, r: {}, s: {}}
networks:
  own: {attach: [h, r], subnet: 10.0.0.0/24}
  other: {attach: [r, s], subnet: 10.1.0.0/24}
",
        );
        assert!(plan.nodes.iter().all(|node| node.routes.is_empty()));
        assert_eq!(plan.way("h", "other"), None);
    }
}
