//! Addresses of IPv4 and IPv6 for protocol stacks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The last eight bytes of the address, or all of an IPv4 address, as a number.
pub(crate) fn number(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => u128::from(address) as u64,
    }
}

/// Any local address, for a socket that sends to `peer`.
pub(crate) fn unspecified_for(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Any local address, for a server of all families that this node has: `::` also takes IPv4.
pub(crate) fn unspecified() -> IpAddr {
    // The file is missing if the kernel has no IPv6.
    let interfaces = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    if has_ipv6(&interfaces) { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// Whether an interface except the loopback has an IPv6 address; `interfaces` is the kernel's list.
fn has_ipv6(interfaces: &str) -> bool {
    let mut names = interfaces.lines().filter_map(|line| line.split_whitespace().next_back());
    names.any(|name| name != "lo")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_ipv6_if_an_interface_besides_the_loopback_does() {
        let own = "00000000000000000000000000000001 01 80 10 80       lo\n";
        let eth = "fd000000000000000000000000000001 02 40 00 82     eth0\n";
        assert!(!has_ipv6("") && !has_ipv6(own));
        assert!(has_ipv6(&format!("{own}{eth}")));
    }

    #[test]
    fn a_socket_has_the_family_of_its_peer() {
        assert_eq!(unspecified_for("fd00::1".parse().unwrap()).to_string(), "::");
        assert_eq!(unspecified_for("10.0.0.1".parse().unwrap()).to_string(), "0.0.0.0");
    }
}
