//! UDP sockets, with and without multicast.

use super::Error;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use tokio::net::UdpSocket;

/// Room for what comes while a program does something else.
const ROOM: usize = 1 << 20;

fn finish(socket: Socket) -> std::io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    // Less is given where the system has a limit; that is no reason to fail.
    let _ = socket.set_recv_buffer_size(ROOM);
    UdpSocket::from_std(socket.into())
}

/// A socket at `local`, whose multicast goes out where `local` is, one hop far.
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
    open().map_err(|source| Error::Socket { what: format!("a socket at {local}"), source })
}

/// A socket that hears a group, where `interface` is.
pub(super) fn group(group: SocketAddrV4, interface: Ipv4Addr) -> Result<UdpSocket, Error> {
    let open = || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        // Several members on one host hear one group.
        socket.set_reuse_address(true)?;
        socket.bind(&SocketAddr::V4(group).into())?;
        socket.join_multicast_v4(group.ip(), &interface)?;
        finish(socket)
    };
    open().map_err(|source| Error::Socket { what: format!("joining the group {group}"), source })
}
