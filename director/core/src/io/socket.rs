//! UDP sockets, with and without multicast.

use super::Error;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use tokio::net::UdpSocket;

/// Receive buffer size, in bytes.
const ROOM: usize = 1 << 20;

fn finish(socket: Socket) -> std::io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    // The system may grant less; that is acceptable.
    let _ = socket.set_recv_buffer_size(ROOM);
    UdpSocket::from_std(socket.into())
}

/// A socket bound to `local`; sends multicast from that interface with a TTL of 1.
pub(super) fn unicast(local: SocketAddrV4) -> Result<UdpSocket, Error> {
    let open = || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.bind(&SocketAddr::V4(local).into())?;
        socket.set_multicast_ttl_v4(1)?;
        if !local.ip().is_unspecified() {
            socket.set_multicast_if_v4(local.ip())?;
        }
        finish(socket)
    };
    open()
        .map_err(|source| Error::Socket { what: format!("cannot bind UDP socket {local}"), source })
}

/// A socket that receives from a multicast group at `interface`.
pub(super) fn group(group: SocketAddrV4, interface: Ipv4Addr) -> Result<UdpSocket, Error> {
    let open = || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        // Several members on one host can join the same group.
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::V4(group).into())?;
        socket.join_multicast_v4(group.ip(), &interface)?;
        finish(socket)
    };
    open().map_err(|source| Error::Socket {
        what: format!("cannot join multicast group {group}"),
        source,
    })
}
