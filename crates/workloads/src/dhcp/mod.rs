//! The DHCPv6 client of a node with `address: dhcp`: gets an address of an interface, and waits for
//! the routes, which come by router advertisements to the kernel, as the address of a
//! node with `address: slaac` does. Leases of Thingbed's servers have
//! no end, so the client ends when it has one.

mod message;

use crate::Error;
use message::{Answer, Client, Offer};
use record::spec::DhcpSpec;
use std::io;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;
use units::{Instant, Span};

/// All servers and relays of the link (RFC 8415, section 7.1).
const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
const SERVER_PORT: u16 = 547;
const CLIENT_PORT: u16 = 546;
/// Time from message to message, as of the IPv4 client. Without the random delay and the longer and longer
/// intervals of RFC 8415: the server is up, and the network is not the internet.
const INTERVAL: Span = Span::from_ns(1_000_000_000);
const POLL: Span = Span::from_ns(10_000_000);
/// All routes of this network namespace: the kernel's documentation of IPv6 has no description;
/// `ipv6_route_seq_show` in net/ipv6/route.c has the format.
const ROUTES: &str = "/proc/thread-self/net/ipv6_route";

/// Gets an address by DHCPv6 and sets it.
///
/// # Errors
/// When no server gives one, or no router advertises its prefix.
pub fn run(spec: &DhcpSpec) -> Result<(), Error> {
    if let Some(address) = spec.advertised {
        return wait_for(spec, address);
    }
    let operation = format!("get an IPv6 address for {} by DHCP", spec.interface);
    let index = nix::net::if_::if_nametoindex(spec.interface.as_str())
        .map_err(|errno| Error::Io { operation: operation.clone(), source: errno.into() })?;
    let socket = open(&spec.interface).map_err(Error::io(&operation))?;
    let address = lease(&socket, index, &Client::new(spec.mac), spec.patience_s)
        .map_err(|why| Error::protocol(&operation, why))?;
    set(&socket, index, address).map_err(Error::io(&format!("set the address {address}")))?;
    crate::log!("{} has the address {address}", spec.interface);
    wait_for(spec, address)
}

/// Waits until programs can use the address, and the kernel has the routes. It solicits router
/// advertisements each second.
fn wait_for(spec: &DhcpSpec, address: Ipv6Addr) -> Result<(), Error> {
    let interface = spec.interface.as_str();
    let patience = Span::from_s(spec.patience_s.into());
    let until = clock::now() + patience;
    // The kernel makes a new address usable a moment later, even if it does not check for duplicates.
    while UdpSocket::bind((address, 0)).is_err() || !has_prefix(interface, address) {
        if clock::now() > until {
            let why = format!(
                "no router advertisement with its prefix came within {patience}; the logs of the \
                 network's routers (NODE.advertisements.err) and services may have the reason, and a \
                 router with a `root` needs a program that sends them"
            );
            return Err(Error::protocol(&format!("use the address {address}"), why));
        }
        clock::sleep_until(clock::now() + POLL);
    }
    Ok(())
}

/// The client's socket, on one interface: a node may have a client on each.
fn open(interface: &str) -> io::Result<UdpSocket> {
    let socket = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::DGRAM, None)?;
    socket.set_only_v6(true)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.bind(&SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, CLIENT_PORT, 0, 0).into())?;
    Ok(socket.into())
}

/// Asks for an address until a server gives one, at most `attempts` times.
fn lease(
    socket: &UdpSocket,
    index: u32,
    client: &Client,
    attempts: u32,
) -> Result<Ipv6Addr, String> {
    let begin = clock::now();
    let mut offer: Option<Offer> = None;
    let mut reason =
        "no server answers; the log of the network's services may have the reason".to_owned();
    for _ in 0..attempts {
        let message = client.message(offer.as_ref(), clock::now() - begin);
        let to = SocketAddrV6::new(SERVERS, SERVER_PORT, 0, index);
        if let Err(error) = socket.send_to(&message, to) {
            reason = format!("the interface does not send: {error}");
        }
        let until = clock::now() + INTERVAL;
        match receive(socket, client, until).map_err(|error| format!("receive: {error}"))? {
            Some(Answer::Lease(address)) => return Ok(address),
            Some(Answer::Offer(offered)) => offer = Some(offered),
            // The server may know the node later.
            Some(Answer::Refusal(why)) => {
                reason = format!("the server refuses: {why}");
                offer = None;
                clock::sleep_until(until);
            }
            None => {}
        }
    }
    Err(reason)
}

