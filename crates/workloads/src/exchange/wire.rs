//! Counts the frames at an interface, as the node's kernel shows them, and filters those of the
//! exchanges.
//!
//! This uses a packet socket instead of kernel counters. IP counters count a fragmented datagram
//! as one packet, and also a TCP segment before segmentation offload. Interface counters miss
//! frames that a program takes from the interface. A packet socket sees what is on the wire.

use crate::error::Error;
use record::spec::ExchangeSpec;
use std::ffi::CString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{AddAssign, Sub};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Frames and bytes, including the Ethernet header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub out_bytes: u64,
    pub in_bytes: u64,
    pub out_frames: u64,
    pub in_frames: u64,
}

impl Sub for Count {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            out_bytes: self.out_bytes - before.out_bytes,
            in_bytes: self.in_bytes - before.in_bytes,
            out_frames: self.out_frames - before.out_frames,
            in_frames: self.in_frames - before.in_frames,
        }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, more: Self) {
        self.out_bytes += more.out_bytes;
        self.in_bytes += more.in_bytes;
        self.out_frames += more.out_frames;
        self.in_frames += more.in_frames;
    }
}

impl Count {
    fn add(&mut self, outgoing: bool, length: u64) {
        let (bytes, frames) = match outgoing {
            true => (&mut self.out_bytes, &mut self.out_frames),
            false => (&mut self.in_bytes, &mut self.in_frames),
        };
        *bytes += length;
        *frames += 1;
    }
}

/// Filter for frames of the exchanges: from or to `port`, with one of `hosts` or a multicast group
/// as one end.
#[derive(Debug, Clone, Default)]
pub struct FrameFilter {
    pub hosts: Vec<IpAddr>,
    pub port: u16,
}

/// Bytes inspected per frame: headers of Ethernet, IP with all options, UDP or TCP; and for an
/// ICMP error the same for the quoted packet.
const HEAD: usize = 14 + 60 + 8 + 60 + 8;
/// Protocol number of the fragment header (RFC 8200, 4.5).
const IPV6_FRAGMENT: i32 = 44;

impl FrameFilter {
    /// Filter for the exchanges of a spec.
    pub fn of(spec: &ExchangeSpec) -> Self {
        if let Some(gateway) = spec.gateway {
            return Self { hosts: vec![gateway.ip()], port: gateway.port() };
        }
        let hosts = spec.peers.iter().chain(&spec.brokers).map(|peer| peer.address).collect();
        Self { hosts, port: spec.port }
    }

    /// Whether the filter matches a frame, given its first bytes.
    fn matches_frame(&self, frame: &[u8]) -> bool {
        let Some((link, packet)) = frame.split_at_checked(14) else { return false };
        match link[12..] {
            [8, 0] => self.matches_ipv4(packet, true),
            [0x86, 0xdd] => self.matches_ipv6(packet, true),
            _ => false,
        }
    }

    /// Whether one of the packet's ends is a node of the exchanges, or a group.
    fn has_end(&self, ends: [IpAddr; 2]) -> bool {
        ends.iter().any(|end| end.is_multicast() || self.hosts.contains(end))
    }

    fn has_port(&self, transport: &[u8; 8]) -> bool {
        let port = self.port.to_be_bytes();
        transport[..2] == port || transport[2..4] == port
    }

    fn matches_ipv6(&self, packet: &[u8], outer: bool) -> bool {
        let Some(header) = packet.first_chunk::<40>() else { return false };
        let address = |at: usize| {
            IpAddr::from(Ipv6Addr::from(std::array::from_fn::<u8, 16, _>(|i| header[at + i])))
        };
        let has_end = self.has_end([address(8), address(24)]);
        let (mut protocol, mut rest) = (i32::from(header[6]), &packet[40..]);
        // The only extension header that the protocols of exchanges cause.
        if let (IPV6_FRAGMENT, Some(fragment)) = (protocol, rest.first_chunk::<8>()) {
            // Later fragments of a datagram have no ports.
            if u16::from_be_bytes([fragment[2], fragment[3]]) >> 3 != 0 {
                return has_end;
            }
            (protocol, rest) = (i32::from(fragment[0]), &rest[8..]);
        }
        match (protocol, rest.first_chunk::<8>()) {
            (libc::IPPROTO_TCP | libc::IPPROTO_UDP, Some(head)) => has_end && self.has_port(head),
            // ICMPv6 destination unreachable, or packet too big, about a matching packet; also
            // from a router in between.
            (libc::IPPROTO_ICMPV6, Some(head)) => {
                outer && matches!(head[0], 1 | 2) && self.matches_ipv6(&rest[8..], false)
            }
            _ => false,
        }
    }

