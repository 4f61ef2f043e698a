//! IPv4 and IPv6: what differs between sessions over them.

use super::Error;
use crate::session::Config;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The group of sessions over IPv6 without a configured one: transient, on this link (RFC 4291, 2.7).
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0, 0x4d4d);
/// Bytes by which headers of IPv6 are longer than those of IPv4.
const LONGER: usize = 20;

/// The family of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub fn of(address: SocketAddr) -> Self {
        if address.is_ipv6() { Self::V6 } else { Self::V4 }
    }

    /// Its name before a noun.
    pub fn adjective(self) -> &'static str {
        match self {
            Self::V4 => "IPv4 ",
            Self::V6 => "IPv6 ",
        }
    }
}

fn wrong(what: String) -> Error {
    Error::Socket { what, source: std::io::ErrorKind::AddrNotAvailable.into() }
}

/// An address of no use, and what to do.
fn invalid(what: String, fix: &str) -> Error {
    Error::Socket { what, source: std::io::Error::new(std::io::ErrorKind::InvalidInput, fix) }
}

/// Fits a configuration to the family of the hub's address.
///
/// # Errors
/// [`Error`] if members or a configured group are of the other family or cannot have their addresses, or
/// two ends have one address.
pub(super) fn adapt(
    config: &mut Config,
    local: SocketAddr,
    members: &[SocketAddr],
) -> Result<(), Error> {
    let default = Config::new(config.pattern, config.security.clone());
    config.group = group(config, local);
    if local.is_ipv6() {
        // A size that the user has set stays: it includes the headers.
        if config.headers == default.headers {
            config.headers += LONGER;
            config.below += LONGER;
        }
    }
    let other = members.iter().chain([&config.group]).find(|at| at.is_ipv6() != local.is_ipv6());
    if let Some(other) = other {
        return Err(mixed(local, *other));
    }
    check_group(config.group)?;
    for member in members {
        check_end("a member", *member)?;
        if same(*member, local) {
            return Err(invalid(
                format!("a member has the hub's address, {local}"),
                "use another address or port",
            ));
        }
    }
    let mut known = BTreeSet::new();
    // A datagram from there would always be the last one's, and the others would never join.
    match members.iter().find(|at| !known.insert((at.ip(), at.port()))) {
        None => Ok(()),
        Some(at) => Err(invalid(
            format!("two members have the address {at}"),
            "each member needs another address, or one of the places",
        )),
    }
}

/// Whether one end can be there: the address is that of a host, and has a port.
pub(super) fn is_of_host(at: &SocketAddr) -> bool {
    let ip = at.ip();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    at.port() != 0 && !ip.is_unspecified() && !ip.is_multicast() && !is_broadcast
}

/// Checks that an end, `who`, can be at an address.
///
/// # Errors
/// [`Error`] if the address is not that of a host, or has no port.
pub(super) fn check_end(who: &str, at: SocketAddr) -> Result<(), Error> {
    if is_of_host(&at) {
        return Ok(());
    }
    Err(invalid(
        format!("{who} cannot be at {at}"),
        "use the address of one host, as others reach it, and a port other than 0",
    ))
}

/// Checks that a group can have this address.
fn check_group(group: SocketAddr) -> Result<(), Error> {
    if group.ip().is_multicast() && group.port() != 0 {
        return Ok(());
    }
    Err(invalid(
        format!("a group cannot be at {group}"),
        "use a multicast address and a port, for example 239.255.77.77:5777",
    ))
}

/// The group of an end at `local`: that of the configuration, or the default one of its family.
pub(super) fn group(config: &Config, local: SocketAddr) -> SocketAddr {
    let default = Config::new(config.pattern, config.security.clone());
    let mut group = config.group;
    if local.is_ipv6() && group == default.group {
        group.set_ip(IpAddr::V6(GROUP));
    }
    group
}

/// The error of two addresses of different families.
pub(super) fn mixed(local: SocketAddr, other: SocketAddr) -> Error {
    wrong(format!(
        "this end is at {local}, and another one or the multicast group at {other}: use IPv4 \
         addresses only, or IPv6 addresses only"
    ))
}

/// An address for external stacks: without a flow label and a scope, which belong to one end.
pub(super) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

/// Checks that external stacks can work at this address.
///
/// # Errors
/// [`Error`] if it is a link-local address of IPv6, which means nothing without an interface.
pub(super) fn check_outside(local: SocketAddr) -> Result<(), Error> {
    match local.ip() {
        IpAddr::V6(address) if address.is_unicast_link_local() => Err(wrong(format!(
            "external stacks (ZeroMQ, MQTT) do not work over link-local addresses, and this end is at {local}: \
             use another address, or remove them"
        ))),
        _ => Ok(()),
    }
}

/// Whether two addresses are the same; flow labels and scopes of IPv6 do not matter.
pub(super) fn same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pattern;
    use crate::session::Security;
    use std::net::SocketAddrV6;

    #[test]
    fn external_stacks_get_addresses_that_mean_the_same_at_both_ends() {
        let link_local = SocketAddrV6::new("fe80::1".parse().unwrap(), 5_700, 0, 2).into();
        let error = check_outside(link_local).unwrap_err().to_string();
        assert!(error.contains("[fe80::1%2]:5700"), "{error}");
        assert_eq!(plain(link_local).to_string(), "[fe80::1]:5700");
        for address in ["[fd00::1]:5700", "[::1]:5700", "10.0.0.1:5700"] {
            assert!(check_outside(address.parse().unwrap()).is_ok(), "{address}");
        }
    }

    #[test]
    fn no_end_is_at_an_address_of_many_hosts_or_none() {
        for good in ["10.0.0.1:5", "127.0.0.1:5", "[fe80::1]:5", "[fd00::1]:65535"] {
            assert!(check_end("a member", good.parse().unwrap()).is_ok(), "{good}");
        }
        for bad in [
            "10.0.0.1:0",
            "0.0.0.0:5",
            "255.255.255.255:5",
            "224.0.0.251:5",
            "[::]:5",
            "[ff02::1]:5",
        ] {
            let error = check_end("a member", bad.parse().unwrap()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("a member cannot be at {bad}: use the")), "{error}");
        }
    }

    #[test]
    fn a_hub_is_no_member_and_its_group_is_multicast() {
        let key = Security::Key(b"a key of sixteen bytes".to_vec());
        let config = Config::new(Pattern::RequestResponse, key);
        let local = "10.0.0.1:5700".parse().unwrap();
        let error = adapt(&mut config.clone(), local, &[local]).unwrap_err().to_string();
        assert!(error.contains("a member has the hub's address, 10.0.0.1:5700"), "{error}");
        for group in ["239.1.1.1:0", "10.0.0.9:5777"] {
            let mut config = Config { group: group.parse().unwrap(), ..config.clone() };
            let error = adapt(&mut config, local, &[]).unwrap_err().to_string();
            assert!(error.contains(group) && error.contains("use a multicast address"), "{error}");
        }
    }

    #[test]
    fn both_ends_have_the_group_of_their_family() {
        let key = Security::Key(b"a key of sixteen bytes".to_vec());
        let mut config = Config::new(Pattern::RequestResponse, key);
        let [four, six] = ["10.0.0.1:5700", "[fd00::1]:5700"].map(|at| at.parse().unwrap());
        assert_eq!(group(&config, four), config.group);
        assert_eq!(group(&config, six).ip(), IpAddr::V6(GROUP));
        config.group = "[ff15::7]:5701".parse().unwrap();
        assert_eq!(group(&config, six), config.group);
    }
}
