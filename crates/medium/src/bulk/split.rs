//! Splits a super-frame into virtual segments, and joins segments that travel together.

use super::checksum::{fold, sum};
use super::{Offload, VNET_HEADER, VnetHeader};
use std::ops::Range;

const ETHERNET: usize = 14;
const TAG: usize = 4;
const TCP_SEQUENCE: usize = 4;
const TCP_FLAGS: usize = 13;
const TCP_CHECKSUM: usize = 16;
const FIN_AND_PUSH: u8 = 0x09;
const CWR: u8 = 0x80;
/// Ethernet with a VLAN tag, IPv6, the longest TCP header, and IP options.
const LONGEST: usize = 192;

/// Offsets of a super-frame's parts, and its offload header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    header: VnetHeader,
    ip: usize,
    tcp: usize,
    payload: usize,
    /// Payload bytes per segment, except the last.
    segment: usize,
    version_6: bool,
}

impl Layout {
    pub fn header(&self) -> VnetHeader {
        self.header
    }
}

/// A frame and its offload header: one segment or many.
#[derive(Debug, Clone, Copy)]
pub struct SuperFrame<'a> {
    layout: Layout,
    bytes: &'a [u8],
}

/// Neighbouring segments as written to a TAP: a header part, then a slice of the
/// super-frame's payload, which is not copied.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    before: [u8; VNET_HEADER + LONGEST],
    len: usize,
    /// Payload of the segments.
    pub payload: &'a [u8],
}

impl Run<'_> {
    /// The virtio-net header for the TAP, and the frame's headers.
    pub fn before(&self) -> &[u8] {
        &self.before[..self.len]
    }

    /// The frame's headers.
    pub fn headers(&self) -> &[u8] {
        &self.before[VNET_HEADER..self.len]
    }

    /// The frame without the virtio-net header, in one piece.
    pub fn frame(&self) -> Vec<u8> {
        [&self.before[VNET_HEADER..self.len], self.payload].concat()
    }
}

impl<'a> SuperFrame<'a> {
    /// Parses a frame; `None` if it contradicts its header. Callers drop such a frame, as
    /// an interface would.
    pub fn new(header: VnetHeader, bytes: &'a [u8]) -> Option<Self> {
        let layout =
            Layout { header, ip: 0, tcp: 0, payload: 0, segment: usize::MAX, version_6: false };
        let version_6 = match header.offload() {
            Offload::None => return Some(Self { layout, bytes }),
            Offload::TcpV4 => false,
            Offload::TcpV6 => true,
            Offload::Unknown => return None,
        };
        let tagged = bytes.get(12..14)? == [0x81, 0x00];
        let ip = if tagged { ETHERNET + TAG } else { ETHERNET };
        let tcp = usize::from(header.checksum_start);
        let words = usize::from(*bytes.get(tcp + 12)? >> 4);
        let payload = tcp + 4 * words;
        let least = if version_6 { 40 } else { 20 };
        let fits = words >= 5 && tcp >= ip + least && payload <= LONGEST.min(bytes.len());
        let checksum_fits = header.missing_checksum() == Some((tcp, TCP_CHECKSUM));
        if !fits || !checksum_fits || header.segment == 0 || payload == bytes.len() {
            return None;
        }
        let segment = usize::from(header.segment);
        Some(Self { layout: Layout { ip, tcp, payload, segment, version_6, ..layout }, bytes })
    }

    /// Restores a frame from a layout parsed before.
    pub(super) fn of(layout: Layout, bytes: &'a [u8]) -> Self {
        Self { layout, bytes }
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Bytes of the headers before the payload; 0 for an ordinary frame.
    pub(super) fn headers(&self) -> usize {
        self.layout.payload
    }

    /// Number of segments; 1 for an ordinary frame.
    pub fn segments(&self) -> usize {
        (self.bytes.len() - self.layout.payload).div_ceil(self.layout.segment).max(1)
    }

    /// Length of a segment on the wire, including the link header.
    ///
    /// # Panics
    /// If the segment does not exist.
    pub fn wire_len(&self, segment: usize) -> usize {
        self.layout.payload + self.part(&(segment..segment + 1)).len()
    }

    fn part(&self, run: &Range<usize>) -> &'a [u8] {
        assert!(run.start < run.end && run.end <= self.segments(), "{run:?}");
        let payload = &self.bytes[self.layout.payload..];
        let from = self.layout.segment.saturating_mul(run.start);
        let to = self.layout.segment.saturating_mul(run.end).min(payload.len());
        &payload[from..to]
    }

