//! UDP sockets.

pub(crate) mod exchange;
pub(crate) mod interaction;

use crate::error::Error;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// Larger than any datagram, in bytes.
pub(crate) const LARGEST: usize = 65_536;

/// A non-blocking socket.
///
/// # Errors
/// [`Error::Address`]: the address is not one of this node, or the port is in use.
pub(crate) fn bind(address: IpAddr, port: u16) -> Result<UdpSocket, Error> {
    let socket = UdpSocket::bind((address, port)).map_err(|source| {
        let operation = format!("bind a UDP socket to {}", SocketAddr::from((address, port)));
        Error::Address { operation, source }
    })?;
    socket.set_nonblocking(true).map_err(Error::io("make a UDP socket non-blocking"))?;
    Ok(socket)
}

/// Receives the next datagram of a non-blocking socket: its length and sender; none if no datagram
/// is waiting.
///
/// # Errors
/// Any error except that an earlier datagram was refused: the peer is not up yet.
pub(crate) fn receive(
    socket: &UdpSocket,
    buffer: &mut [u8],
) -> Result<Option<(usize, SocketAddr)>, Error> {
    loop {
        match socket.recv_from(buffer) {
            Ok(received) => return Ok(Some(received)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => return Ok(None),
                ErrorKind::Interrupted | ErrorKind::ConnectionRefused => {}
                _ => return Err(Error::io("receive a datagram")(error)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_refused_datagram_is_no_error_of_the_next() {
        let (one, two) =
            (bind(Ipv4Addr::LOCALHOST.into(), 0).unwrap(), bind(Ipv4Addr::LOCALHOST.into(), 0));
        let two = two.unwrap();
        let (at, gone) = (one.local_addr().unwrap(), two.local_addr().unwrap());
        drop(two);
        one.connect(gone).unwrap();
        one.send(b"x").unwrap();
        let mut buffer = [0; 8];
        // The kernel reports the ICMP error of the closed port here.
        assert_eq!(receive(&one, &mut buffer).unwrap(), None);
        let error = bind(Ipv4Addr::LOCALHOST.into(), at.port()).unwrap_err().to_string();
        assert!(error.contains(&at.to_string()) && error.contains("port"), "{error}");
    }
}
