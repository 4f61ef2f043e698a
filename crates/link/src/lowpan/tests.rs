//! Frames compared with the standards: sizes worked out by hand, and packets restored by a reader
//! that follows the RFCs, not the writer.

use super::*;
use crate::CsmaSpec;
use proptest::prelude::*;
use units::Span;

/// Addresses and content of a packet.
#[derive(Debug, Clone)]
struct Sample {
    to: [u8; 6],
    from: [u8; 6],
    source: [u8; 16],
    destination: [u8; 16],
    /// First word of the IPv6 header: traffic class and flow label.
    class: u32,
    hops: u8,
    next: u8,
    payload: Vec<u8>,
}

impl Sample {
    /// Between fd00::1 and fd00::2, or between the link-local addresses of the same nodes.
    fn new(link_local: bool, next: u8, payload: Vec<u8>) -> Self {
        let mac = |number| [2, 0x80, 0x11, 0, 0, number];
        let address = |number: u8| match link_local {
            true => [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x11, 0xff, 0xfe, 0, 0, number],
            false => [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number],
        };
        let [source, destination] = [address(1), address(2)];
        Self { to: mac(2), from: mac(1), source, destination, class: 0, hops: 64, next, payload }
    }

    /// With UDP between these ports.
    fn udp(link_local: bool, ports: [u16; 2], length: usize) -> Self {
        let mut payload: Vec<u8> = ports.into_iter().flat_map(u16::to_be_bytes).collect();
        payload.extend((length as u16 + 8).to_be_bytes());
        payload.extend([0xab, 0xcd]);
        payload.extend((0..length).map(|byte| byte as u8));
        Self::new(link_local, 17, payload)
    }

    fn packet(&self) -> Vec<u8> {
        let mut packet = (6 << 28 | self.class).to_be_bytes().to_vec();
        packet.extend((self.payload.len() as u16).to_be_bytes());
        packet.extend([self.next, self.hops]);
        packet.extend(self.source);
        packet.extend(self.destination);
        packet.extend(&self.payload);
        packet
    }

    fn ethernet(&self) -> Vec<u8> {
        [&self.to[..], &self.from, &[0x86, 0xdd], &self.packet()].concat()
    }

    fn lengths(&self, addresses: MacAddresses) -> Vec<usize> {
        let frames = mac_frames(&self.ethernet(), addresses, true, FrameNumbers::default());
        frames.unwrap().iter().map(Vec::len).collect()
    }
}

/// Time from the begin of the first frame to the end of the last acknowledgement, without
/// contention: frames and acknowledgements with 6 B of the physical layer, 192 us between them.
fn on_channel(lengths: &[usize]) -> Span {
    let spec = CsmaSpec::default();
    let of = |len: &usize| spec.airtime(*len) + spec.turnaround + spec.ack_airtime();
    lengths.iter().map(of).fold(Span::ZERO, |sum, time| sum + time)
}

const ECHO_REQUEST: [u8; 8] = [128, 0, 0, 0, 0, 1, 0, 1];

#[test]
fn a_ping_of_56_bytes_is_one_frame() {
    let echo = [&ECHO_REQUEST[..], &[7; 56]].concat();
    // MAC header 2 + 1 + 2 + 8 + 8 = 21, IPHC 2 and the next header 1, ICMPv6 64, FCS 2.
    let local = Sample::new(true, 58, echo.clone());
    assert_eq!(local.lengths(MacAddresses::Extended), [90]);
    // 96 B at 32 us, 192 us, 352 us.
    assert_eq!(on_channel(&[90]), Span::from_us(3_616));
    // Short addresses have 2 B each: 12 B less; but the identifiers of 8 B do not follow from them.
    assert_eq!(local.lengths(MacAddresses::Short), [90 - 12 + 16]);
    // Addresses of a routed prefix are 16 B each.
    let global = Sample::new(false, 58, echo.clone());
    assert_eq!(global.lengths(MacAddresses::Extended), [122]);
    assert_eq!(global.lengths(MacAddresses::Short), [110]);
    // Linux sets flow labels: 3 B. Another hop limit than 1, 64 and 255: 1 B.
    let labelled = Sample { class: 0x12345, hops: 63, ..global };
    assert_eq!(labelled.lengths(MacAddresses::Extended), [126]);
}

