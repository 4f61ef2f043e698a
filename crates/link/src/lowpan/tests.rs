//! Frames compared with the standards: sizes worked out by hand, and packets restored by a reader
//! that follows the RFCs, not the writer.

mod reader;

use super::*;
use crate::CsmaSpec;
use proptest::prelude::*;
use reader::restore;
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
        let frames = plain(&self.ethernet(), addresses, FrameNumbers::default());
        frames.unwrap().iter().map(Vec::len).collect()
    }

    /// Compressed headers between stations with extended addresses, with these contexts.
    fn compressed(&self, contexts: &Contexts) -> Vec<u8> {
        let stations = Stations::of(&self.ethernet(), MacAddresses::Extended).unwrap();
        compress(&self.packet(), stations.identifiers(), contexts).unwrap().compressed
    }
}

/// Frames without contexts.
fn plain(frame: &[u8], addresses: MacAddresses, numbers: FrameNumbers) -> Option<Vec<Vec<u8>>> {
    let compression = Compression { addresses, contexts: &Contexts::NONE };
    mac_frames(frame, compression, true, numbers)
}

fn contexts(prefixes: &[&str]) -> Contexts {
    let prefixes: Vec<_> = prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect();
    prefixes.try_into().unwrap()
}

fn ipv6(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().unwrap().octets()
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
    let frames = plain(&sample.ethernet(), MacAddresses::Extended, numbers).unwrap();
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
    let frames = plain(&group.ethernet(), MacAddresses::Extended, numbers).unwrap();
    let expected = [
        &[0x41, 0xc8, 7, 0xef, 0xbe, 0xff, 0xff, 1, 0, 0, 0xfe, 0xff, 0x11, 0x80, 2][..],
        &[0x7b, 0x3b, 58, 1],
    ];
    assert_eq!(frames[0][..19], expected.concat());
}

/// Headers worked out by hand from RFC 6282, section 3.1.1: flags and modes in the second byte, numbers
/// of contexts in the third if one is not 0, the rest of the addresses.
#[test]
fn addresses_of_contexts_keep_what_does_not_follow_from_them() {
    let own = |prefix: &str, number: u8| ipv6(&format!("{prefix}:80:11ff:fe00:{number}"));
    let two = contexts(&["fd00::/64", "2001:db8::/32", "fd00:7::/120"]);
    let between = |source: [u8; 16], destination: [u8; 16]| {
        let sample = Sample { source, destination, ..Sample::new(false, 58, vec![0; 8]) };
        sample.compressed(&two)
    };
    for (case, compressed, second, rest) in [
        ("both elided", between(own("fd00:", 1), own("fd00:", 2)), 0x77, vec![]),
        ("64 bits", between(ipv6("fd00::1"), own("fd00:", 2)), 0x57, vec![0, 0, 0, 0, 0, 0, 0, 1]),
        ("16 bits", between(ipv6("fd00::ff:fe00:7"), own("fd00:", 2)), 0x67, vec![0, 7]),
        ("link-local", between(own("fe80:", 1), own("fd00:", 2)), 0x37, vec![]),
        ("unspecified", between([0; 16], own("fd00:", 2)), 0x47, vec![]),
        ("number of the source", between(own("2001:db8:", 1), own("fd00:", 2)), 0xf7, vec![0x10]),
        ("of both", between(own("2001:db8:", 1), own("2001:db8:", 2)), 0xf7, vec![0x11]),
        ("of the destination", between(own("fe80:", 1), own("2001:db8:", 2)), 0xb7, vec![0x01]),
        // A context of 120 bits and an identifier of the station end with the same 8 bits.
        ("a long prefix", between(ipv6("fd00:7::1"), ipv6("fd00:7::9")), 0xf6, vec![0x22, 0, 9]),
        // Bits between the prefix and the identifier have to be 0.
        ("not covered", between(ipv6("2001:db8:1::1"), own("fd00:", 2)), 0x07, {
            ipv6("2001:db8:1::1").to_vec()
        }),
    ] {
        // Neither traffic class nor flow label, hop limit 64; ICMPv6.
        let [number, address] = match second >> 7 {
            1 => [&rest[..1], &rest[1..]],
            _ => [&[][..], &rest[..]],
        };
        let expected = [&[0x7a, second][..], number, &[58], address].concat();
        assert_eq!(compressed, expected, "{case}");
    }
}

#[test]
fn groups_of_a_context_have_six_bytes() {
    let known = contexts(&["fd00:6::/64", "2001:db8::/32"]);
    let to = |group: &str| {
        let sample = Sample { destination: ipv6(group), ..Sample::new(true, 58, vec![0; 8]) };
        sample.compressed(&known)
    };
    // All nodes of a Thread network: realm-local, by the mesh's prefix (RFC 3306).
    assert_eq!(to("ff33:40:fd00:6::1"), [0x7a, 0x3c, 58, 0x33, 0, 0, 0, 0, 1]);
    assert_eq!(to("ff38:20:2001:db8::9:1"), [0x7a, 0xbc, 0x01, 58, 0x38, 0, 0, 9, 0, 1]);
    // Another length of the prefix is another group.
    assert_eq!(to("ff38:21:2001:db8::9:1").len(), 3 + 16);
    assert_eq!(to("ff02::1"), [0x7a, 0x3b, 58, 1]);
}