    fn matches_ipv4(&self, packet: &[u8], outer: bool) -> bool {
        let Some(header) = packet.first_chunk::<20>() else { return false };
        let address = |at: usize| {
            IpAddr::from(Ipv4Addr::from(std::array::from_fn::<u8, 4, _>(|i| header[at + i])))
        };
        let has_end = self.has_end([address(12), address(16)]);
        // Later fragments of a datagram have no ports.
        if u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0 {
            return has_end;
        }
        let length = usize::from(header[0] & 15) * 4;
        let Some(rest) = packet.get(length..).filter(|_| length >= header.len()) else {
            return false;
        };
        match (i32::from(header[9]), rest.first_chunk::<8>()) {
            (libc::IPPROTO_TCP | libc::IPPROTO_UDP, Some(head)) => has_end && self.has_port(head),
            // ICMP destination unreachable about a matching packet; also from a router in between.
            (libc::IPPROTO_ICMP, Some(head)) => {
                outer && head[0] == 3 && self.matches_ipv4(&rest[8..], false)
            }
            _ => false,
        }
    }
}

/// Receive buffer in bytes, as the kernel counts it: room for some thousand full-size frames
/// between two reads.
static RECEIVE_BUFFER: libc::c_int = 8 << 20;
/// A frame sent by the node (`PACKET_OUTGOING`).
const OUTGOING: u8 = 4;

/// Counts frames at an interface from now on.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
    filter: FrameFilter,
    counted: Count,
    all: Count,
}