#[test]
fn a_coap_message_of_100_bytes_is_two_fragments_between_routed_addresses() {
    // IPHC 2 + 16 + 16, UDP 1 + 4 + 2 = 41 B of headers; a frame has room for 127 - 23 = 104 B.
    // First: 104 - 4 - 41 = 59 B, 56 of them in whole units: 21 + 4 + 41 + 56 + 2 = 124 B. The other
    // 44 B: 21 + 5 + 44 + 2 = 72 B.
    let coap = Sample::udp(false, [40_000, 5_683], 100);
    assert_eq!(coap.lengths(MacAddresses::Extended), [124, 72]);
    // (130 + 78) * 32 us + 2 * 544 us.
    assert_eq!(on_channel(&[124, 72]), Span::from_us(7_744));
    // Room for 127 - 11 = 116 B: 116 - 4 - 41 = 71 B, 64 of them; and 36.
    assert_eq!(coap.lengths(MacAddresses::Short), [9 + 4 + 41 + 64 + 2, 9 + 5 + 36 + 2]);
    // Between link-local addresses, 2 + 7 B of headers: 109 B do not fit; ports from 0xf0b0 on,
    // 2 + 4 B: 106 B do not; with 98 B they do.
    assert_eq!(Sample::udp(true, [40_000, 5_683], 100).lengths(MacAddresses::Extended).len(), 2);
    assert_eq!(Sample::udp(true, [0xf0b1, 0xf0b2], 98).lengths(MacAddresses::Extended), [127]);
    assert_eq!(Sample::udp(true, [0xf0b1, 0xf0b2], 99).lengths(MacAddresses::Extended).len(), 2);
}

#[test]
fn a_packet_of_1280_bytes_is_14_fragments() {
    // 1,232 B behind the headers: 56 in the first, 96 (of 99) in each other: 12 of these, then 24.
    let longest = Sample::udp(false, [40_000, 5_683], 1_232);
    assert_eq!(longest.packet().len() as u64, LOWPAN_MTU);
    let expected = [vec![124; 13], vec![21 + 5 + 24 + 2]].concat();
    assert_eq!(longest.lengths(MacAddresses::Extended), expected);
    // (1,664 + 14 * 6) B * 32 us + 14 * 544 us.
    assert_eq!(on_channel(&expected), Span::from_us(55_936 + 7_616));
    // Short addresses: 64 in the first, 104 (of 111) in 11 others, then 24: 13 frames.
    let short = longest.lengths(MacAddresses::Short);
    assert_eq!(short, [vec![120; 12], vec![9 + 5 + 24 + 2]].concat());
}

#[test]
fn headers_are_those_of_the_standards() {
    let sample = Sample::udp(true, [0xf0b1, 0xf0b2], 2);
    let numbers = FrameNumbers { sequence: 7, tag: 0 };
    let frames = mac_frames(&sample.ethernet(), MacAddresses::Extended, true, numbers).unwrap();
    let expected = [
        // Data, acknowledgement requested, one PAN identifier, extended addresses.
        &[0x61, 0xcc, 7, 0xef, 0xbe][..],
        &[2, 0, 0, 0xfe, 0xff, 0x11, 0x80, 2],
        &[1, 0, 0, 0xfe, 0xff, 0x11, 0x80, 2],
        // All but hop limit mode, ports, checksum and payload is elided.
        &[0x7e, 0x33, 0xf3, 0x12, 0xab, 0xcd, 0, 1],
    ];
    assert_eq!(frames[0][..frames[0].len() - 2], expected.concat());
    // A group: broadcast of 2 B, unacknowledged; ff02::1 in one byte; hop limit 255.
    let mut destination = [0; 16];
    [destination[0], destination[1], destination[15]] = [0xff, 2, 1];
    let to = [0x33, 0x33, 0, 0, 0, 1];
    let group = Sample { to, destination, hops: 255, ..Sample::new(true, 58, vec![0; 8]) };
    let frames = mac_frames(&group.ethernet(), MacAddresses::Extended, true, numbers).unwrap();
    let expected = [
        &[0x41, 0xc8, 7, 0xef, 0xbe, 0xff, 0xff, 1, 0, 0, 0xfe, 0xff, 0x11, 0x80, 2][..],
        &[0x7b, 0x3b, 58, 1],
    ];
    assert_eq!(frames[0][..19], expected.concat());
}

#[test]
fn the_check_sequence_is_that_of_the_standard() {
    // The acknowledgement in the standard's example (IEEE 802.15.4-2011, 5.2.1.9): bits 0100 0000
    // 0000 0000 0101 0110, lowest first, with the check sequence 0010 0111 1001 1110.
    let bits = |text: &str| text.bits();
    let frame = [bits("01000000"), bits("00000000"), bits("01010110")];
    let sum = [bits("00100111"), bits("10011110")];
    assert_eq!(check_sequence(&frame).to_le_bytes(), sum);
}

