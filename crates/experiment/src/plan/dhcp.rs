//! What a DHCP server gives: addresses for clients that are no nodes of the plan, and the router.

use super::{Plan, PlannedNetwork};
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
        let own = self.nodes.iter().take(count).filter(|node| node.services.is_none());
        let links = own.flat_map(|node| &node.links).filter(|link| link.network == network.name);
        let used = links.flat_map(|link| link.addresses().collect::<Vec<_>>());
        let free = used.filter_map(|used| subnet.index(used)).max().map_or(0, |index| index + 1);
        let first =
            (free + (last + 1).checked_sub(free)? / 2).max((last + 1).saturating_sub(POOL_LIMIT));
        (first <= last).then_some(())?;
        Some((subnet.address(first)?, subnet.address(last)?))
    }

    /// The address of the router that hosts of a network without configuration use in a family: the
    /// NAT gateway, or the first node that forwards to another network.
    pub fn router(&self, network: &str, is_ipv6: bool) -> Option<IpAddr> {
        let nat = self.nodes.iter().filter(|node| node.services.is_some_and(|own| own.nat));
        let routers = self.nodes.iter().filter(|node| node.forward && node.links.len() > 1);
        let mut links = nat.chain(routers).flat_map(|node| &node.links);
        links.find(|link| link.network == network)?.address_of(is_ipv6)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Experiment, Only};

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
