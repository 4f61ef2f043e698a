//! Router advertisements: hosts of a network with `dhcp` and IPv6, or with `advertise`, get its prefix and
//! the default route from them (RFC 4861). Without `advertise`, a network has one sender.

use crate::bed::topology::BRIDGE;
use experiment::{Plan, PlannedLink, PlannedNetwork, PlannedNode};
use std::fmt::Write;

/// Prefix length of IPv6 subnets in which hosts make their own addresses (RFC 4862).
/// The interface identifier of Ethernet has the other 64 bits (RFC 2464, section 4).
const OWN_ADDRESSES: u8 = 64;

/// What sends the advertisements of a network.
#[derive(Debug)]
pub(super) enum Sender<'p> {
    /// The node of its services, as the default router or without being one.
    Services { is_router: bool },
    /// This router, at this link.
    Router(&'p PlannedNode, &'p PlannedLink),
}

/// The sender of a network with `dhcp` and IPv6. A router with a kernel, or with files, that are not
/// Thingbed's advertises itself.
pub(super) fn sender<'p>(plan: &'p Plan, network: &PlannedNetwork) -> Sender<'p> {
    let mut routers = plan.routers(network).into_iter();
    // With `advertise` each router that can does, also after one that cannot.
    let first = match network.advertise {
        true => routers.find(|(node, _)| node.can_advertise()),
        false => routers.next(),
    };
    match first {
        Some((node, _)) if node.services.is_some() => Sender::Services { is_router: true },
        Some((node, link)) if node.can_advertise() => Sender::Router(node, link),
        // Such a router sends its own. With a lifetime of 0, hosts do not use the server as a
        // second router, which would lead nowhere.
        _ => Sender::Services { is_router: false },
    }
}

/// What dnsmasq prints when it sends advertisements.
pub(super) const READY: &str = "router advertisement enabled";

/// A range of dnsmasq without DHCP: hosts make their addresses.
const ONLY: &str = "ra-only";

/// Whether a configuration of this module leases addresses, too.
pub(super) fn serves_dhcp(configuration: &str) -> bool {
    let ranges = configuration.lines().filter(|line| line.starts_with("dhcp-range="));
    ranges.into_iter().any(|range| !range.contains(ONLY))
}

/// The link of a node by which it is a router of a network and can send advertisements.
fn router_link<'p>(
    plan: &'p Plan,
    network: &PlannedNetwork,
    node: &PlannedNode,
) -> Option<&'p PlannedLink> {
    let routers = plan.routers(network).into_iter();
    let own = routers.filter(|(router, _)| router.can_advertise() && router.name == node.name);
    own.map(|(_, link)| link).next()
}

/// Lines for a router's networks with `advertise` and without `dhcp`.
fn advertised(plan: &Plan, router: &PlannedNode) -> String {
    let mut text = String::new();
    if !router.forward && router.services.is_none() {
        return text;
    }
    let servers = plan.nodes.iter().filter(|node| node.services.is_some_and(|own| own.dhcp));
    let served: Vec<&str> =
        servers.flat_map(|node| &node.links).map(|link| link.network.as_str()).collect();
    for network in plan.networks.iter().filter(|network| network.advertise) {
        let joined = plan.joined(network);
        // Joined networks are one: the first of them has the lines.
        let first = plan.networks.iter().find(|other| joined.contains(other.name.as_str()));
        let is_first = first.is_some_and(|first| first.name == network.name);
        if !is_first || served.iter().any(|name| joined.contains(name)) {
            continue;
        }
        let link = router_link(plan, network, router);
        if let (Some(link), Some(subnet)) = (link, network.subnet_of(true)) {
            let interface = interface(router, link);
            let (base, prefix) = (subnet.base(), subnet.prefix());
            let _ =
                writeln!(text, "interface={interface}\ndhcp-range={base},{ONLY},{prefix},infinite");
        }
    }
    text
}

/// The dnsmasq configuration of a router that advertises itself on some of its networks.
pub(super) fn configuration(plan: &Plan, router: &PlannedNode) -> Option<String> {
    let mut text = advertised(plan, router);
    // On other networks, advertisements would be traffic that no host needs (decision 105).
    let served = plan.nodes.iter().filter(|node| node.services.is_some_and(|own| own.dhcp));
    for (services, own) in served.flat_map(|node| node.links.iter().map(move |own| (node, own))) {
        let Some(network) = plan.network(&own.network) else { continue };
        let link = match sender(plan, network) {
            Sender::Router(node, link) if node.name == router.name => Some(link),
            Sender::Router(..) if network.advertise => router_link(plan, network, router),
            _ => None,
        };
        let (Some(link), Some(range)) = (link, ipv6_range(plan, network, true)) else { continue };
        let interface = interface(router, link);
        let _ = writeln!(text, "interface={interface}\ndhcp-range={range},infinite");
        let server = own.address_of(true).filter(|_| services.services.is_some_and(|own| own.dns));
        if let Some(server) = server {
            let _ = writeln!(text, "dhcp-option=tag:{interface},option6:dns-server,[{server}]");
        }
    }
    // It advertises that addresses come by DHCP, as of the node of the services, and answers none of
    // the requests: those without the tag `none`, which no request has.
    let common = "port=0\nbind-interfaces\nno-resolv\nno-poll\nleasefile-ro\nenable-ra\n\
                  dhcp-ignore=tag:!none\n";
    (!text.is_empty()).then(|| format!("{common}{text}"))
}

/// The interface that has the addresses of a link: its own, or the bridge of which it is a port.
fn interface<'p>(node: &PlannedNode, link: &'p PlannedLink) -> &'p str {
    if node.is_port(link) { BRIDGE } else { &link.interface }
}

/// The leases of IPv6: those of the pool, or those of nodes only if no address is free. If the server
/// advertises the prefix, hosts may also make their own addresses, if the prefix length allows it.
pub(super) fn ipv6_range(
    plan: &Plan,
    network: &PlannedNetwork,
    advertises: bool,
) -> Option<String> {
    let subnet = network.subnet_of(true)?;
    let prefix = subnet.prefix();
    let own = if advertises && prefix == OWN_ADDRESSES { "slaac," } else { "" };
    Some(match plan.pool(network, true) {
        Some((first, last)) => format!("{first},{last},{own}{prefix}"),
        None => format!("{},static,{own}{prefix}", subnet.base()),
    })
}
