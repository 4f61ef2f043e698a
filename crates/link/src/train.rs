//! Loss units of several frames: the fragments of a datagram, and back-to-back segments of
//! a TCP flow.

use etherparse::{Ipv6ExtensionSlice, NetSlice, SlicedPacket, TransportSlice};
use std::net::IpAddr;
use units::{BoundedTable, Instant, Span};

/// Segments of one flow further apart than this are separate trains. A segmentation-offload
/// burst leaves a stack within microseconds; the bound leaves room for a preempted sender.
const GAP: Span = Span::from_ms(1);
/// Maximum gap between fragments: as long as a receiver waits for them (RFC 1122, section
/// 3.3.2, specifies 60 to 120 s; Linux waits for 30 s).
const REASSEMBLY: Span = Span::from_s(30);
/// The largest IP packet, and so the largest segmentation-offload burst.
const MAX_BYTES: usize = 65_536;
/// Trains of one flow that can be open at a time; beyond, those that were idle for longest end. A
/// sender interleaves the fragments of a few datagrams.
const MAX_OPEN: usize = 256;

/// Key that all frames of a train share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum TrainKey {
    Fragment { addresses: [IpAddr; 2], id: u32, protocol: u8 },
    Flow { addresses: [IpAddr; 2], ports: (u16, u16) },
}

/// An open train.
#[derive(Debug, Clone, Copy)]
struct Train {
    number: u64,
    last: Instant,
    /// The sequence number after its last segment, and its bytes so far.
    next: u32,
    bytes: usize,
}

/// Numbers the trains of one direction of a link. Trains of several senders may interleave:
/// their order depends on the machine's scheduling.
#[derive(Debug, Clone)]
pub struct Trains {
    number: u64,
    open: BoundedTable<TrainKey, Train>,
    /// Whether only fragments form trains, and each segment is separate.
    fragments: bool,
}

impl Default for Trains {
    fn default() -> Self {
        Self { number: 0, open: BoundedTable::new(MAX_OPEN), fragments: false }
    }
}

impl Trains {
    /// Numbers datagrams: only fragments form trains.
    pub fn of_datagrams() -> Self {
        Self { fragments: true, ..Self::default() }
    }

    /// Number of the train of `frame`, which arrived at `now`.
    ///
    /// Frames that are neither fragments nor TCP segments with data are trains of one.
    pub fn number(&mut self, frame: &[u8], now: Instant) -> u64 {
        let keyed = key(frame)
            .filter(|(key, ..)| !self.fragments || matches!(key, TrainKey::Fragment { .. }));
        let Some((key, sequence, bytes)) = keyed else { return self.begin() };
        let gap = |train: &Train| now - train.last;
        let joined = self.open.get(&key).map(|(train, _)| *train).filter(|train| match key {
            TrainKey::Fragment { .. } => gap(train) <= REASSEMBLY,
            TrainKey::Flow { .. } => {
                gap(train) <= GAP && train.next == sequence && train.bytes + bytes <= MAX_BYTES
            }
        });
        let (number, before) = match joined {
            Some(train) => (train.number, train.bytes),
            None => (self.begin(), 0),
        };
        let next = sequence.wrapping_add(bytes as u32);
        // All trains here are of one flow, and so of one owner.
        self.open.insert(0, key, Train { number, last: now, next, bytes: before + bytes });
        number
    }

