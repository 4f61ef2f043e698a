//! Sockets of the director, for unicast and for a multicast group, of both families.

use crate::error::Error;
use director::io::interface_of;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::Result as IoResult;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Socket receive buffer in bytes, for datagrams that arrive while the program is busy.
const RECEIVE_BUFFER: usize = 1 << 20;

/// A socket bound to `address`. If that is a multicast group, joins it on the interface with the
/// address `own`; else it sends multicast there.
pub(super) fn open(mut address: SocketAddr, own: IpAddr) -> Result<UdpSocket, Error> {
    let mut open = || {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        let is_group = address.ip().is_multicast();
        socket.set_reuse_address(is_group)?;
        if let (SocketAddr::V6(address), IpAddr::V6(own)) = (&mut address, own) {
            socket.set_only_v6(true)?;
            socket.set_multicast_if_v6(interface_of(own))?;
            socket.set_multicast_hops_v6(1)?;
            if is_group {
                // A group of one link exists once per interface.
                address.set_scope_id(interface_of(own));
            }
        } else if let IpAddr::V4(own) = own {
            socket.set_multicast_if_v4(&own)?;
            socket.set_multicast_ttl_v4(1)?;
        }
        socket.bind(&address.into())?;
        // The system limit may reduce the buffer.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from(socket);
        if is_group {
            join(&socket, address.ip(), own)?;
        }
        Ok(socket)
    };
    open().map_err(Error::io("open a socket for the director"))
}

/// Joins a group on the interface with the address `own`.
pub(super) fn join(socket: &UdpSocket, group: IpAddr, own: IpAddr) -> IoResult<()> {
    match (group, own) {
        (IpAddr::V4(group), IpAddr::V4(own)) => socket.join_multicast_v4(&group, &own),
        (IpAddr::V6(group), IpAddr::V6(own)) => socket.join_multicast_v6(&group, interface_of(own)),
        _ => Err(std::io::ErrorKind::AddrNotAvailable.into()),
    }
}

/// Leaves a group.
pub(super) fn leave(socket: &UdpSocket, group: IpAddr, own: IpAddr) -> IoResult<()> {
    match (group, own) {
        (IpAddr::V4(group), IpAddr::V4(own)) => socket.leave_multicast_v4(&group, &own),
        (IpAddr::V6(group), IpAddr::V6(own)) => {
            socket.leave_multicast_v6(&group, interface_of(own))
        }
        _ => Err(std::io::ErrorKind::AddrNotAvailable.into()),
    }
}
