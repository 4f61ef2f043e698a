//! UDP sockets, with and without multicast, of both families. They do not block.

use super::Error;
use crate::properties::CapacityProfile;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{ErrorKind, Result as IoResult};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// Receive buffer size, in bytes: the answers of a group to several messages at once.
const ROOM: usize = 1 << 22;

fn open(address: SocketAddr) -> IoResult<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        // Addresses of a session are of one family: the port stays free for another one over IPv4.
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

fn finish(socket: Socket) -> IoResult<UdpSocket> {
    socket.set_nonblocking(true)?;
    // The system may grant less; that is acceptable.
    let _ = socket.set_recv_buffer_size(ROOM);
    Ok(socket.into())
}

/// The index of the interface with an IPv6 address; 0, which lets the system choose, if unknown.
pub(super) fn interface_of(own: Ipv6Addr) -> u32 {
    let text = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let index = |line: &str| {
        let mut fields = line.split_whitespace();
        let address = u128::from_str_radix(fields.next()?, 16).ok()?;
        let index = u32::from_str_radix(fields.next()?, 16).ok()?;
        (Ipv6Addr::from(address) == own).then_some(index)
    };
    text.lines().find_map(index).unwrap_or(0)
}

/// A socket bound to `local`; sends multicast from that interface with a TTL of 1, and marks packets.
///
/// # Errors
/// The address is in use, or not this machine's.
pub fn unicast(local: SocketAddr, profile: CapacityProfile) -> Result<UdpSocket, Error> {
    let open = || {
        let socket = open(local)?;
        socket.bind(&local.into())?;
        // The two lowest bits are those of congestion notification (RFC 3168).
        let mark = u32::from(profile.dscp()) << 2;
        match local.ip() {
            IpAddr::V4(own) => {
                socket.set_tos_v4(mark)?;
                socket.set_multicast_ttl_v4(1)?;
                if !own.is_unspecified() {
                    socket.set_multicast_if_v4(&own)?;
                }
            }
            IpAddr::V6(own) => {
                socket.set_tclass_v6(mark)?;
                socket.set_multicast_hops_v6(1)?;
                socket.set_multicast_if_v6(interface_of(own))?;
            }
        }
        finish(socket)
    };
    open().map_err(|source| {
        let what = format!("cannot bind UDP socket {local}{}", reason(&source));
        Error::Socket { what, source }
    })
}

/// What a user can do about an address that cannot be bound; empty if that is not known.
fn reason(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => " (another program has it: end that, or use another port)",
        ErrorKind::AddrNotAvailable => " (no interface of this machine has this address)",
        ErrorKind::PermissionDenied => " (use a port from 1,024 on, or more privileges)",
        _ => "",
    }
}

/// A socket that receives from a multicast group at the interface with the address `interface`.
///
/// # Errors
/// The group cannot be joined there.
pub fn group(group: SocketAddr, interface: IpAddr) -> Result<UdpSocket, Error> {
    let open = || {
        let socket = open(group)?;
        // Several members on one host can join the same group.
        socket.set_reuse_address(true)?;
        let mut own = group;
        if let (SocketAddr::V6(own), IpAddr::V6(interface)) = (&mut own, interface) {
            // A group of one link exists once per interface.
            own.set_scope_id(interface_of(interface));
        }
        // To the group's address, so that datagrams to this machine alone do not arrive here too.
        socket.bind(&own.into())?;
        let socket = finish(socket)?;
        join(SockRef::from(&socket), group, interface)?;
        Ok(socket)
    };
    open().map_err(|source| Error::Socket {
        what: format!("cannot join multicast group {group}"),
        source,
    })
}

/// Hands a socket to the runtime.
pub(super) fn driven(socket: UdpSocket) -> Result<tokio::net::UdpSocket, Error> {
    super::batch::set_options(&socket);
    let failed = |what: &str, source| Error::Socket { what: what.to_owned(), source };
    // Tokio panics.
    tokio::runtime::Handle::try_current().map_err(|_| {
        let source = std::io::Error::other(
            "call this in a task of a tokio runtime, such as `#[tokio::main]`",
        );
        failed("there is no runtime for the session's sockets", source)
    })?;
    let driven = tokio::net::UdpSocket::from_std(socket);
    driven.map_err(|source| failed("cannot wait for a UDP socket", source))
}

/// Joins a group at the interface with this address.
fn join(socket: SockRef<'_>, group: SocketAddr, interface: IpAddr) -> IoResult<()> {
    match (group.ip(), interface) {
        (IpAddr::V4(group), IpAddr::V4(own)) => socket.join_multicast_v4(&group, &own),
        (IpAddr::V6(group), IpAddr::V6(own)) => socket.join_multicast_v6(&group, interface_of(own)),
        _ => Err(std::io::ErrorKind::AddrNotAvailable.into()),
    }
}

/// Joins a group again: a multicast router or switch may have missed the first report.
pub fn join_again(socket: impl AsFd, group: SocketAddr, interface: IpAddr) {
    let socket = SockRef::from(&socket);
    let _ = match (group.ip(), interface) {
        (IpAddr::V4(group), IpAddr::V4(own)) => socket.leave_multicast_v4(&group, &own),
        (IpAddr::V6(group), IpAddr::V6(own)) => {
            socket.leave_multicast_v6(&group, interface_of(own))
        }
        _ => return,
    };
    let _ = join(socket, group, interface);
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::SockRef;
    use std::net::Ipv4Addr;

    #[tokio::test]
    async fn packets_have_the_mark_of_the_capacity_profile() {
        for (profile, mark) in [
            (CapacityProfile::Default, 0),
            (CapacityProfile::Scavenger, 0x04),
            (CapacityProfile::LowLatencyInteractive, 0x88),
            (CapacityProfile::CapacitySeeking, 0x28),
        ] {
            let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let own = unicast(local, profile).unwrap();
            assert_eq!(SockRef::from(&own).tos_v4().unwrap(), mark);
            if let Ok(own) = unicast(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)), profile) {
                assert_eq!(SockRef::from(&own).tclass_v6().unwrap(), mark);
            }
        }
    }
}