    fn begin(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

/// Train key of `frame`, the sequence number of its first byte, and its number of bytes;
/// the last two are 0 for a fragment.
fn key(frame: &[u8]) -> Option<(TrainKey, u32, usize)> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (addresses, fragment): ([IpAddr; 2], _) = match packet.net? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let fragment = (u32::from(header.identification()), header.protocol().0);
            let addresses = [header.source_addr().into(), header.destination_addr().into()];
            (addresses, header.is_fragmenting_payload().then_some(fragment))
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            let fragment = ip.extensions().clone().into_iter().find_map(|extension| {
                let Ipv6ExtensionSlice::Fragment(fragment) = extension else { return None };
                // An atomic fragment is a whole packet (RFC 6946).
                fragment
                    .is_fragmenting_payload()
                    .then(|| (fragment.identification(), fragment.next_header().0))
            });
            ([header.source_addr().into(), header.destination_addr().into()], fragment)
        }
        NetSlice::Arp(_) => return None,
    };
    if let Some((id, protocol)) = fragment {
        return Some((TrainKey::Fragment { addresses, id, protocol }, 0, 0));
    }
    let Some(TransportSlice::Tcp(tcp)) = packet.transport else { return None };
    let ports = (tcp.source_port(), tcp.destination_port());
    let bytes = tcp.payload().len();
    (bytes > 0).then_some((TrainKey::Flow { addresses, ports }, tcp.sequence_number(), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::{at, span};
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

    /// A fragment of IPv6 without its last octet of the destination, which is `to`.
    fn fragment6(to: u8, id: u32, offset: u16) -> Vec<u8> {
        let mut frame = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]].concat();
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 96, 44, 64]);
        for last in [1, to] {
            frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        // Next header UDP, offset and "more fragments", identification (RFC 8200, 4.5).
        frame.extend([17, 0]);
        frame.extend((offset | 1).to_be_bytes());
        frame.extend(id.to_be_bytes());
        frame.extend([0; 88]);
        frame
    }

    fn segment6(port: u16, sequence: u32) -> Vec<u8> {
        let (from, to) = ([0xfd; 16], [0xfe; 16]);
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv6(from, to, 64)
            .tcp(port, 80, sequence, 1000);
        let mut frame = Vec::new();
        builder.write(&mut frame, &[0; 73]).unwrap();
        frame
    }

    #[test]
    fn fragments_of_one_datagram_are_one_train() {
        let mut trains = Trains::default();
        let numbers: Vec<_> = [(1, 0), (1, 88), (1, 176), (2, 0), (2, 88)]
            .map(|(id, offset)| trains.number(&fragment(id, offset), at(0)))
            .to_vec();
        assert_eq!(numbers, [1, 1, 1, 2, 2]);
        let mut trains = Trains::of_datagrams();
        let high = 1 << 20;
        let numbers = [(2, 1, 0), (2, 1, 88), (2, 1 + high, 0), (3, 1, 0), (2, 1, 176)]
            .map(|(to, id, offset)| trains.number(&fragment6(to, id, offset), at(0)));
        assert_eq!(numbers, [1, 1, 2, 3, 1], "identifications of IPv6 have 32 bits");
    }

    #[test]
    fn segments_over_ipv6_are_trains_too() {
        let mut trains = Trains::default();
        let numbers = [(5, 0), (5, 73), (6, 146), (5, 146)]
            .map(|(port, sequence)| trains.number(&segment6(port, sequence), at(0)));
        assert_eq!(numbers, [1, 1, 2, 1]);
    }

    #[test]
    fn contiguous_segments_are_one_train_until_a_gap_or_another_flow() {
        let mut trains = Trains::default();
        let numbers = [
            trains.number(&segment(5, 0), at(0)),
            trains.number(&segment(5, 73), at(10)),
            trains.number(&segment(5, 146), at(10) + GAP + span(1)),
            trains.number(&segment(6, 219), at(10) + GAP + span(1)),
            trains.number(&segment(6, 219), at(10) + GAP + span(1)),
        ];
        assert_eq!(numbers, [1, 1, 2, 3, 4], "late, other flow, retransmission");
    }

    #[test]
    fn datagrams_are_tied_and_segments_not() {
        let mut datagrams = Trains::of_datagrams();
        let numbers = [
            datagrams.number(&segment(5, 0), at(0)),
            datagrams.number(&segment(5, 73), at(1)),
            datagrams.number(&fragment(1, 0), at(2)),
            datagrams.number(&fragment(1, 88), at(3)),
        ];
        assert_eq!(numbers, [1, 2, 3, 3]);
    }

    #[test]
    fn trains_that_run_through_each_other_stay_whole() {
        let mut trains = Trains::default();
        let numbers = [
            trains.number(&segment(5, 0), at(0)),
            trains.number(&fragment(1, 0), at(1)),
            trains.number(&segment(6, 500), at(2)),
            trains.number(&segment(5, 73), at(3)),
            trains.number(&[1, 2, 3], at(4)),
            trains.number(&fragment(1, 88), at(5)),
            trains.number(&segment(6, 573), at(6)),
        ];
        assert_eq!(numbers, [1, 2, 3, 1, 4, 2, 3]);
    }

    #[test]
    fn the_number_of_trains_is_limited() {
        for gap in [Span::ZERO, GAP] {
            let mut trains = Trains::default();
            for i in 0..60_000u16 {
                trains.number(&segment(i, 0), at(0) + u64::from(i) * gap);
                trains.number(&fragment(i, 0), at(0) + u64::from(i) * gap);
            }
            assert!(trains.open.len() <= MAX_OPEN, "{}", trains.open.len());
        }
    }

    #[test]
    fn a_train_ends_at_64_kib() {
        let mut trains = Trains::default();
        let last = (0..1000).map(|i| trains.number(&segment(5, i * 73), at(0))).last();
        assert_eq!(last, Some(2), "897 segments of 73 bytes fit");
    }

    #[test]
    fn what_cannot_be_read_is_a_train_of_one() {
        let mut trains = Trains::default();
        assert_eq!([trains.number(&[1, 2, 3], at(0)), trains.number(&[1, 2, 3], at(0))], [1, 2]);
    }
}