    /// Neighbouring segments as one frame; a super-frame if there is more than one segment.
    ///
    /// # Panics
    /// If the segments do not exist.
    pub fn join(&self, run: Range<usize>) -> Run<'a> {
        let payload = self.part(&run);
        let mut before = [0; VNET_HEADER + LONGEST];
        let header = if run.len() == 1 { self.layout.header.of_one() } else { self.layout.header };
        before[..VNET_HEADER].copy_from_slice(&header.bytes());
        let len = VNET_HEADER + self.layout.payload;
        before[VNET_HEADER..len].copy_from_slice(&self.bytes[..self.layout.payload]);
        if self.layout.payload > 0 {
            self.rewrite_headers(&mut before[VNET_HEADER..len], &run, payload.len());
        }
        Run { before, len, payload }
    }

    /// Rewrites the headers for the segments in `run`.
    fn rewrite_headers(&self, headers: &mut [u8], run: &Range<usize>, payload: usize) {
        let (ip, tcp) = (self.layout.ip, self.layout.tcp);
        let add = |field: &mut [u8], more: u64| {
            let old = field.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
            let new = old.wrapping_add(more).to_be_bytes();
            field.copy_from_slice(&new[8 - field.len()..]);
        };
        let below = headers.len() - tcp + payload;
        let pseudo = match self.layout.version_6 {
            true => {
                let len = (headers.len() - ip - 40 + payload) as u16;
                headers[ip + 4..ip + 6].copy_from_slice(&len.to_be_bytes());
                sum(0, &headers[ip + 8..ip + 40])
            }
            false => {
                let len = (headers.len() - ip + payload) as u16;
                headers[ip + 2..ip + 4].copy_from_slice(&len.to_be_bytes());
                add(&mut headers[ip + 4..ip + 6], run.start as u64);
                headers[ip + 10..ip + 12].fill(0);
                let checksum = !fold(sum(0, &headers[ip..tcp]));
                headers[ip + 10..ip + 12].copy_from_slice(&checksum.to_be_bytes());
                sum(0, &headers[ip + 12..ip + 20])
            }
        };
        let skipped = (self.layout.segment * run.start) as u64;
        add(&mut headers[tcp + TCP_SEQUENCE..tcp + TCP_SEQUENCE + 4], skipped);
        if run.end < self.segments() {
            headers[tcp + TCP_FLAGS] &= !FIN_AND_PUSH;
        }
        if run.start > 0 {
            headers[tcp + TCP_FLAGS] &= !CWR;
        }
        // The partial checksum covers the pseudo-header; the segment itself is still to
        // add. TCP is 6.
        let partial = fold(pseudo + 6 + below as u64);
        let place = tcp + TCP_CHECKSUM;
        headers[place..place + 2].copy_from_slice(&partial.to_be_bytes());
    }

    /// A segment as on the wire, with its checksum completed. For captures, and for
    /// corruption, which the receiver must be able to detect. `None` if the header does not
    /// fit the frame.
    ///
    /// # Panics
    /// If the segment does not exist.
    pub fn wire(&self, segment: usize) -> Option<Vec<u8>> {
        let mut frame = self.join(segment..segment + 1).frame();
        super::finish_checksum(&self.layout.header, &mut frame).then_some(frame)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};

    pub const SEGMENT: usize = 1448;

    /// A super-frame with `bytes` payload bytes, as a kernel passes it on.
    pub fn build(version_6: bool, bytes: usize) -> (VnetHeader, Vec<u8>) {
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let builder = match version_6 {
            true => builder.ipv6([1; 16], [2; 16], 64),
            false => builder.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64),
        };
        let tcp = builder.tcp(5000, 6000, u32::MAX - 2000, 65_535).ack(7).fin().psh();
        let tcp = tcp.options_raw(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]).unwrap();
        let payload: Vec<u8> = (0..bytes).map(|i| (i / 3) as u8).collect();
        let mut frame = Vec::new();
        tcp.write(&mut frame, &payload).unwrap();
        let start = if version_6 { 54 } else { 34 };
        let header = VnetHeader {
            flags: 1,
            kind: if version_6 { 4 } else { 1 },
            headers: start + 32,
            segment: SEGMENT as u16,
            checksum_start: start,
            checksum_offset: 16,
        };
        // The kernel leaves the pseudo-header's sum in the checksum field.
        let whole = SuperFrame::new(header, &frame).unwrap();
        let frame = whole.join(0..whole.segments()).frame();
        (header, frame)
    }

    /// Sequence number, flags (FIN, PSH) and payload of a wire frame; checks its checksums.
    fn read(frame: &[u8]) -> (u32, [bool; 2], Vec<u8>) {
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("TCP") };
        let right = match sliced.net.unwrap() {
            etherparse::NetSlice::Ipv4(ip) => {
                assert_eq!(
                    ip.header().header_checksum(),
                    ip.header().to_header().calc_header_checksum()
                );
                tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination())
            }
            etherparse::NetSlice::Ipv6(ip) => {
                tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(tcp.checksum(), right.unwrap());
        (tcp.sequence_number(), [tcp.fin(), tcp.psh()], tcp.payload().to_vec())
    }

    #[test]
    fn segments_are_those_of_a_wire() {
        for version_6 in [false, true] {
            let (header, frame) = build(version_6, 10 * SEGMENT + 77);
            let whole = SuperFrame::new(header, &frame).unwrap();
            assert_eq!(whole.segments(), 11);
            let mut payload = Vec::new();
            for i in 0..11 {
                let wire = whole.wire(i).unwrap();
                assert_eq!(wire.len(), whole.wire_len(i));
                let (sequence, flags, bytes) = read(&wire);
                assert_eq!(sequence, (u32::MAX - 2000).wrapping_add((i * SEGMENT) as u32));
                assert_eq!(flags, [i == 10; 2]);
                payload.extend(bytes);
            }
            assert_eq!(whole.wire_len(10), whole.headers() + 77);
            assert_eq!(payload, frame[whole.headers()..]);
        }
    }

    #[test]
    fn ip_numbers_go_up_by_one_a_segment() {
        let (header, mut frame) = build(false, 3 * SEGMENT);
        frame[18..20].copy_from_slice(&0xffff_u16.to_be_bytes());
        let whole = SuperFrame::new(header, &frame).unwrap();
        let number =
            |i| u16::from_be_bytes([whole.wire(i).unwrap()[18], whole.wire(i).unwrap()[19]]);
        assert_eq!([0, 1, 2].map(number), [0xffff, 0, 1]);
    }

    #[test]
    fn what_is_joined_splits_into_the_same_segments() {
        for version_6 in [false, true] {
            let (header, frame) = build(version_6, 9 * SEGMENT + 1);
            let whole = SuperFrame::new(header, &frame).unwrap();
            assert_eq!(whole.join(0..10).frame(), frame, "all of it is what it was");
            for run in [0..1, 0..4, 3..9, 4..5, 8..10, 9..10] {
                let joined = whole.join(run.clone());
                let (part_header, _) = VnetHeader::split(joined.before()).unwrap();
                let bytes = joined.frame();
                let part = SuperFrame::new(part_header, &bytes).unwrap();
                assert_eq!(part.segments(), run.len());
                if run.len() == 1 {
                    let mut alone = bytes.clone();
                    assert!(crate::finish_checksum(&part_header, &mut alone));
                    assert_eq!(alone, whole.wire(run.start).unwrap());
                    continue;
                }
                for (i, segment) in run.enumerate() {
                    assert_eq!(part.wire(i), whole.wire(segment));
                }
            }
        }
    }

    #[test]
    fn a_plain_frame_is_one_segment_and_goes_through_as_it_is() {
        let bytes = [7; 60];
        let plain = SuperFrame::new(VnetHeader::default(), &bytes).unwrap();
        assert_eq!((plain.segments(), plain.wire_len(0)), (1, 60));
        let run = plain.join(0..1);
        assert_eq!((run.before(), run.payload), (&[0; VNET_HEADER][..], &bytes[..]));
        assert_eq!(plain.wire(0).unwrap(), bytes);
    }

    #[test]
    fn headers_that_lie_are_refused_and_never_panic() {
        let (good, frame) = build(false, 3 * SEGMENT);
        let bad = [
            VnetHeader { segment: 0, ..good },
            VnetHeader { checksum_start: 10, ..good },
            VnetHeader { checksum_start: u16::MAX, ..good },
            VnetHeader { checksum_offset: 6, ..good },
            VnetHeader { flags: 0, ..good },
            VnetHeader { kind: 5, ..good },
        ];
        assert!(bad.iter().all(|header| SuperFrame::new(*header, &frame).is_none()));
        for len in 0..frame.len() {
            if let Some(whole) = SuperFrame::new(good, &frame[..len]) {
                (0..whole.segments()).for_each(|i| drop(whole.wire(i)));
            }
        }
    }
}