trait Bits {
    /// The byte whose lowest bit comes first.
    fn bits(&self) -> u8;
}

impl Bits for str {
    fn bits(&self) -> u8 {
        self.bytes().rev().fold(0, |byte, bit| byte << 1 | (bit - b'0'))
    }
}

#[test]
fn only_whole_packets_of_ipv6_are_carried() {
    let whole = Sample::udp(false, [1, 2], 20).ethernet();
    let frames =
        |frame: &[u8]| mac_frames(frame, MacAddresses::Extended, true, FrameNumbers::default());
    for end in 0..whole.len() {
        assert_eq!(frames(&whole[..end]), None, "{end}");
    }
    // Ethernet's padding is no part of the packet.
    assert_eq!(frames(&[&whole[..], &[0; 9]].concat()), frames(&whole));
    let with = |at: usize, value: u8| {
        let mut other = whole.clone();
        other[at] = value;
        frames(&other)
    };
    assert_eq!((with(12, 8), with(14, 0x45)), (None, None));
    // The size of a datagram has 11 bits.
    assert!(frames(&Sample::new(false, 59, vec![0; 2_007]).ethernet()).is_some());
    assert_eq!(frames(&Sample::new(false, 59, vec![0; 2_008]).ethernet()), None);
}

/// Restores the packet in these frames, as a receiver does.
fn restore(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut packet = Vec::new();
    let mut tags = Vec::new();
    for frame in frames {
        assert!(frame.len() <= 127, "{}", frame.len());
        let (frame, sum) = frame.split_at(frame.len() - 2);
        assert_eq!(check_sequence(frame).to_le_bytes(), sum);
        let control = u16::from_le_bytes([frame[0], frame[1]]);
        let mut at = 5;
        let mut station = |mode: u16| {
            let length = if mode == 2 { 2 } else { 8 };
            let address: Vec<u8> = frame[at..at + length].iter().rev().copied().collect();
            at += length;
            match length {
                2 => [&[0, 0, 0, 0xff, 0xfe, 0][..], &address].concat(),
                _ => [&[address[0] ^ 2][..], &address[1..]].concat(),
            }
        };
        let to = station(control >> 10 & 3);
        let from = station(control >> 14 & 3);
        let content = &frame[at..];
        let size = usize::from(u16::from_be_bytes([content[0], content[1]]) & 0x7ff);
        match content[0] >> 3 {
            0b11000 => {
                tags.push((size, [content[2], content[3]]));
                packet = headers(&content[4..], &from, &to, size);
            }
            0b11100 => {
                tags.push((size, [content[2], content[3]]));
                assert_eq!(packet.len(), usize::from(content[4]) * 8);
                packet.extend(&content[5..]);
            }
            _ => packet = headers(content, &from, &to, 0),
        }
    }
    tags.dedup();
    assert!(tags.is_empty() && frames.len() == 1 || tags.len() == 1, "{tags:?}");
    assert!(tags.iter().all(|(size, _)| *size == packet.len()));
    packet
}

/// Restores compressed headers, and appends what follows. `size` is that of a fragmented packet.
fn headers(content: &[u8], from: &[u8], to: &[u8], size: usize) -> Vec<u8> {
    let mut rest = content.iter().copied();
    let mut take = |count: usize| -> Vec<u8> { rest.by_ref().take(count).collect() };
    let (first, second) = (take(1)[0], take(1)[0]);
    assert_eq!(first >> 5, 0b011);
    let (ecn, services, label) = match first >> 3 & 3 {
        0 => {
            let b = take(4);
            (b[0] >> 6, b[0] & 63, u32::from_be_bytes([0, b[1], b[2], b[3]]))
        }
        1 => {
            let b = take(3);
            (b[0] >> 6, 0, u32::from_be_bytes([0, b[0] & 15, b[1], b[2]]))
        }
        2 => {
            let b = take(1);
            (b[0] >> 6, b[0] & 63, 0)
        }
        _ => (0, 0, 0),
    };
    let class = 6 << 28 | u32::from(services << 2 | ecn) << 20 | label;
    let compressed_next = first & 4 != 0;
    let next = if compressed_next { 17 } else { take(1)[0] };
    let hops = [0, 1, 64, 255][usize::from(first & 3)];
    let hops = if hops == 0 { take(1)[0] } else { hops };
    let (source, destination) = addresses(second, from, to, &mut take);
    let udp = compressed_next.then(|| {
        let dispatch = take(1)[0];
        assert_eq!(dispatch >> 2, 0b111100);
        let ports = match dispatch & 3 {
            0 => take(4),
            1 => {
                let b = take(3);
                vec![b[0], b[1], 0xf0, b[2]]
            }
            2 => {
                let b = take(3);
                vec![0xf0, b[0], b[1], b[2]]
            }
            _ => {
                let b = take(1)[0];
                vec![0xf0, 0xb0 | b >> 4, 0xf0, 0xb0 | b & 15]
            }
        };
        (ports, take(2))
    });
    let data: Vec<u8> = rest.collect();
    let own = if compressed_next { 8 } else { 0 };
    let length = if size == 0 { own + data.len() } else { size - 40 } as u16;
    let mut packet = class.to_be_bytes().to_vec();
    packet.extend(length.to_be_bytes());
    packet.extend([next, hops]);
    packet.extend(source);
    packet.extend(destination);
    if let Some((ports, checksum)) = udp {
        packet.extend(ports);
        packet.extend(length.to_be_bytes());
        packet.extend(checksum);
    }
    packet.extend(data);
    packet
}

