//! What a DHCP server gives: addresses for clients that are no nodes of the plan, and the router.

use super::{Plan, PlannedLink, PlannedNetwork, PlannedNode};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Maximum number of addresses in a pool.
pub const POOL_LIMIT: u64 = 4096;

impl Plan {
    /// The first and the last address of the pool of a network in a family: the upper half of those
    /// that no node has, at most 4,096. Nodes that are added to a live lab take the others.
    pub fn pool(&self, network: &PlannedNetwork, is_ipv6: bool) -> Option<(IpAddr, IpAddr)> {
        self.pool_of(self.nodes.len(), network, is_ipv6)
    }

    /// The same for a lab that began with the first `count` nodes.
    pub(crate) fn pool_of(
        &self,
        count: usize,
        network: &PlannedNetwork,
        is_ipv6: bool,
    ) -> Option<(IpAddr, IpAddr)> {
        let subnet = network.subnet_of(is_ipv6)?;
        // The last address is that of the network's services.
        let last = subnet.room().checked_sub(2)?;
        // Without the node of services: it has the last address, behind which none is free.
        let own = self.nodes.iter().take(count).filter(|node| node.services.is_none());
        let joined = self.joined(network);
        let links = own.flat_map(|node| &node.links);
        let links = links.filter(|link| joined.contains(link.network.as_str()));
        let used = links.flat_map(|link| link.addresses().collect::<Vec<_>>());
        let free = used.filter_map(|used| subnet.index(used)).max().map_or(0, |index| index + 1);
        let first =
            (free + (last + 1).checked_sub(free)? / 2).max((last + 1).saturating_sub(POOL_LIMIT));
        (first <= last).then_some(())?;
        Some((subnet.address(first)?, subnet.address(last)?))
    }

    /// The router of a network for hosts that configure themselves: the NAT gateway, or the first node
    /// that forwards to another network, if possible one with a fixed address; and its link there.
    pub fn router(&self, network: &PlannedNetwork) -> Option<(&PlannedNode, &PlannedLink)> {
        self.routers(network).into_iter().next()
    }

    /// All routers of a network in this order.
    pub fn routers(&self, network: &PlannedNetwork) -> Vec<(&PlannedNode, &PlannedLink)> {
        routers_of(&self.nodes, &self.networks, network)
    }

    /// Whether a bridge with STP is on the network, or on one that bridges join with it: its ports forward
    /// no frames at first.
    pub fn has_spanning_tree(&self, network: &PlannedNetwork) -> bool {
        let joined = self.joined(network);
        let switches: HashSet<&String> = self
            .networks
            .iter()
            .filter(|own| joined.contains(own.name.as_str()))
            .map(PlannedNetwork::switch)
            .collect();
        let bridges = self.nodes.iter().filter(|node| node.bridge.as_ref().is_some_and(|b| b.stp));
        bridges
            .flat_map(|node| &node.links)
            .any(|link| joined.contains(link.network.as_str()) || switches.contains(&link.network))
    }

    /// Names of the networks that bridges join with `network`, and its own.
    pub fn joined(&self, network: &PlannedNetwork) -> HashSet<&str> {
        joined(&self.networks, network)
    }
}

fn joined<'a>(networks: &'a [PlannedNetwork], network: &PlannedNetwork) -> HashSet<&'a str> {
    let all = networks.iter().filter(|other| other.is_joined_with(network));
    all.map(|other| other.name.as_str()).collect()
}

/// All routers of a network, and of those that bridges join with it, in the order of [`routers`].
pub(crate) fn routers_of<'a>(
    nodes: &'a [PlannedNode],
    networks: &[PlannedNetwork],
    network: &PlannedNetwork,
) -> Vec<(&'a PlannedNode, &'a PlannedLink)> {
    routers(nodes, &joined(networks, network))
}

