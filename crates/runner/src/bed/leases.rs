//! The configuration of a network's DHCP server.

use experiment::{POOL_LIMIT, Plan, PlannedLink, PlannedNetwork, PlannedServices};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

/// Prefix length of IPv6 subnets in which hosts make their own addresses (RFC 4862).
const OWN_ADDRESSES: u8 = 64;

/// Lines of dnsmasq's configuration for a network whose server has the link `own`: nodes have
/// permanent leases of their planned addresses, others get addresses of the pool.
pub(super) fn lease_lines(
    plan: &Plan,
    network: &PlannedNetwork,
    own: &PlannedLink,
    services: PlannedServices,
) -> String {
    // By default, dnsmasq gives 1,000 leases.
    let most = 2 * (plan.nodes.len() + POOL_LIMIT as usize);
    let mut text = format!("dhcp-authoritative\nno-ping\nleasefile-ro\ndhcp-lease-max={most}\n");
    for range in [ipv4_range(plan, network), ipv6_range(plan, network)].into_iter().flatten() {
        let _ = writeln!(text, "dhcp-range={range},infinite");
    }
    if let Some(own) = own.ipv4() {
        // Option 3 is the router, 6 the name server; without a value, neither is sent.
        let router = plan.router(&network.name, false);
        for (number, value) in [(3, router), (6, services.dns.then_some(own))] {
            let value = value.map_or(String::new(), |address| format!(",{address}"));
            let _ = writeln!(text, "dhcp-option={number}{value}");
        }
    }
    if let Some(own) = own.addresses().find(IpAddr::is_ipv6) {
        // Announced without a lifetime as a router, which the server is not.
        let _ = writeln!(text, "enable-ra\nra-param=eth0,0,0");
        if services.dns {
            let _ = writeln!(text, "dhcp-option=option6:dns-server,[{own}]");
        }
    }
    let nodes = plan.nodes.iter().filter(|node| node.services.is_none());
    for link in nodes.flat_map(|node| &node.links).filter(|link| link.network == network.name) {
        let addresses = link.addresses().map(|address| match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        });
        let addresses = addresses.collect::<Vec<_>>().join(",");
        let _ = writeln!(text, "dhcp-host={},{addresses},infinite", link.mac);
    }
    text
}

/// The leases of IPv4: those of the pool, or those of nodes only if no address is free.
fn ipv4_range(plan: &Plan, network: &PlannedNetwork) -> Option<String> {
    let subnet = network.ipv4()?;
    let mask = u32::MAX.checked_shl(32 - u32::from(subnet.prefix())).unwrap_or(0);
    let mask = Ipv4Addr::from(mask);
    Some(match plan.pool(network, false) {
        Some((first, last)) => format!("{first},{last},{mask}"),
        None => format!("{},static,{mask}", subnet.base()),
    })
}

/// The leases of IPv6. Hosts may also make their own addresses, if the prefix length allows it.
fn ipv6_range(plan: &Plan, network: &PlannedNetwork) -> Option<String> {
    let prefix = network.subnet_of(true)?.prefix();
    let (first, last) = plan.pool(network, true)?;
    let own = if prefix == OWN_ADDRESSES { "slaac," } else { "" };
    Some(format!("{first},{last},{own}{prefix}"))
}
