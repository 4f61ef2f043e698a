//! Splits frames into protocol layers.

use crate::packet::Packet;
use etherparse::{IpNumber, TcpHeaderSlice, UdpHeaderSlice};
use serde::{Deserialize, Serialize};
use std::ops::AddAssign;
use units::BoundedTable;

/// Frames and bytes of one type of traffic in one direction. Bytes are those on the wire, link
/// header included: `bytes = lower + transport + carried`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// All frames.
    pub frames: u64,
    /// All bytes.
    pub bytes: u64,
    /// Bytes of Ethernet and IP headers, and of frames that are not IP.
    pub lower: u64,
    /// Bytes of TCP, UDP and PGM headers.
    pub transport: u64,
    /// Bytes carried by the transport: payload and messaging protocol.
    pub carried: u64,
    /// Frames without payload: acknowledgements, PGM's own messages, ARP, group reports.
    pub control_frames: u64,
    /// Their bytes.
    pub control_bytes: u64,
    /// Retransmitted frames.
    pub retransmitted_frames: u64,
    /// Their bytes.
    pub retransmitted_bytes: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.lower += other.lower;
        self.transport += other.transport;
        self.carried += other.carried;
        self.control_frames += other.control_frames;
        self.control_bytes += other.control_bytes;
        self.retransmitted_frames += other.retransmitted_frames;
        self.retransmitted_bytes += other.retransmitted_bytes;
    }
}

/// The parts of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Bytes of headers below the transport.
    pub lower: u64,
    /// Bytes of the transport's headers.
    pub transport: u64,
    /// Bytes that the transport carries.
    pub carried: u64,
    /// Whether it is a retransmission.
    pub again: bool,
}

impl Kind {
    /// The frame's contribution to the traffic.
    pub fn traffic(self) -> Traffic {
        let bytes = self.lower + self.transport + self.carried;
        let once = |is: bool, value| if is { value } else { 0 };
        let control = self.carried == 0;
        Traffic {
            frames: 1,
            bytes,
            lower: self.lower,
            transport: self.transport,
            carried: self.carried,
            control_frames: once(control, 1),
            control_bytes: once(control, bytes),
            retransmitted_frames: once(self.again, 1),
            retransmitted_bytes: once(self.again, bytes),
        }
    }
}

/// The endpoints of a flow: addresses, then ports.
type Flow = ([u8; 16], [u8; 16], u16, u16);

/// TCP flows that are remembered, about 3 MB. Beyond, the nodes with the most lose those that were
/// idle for longest, as those of closed connections are.
const MAX_FLOWS: usize = 32_768;

/// Splits frames and detects TCP retransmissions.
#[derive(Debug)]
pub struct Classifier {
    /// UDP ports that carry PGM.
    pgm_ports: Vec<u16>,
    /// Sequence number after the last byte sent, by TCP flow; owned by the nodes.
    next: BoundedTable<Flow, u32>,
}

/// PGM's IP protocol number.
const PGM: IpNumber = IpNumber(113);
/// Length of a PGM header, and of the data header that follows it (RFC 3208, sections 8 and 8.2).
const PGM_HEADER: usize = 16;
/// Offset of a PGM packet's type.
const PGM_TYPE: usize = 4;
/// Offset of the length of a PGM packet's payload.
const PGM_LENGTH: usize = 14;
/// PGM types of data: the original and a repair.
const ODATA: u8 = 4;
const RDATA: u8 = 5;

impl Classifier {
    /// A classifier for a network where UDP on `pgm_ports` carries PGM.
    pub fn new(pgm_ports: Vec<u16>) -> Self {
        // A node that opens flows without end forgets its own, not those of others (decision 59).
        Self { pgm_ports, next: BoundedTable::new(MAX_FLOWS) }
    }

    /// The nodes whose TCP flows were forgotten, since there were too many, and how many of each.
    pub fn forgotten(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.next.evictions()
    }