/// The routers of joined networks, with their links there: the NAT gateway, then those with a fixed
/// address, then those that get their address from the network, because such a router is a host there
/// and leads to networks behind it, in any order of the file.
fn routers<'a>(
    nodes: &'a [PlannedNode],
    networks: &HashSet<&str>,
) -> Vec<(&'a PlannedNode, &'a PlannedLink)> {
    let nat = nodes.iter().filter(|node| node.services.is_some_and(|own| own.nat));
    // Without a link to another network, a node that forwards leads nowhere.
    let leads_out = |node: &&PlannedNode| {
        node.forward && node.links.iter().any(|link| !networks.contains(link.network.as_str()))
    };
    let routers = nodes.iter().filter(leads_out);
    let link = |node: &'a PlannedNode| {
        let mut links = node.links.iter();
        Some((node, links.find(|link| networks.contains(link.network.as_str()))?))
    };
    let mut all: Vec<_> = nat.chain(routers).filter_map(link).collect();
    // Stable: otherwise in the order of the file.
    all.sort_by_key(|(_, link)| link.by_dhcp || link.by_slaac);
    all
}

/// The routers of a network as its hosts learn them.
struct Learned<'a> {
    advertise: bool,
    routers: Vec<(&'a PlannedNode, &'a PlannedLink)>,
}

impl<'a> Learned<'a> {
    fn of(nodes: &'a [PlannedNode], networks: &[PlannedNetwork], name: &str) -> Self {
        match networks.iter().find(|network| network.name == name) {
            Some(network) => {
                Self { advertise: network.advertise, routers: routers_of(nodes, networks, network) }
            }
            None => Self { advertise: false, routers: Vec::new() },
        }
    }

    /// The gateway that `node` learns in a family; a router is no gateway of itself.
    fn gateway(&self, node: &PlannedNode, is_ipv6: bool) -> Option<IpAddr> {
        let is_other = |(router, _): &&(&PlannedNode, _)| router.name != node.name;
        let mut others = self.routers.iter().filter(is_other);
        let first = self.routers.first().filter(is_other);
        let (_, link) = match (is_ipv6, self.advertise) {
            // The server gives a router the address of another one.
            (false, _) => others.next()?,
            // All that Thingbed starts advertise themselves.
            (true, true) => others.find(|(router, _)| router.can_advertise()).or(first)?,
            // One of them does.
            (true, false) => first?,
        };
        link.address_of(is_ipv6)
    }
}

