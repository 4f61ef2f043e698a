//! Resolves services of networks: NAT gateway, DHCP and DNS.

use crate::file::{Addressing, File};
use crate::mac::Mac;
use crate::plan::{PlannedLimits, PlannedLink, PlannedNode};
use crate::problem::Problem;
use crate::read::{Named, Sink};
use crate::resolve::advertisements;
use crate::resolve::networks::{Networks, Resolved};
use crate::resolve::subnets::{of_mac, overlapping};
use crate::subnet::Subnet;
use std::collections::HashMap;
use std::net::IpAddr;

/// Subnet between gateways and the outside. It is part of the shared address space for carriers
/// (RFC 6598), so it is unlikely to conflict with the user's or the outside's addresses.
pub const OUTSIDE: &str = "100.127.255.0/24";
/// The same for IPv6: a unique local prefix with a random number (RFC 4193).
pub const OUTSIDE_IPV6: &str = "fd1b:8c4f:7e2d:ff::/64";

/// Checks services of networks, and groups that use DHCP.
pub(super) fn check(file: &File, networks: &Networks<'_>, sink: &mut Sink) {
    for (group, _, typed) in file.nodes.iter().flat_map(Named::iter) {
        let Some(at) = typed.address.as_ref().filter(|at| at.value != Addressing::Planned) else {
            continue;
        };
        let (what, key) = match at.value {
            Addressing::Slaac => ("gets no router advertisements", "advertise"),
            _ => ("has no DHCP server", "dhcp"),
        };
        let served = |network: &Resolved<'_>| {
            let has_key = if key == "dhcp" { network.served.dhcp } else { network.advertise };
            has_key && network.has(group)
        };
        if networks.complete && !networks.networks.iter().any(served) {
            let problem = Problem::new(format!("`{group}` {what}")).at(at.place);
            let label = format!("add `{key}: true` to a network that it is attached to");
            sink.add(problem.label(label));
        }
    }
    advertisements::check(file, networks, sink);
    let outside: Vec<Subnet> = [OUTSIDE, OUTSIDE_IPV6].iter().flat_map(|it| it.parse()).collect();
    let leads_out = networks.networks.iter().any(|network| network.services.nat);
    for (name, _, typed) in file.networks.iter().flat_map(Named::iter) {
        for outside in outside.iter().filter(|_| leads_out) {
            let Some(place) = overlapping(typed, *outside) else { continue };
            let problem = Problem::new(format!("`{name}` overlaps {outside}")).at(place);
            sink.add(problem.label("`nat` uses these addresses for gateways; use another subnet"));
        }
    }
    let mut names: HashMap<String, &str> = HashMap::new();
    for (name, place, _) in file.networks.iter().flat_map(Named::iter) {
        let own = |network: &&Resolved<'_>| network.name == name && network.services.any();
        let taken = networks.networks.iter().find(own).map(node_name);
        // Names of networks may have characters that host names cannot have.
        if let Some(own) = &taken
            && let Some(other) = names.insert(own.clone(), name)
        {
            let text = format!("the services of `{name}` and `{other}` would both run on `{own}`");
            let label = "rename this network: names of networks with services must differ in their \
                         first 50 letters and digits";
            sink.add(Problem::new(text).at(place).label(label));
            continue;
        }
        let taken = taken.filter(|own| file.nodes.iter().any(|groups| groups.has(own)));
        if let Some(own) = taken {
            let text = format!(
                "the group `{own}` has the name of the node that runs the services \
                                of `{name}`"
            );
            sink.add(Problem::new(text).at(place).label("rename this group"));
        }
    }
}

/// Service nodes of the networks, one each.
pub(super) fn nodes(networks: &Networks<'_>) -> Vec<PlannedNode> {
    let with = networks.networks.iter().filter(|network| network.services.any());
    let node = |network: &Resolved<'_>| {
        let (address, second_address) = network.subnets.addresses(network.subnets.last())?;
        let link = PlannedLink {
            network: network.name.to_owned(),
            interface: "eth0".to_owned(),
            address,
            second_address,
            by_dhcp: false,
            by_slaac: false,
            mac: Mac::from(of_mac(address, second_address)),
            profile: None,
            up: link::Impairment::default(),
            down: link::Impairment::default(),
            states: None,
            vlans: networks.port_of_services(network),
            trunk: None,
        };
        Some(PlannedNode {
            name: node_name(network),
            group: node_name(network),
            links: vec![link],
            limits: PlannedLimits::default(),
            board: None,
            external: None,
            devices: Vec::new(),
            clock_offset: None,
            cores: Vec::new(),
            position: None,
            services: Some(network.services),
            gateway: None,
            gateway_ipv6: None,
            learned_gateways: Vec::new(),
            forward: false,
            bridge: None,
            routes: Vec::new(),
            resolver: None,
            root: None,
            capabilities: Vec::new(),
            privileged: false,
            is_idle: false,
            sets_mac: false,
            machine: None,
            program: None,
        })
    };
    with.filter_map(node).collect()
}

/// Gateway in a family of a node, by its group and index there: that of its first network that has
/// one. With DHCP, a node gets its gateway from the network.
pub(super) fn gateway(
    group: &str,
    index: u64,
    source: Addressing,
    is_ipv6: bool,
    networks: &Networks<'_>,
) -> Option<IpAddr> {
    let leads_out =
        |network: &&Resolved<'_>| network.served.nat && address(network, is_ipv6).is_some();
    let network =
        networks.networks.iter().filter(leads_out).find(|on| on.has_node(group, index))?;
    let is_learned = match source {
        Addressing::Planned => false,
        Addressing::Dhcp => network.served.dhcp,
        Addressing::Slaac => network.advertise && is_ipv6,
    };
    if is_learned { None } else { address(network, is_ipv6) }
}

/// Name server of a node, by its group and index there: that of its first network that has one.
pub(super) fn resolver(group: &str, index: u64, networks: &Networks<'_>) -> Option<IpAddr> {
    let with = networks.networks.iter().filter(|network| network.served.dns);
    let network = with.into_iter().find(|network| network.has_node(group, index))?;
    address(network, false).or_else(|| address(network, true))
}

/// The last address that all subnets of a network have, so that nodes keep their addresses.
fn address(network: &Resolved<'_>, is_ipv6: bool) -> Option<IpAddr> {
    let (first, second) = network.subnets.addresses(network.subnets.last())?;
    [Some(first), second].into_iter().flatten().find(|address| address.is_ipv6() == is_ipv6)
}

/// A host name derived from the network's name.
fn node_name(network: &Resolved<'_>) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    // With its ending it stays below 63 characters, the limit of a label in DNS (RFC 1035, 2.3.4).
    let name: String = network.name.chars().map(fits).take(50).collect();
    match name.trim_matches('-') {
        "" => "network-services".to_owned(),
        name => format!("{name}-services"),
    }
}
