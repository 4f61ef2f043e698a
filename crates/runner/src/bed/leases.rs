//! The configuration of a network's DHCP server.

use crate::bed::advertisements::{Sender, ipv6_range, sender};
use experiment::{POOL_LIMIT, Plan, PlannedLink, PlannedNetwork, PlannedNode, PlannedServices};
use std::collections::HashSet;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// Tag of the network's router, if it asks for its address, too.
const ROUTER: &str = "router";

/// Whether a router may ask the server of the network for its address.
fn asks((node, link): &(&PlannedNode, &PlannedLink)) -> bool {
    link.by_dhcp || node.machine.is_some()
}

/// Lines of dnsmasq's configuration for a network whose server has the link `own`: nodes have
/// permanent leases of their planned addresses, others get addresses of the pool.
pub(super) fn lease_lines(
    plan: &Plan,
    network: &PlannedNetwork,
    own: &PlannedLink,
    services: PlannedServices,
) -> String {
    // By default, dnsmasq gives 1,000 leases.
    // Twice, as each node may have a lease of each IP version.
    let most = 2 * (plan.nodes.len() + POOL_LIMIT as usize);
    // It is the only server, does not probe addresses before it gives them, and keeps no file of
    // leases.
    let mut text = format!("dhcp-authoritative\nno-ping\nleasefile-ro\ndhcp-lease-max={most}\n");
    let sender = sender(plan, network);
    let advertises = !matches!(sender, Sender::Router(..));
    let ranges = [ipv4_range(plan, network), ipv6_range(plan, network, advertises)];
    for range in ranges.into_iter().flatten() {
        let _ = writeln!(text, "dhcp-range={range},infinite");
    }
    let routers = plan.routers(network);
    let router = routers.first().copied();
    if let Some(own) = own.ipv4() {
        // Option 3 is the router, 6 the name server; without a value, neither is sent.
        let address = |of: Option<&(&PlannedNode, &PlannedLink)>| of.and_then(|(_, at)| at.ipv4());
        let mut option = |tag: &str, number: u8, value: Option<IpAddr>| {
            let value = value.map_or(String::new(), |address| format!(",{address}"));
            let _ = writeln!(text, "dhcp-option={tag}{number}{value}");
        };
        option("", 3, address(router.as_ref()));
        if let Some((router, _)) = router.filter(asks) {
            // A router is no gateway of itself.
            let other = routers.iter().find(|(other, _)| other.name != router.name);
            option(&format!("tag:{ROUTER},"), 3, address(other));
        }
        option("", 6, services.dns.then_some(own));
    }
    if let Some(own) = own.address_of(true) {
        match sender {
            Sender::Services { is_router: true } => text.push_str("enable-ra\n"),
            // Announced without a lifetime as a router, which the server is not.
            Sender::Services { is_router: false } => {
                text.push_str("enable-ra\nra-param=eth0,0,0\n")
            }
            Sender::Router(..) => {}
        }
        if services.dns {
            let _ = writeln!(text, "dhcp-option=option6:dns-server,[{own}]");
        }
    }
    let (nodes, joined) = (plan.nodes.iter(), plan.joined(network));
    let nodes = nodes.filter(|node| node.services.is_none());
    for (node, link) in nodes.flat_map(|node| links_on(&joined, node)) {
        let is_router = router.filter(asks).is_some_and(|(router, _)| router.name == node.name);
        let tag = if is_router { format!("set:{ROUTER},") } else { String::new() };
        let _ = writeln!(text, "dhcp-host={}", host(link, &tag));
    }
    text
}

/// The leases of the nodes from index `planned` on, which were added to a live lab, for `server`: lines of
/// its file of further hosts. A clone of a machine asks for its address.
pub(super) fn lines_of_clones(plan: &Plan, planned: usize, server: &PlannedNode) -> String {
    let network = server.links.first().and_then(|link| plan.network(&link.network));
    let Some(joined) = network.map(|network| plan.joined(network)) else { return String::new() };
    let links = plan.nodes.iter().skip(planned).flat_map(|node| links_on(&joined, node));
    links.map(|(_, link)| host(link, "") + "\n").collect()
}

/// The file of further hosts of the server `name`, which it reads again on SIGHUP.
pub(super) fn file_of_clones(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.clones"))
}

/// The links of a node on networks of these names.
fn links_on<'p>(
    networks: &HashSet<&str>,
    node: &'p PlannedNode,
) -> impl Iterator<Item = (&'p PlannedNode, &'p PlannedLink)> {
    let links = node.links_with_addresses();
    let links = links.filter(|link| networks.contains(link.network.as_str()));
    links.map(move |link| (node, link))
}

/// The permanent lease of a link.
fn host(link: &PlannedLink, tag: &str) -> String {
    let addresses = link.addresses().map(|address| match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    });
    let addresses = addresses.collect::<Vec<_>>().join(",");
    format!("{},{tag}{addresses},infinite", link.mac)
}

/// The leases of IPv4: those of the pool, or those of nodes only if no address is free.
fn ipv4_range(plan: &Plan, network: &PlannedNetwork) -> Option<String> {
    let subnet = network.ipv4()?;
    // A prefix length of 0 would shift by all 32 bits.
    let mask = u32::MAX.checked_shl(32 - u32::from(subnet.prefix())).unwrap_or(0);
    let mask = Ipv4Addr::from(mask);
    Some(match plan.pool(network, false) {
        Some((first, last)) => format!("{first},{last},{mask}"),
        None => format!("{},static,{mask}", subnet.base()),
    })
}
