//! Datagrams as Ethernet and IPv4 frames, with fragmentation and reassembly. Checksums are not
//! checked.

use director::{Instant, Span};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::Ipv4Addr;

/// Bytes of the Ethernet, IPv4 and UDP headers.
pub const HEADERS: usize = ETHERNET + IP + UDP;
const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
const PORT: u16 = 5_700;
const IGMP: u8 = 2;
const UDP_PROTOCOL: u8 = 17;
/// A protocol number for experiments (RFC 3692).
const EXPERIMENT: u8 = 253;
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

/// Time after which an incomplete datagram is dropped: that of Linux (`ipfrag_time`). Without it, the
/// rest of a lost datagram would meet another one when identifications repeat.
const REASSEMBLY: Span = Span::from_s(30);

/// Receiver, sender and identification of a datagram.
type Key = (usize, Ipv4Addr, [u8; 2]);

/// An incomplete datagram.
struct Fragments {
    /// By offset.
    parts: BTreeMap<usize, Vec<u8>>,
    /// Its length, once the last fragment has arrived.
    end: Option<usize>,
    began_at: Instant,
}

/// Fragments and reassembles datagrams.
pub struct Wire {
    /// Bytes of IP payload that fit into a frame.
    room: usize,
    fragments: HashMap<Key, Fragments>,
    /// Times of their first fragments, in order; complete ones may be among them.
    began: VecDeque<(Instant, Key)>,
    identification: u16,
}

impl Wire {
    /// For packets of at most `mtu` bytes.
    pub fn new(mtu: usize) -> Self {
        Self {
            room: mtu - IP,
            fragments: HashMap::new(),
            began: VecDeque::new(),
            identification: 0,
        }
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

    /// The datagram that this frame completes at the endpoint `receiver`. Times must not decrease.
    pub fn whole(
        &mut self,
        receiver: usize,
        udp_frame: &UdpFrame<'_>,
        now: Instant,
    ) -> Option<Vec<u8>> {
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
        self.drop_incomplete(now);
        let datagram = self.fragments.entry(key).or_insert_with(|| {
            self.began.push_back((now, key));
            Fragments { parts: BTreeMap::new(), end: None, began_at: now }
        });
        datagram.parts.insert(offset, payload.to_vec());
        if !more {
            datagram.end = Some(offset + payload.len());
        }
        // Duplicates replace their fragments, so the sum counts each byte once.
        let received: usize = datagram.parts.values().map(Vec::len).sum();
        (datagram.end == Some(received)).then_some(())?;
        let Fragments { parts, .. } = self.fragments.remove(&key)?;
        let packet: Vec<u8> = parts.into_values().flatten().collect();
        Some(packet.get(UDP..)?.to_vec())
    }

    /// Drops datagrams that were not completed in time.
    fn drop_incomplete(&mut self, now: Instant) {
        while let Some((began_at, key)) = self.began.front().copied()
            && began_at + REASSEMBLY <= now
        {
            self.began.pop_front();
            // Another one with this key may have begun since.
            if self.fragments.get(&key).is_some_and(|known| known.began_at == began_at) {
                self.fragments.remove(&key);
            }
        }
    }
}

/// A frame of others with a datagram of `length` bytes, which must fit into a packet. Sessions ignore its
/// protocol.
pub fn foreign(from: Link, to: Link, length: usize) -> Vec<u8> {
    frame((from, to), EXPERIMENT, (0, 0), &vec![0; UDP + length])
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

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: Link = (Ipv4Addr::new(10, 0, 0, 1), [2, 0, 0, 0, 0, 1]);
    const TO: Link = (Ipv4Addr::new(10, 0, 0, 2), [2, 0, 0, 0, 0, 2]);

    fn receive(wire: &mut Wire, frame: &[u8], s: u64) -> Option<Vec<u8>> {
        let frame = UdpFrame::of(frame, TO.1).unwrap();
        wire.whole(1, &frame, Instant::START + Span::from_s(s))
    }

    #[test]
    fn fragments_become_their_datagram_in_any_order() {
        let mut wire = Wire::new(113);
        for length in [0, 1, 84, 85, 86, 500, 1_699] {
            let datagram: Vec<u8> = (0..length).map(|place| place as u8).collect();
            let mut frames = wire.frames((FROM, TO), &datagram);
            assert!(frames.iter().all(|frame| frame.len() <= ETHERNET + 113));
            assert_eq!(frames.len() > 1, length > 85, "{length}");
            frames.reverse();
            let (last, others) = frames.split_last().unwrap();
            for frame in others.iter().chain(others) {
                assert_eq!(receive(&mut wire, frame, 0), None);
            }
            assert_eq!(receive(&mut wire, last, 0), Some(datagram));
        }
        assert!(wire.fragments.is_empty());
    }

    #[test]
    fn an_incomplete_datagram_does_not_meet_a_later_one_of_its_identification() {
        let mut wire = Wire::new(113);
        let old = wire.frames((FROM, TO), &[1; 300]);
        assert!(old[..2].iter().all(|frame| receive(&mut wire, frame, 0).is_none()));
        // The last fragment is lost. Identifications repeat.
        wire.identification = 0;
        let new = wire.frames((FROM, TO), &[2; 150]);
        assert_eq!(receive(&mut wire, &new[0], 31), None);
        assert_eq!(receive(&mut wire, &new[1], 31), Some(vec![2; 150]));
        // Others do not remain for ever.
        for s in 0..1_000 {
            let lost = wire.frames((FROM, TO), &[3; 300]);
            receive(&mut wire, &lost[0], 31 + s);
        }
        assert!(wire.fragments.len() <= 31 && wire.began.len() <= 31);
    }
}