/// Restores the addresses by their modes, with further bytes from `take`.
fn addresses(
    modes: u8,
    from: &[u8],
    to: &[u8],
    take: &mut dyn FnMut(usize) -> Vec<u8>,
) -> (Vec<u8>, Vec<u8>) {
    let local = |end: Vec<u8>| [&[0xfe, 0x80, 0, 0, 0, 0, 0, 0][..], &end].concat();
    let mut unicast = |mode: u8, own: &[u8]| match mode {
        0 => take(16),
        1 => local(take(8)),
        2 => local([&[0, 0, 0, 0xff, 0xfe, 0][..], &take(2)].concat()),
        _ => local(own.to_vec()),
    };
    let source = match modes >> 4 & 7 {
        4 => vec![0; 16],
        mode => unicast(mode, from),
    };
    let destination = match modes & 15 {
        mode @ 0..=3 => unicast(mode, to),
        8 => take(16),
        9 => {
            let b = take(6);
            [&[0xff, b[0]][..], &[0; 9], &b[1..]].concat()
        }
        10 => {
            let b = take(4);
            [&[0xff, b[0]][..], &[0; 11], &b[1..]].concat()
        }
        11 => [&[0xff, 2][..], &[0; 13], &take(1)].concat(),
        other => panic!("mode {other}"),
    };
    (source, destination)
}

/// An address of one of the kinds that compress differently.
fn address() -> impl Strategy<Value = [u8; 16]> {
    let prefixes: [&[u8]; 10] = [
        &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0],
        &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0],
        &[0xfe, 0x80, 0, 0, 0, 0, 0, 0],
        &[0xfe, 0x80],
        &[0xfd],
        &[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0xff, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0xff, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0; 16],
    ];
    (0..prefixes.len(), any::<[u8; 16]>()).prop_map(move |(kind, random)| {
        let mut address = random;
        address[..prefixes[kind].len()].copy_from_slice(prefixes[kind]);
        address
    })
}

proptest! {
    #[test]
    fn a_receiver_restores_each_packet(
        macs in any::<[[u8; 6]; 2]>(),
        own_identifiers in any::<bool>(),
        (source, destination) in (address(), address()),
        class in prop_oneof![Just(0), 0..0x1000_0000u32, (0..256u32).prop_map(|class| class << 20), 0..0x10_0000u32],
        hops in prop_oneof![Just(1), Just(64), Just(255), any::<u8>()],
        next in prop_oneof![Just(17), any::<u8>()],
        ports in prop_oneof![any::<[u16; 2]>(), (0xf0a0..0xf0d0u16, 0xf000..0xf200u16).prop_map(|(a, b)| [a, b])],
        is_whole in any::<bool>(),
        payload in proptest::collection::vec(any::<u8>(), 0..1_500),
        short in any::<bool>(),
        numbers in any::<(u8, u16)>(),
    ) {
        let mut sample = Sample { to: macs[0], from: macs[1], source, destination, class, hops, next, payload };
        if own_identifiers {
            let [a, b, c, d, e, f] = sample.from;
            sample.source = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f];
        }
        if next == 17 && is_whole && sample.payload.len() >= 8 {
            let length = sample.payload.len() as u16;
            let header: Vec<u8> = ports.into_iter().chain([length]).flat_map(u16::to_be_bytes).collect();
            sample.payload[..6].copy_from_slice(&header);
        }
        let addresses = if short { MacAddresses::Short } else { MacAddresses::Extended };
        let numbers = FrameNumbers { sequence: numbers.0, tag: numbers.1 };
        let frames = mac_frames(&sample.ethernet(), addresses, true, numbers).unwrap();
        prop_assert_eq!(restore(&frames), sample.packet());
    }
}