/// The next answer to the client before `until`.
fn receive(socket: &UdpSocket, client: &Client, until: Instant) -> io::Result<Option<Answer>> {
    let mut message = [0; 1500];
    loop {
        let now = clock::now();
        if now >= until {
            return Ok(None);
        }
        socket.set_read_timeout(Some(Duration::from_nanos((until - now).as_ns())))?;
        match socket.recv(&mut message) {
            Ok(length) => {
                if let Some(answer) = client.read(&message[..length]) {
                    return Ok(Some(answer));
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Sets the address. Its prefix is not known: that comes by a router advertisement.
fn set(socket: &UdpSocket, index: u32, address: Ipv6Addr) -> io::Result<()> {
    // SIOCSIFADDR (linux/sockios.h).
    const SET_ADDRESS: libc::Ioctl = 0x8916;
    let request = libc::in6_ifreq {
        ifr6_addr: libc::in6_addr { s6_addr: address.octets() },
        ifr6_prefixlen: 128,
        ifr6_ifindex: index as libc::c_int,
    };
    // SAFETY: the call reads one request, which lives over it.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SET_ADDRESS, &raw const request) };
    match result {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // A client ran before.
            error if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
            error => Err(error),
        },
    }
}

/// Whether the kernel has a route to the prefix of an address on an interface.
fn has_prefix(interface: &str, address: Ipv6Addr) -> bool {
    let routes = std::fs::read_to_string(ROUTES).unwrap_or_default();
    routes.lines().any(|line| covers(line, interface, address))
}

/// Whether a line of the kernel's routes is one to the prefix of `address` on `interface`.
fn covers(line: &str, interface: &str, address: Ipv6Addr) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [to, prefix, .., own] = fields[..] else { return false };
    let (Ok(to), Ok(prefix)) = (u128::from_str_radix(to, 16), u32::from_str_radix(prefix, 16))
    else {
        return false;
    };
    let differ = (u128::from(address) ^ to).checked_shr(128 - prefix.min(128)).unwrap_or(0);
    // A default route (0) covers any address, and a host route (128) only one: neither is a prefix.
    own == interface && (1..128).contains(&prefix) && differ == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_of_an_address_is_found_among_the_routes() {
        let address: Ipv6Addr = "fd00:0:0:1::7".parse().unwrap();
        let line = |to: &str, prefix: &str, interface: &str| {
            let to: Ipv6Addr = to.parse().unwrap();
            let zero = "0".repeat(32);
            let to = format!("{:032x}", u128::from(to));
            format!(
                "{to} {prefix} {zero} 00 {zero} 00000100 00000001 00000000 00040001 {interface:>8}"
            )
        };
        assert!(covers(&line("fd00:0:0:1::", "40", "eth0"), "eth0", address));
        assert!(covers(
            &line("fd00:0:0:1::", "7e", "eth0"),
            "eth0",
            "fd00:0:0:1::3".parse().unwrap()
        ));
        for other in [
            line("fd00:0:0:1::", "40", "eth1"),
            line("fd00:0:0:2::", "40", "eth0"),
            line("fd00:0:0:1::7", "80", "eth0"),
            line("::", "00", "eth0"),
            "fd 40 eth0".to_owned(),
            "x y eth0".to_owned(),
            String::new(),
        ] {
            assert!(!covers(&other, "eth0", address), "{other}");
        }
    }
}