/// The gateways that each of `nodes` learns by DHCP and router advertisements, one of each family at
/// most.
pub(crate) fn learned_gateways(
    nodes: &[PlannedNode],
    networks: &[PlannedNetwork],
) -> Vec<Vec<IpAddr>> {
    let mut known = HashMap::new();
    let of = |node: &PlannedNode| {
        let mut learned = Vec::new();
        for is_ipv6 in [false, true] {
            let mut asking = node.links.iter().filter(|link| link.is_own(is_ipv6));
            let found = asking.find_map(|link| {
                let name = &link.network;
                let on =
                    known.entry(name.clone()).or_insert_with(|| Learned::of(nodes, networks, name));
                on.gateway(node, is_ipv6)
            });
            learned.extend(found);
        }
        learned
    };
    nodes.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Experiment, Only};

    #[test]
    fn nodes_with_dhcp_learn_the_router_of_their_network() {
        let text = "experiment: e
nodes: {client: {address: dhcp}, r: {forward: true}, s: {address: dhcp}, far: {}}
networks:
  lan: {attach: [client, r], subnet: ['fd00:1::/64', 10.1.0.0/24], dhcp: true}
  six: {attach: s, subnet: 'fd00:2::/64', dhcp: true, nat: true}
  out: {attach: [r, far], subnet: 'fd00:3::/64'}
";
        let experiment = Experiment::parse(text, "e.yaml", "").unwrap();
        let cell = experiment.cells(&Only::all()).unwrap().remove(0);
        let plan = experiment.plan(&cell, 0, 1).unwrap();
        let node = |name| plan.node(name).unwrap();
        let learned = |name| {
            let all = &node(name).learned_gateways;
            all.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(learned("client"), ["10.1.0.2", "fd00:1::2"]);
        assert_eq!(learned("s"), ["fd00:2::ff:ffff"]);
        assert!(learned("r").is_empty() && learned("far").is_empty());
        // The lab sets none of them.
        assert!(["client", "s"].iter().all(|name| node(name).gateways().next().is_none()));
        assert!(node("client").routes.is_empty());
        let way = plan.way("client", "out").unwrap();
        assert_eq!(way.address.to_string(), "fd00:1::1");
        assert_eq!(way.via.unwrap().to_string(), "fd00:1::2");
    }

    /// The learned gateways of the nodes of a plan.
    fn learned(nodes: &str, networks: &str) -> impl Fn(&str) -> Vec<String> + use<> {
        let text = format!("experiment: e\nnodes: {{{nodes}}}\nnetworks:\n{networks}");
        let plan = crate::test_plan::plan(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        move |name| {
            let node = plan.node(name).unwrap();
            node.learned_gateways.iter().map(ToString::to_string).collect()
        }
    }

    #[test]
    fn a_router_that_asks_for_its_address_learns_the_other_in_any_order() {
        let asks = "cpe: {forward: true, address: dhcp}";
        let fixed = "isp: {forward: true}";
        for nodes in [format!("{asks}, {fixed}"), format!("{fixed}, {asks}")] {
            let learned = learned(
                &format!("{nodes}, phone: {{address: dhcp}}, far: {{}}, near: {{}}"),
                "  wan: {attach: [cpe, isp, phone], subnet: [10.1.0.0/24, 'fd00:1::/64'], dhcp: true}
  core: {attach: [isp, far], subnet: [10.2.0.0/24, 'fd00:2::/64']}
  home: {attach: [cpe, near], subnet: [10.3.0.0/24, 'fd00:3::/64']}
",
            );
            for name in ["cpe", "phone"] {
                assert_eq!(learned(name), ["10.1.0.2", "fd00:1::2"], "{name}: {nodes}");
            }
            assert!(learned("isp").is_empty(), "{nodes}");
        }
    }

    #[test]
    fn a_router_is_no_gateway_of_itself() {
        // Both ask: only one of them advertises itself, so that one learns no IPv6 gateway.
        let learned = learned(
            "r: {forward: true, address: dhcp}, s: {forward: true, address: dhcp}, a: {}, b: {}",
            "  lan: {attach: [r, s], subnet: [10.1.0.0/24, 'fd00:1::/64'], dhcp: true}
  one: {attach: [r, a], subnet: [10.2.0.0/24, 'fd00:2::/64']}
  two: {attach: [s, b], subnet: [10.3.0.0/24, 'fd00:3::/64']}
",
        );
        assert_eq!(learned("r"), ["10.1.0.2"]);
        assert_eq!(learned("s"), ["10.1.0.1", "fd00:1::1"]);
    }

    #[test]
    fn hosts_learn_a_router_whose_advertisements_are_sent() {
        let root = tempfile::tempdir().unwrap();
        let rooted = format!("r: {{forward: true, root: {}}}", root.path().display());
        let learned = learned(
            &format!("{rooted}, s: {{forward: true}}, a: {{address: slaac}}, b: {{}}"),
            "  lan: {attach: [r, s, a], subnet: 'fd00:1::/64', advertise: true}
  far: {attach: [r, s, b], subnet: 'fd00:2::/64'}
",
        );
        assert_eq!(learned("a"), ["fd00:1::2"]);
    }

    #[test]
    fn a_pool_is_the_upper_half_of_the_free_addresses() {
        for (count, subnet, pool) in [
            (3, "10.0.0.0/24", Some(("10.0.0.129", "10.0.0.253"))),
            (3, "10.0.0.0/29", Some(("10.0.0.5", "10.0.0.5"))),
            (5, "10.0.0.0/29", None),
            (3, "10.0.0.0/8", Some(("10.255.239.254", "10.255.255.253"))),
            (3, "'fd00::/64'", Some(("fd00::ff:efff", "fd00::ff:fffe"))),
        ] {
            let text = format!(
                "experiment: e
nodes: {{a: {{count: {count}}}}}
networks: {{n: {{attach: a, subnet: {subnet}, dhcp: true}}}}
"
            );
            let experiment = Experiment::parse(&text, "e.yaml", "").unwrap();
            let cell = experiment.cells(&Only::all()).unwrap().remove(0);
            let plan = experiment.plan(&cell, 0, 1).unwrap();
            let network = &plan.networks[0];
            let found = plan.pool(network, network.subnet.is_ipv6());
            let found = found.map(|(first, last)| (first.to_string(), last.to_string()));
            let pool = pool.map(|(first, last)| (first.to_owned(), last.to_owned()));
            assert_eq!(found, pool, "{subnet}");
        }
    }
}
