//! How a node reaches a network: by a link, or by routes.

use super::network::PlannedNetwork;
use super::node::{PlannedLink, PlannedNode};
use super::route::PlannedRoute;
use crate::destination::Destination;
use std::net::IpAddr;

/// How a node reaches a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Way<'a> {
    /// The link that its packets use.
    pub link: &'a PlannedLink,
    /// Its address there, of the family that workloads of the network use.
    pub address: IpAddr,
    /// The next router; `None` on the network itself.
    pub via: Option<IpAddr>,
}

/// How `node` reaches `network`: by its link to it, or by a route. `None` if it cannot. `find` finds a
/// network by its name.
pub(crate) fn way<'a, 'n>(
    node: &'a PlannedNode,
    network: &PlannedNetwork,
    find: impl Fn(&str) -> Option<&'n PlannedNetwork>,
) -> Option<Way<'a>> {
    let is_joined =
        |link: &&PlannedLink| find(&link.network).is_some_and(|on| on.is_joined_with(network));
    let own = node.links.iter().find(|link| link.network == network.name);
    if let Some(link) = own.or_else(|| node.links.iter().find(is_joined)) {
        return Some(Way { link, address: link.address, via: None });
    }
    // Routes cover whole networks, so any address of it will do.
    let to = network.subnet.address(0)?;
    let gateways = node.gateways().chain(node.learned_gateways.iter().copied());
    let default = |via: IpAddr| PlannedRoute { to: Destination::all(via.is_ipv6()), via };
    let routes = node.routes.iter().copied().chain(gateways.map(default));
    // The longest prefix wins, as in the kernel (RFC 1812, 5.2.4.3).
    let route = routes.filter(|route| route.to.contains(to)).max_by_key(|r| r.to.prefix())?;
    let link = node.links.iter().find(|link| {
        let on = find(&link.network);
        on.is_some_and(|on| on.subnets().any(|subnet| subnet.contains(route.via)))
    })?;
    let address = link.addresses().find(|own| own.is_ipv6() == to.is_ipv6())?;
    Some(Way { link, address, via: Some(route.via) })
}