#[test]
fn contexts_shorten_packets_between_nodes_of_the_subnet() {
    let lengths = |sample: &Sample, prefixes: &[&str]| -> Vec<usize> {
        let contexts = contexts(prefixes);
        let compression = Compression { addresses: MacAddresses::Extended, contexts: &contexts };
        let frames = mac_frames(&sample.ethernet(), compression, true, FrameNumbers::default());
        frames.unwrap().iter().map(Vec::len).collect()
    };
    let ping = Sample::new(false, 58, [&ECHO_REQUEST[..], &[7; 56]].concat());
    // 8 B of each address remain of 16; with another prefix than theirs, all.
    assert_eq!(lengths(&ping, &["fd00::/64"]), [122 - 16]);
    assert_eq!(on_channel(&[106]), Span::from_us(4_128));
    assert_eq!(lengths(&ping, &["fd01::/64"]), [122]);
    // The identifiers of ::1 and ::2 end as those of the stations do; context 0 is the other one.
    assert_eq!(lengths(&ping, &["fd01::/64", "fd00::/112"]), [122 - 32 + 1]);
    // First: 104 - 4 - 25 = 75 B, 72 of them in whole units; the other 28 B: 56.
    let coap = Sample::udp(false, [40_000, 5_683], 100);
    assert_eq!(lengths(&coap, &["fd00::/64"]), [124, 56]);
    assert_eq!(on_channel(&[124, 56]), Span::from_us(7_232));
    let longest = Sample::udp(false, [40_000, 5_683], 1_232);
    let expected = [vec![124; 13], vec![21 + 5 + 8 + 2]].concat();
    assert_eq!(lengths(&longest, &["fd00::/64"]), expected);
    assert_eq!(on_channel(&expected), Span::from_us(63_040));
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
    let frames = |frame: &[u8]| plain(frame, MacAddresses::Extended, FrameNumbers::default());
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

/// An address of one of the kinds that compress differently.
fn address() -> impl Strategy<Value = [u8; 16]> {
    let prefixes: [&[u8]; 15] = [
        &[0xfd, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0],
        &[0xfd, 0, 0, 6, 0, 0, 0, 0],
        &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0],
        &[0xff, 0x33, 0, 64, 0xfd, 0, 0, 6, 0, 0, 0, 0],
        &[0xff, 0x38, 0, 32, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0],
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

/// Contexts that these addresses may have, in any order and number.
fn any_contexts() -> impl Strategy<Value = Contexts> {
    let prefixes = [
        "fd00:6::/64",
        "2001:db8::/32",
        "fd00:6::/112",
        "fd00:6::ff:fe00:0/104",
        "fe80::/64",
        "::/0",
        "fd00::/16",
        "2001:db8::/48",
    ];
    let count = 0..=Contexts::MAX;
    let list = proptest::collection::vec(proptest::sample::select(prefixes.to_vec()), count);
    list.prop_map(|list| contexts(&list))
}

proptest! {
    #[test]
    fn a_receiver_restores_each_packet(
        macs in any::<[[u8; 6]; 2]>(),
        own in prop_oneof![Just(None), proptest::sample::select(vec!["fe80::", "fd00:6::", "2001:db8::"]).prop_map(Some)],
        known in any_contexts(),
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
        if let Some(prefix) = own {
            let [a, b, c, d, e, f] = sample.from;
            sample.source = ipv6(prefix);
            sample.source[8..].copy_from_slice(&[a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
        }
        if next == 17 && is_whole && sample.payload.len() >= 8 {
            let length = sample.payload.len() as u16;
            let header: Vec<u8> = ports.into_iter().chain([length]).flat_map(u16::to_be_bytes).collect();
            sample.payload[..6].copy_from_slice(&header);
        }
        let addresses = if short { MacAddresses::Short } else { MacAddresses::Extended };
        let numbers = FrameNumbers { sequence: numbers.0, tag: numbers.1 };
        let compression = Compression { addresses, contexts: &known };
        let frames = mac_frames(&sample.ethernet(), compression, true, numbers).unwrap();
        prop_assert_eq!(restore(&frames, &known), sample.packet());
        // Contexts never make a packet longer.
        let without = plain(&sample.ethernet(), addresses, numbers).unwrap();
        let bytes = |frames: &[Vec<u8>]| frames.iter().map(Vec::len).sum::<usize>();
        prop_assert!(bytes(&frames) <= bytes(&without));
    }
}
