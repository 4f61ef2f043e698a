//! Which frames share a fate: the fragments of a datagram, the back-to-back
//! segments of a TCP flow.

use crate::Instant;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};

/// Segments of one flow further apart than this are trains of their own. A
/// segmentation-offload burst leaves a stack within microseconds; the bound
/// leaves room for a sender that was preempted.
const GAP: Instant = 1_000_000;
/// The largest IP packet, so the largest segmentation-offload burst.
const MAX_BYTES: usize = 65_536;

/// What ties a frame to the one before it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tie {
    Fragment { addresses: [u8; 8], id: u16, protocol: u8 },
    Segment { addresses: [u8; 8], ports: (u16, u16), next: u32, bytes: usize, last: Instant },
}

/// Numbers the trains of one direction of a link.
#[derive(Debug, Clone, Default)]
pub struct Trains {
    number: u64,
    current: Option<Tie>,
}

impl Trains {
    /// The number of the train that `frame`, which came at `now`, belongs to.
    ///
    /// Frames that are neither fragments nor TCP segments with data are trains
    /// of one.
    pub fn number(&mut self, frame: &[u8], now: Instant) -> u64 {
        let tie = tie(frame, now);
        let joined = match (&self.current, tie) {
            (Some(old @ Tie::Fragment { .. }), Some(new)) if *old == new => Some(new),
            (
                Some(Tie::Segment { addresses: a, ports: p, next: n, bytes: b, last: l }),
                Some(Tie::Segment { addresses, ports, next, bytes, last }),
            ) if *a == addresses
                && *p == ports
                && n.wrapping_add(bytes as u32) == next
                && now.saturating_sub(*l) <= GAP
                && b + bytes <= MAX_BYTES =>
            {
                Some(Tie::Segment { addresses, ports, next, bytes: b + bytes, last })
            }
            (_, new) => {
                self.number += 1;
                new
            }
        };
        self.current = joined;
        self.number
    }
}

fn tie(frame: &[u8], now: Instant) -> Option<Tie> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let NetSlice::Ipv4(ip) = packet.net? else { return None };
    let header = ip.header();
    let mut addresses = [0; 8];
    addresses[..4].copy_from_slice(&header.source());
    addresses[4..].copy_from_slice(&header.destination());
    if header.is_fragmenting_payload() {
        let (id, protocol) = (header.identification(), header.protocol().0);
        return Some(Tie::Fragment { addresses, id, protocol });
    }
    let Some(TransportSlice::Tcp(tcp)) = packet.transport else { return None };
    let bytes = tcp.payload().len();
    (bytes > 0).then(|| Tie::Segment {
        addresses,
        ports: (tcp.source_port(), tcp.destination_port()),
        next: tcp.sequence_number().wrapping_add(bytes as u32),
        bytes,
        last: now,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{IpFragOffset, IpNumber, Ipv4Header, PacketBuilder};

    fn segment(port: u16, sequence: u32) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .tcp(port, 80, sequence, 1000);
        let mut frame = Vec::new();
        builder.write(&mut frame, &[0; 73]).unwrap();
        frame
    }

    fn fragment(id: u16, offset: u16) -> Vec<u8> {
        let mut ip = Ipv4Header::new(88, 64, IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
        ip.identification = id;
        ip.more_fragments = true;
        ip.fragment_offset = IpFragOffset::try_new(offset / 8).unwrap();
        let mut frame = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]].concat();
        frame.extend([8, 0]);
        ip.write(&mut frame).unwrap();
        frame.extend([0; 88]);
        frame
    }

    #[test]
    fn fragments_of_one_datagram_are_one_train() {
        let mut trains = Trains::default();
        let numbers: Vec<_> = [(1, 0), (1, 88), (1, 176), (2, 0), (2, 88)]
            .map(|(id, offset)| trains.number(&fragment(id, offset), 0))
            .to_vec();
        assert_eq!(numbers, [1, 1, 1, 2, 2]);
    }

    #[test]
    fn contiguous_segments_are_one_train_until_a_gap_or_another_flow() {
        let mut trains = Trains::default();
        let numbers = [
            trains.number(&segment(5, 0), 0),
            trains.number(&segment(5, 73), 10),
            trains.number(&segment(5, 146), 10 + GAP + 1),
            trains.number(&segment(6, 219), 10 + GAP + 1),
            trains.number(&segment(6, 219), 10 + GAP + 1),
        ];
        assert_eq!(numbers, [1, 1, 2, 3, 4], "late, other flow, retransmission");
    }

    #[test]
    fn a_train_ends_at_64_kib() {
        let mut trains = Trains::default();
        let last = (0..1000).map(|i| trains.number(&segment(5, i * 73), 0)).last();
        assert_eq!(last, Some(2), "897 segments of 73 bytes fit");
    }

    #[test]
    fn what_cannot_be_read_is_a_train_of_one() {
        let mut trains = Trains::default();
        assert_eq!([trains.number(&[1, 2, 3], 0), trains.number(&[1, 2, 3], 0)], [1, 2]);
    }
}