    /// The parts of `frame`, sent or received by `node`; call it in the sender's order.
    pub fn classify(&mut self, node: u32, frame: &[u8]) -> Kind {
        let len = frame.len() as u64;
        let unknown = Kind { lower: len, transport: 0, carried: 0, again: false };
        let Some(packet) = Packet::of(frame) else { return unknown };
        let lower = packet.start as u64;
        // Bytes between the end of the IP packet and that of the frame are padding.
        let rest = &frame[packet.start..packet.end];
        let padding = (frame.len() - packet.end) as u64;
        let split = |transport: usize, again: bool| Kind {
            lower: lower + padding,
            transport: transport.min(rest.len()) as u64,
            carried: rest.len().saturating_sub(transport) as u64,
            again,
        };
        if packet.is_later_fragment {
            return split(0, false);
        }
        let [source, destination] = packet.addresses;
        let flow = |ports: (u16, u16)| (source, destination, ports.0, ports.1);
        // A datagram's first fragment has the transport's header.
        match packet.protocol {
            IpNumber::TCP => {
                let Ok(tcp) = TcpHeaderSlice::from_slice(rest) else { return split(0, false) };
                let header = tcp.slice().len();
                let carried = rest.len() - header;
                // SYN and FIN take a sequence number each (RFC 9293, section 3.4). Pure
                // acknowledgements take none, and are never retransmissions.
                let length = carried as u32 + u32::from(tcp.syn()) + u32::from(tcp.fin());
                let flow = flow((tcp.source_port(), tcp.destination_port()));
                let again =
                    length > 0 && self.seen(node, flow, tcp.sequence_number(), length, tcp.syn());
                split(header, again)
            }
            IpNumber::UDP => {
                let Ok(udp) = UdpHeaderSlice::from_slice(rest) else { return split(0, false) };
                let ports = [udp.source_port(), udp.destination_port()];
                match self.pgm_ports.iter().any(|port| ports.contains(port)) {
                    true => {
                        let (header, again) = pgm(&rest[rest.len().min(8)..]);
                        split(8 + header, again)
                    }
                    false => split(8, false),
                }
            }
            PGM => {
                let (header, again) = pgm(rest);
                split(header, again)
            }
            // ICMP, neighbour discovery and group reports carry no application data.
            _ => split(rest.len(), false),
        }
    }

    /// Whether the bytes from `sequence` were sent before; records them if not.
    fn seen(&mut self, node: u32, flow: Flow, sequence: u32, length: u32, syn: bool) -> bool {
        let end = sequence.wrapping_add(length);
        match self.next.get_mut(&flow) {
            // A new connection may reuse the ports of an old one.
            Some(next) if syn && next.wrapping_sub(end) != 0 => {
                *next = end;
                false
            }
            Some(next) => goes_back(next, end),
            None => {
                self.next.insert(node, flow, end);
                false
            }
        }
    }
}

/// Whether bytes up to `end` are not beyond `next`; advances `next` if they are. Sequence numbers
/// wrap (RFC 9293, section 3.4): half of the range is in the past.
fn goes_back(next: &mut u32, end: u32) -> bool {
    let ahead = end.wrapping_sub(*next) as i32;
    if ahead > 0 {
        *next = end;
    }
    ahead <= 0
}

