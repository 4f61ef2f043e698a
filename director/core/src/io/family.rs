//! IPv4 and IPv6: what differs between sessions over them.

use super::Error;
use crate::session::Config;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

/// The group of sessions over IPv6 without a configured one: transient, on this link (RFC 4291, 2.7).
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0, 0x4d4d);
/// Bytes by which headers of IPv6 are longer than those of IPv4.
const LONGER: usize = 20;

fn wrong(what: String) -> Error {
    Error::Socket { what, source: std::io::ErrorKind::AddrNotAvailable.into() }
}

/// Fits a configuration to the family of the hub's address.
///
/// # Errors
/// [`Error`] if members or a configured group are of the other family, or two members have one address.
pub(super) fn adapt(
    config: &mut Config,
    local: SocketAddr,
    members: &[SocketAddr],
) -> Result<(), Error> {
    let default = Config::new(config.pattern, config.security.clone());
    if local.is_ipv6() {
        if config.group == default.group {
            config.group.set_ip(IpAddr::V6(GROUP));
        }
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
    let mut known = BTreeSet::new();
    // A datagram from there would always be the last one's, and the others would never join.
    match members.iter().find(|at| !known.insert((at.ip(), at.port()))) {
        None => Ok(()),
        Some(at) => Err(Error::Socket {
            what: format!("two members have the address {at}"),
            source: std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "each member needs another address, or one of the places",
            ),
        }),
    }
}

/// The error of two addresses of different families.
pub(super) fn mixed(local: SocketAddr, other: SocketAddr) -> Error {
    wrong(format!(
        "this end is at {local}, and another one or the multicast group at {other}: use IPv4 \
         addresses only, or IPv6 addresses only"
    ))
}

/// An address for external stacks, which work over IPv4 only ([`check_outside`]).
pub(super) fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(_) => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, address.port()),
    }
}

/// Checks that external stacks can work at this address.
///
/// # Errors
/// [`Error`] if it is an IPv6 address.
pub(super) fn check_outside(local: SocketAddr) -> Result<(), Error> {
    match local {
        SocketAddr::V4(_) => Ok(()),
        SocketAddr::V6(_) => Err(wrong(format!(
            "external stacks (ZeroMQ, MQTT) work over IPv4 only, and this end is at {local}: use an \
             IPv4 address, or remove them"
        ))),
    }
}

/// Whether two addresses are the same; flow labels and scopes of IPv6 do not matter.
pub(super) fn same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}
