//! Datagrams as Ethernet and IPv4 frames, with fragmentation and reassembly. Checksums are not
//! checked.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

/// Bytes of the Ethernet, IPv4 and UDP headers.
pub const HEADERS: usize = ETHERNET + IP + UDP;
const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
const PORT: u16 = 5_700;
const IGMP: u8 = 2;
const UDP_PROTOCOL: u8 = 17;
/// IPv4's flag "more fragments".
const MORE: u16 = 0x2000;

/// An IP address, and the address of its interface.
pub type Link = (Ipv4Addr, [u8; 6]);

/// A multicast group's IP address, and the interface address of its frames.
pub fn group_link(group: Ipv4Addr) -> Link {
    // The low 23 bits of the group's address (RFC 1112, section 6.4).
    let [_, b, c, d] = group.octets();
    (group, [1, 0, 0x5e, b & 0x7f, c, d])
}

/// A received frame with UDP.
pub struct UdpFrame<'a>(&'a [u8]);

impl<'a> UdpFrame<'a> {
    /// Parses a UDP frame to this interface address or to a group; none for others: a switch
    /// floods unknown destinations.
    pub fn of(frame: &'a [u8], own: [u8; 6]) -> Option<Self> {
        // Byte 23 is the protocol: the tenth of the IPv4 header.
        let long = frame.len() >= ETHERNET + IP && frame[23] == UDP_PROTOCOL;
        let udp_frame = Self(frame);
        (long && (udp_frame.is_multicast() || frame[..6] == own)).then_some(udp_frame)
    }

    /// Whether it went to a group.
    pub fn is_multicast(&self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The sender's address.
    pub fn from(&self) -> Ipv4Addr {
        Ipv4Addr::new(self.0[26], self.0[27], self.0[28], self.0[29])
    }
}

/// The fragments of a datagram by offset, and its length once the last has arrived.
type Fragments = (BTreeMap<usize, Vec<u8>>, Option<usize>);

/// Fragments and reassembles datagrams.
pub struct Wire {
    /// Bytes of IP payload that fit into a frame.
    room: usize,
    /// Received fragments, by receiver, sender and identification.
    fragments: HashMap<(usize, Ipv4Addr, [u8; 2]), Fragments>,
    identification: u16,
}

impl Wire {
    /// For packets of at most `mtu` bytes.
    pub fn new(mtu: usize) -> Self {
        Self { room: mtu - IP, fragments: HashMap::new(), identification: 0 }
    }

    /// The frames of a datagram.
    pub fn frames(&mut self, ends: (Link, Link), datagram: &[u8]) -> Vec<Vec<u8>> {
        let length = (datagram.len() + UDP) as u16;
        // A UDP checksum of 0 is none (RFC 768).
        let header = [PORT.to_be_bytes(), PORT.to_be_bytes(), length.to_be_bytes(), [0, 0]];
        let packet = [&header.concat(), datagram].concat();
        self.identification = self.identification.wrapping_add(1);
        // Fragments begin at multiples of 8 B.
        let room = if packet.len() <= self.room { self.room } else { self.room / 8 * 8 };
        let last = (packet.len() - 1) / room;
        let fragment = |(place, part)| {
            let more = if place < last { MORE } else { 0 };
            let flags = more | (place * room / 8) as u16;
            frame(ends, UDP_PROTOCOL, (self.identification, flags), part)
        };
        packet.chunks(room).enumerate().map(fragment).collect()
    }

    /// The datagram that this frame completes at the endpoint `receiver`.
    pub fn whole(&mut self, receiver: usize, udp_frame: &UdpFrame<'_>) -> Option<Vec<u8>> {
        let frame = udp_frame.0;
        let length = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let payload = frame.get(ETHERNET + IP..ETHERNET + length)?;
        let flags = u16::from_be_bytes([frame[20], frame[21]]);
        let (more, offset) = (flags & MORE != 0, usize::from(flags & 0x1fff) * 8);
        // The usual case: a whole datagram in one frame.
        if !more && offset == 0 {
            return Some(payload.get(UDP..)?.to_vec());
        }
        let key = (receiver, udp_frame.from(), [frame[18], frame[19]]);
        let (parts, end) = self.fragments.entry(key).or_default();
        parts.insert(offset, payload.to_vec());
        if !more {
            *end = Some(offset + payload.len());
        }
        // Duplicates replace their fragments, so the sum counts each byte once.
        let received: usize = parts.values().map(Vec::len).sum();
        (*end == Some(received)).then_some(())?;
        let (parts, _) = self.fragments.remove(&key)?;
        let packet: Vec<u8> = parts.into_values().flatten().collect();
        Some(packet.get(UDP..)?.to_vec())
    }
}

/// The frame of a membership report (IGMP, version 2).
pub fn report(from: Link, group: Ipv4Addr) -> Vec<u8> {
    // 0x16: a membership report of version 2 (RFC 2236, section 2.1). It goes to the group.
    let report = [&[0x16, 0, 0, 0][..], &group.octets()].concat();
    frame((from, group_link(group)), IGMP, (0, 0), &report)
}

fn frame(
    ((from, from_mac), (to, to_mac)): (Link, Link),
    protocol: u8,
    (identification, flags): (u16, u16),
    payload: &[u8],
) -> Vec<u8> {
    let length = ((IP + payload.len()) as u16).to_be_bytes();
    let [id, flags] = [identification.to_be_bytes(), flags.to_be_bytes()];
    // The time to live is 1, as IGMP requires (RFC 2236, section 2).
    let head = [0x45, 0, length[0], length[1], id[0], id[1], flags[0], flags[1], 1, protocol, 0, 0];
    let parts: [&[u8]; 7] =
        [&to_mac, &from_mac, &[8, 0], &head, &from.octets(), &to.octets(), payload];
    parts.concat()
}