impl Wire {
    /// # Errors
    /// The interface does not exist, or this user may not open packet sockets.
    pub fn on(interface: &str, filter: FrameFilter) -> Result<Self, Error> {
        let failed = |source: io::Error| {
            let hint = match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    "; the program must run as root in its node: use an image without a USER"
                }
                _ => "",
            };
            let operation = format!("count the frames at {interface}");
            Error::protocol(&operation, format!("{source}{hint}"))
        };
        let name =
            CString::new(interface).map_err(|_| failed(io::ErrorKind::InvalidInput.into()))?;
        // SAFETY: plain system calls; a valid descriptor is owned at once; names, options and the
        // address outlive their calls; an all-zero address is valid.
        unsafe {
            let index = libc::if_nametoindex(name.as_ptr());
            if index == 0 {
                return Err(failed(io::Error::last_os_error()));
            }
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            // Protocol 0: receives nothing until bound.
            let fd = libc::socket(libc::AF_PACKET, kind, 0);
            if fd < 0 {
                return Err(failed(io::Error::last_os_error()));
            }
            let socket = OwnedFd::from_raw_fd(fd);
            let size = size_of::<libc::c_int>() as libc::socklen_t;
            for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
                // SO_RCVBUFFORCE needs root on the host; otherwise SO_RCVBUF applies.
                libc::setsockopt(
                    fd,
                    libc::SOL_SOCKET,
                    option,
                    (&raw const RECEIVE_BUFFER).cast(),
                    size,
                );
            }
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = index as libc::c_int;
            let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            if libc::bind(fd, (&raw const address).cast(), length) < 0 {
                return Err(failed(io::Error::last_os_error()));
            }
            Ok(Self { socket, filter, counted: Count::default(), all: Count::default() })
        }
    }

    /// Readable when a frame has passed since the last count.
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Count of all frames as of the last read.
    pub fn all(&self) -> Count {
        self.all
    }

    /// Count of matching frames until now.
    pub fn count(&mut self) -> Count {
        loop {
            let mut head = [0u8; HEAD];
            // SAFETY: an all-zero address is valid; buffer and address are local, have the given
            // sizes and outlive the call.
            let (length, kind) = unsafe {
                let mut from: libc::sockaddr_ll = std::mem::zeroed();
                let mut size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
                let length = libc::recvfrom(
                    self.socket.as_raw_fd(),
                    head.as_mut_ptr().cast(),
                    HEAD,
                    // MSG_TRUNC returns the full frame length.
                    libc::MSG_TRUNC,
                    (&raw mut from).cast(),
                    &raw mut size,
                );
                (length, from.sll_pkttype)
            };
            if length < 0 {
                if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return self.counted;
            }
            let length = length as u64;
            self.all.add(kind == OUTGOING, length);
            if self.filter.matches_frame(&head[..HEAD.min(length as usize)]) {
                self.counted.add(kind == OUTGOING, length);
            }
        }
    }

    /// Frames dropped since the last call, because the buffer was full.
    pub fn dropped(&self) -> u64 {
        // SAFETY: an all-zero structure is valid; it is local, has the given size and outlives the
        // call.
        unsafe {
            let mut seen: libc::tpacket_stats = std::mem::zeroed();
            let mut size = size_of::<libc::tpacket_stats>() as libc::socklen_t;
            let failed = libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut seen).cast(),
                &raw mut size,
            );
            if failed < 0 { 0 } else { u64::from(seen.tp_drops) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::UdpSocket;

    #[test]
    fn counts_frames_with_their_headers() {
        // Needs permission to open packet sockets, which the tests have.
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = to.local_addr().unwrap().port();
        let filter = FrameFilter { hosts: vec![Ipv4Addr::LOCALHOST.into()], port };
        let mut wire = Wire::on("lo", filter).unwrap();
        let before = wire.count();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.send_to(&[0; 100], to.local_addr().unwrap()).unwrap();
        // An unrelated frame.
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.send_to(&[0; 500], other.local_addr().unwrap()).unwrap();
        to.recv(&mut [0; 100]).unwrap();
        let bytes = 14 + 20 + 8 + 100;
        let once = Count { out_bytes: bytes, in_bytes: bytes, out_frames: 1, in_frames: 1 };
        assert_eq!(wire.count() - before, once);
        assert!(wire.all().out_bytes >= bytes + 542);
    }

    #[test]
    fn later_fragments_and_errors_about_ours_are_ours() {
        let filter = FrameFilter { hosts: vec![[10, 0, 0, 1].into()], port: 5683 };
        let mut frame = vec![0; 14 + 20];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[14 + 9] = 17;
        frame[14 + 16..14 + 20].copy_from_slice(&[10, 0, 0, 1]);
        let datagram = [&frame[..], &[0x12, 0x34, 0x16, 0x33, 0, 8, 0, 0]].concat();
        assert!(filter.matches_frame(&datagram));
        let mut fragment = frame.clone();
        fragment[14 + 7] = 9;
        assert!(filter.matches_frame(&fragment));
        let mut icmp = frame.clone();
        icmp[14 + 9] = 1;
        let about = |inner: &[u8]| [&icmp[..], &[3, 3, 0, 0, 0, 0, 0, 0], inner].concat();
        assert!(filter.matches_frame(&about(&datagram[14..])));
        assert!(!filter.matches_frame(&about(&[])), "cut short");
        frame[14 + 19] = 2;
        assert!(
            !filter.matches_frame(&[&frame[..], &[0x12, 0x34, 0x16, 0x33, 0, 8, 0, 0]].concat())
        );
    }

    #[test]
    fn frames_of_ipv6() {
        let host: Ipv6Addr = "fd00::1".parse().unwrap();
        let filter = FrameFilter { hosts: vec![host.into()], port: 5683 };
        let packet = |next: u8, rest: &[u8]| {
            let mut packet = vec![0x60, 0, 0, 0, 0, rest.len() as u8, next, 64];
            packet.extend([[0; 16], host.octets()].concat());
            packet.extend(rest);
            packet
        };
        let frame = |packet: &[u8]| [&[0; 12][..], &[0x86, 0xdd], packet].concat();
        let udp = [0x12, 0x34, 0x16, 0x33, 0, 8, 0, 0];
        assert!(filter.matches_frame(&frame(&packet(17, &udp))));
        let other = [0x12, 0x34, 0x16, 0x34, 0, 8, 0, 0];
        assert!(!filter.matches_frame(&frame(&packet(17, &other))));
        let first = [&[17, 0, 0, 1, 0, 0, 0, 7][..], &udp].concat();
        assert!(filter.matches_frame(&frame(&packet(44, &first))));
        assert!(filter.matches_frame(&frame(&packet(44, &[17, 0, 0, 8, 0, 0, 0, 7]))));
        let error = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &packet(17, &udp)].concat();
        assert!(filter.matches_frame(&frame(&packet(58, &error))));
        assert!(!filter.matches_frame(&frame(&packet(58, &[135, 0, 0, 0, 0, 0, 0, 0]))));
        let whole = frame(&packet(17, &udp));
        assert!((0..whole.len()).all(|length| !filter.matches_frame(&whole[..length])));
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let error = Wire::on("nowhere0", FrameFilter::default()).unwrap_err().to_string();
        assert!(error.contains("nowhere0"), "{error}");
    }

    fn ipv4(from: [u8; 4], to: [u8; 4], protocol: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, (20 + rest.len()) as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend([from, to].concat());
        packet.extend(rest);
        packet
    }

    fn ipv6(from: &str, to: &str, next: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, rest.len() as u8, next, 64];
        for end in [from, to] {
            packet.extend(end.parse::<Ipv6Addr>().unwrap().octets());
        }
        packet.extend(rest);
        packet
    }

    fn framed(packet: &[u8]) -> Vec<u8> {
        let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        [&[0; 12][..], &kind, packet].concat()
    }

    /// What failed: in a network with routers, the error of a router in between was not counted.
    #[test]
    fn the_error_of_a_router_about_a_matching_packet_matches() {
        let udp = |port: u16| [[0x12, 0x34], port.to_be_bytes(), [0, 8], [0, 0]].concat();
        let (own, host, router) = ([10, 0, 0, 2], [10, 0, 9, 1], [10, 0, 0, 254]);
        let filter = FrameFilter { hosts: vec![host.into()], port: 5683 };
        let unreachable = |inner: &[u8]| [&[3, 1, 0, 0, 0, 0, 0, 0][..], inner].concat();
        let error =
            |port, to| framed(&ipv4(router, own, 1, &unreachable(&ipv4(own, to, 17, &udp(port)))));
        assert!(filter.matches_frame(&error(5683, host)));
        assert!(!filter.matches_frame(&error(5684, host)), "about another port");
        assert!(!filter.matches_frame(&error(5683, [10, 0, 9, 2])), "about another host");
        let echo = framed(&ipv4(router, own, 1, &[8, 0, 0, 0, 0, 0, 0, 0]));
        assert!(!filter.matches_frame(&echo));

        let filter = FrameFilter { hosts: vec!["fd00::9".parse().unwrap()], port: 5683 };
        let too_big = |port, to| {
            let inner = ipv6("fd00::2", to, 17, &udp(port));
            let error = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &inner].concat();
            framed(&ipv6("fd00::fe", "fd00::2", 58, &error))
        };
        assert!(filter.matches_frame(&too_big(5683, "fd00::9")));
        assert!(!filter.matches_frame(&too_big(5684, "fd00::9")));
        assert!(!filter.matches_frame(&too_big(5683, "fd00::8")));
    }

    /// A header of IPv4 has 20 B or more (RFC 791, section 3.1).
    #[test]
    fn a_header_that_is_too_short_has_no_ports() {
        let filter = FrameFilter { hosts: vec![[10, 0, 0, 1].into()], port: 0x4500 };
        let mut packet = ipv4([10, 0, 0, 2], [10, 0, 0, 1], 17, &[0; 8]);
        assert!(!filter.matches_frame(&framed(&packet)));
        // The port would be read from the header itself.
        (packet[0], packet[2], packet[3]) = (0x40, 0x45, 0);
        assert!(!filter.matches_frame(&framed(&packet)));
    }

    proptest! {
        #[test]
        fn any_frame_is_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..HEAD), kind in 0..3_u8) {
            let mut frame = bytes;
            if frame.len() > 24 {
                let kind: [u8; 2] = [[8, 0], [0x86, 0xdd], [8, 6]][usize::from(kind)];
                frame[12..14].copy_from_slice(&kind);
            }
            let filter = FrameFilter { hosts: vec![[10, 0, 0, 1].into()], port: 5683 };
            let _ = filter.matches_frame(&frame);
        }

        /// Headers as a kernel writes them: options of IPv4, and either end is a host.
        #[test]
        fn a_frame_matches_by_its_hosts_and_ports(
            options in 0..=10_usize,
            protocol in prop::sample::select(&[6_u8, 17, 132][..]),
            ports in prop::array::uniform2(prop::sample::select(&[5683_u16, 5684, 40_000][..])),
            ends in prop::array::uniform2(prop::sample::select(
                &[[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3], [224, 0, 1, 187]][..])),
        ) {
            let filter = FrameFilter { hosts: vec![[10, 0, 0, 1].into()], port: 5683 };
            let head = [&ports[0].to_be_bytes()[..], &ports[1].to_be_bytes(), &[0; 4]].concat();
            let mut packet = ipv4(ends[0], ends[1], protocol, &[]);
            packet[0] += options as u8;
            packet.extend(vec![0x16; options * 4]);
            packet.extend(head);
            let has_port = matches!(protocol, 6 | 17) && ports.contains(&5683);
            let has_end = ends.iter().any(|end| [[10, 0, 0, 1], [224, 0, 1, 187]].contains(end));
            prop_assert_eq!(filter.matches_frame(&framed(&packet)), has_port && has_end);
        }
    }
}
