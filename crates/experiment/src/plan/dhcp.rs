//! What a DHCP server gives: addresses for clients that are no nodes of the plan, and the router.

use super::{Plan, PlannedLink, PlannedNetwork, PlannedNode};
use std::collections::HashMap;
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
        let links = own.flat_map(|node| &node.links).filter(|link| link.network == network.name);
        let used = links.flat_map(|link| link.addresses().collect::<Vec<_>>());
        let free = used.filter_map(|used| subnet.index(used)).max().map_or(0, |index| index + 1);
        let first =
            (free + (last + 1).checked_sub(free)? / 2).max((last + 1).saturating_sub(POOL_LIMIT));
        (first <= last).then_some(())?;
        Some((subnet.address(first)?, subnet.address(last)?))
    }

    /// The router of a network for hosts that configure themselves, see [`router`].
    pub fn router(&self, network: &str) -> Option<(&PlannedNode, &PlannedLink)> {
        router(&self.nodes, network)
    }
}

/// The router that hosts of a network without configuration use, and its link there: the NAT gateway,
/// or the first node that forwards to another network.
pub(crate) fn router<'a>(
    nodes: &'a [PlannedNode],
    network: &str,
) -> Option<(&'a PlannedNode, &'a PlannedLink)> {
    let nat = nodes.iter().filter(|node| node.services.is_some_and(|own| own.nat));
    // With one link, a node that forwards leads nowhere.
    let routers = nodes.iter().filter(|node| node.forward && node.links.len() > 1);
    let links = |node: &'a PlannedNode| node.links.iter().map(move |link| (node, link));
    nat.chain(routers).flat_map(links).find(|(_, link)| link.network == network)
}

/// The gateways that each of `nodes` learns by DHCP and router advertisements, one of each family at
/// most.
pub(crate) fn learned_gateways(nodes: &[PlannedNode]) -> Vec<Vec<IpAddr>> {
    let mut routers = HashMap::new();
    let of = |node: &PlannedNode| {
        let mut learned = Vec::new();
        let asking: Vec<&PlannedLink> = node.links.iter().filter(|link| link.by_dhcp).collect();
        for is_ipv6 in [false, true] {
            let found = asking.iter().find_map(|link| {
                let known = routers.entry(link.network.clone());
                let (router, own) = (*known.or_insert_with(|| router(nodes, &link.network)))?;
                // A router is no gateway of itself.
                own.address_of(is_ipv6).filter(|_| router.name != node.name)
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
