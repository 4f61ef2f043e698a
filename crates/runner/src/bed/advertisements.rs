//! Router advertisements: hosts of a network with `dhcp` and IPv6 get its prefix and the default route
//! from them (RFC 4861). Each such network has one sender.

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
    match plan.router(&network.name) {
        Some((node, _)) if node.services.is_some() => Sender::Services { is_router: true },
        // In a node with a `root`, dnsmasq would see the host's files with all capabilities.
        Some((node, link)) if is_plain(node) => Sender::Router(node, link),
        // Such a router sends its own. With a lifetime of 0, hosts do not use the server as a
        // second router, which would lead nowhere.
        _ => Sender::Services { is_router: false },
    }
}

fn is_plain(node: &PlannedNode) -> bool {
    node.root.is_none() && node.machine.is_none() && node.external.is_none()
}

/// The dnsmasq configuration of a router that advertises itself on some of its networks.
pub(super) fn configuration(plan: &Plan, router: &PlannedNode) -> Option<String> {
    let mut text = String::new();
    // On other networks, advertisements would be traffic that no host needs (decision 105).
    let served = plan.nodes.iter().filter(|node| node.services.is_some_and(|own| own.dhcp));
    for (services, own) in served.flat_map(|node| node.links.iter().map(move |own| (node, own))) {
        let Some(network) = plan.network(&own.network) else { continue };
        let (Sender::Router(node, link), Some(range)) =
            (sender(plan, network), ipv6_range(plan, network, true))
        else {
            continue;
        };
        if node.name != router.name {
            continue;
        }
        let interface = &link.interface;
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