/// The length of a PGM packet's headers, and whether it is a repair.
fn pgm(packet: &[u8]) -> (usize, bool) {
    let (Some(kind), Some(length)) = (packet.get(PGM_TYPE), packet.get(PGM_LENGTH..PGM_HEADER))
    else {
        return (packet.len(), false);
    };
    match *kind & 0x0f {
        ODATA | RDATA => {
            let carried = usize::from(u16::from_be_bytes([length[0], length[1]]));
            (packet.len().saturating_sub(carried), *kind & 0x0f == RDATA)
        }
        _ => (packet.len(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn tcp(sequence: u32, syn: bool, payload: usize) -> Vec<u8> {
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let mut builder = builder.tcp(5556, 40000, sequence, 1000);
        if syn {
            builder = builder.syn();
        }
        let mut frame = Vec::new();
        builder.write(&mut frame, &vec![0; payload]).unwrap();
        frame
    }

    fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let mut frame = Vec::new();
        builder.udp(port, port).write(&mut frame, payload).unwrap();
        frame
    }

    #[test]
    fn layers_of_udp() {
        let frame = udp(9, &[0; 85]);
        let kind = Classifier::new(Vec::new()).classify(0, &frame);
        assert_eq!(kind, Kind { lower: 34, transport: 8, carried: 85, again: false });
        assert_eq!(kind.traffic().bytes, 127);
    }

    #[test]
    fn layers_of_ipv6() {
        let ethernet = || PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([1; 16], [2; 16], 64);
        let mut udp = Vec::new();
        ethernet().udp(9, 9).write(&mut udp, &[0; 85]).unwrap();
        let mut classifier = Classifier::new(Vec::new());
        let kind = classifier.classify(0, &udp);
        assert_eq!(kind, Kind { lower: 54, transport: 8, carried: 85, again: false });
        let mut tcp = Vec::new();
        ethernet().tcp(80, 40000, 5, 1000).write(&mut tcp, &[0; 30]).unwrap();
        assert!(!classifier.classify(0, &tcp).again);
        let again = classifier.classify(0, &tcp);
        assert_eq!(again, Kind { lower: 54, transport: 20, carried: 30, again: true });
        // Neighbour discovery is control.
        let mut solicitation = Vec::new();
        ethernet().icmpv6_raw(135, 0, [0; 4]).write(&mut solicitation, &[0; 24]).unwrap();
        assert_eq!(classifier.classify(0, &solicitation).traffic().control_frames, 1);
    }

    #[test]
    fn a_tag_and_padding_belong_to_the_lower_layers() {
        let mut frame = udp(9, &[0; 10]);
        frame.splice(12..12, [0x81, 0, 0, 5]);
        frame.extend([0; 6]);
        let kind = Classifier::new(Vec::new()).classify(0, &frame);
        assert_eq!(kind, Kind { lower: 38 + 6, transport: 8, carried: 10, again: false });
    }

    #[test]
    fn a_first_fragment_has_the_header() {
        let mut frame = udp(9, &[0; 85]);
        frame[20] = 0x20;
        let kind = Classifier::new(Vec::new()).classify(0, &frame);
        assert_eq!(kind, Kind { lower: 34, transport: 8, carried: 85, again: false });
    }

    #[test]
    fn a_later_fragment_is_all_carried() {
        let mut frame = udp(9, &[0; 85]);
        frame[21] = 11;
        let kind = Classifier::new(Vec::new()).classify(0, &frame);
        assert_eq!(kind, Kind { lower: 34, transport: 0, carried: 93, again: false });
    }

    #[test]
    fn tcp_sends_again() {
        let mut classifier = Classifier::new(Vec::new());
        let mut again =
            |sequence, syn, payload| classifier.classify(0, &tcp(sequence, syn, payload)).again;
        assert!(!again(u32::MAX, true, 0));
        assert!(again(u32::MAX, true, 0));
        assert!(!again(0, false, 73));
        assert!(!again(73, false, 73));
        assert!(again(73, false, 73));
        assert!(again(0, false, 73));
        assert!(!again(146, false, 0), "an acknowledgement");
        assert!(!again(100, false, 73), "new bytes next to old ones");
        assert!(!again(5_000, true, 0), "a new connection");
    }

    #[test]
    fn an_acknowledgement_is_control() {
        let traffic = Classifier::new(Vec::new()).classify(0, &tcp(5, false, 0)).traffic();
        assert_eq!((traffic.control_frames, traffic.control_bytes), (1, 54));
    }

    #[test]
    fn pgm_data_repairs_and_control() {
        let mut classifier = Classifier::new(vec![5556]);
        let packet = |kind: u8, carried: u8| {
            let mut packet = vec![0; 24 + usize::from(carried)];
            packet[PGM_TYPE] = kind;
            packet[PGM_LENGTH + 1] = carried;
            udp(5556, &packet)
        };
        let data = classifier.classify(0, &packet(ODATA, 40));
        assert_eq!(data, Kind { lower: 34, transport: 32, carried: 40, again: false });
        assert!(classifier.classify(0, &packet(RDATA, 40)).again);
        assert_eq!(classifier.classify(0, &packet(8, 0)).traffic().control_frames, 1);
        // A truncated packet is not data.
        assert_eq!(classifier.classify(0, &udp(5556, &[0; 5])).carried, 0);
    }

    #[test]
    fn any_bytes_add_up() {
        let mut classifier = Classifier::new(vec![5556]);
        let draw = units::Draw::new(3, 0, 0);
        for i in 0..20_000u64 {
            let mut frame = if i % 2 == 0 { tcp(1, false, 30) } else { udp(5556, &[4; 60]) };
            for k in 0..8 {
                let at = draw.uniform(units::Purpose::Loss, i * 16 + k) * frame.len() as f64;
                let value = draw.uniform(units::Purpose::Jitter, i * 16 + k) * 256.0;
                frame[at as usize] = value as u8;
            }
            frame.truncate((draw.uniform(units::Purpose::Loss, i * 16 + 9) * 150.0) as usize);
            assert_eq!(classifier.classify(0, &frame).traffic().bytes, frame.len() as u64);
        }
    }

    /// What failed before: each TCP flow was kept for ever.
    #[test]
    fn flows_are_limited_and_a_node_with_many_does_not_displace_others() {
        let mut classifier = Classifier::new(Vec::new());
        assert!(!classifier.classify(1, &tcp(0, false, 10)).again);
        for number in 0..100_000u32 {
            let mut frame = tcp(0, false, 10);
            frame[26..30].copy_from_slice(&number.to_be_bytes());
            classifier.classify(0, &frame);
        }
        assert!(classifier.next.len() <= MAX_FLOWS);
        let forgotten = 100_001 - classifier.next.len() as u64;
        assert_eq!(classifier.forgotten().collect::<Vec<_>>(), [(0, forgotten)]);
        assert!(classifier.classify(1, &tcp(0, false, 10)).again, "a retransmission is seen");
    }
}
