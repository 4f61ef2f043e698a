//! Link types, encapsulations and fragments: the flows are exactly those that tshark finds.

use super::lowpan::frames;
use super::{Random, TestPacket, pcap, tshark, tshark_version};
use crate::figures::{Analysis, DirectionFigures};
use crate::{Options, analyze};
use etherparse::PacketBuilder;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const A: [u8; 4] = [10, 0, 0, 1];
const B: [u8; 4] = [10, 0, 0, 2];
const A6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const B6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

/// A UDP datagram over IPv4 from this port.
fn udp4(port: u16, length: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let payload = vec![0xb0; length];
    PacketBuilder::ipv4(A, B, 64).udp(port, 40_001).write(&mut packet, &payload).unwrap();
    packet
}

fn udp6(port: u16, length: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let payload = vec![0xb0; length];
    PacketBuilder::ipv6(A6, B6, 64).udp(port, 40_001).write(&mut packet, &payload).unwrap();
    packet
}

fn tcp4(port: u16, length: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let payload = vec![0xb0; length];
    PacketBuilder::ipv4(A, B, 64).tcp(port, 40_001, 7, 9).write(&mut packet, &payload).unwrap();
    packet
}

/// An IPv6 packet with `rest` after its header; the first part is of type `next`.
fn ip6(next: u8, rest: &[&[u8]]) -> Vec<u8> {
    let rest = rest.concat();
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((rest.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(A6);
    packet.extend(B6);
    packet.extend(rest);
    packet
}

/// The Fragment header of a fragment at `offset` B, of a packet with header `next` (RFC
/// 8200, section 4.5).
fn fragment(next: u8, offset: u16, more: bool) -> [u8; 8] {
    let [a, b] = (offset | u16::from(more)).to_be_bytes();
    [next, 0, a, b, 0, 0, 0, 9]
}

/// Packets with link headers, at intervals of a millisecond.
pub(super) fn captured(packets: impl IntoIterator<Item = Vec<u8>>) -> Vec<TestPacket> {
    let made = packets.into_iter().enumerate().map(|(n, data)| TestPacket {
        at: 1_700_000_000_000_000_000 + n as u64 * 1_000_000,
        length: data.len() as u32,
        data,
    });
    made.collect()
}

pub(super) type Flows = BTreeMap<(String, [SocketAddr; 2]), [u64; 2]>;

pub(super) fn ours(link: u32, packets: &[TestPacket]) -> (Analysis, Flows) {
    let analysis = analyze(&pcap(link, packets)[..], &Options::default()).unwrap();
    let mut flows = Flows::new();
    for flow in &analysis.flows {
        // Random bytes may be numbers of contexts, whose addresses are no socket's.
        let ends = [&flow.a, &flow.b];
        if ends.iter().any(|end| end.contains("context ")) {
            continue;
        }
        let ends = ends.map(|end| end.parse().unwrap());
        let mut add = |ends: [SocketAddr; 2], way: &DirectionFigures| {
            if way.packets > 0 {
                flows.insert((flow.transport.to_owned(), ends), [way.packets, way.bytes]);
            }
        };
        add(ends, &flow.forward);
        add([ends[1], ends[0]], &flow.back);
    }
    sums_add_up(&analysis);
    (analysis, flows)
}

/// Invariants of every analysis.
fn sums_add_up(analysis: &Analysis) {
    let kind = |name: &str| {
        analysis.kinds.iter().find(|kind| kind.kind == name).map_or(0, |kind| kind.packets)
    };
    assert_eq!(analysis.layers.values().sum::<u64>(), analysis.bytes);
    assert_eq!(analysis.kinds.iter().map(|kind| kind.packets).sum::<u64>(), analysis.packets);
    assert_eq!(analysis.unread.iter().map(|row| row.packets).sum::<u64>(), kind("unread"));
    let sum = |rows: &[crate::ProtocolFigures]| rows.iter().map(|row| row.packets).sum::<u64>();
    assert_eq!(sum(&analysis.other_protocols), kind("other"));
    assert_eq!(sum(&analysis.later_fragments), kind("later fragment"));
    let words = analysis.notes.iter().filter(|note| note.contains("counted by size")).count();
    assert!(analysis.unread.is_empty() || words > 0, "{:?}", analysis.notes);
}

pub(super) fn theirs(link: u32, packets: &[TestPacket]) -> Flows {
    let fields = [
        "frame.len",
        "ip.src",
        "ipv6.src",
        "ip.dst",
        "ipv6.dst",
        "udp.srcport",
        "udp.dstport",
        "tcp.srcport",
        "tcp.dstport",
    ];
    let whole = ["ip.defragment:FALSE", "ipv6.defragment:FALSE"];
    let mut flows = Flows::new();
    for row in tshark(&pcap(link, packets), &whole, &fields) {
        let address = |four: usize, six: usize| -> Option<IpAddr> {
            row[four].parse().or_else(|_| row[six].parse()).ok()
        };
        let (transport, ports) = match (&row[5..7], &row[7..9]) {
            (ports, _) if !ports[0].is_empty() => ("udp", ports),
            (_, ports) if !ports[0].is_empty() => ("tcp", ports),
            _ => continue,
        };
        let end = |address: Option<IpAddr>, port: &str| {
            let address = address.unwrap_or(Ipv6Addr::UNSPECIFIED.into());
            SocketAddr::new(address, port.parse().unwrap())
        };
        let ends = [end(address(1, 2), &ports[0]), end(address(3, 4), &ports[1])];
        let sums = flows.entry((transport.to_owned(), ends)).or_default();
        sums[0] += 1;
        sums[1] += row[0].parse::<u64>().unwrap();
    }
    flows
}

/// The link headers before an IP packet, by its version.
type Encapsulation = fn(bool) -> Vec<u8>;

fn ether(kind: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], kind].concat()
}

fn kind(six: bool) -> [u8; 2] {
    if six { [0x86, 0xdd] } else { [8, 0] }
}

fn ppp(six: bool) -> [u8; 2] {
    if six { [0, 0x57] } else { [0, 0x21] }
}

const ENCAPSULATIONS: &[(u32, &str, Encapsulation)] = &[
    (1, "Ethernet", |six| ether(&kind(six))),
    (1, "VLAN", |six| ether(&[&[0x81, 0, 0, 5], &kind(six)[..]].concat())),
    (1, "QinQ", |six| ether(&[&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6], &kind(six)[..]].concat())),
    (1, "MPLS", |_| ether(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64])),
    (1, "SNAP", |six| ether(&[&[0, 90, 0xaa, 0xaa, 3, 0, 0, 0], &kind(six)[..]].concat())),
    (1, "MACsec, not encrypted", |six| {
        ether(&[&[0x88, 0xe5, 0, 0, 0, 0, 0, 1], &kind(six)[..]].concat())
    }),
    (0, "loopback", |six| vec![if six { 30 } else { 2 }, 0, 0, 0]),
    (9, "PPP", |six| [&[0xff, 3], &ppp(six)[..]].concat()),
    (9, "PPP without address", |six| ppp(six).to_vec()),
    (50, "PPP in HDLC", |six| [&[0xff, 3], &ppp(six)[..]].concat()),
    (51, "PPPoE without Ethernet", |six| [&[0x11, 0, 0, 1, 0, 102], &ppp(six)[..]].concat()),
    (101, "raw IP", |_| Vec::new()),
    (104, "Cisco HDLC", |six| [&[0x0f, 0], &kind(six)[..]].concat()),
    (108, "OpenBSD loopback", |six| vec![0, 0, 0, if six { 24 } else { 2 }]),
    (113, "Linux cooked", |six| {
        [&[0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &kind(six)[..]].concat()
    }),
    (166, "pppd", |six| [&[1, 3], &ppp(six)[..]].concat()),
    (204, "PPP with direction", |six| [&[1, 0xff, 3], &ppp(six)[..]].concat()),
    (205, "Cisco HDLC with direction", |six| [&[0, 0x0f, 0], &kind(six)[..]].concat()),
    (219, "MPLS without Ethernet", |_| vec![0, 1, 1, 64]),
    (228, "raw IPv4", |_| Vec::new()),
    (276, "Linux cooked, version 2", |six| {
        [&kind(six)[..], &[0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 2, 0, 0, 0, 0, 1, 0, 0]].concat()
    }),
];

/// Link types that tshark does not read from a file.
const UNKNOWN_TO_TSHARK: &[u32] = &[166, 205, 219];

/// Packets in an encapsulation. PPPoE has a separate test, since its header has a length.
fn encapsulated(link: u32, make: Encapsulation) -> Vec<Vec<u8>> {
    let mut packets = vec![udp4(5_000, 60), tcp4(5_001, 60), udp4(5_000, 20)];
    if link != 228 {
        packets.push(udp6(5_002, 60));
    }
    packets.into_iter().map(|packet| [make(packet[0] >> 4 == 6), packet].concat()).collect()
}

#[test]
fn flows_behind_each_link_header_are_those_of_tshark() {
    let shark = tshark_version();
    for (link, name, make) in ENCAPSULATIONS {
        let packets = captured(encapsulated(*link, *make));
        let (analysis, flows) = ours(*link, &packets);
        assert!(analysis.complete, "{name}: {:?}", analysis.notes);
        assert_eq!(flows.len(), if *link == 228 { 2 } else { 3 }, "{name}: {flows:?}");
        if shark.is_some() && !UNKNOWN_TO_TSHARK.contains(link) {
            let mut theirs = theirs(*link, &packets);
            if *link == 204 {
                // tshark does not count the direction byte as part of the packet.
                theirs.values_mut().for_each(|[packets, bytes]| *bytes += *packets);
            }
            assert_eq!(flows, theirs, "{name}");
        }
    }
    // PPPoE has a length in its header.
    let session = |packet: Vec<u8>| {
        let length = (packet.len() as u16 + 2).to_be_bytes();
        let head = [&[0x88, 0x64, 0x11, 0, 0, 7][..], &length, &[0, 0x21]].concat();
        [ether(&head), packet].concat()
    };
    let packets = captured([udp4(5_000, 60), tcp4(5_001, 60)].map(session));
    let (analysis, flows) = ours(1, &packets);
    assert!(analysis.complete && flows.len() == 2, "{flows:?}");
    if shark.is_some() {
        assert_eq!(flows, theirs(1, &packets), "PPPoE");
    }
}

/// Fragments, and whole packets with extension headers.
fn fragments() -> Vec<Vec<u8>> {
    let datagram = &udp6(5_683, 80)[40..];
    let segment = &tcp4(5_001, 60)[20..];
    let hop = [44, 0, 1, 4, 0, 0, 0, 0];
    let authentication = |next: u8| [next, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1];
    // The data of a later fragment looks like a UDP header for port 5683.
    let later = [0x30, 0x39, 0x16, 0x33, 0, 48, 0, 0, 0x40, 1, 0, 1];
    let four = |field: u16, protocol: u8, rest: &[u8]| {
        let mut packet = vec![0x45, 0];
        packet.extend((20 + rest.len() as u16).to_be_bytes());
        packet.extend([0, 9]);
        packet.extend(field.to_be_bytes());
        packet.extend([64, protocol, 0, 0]);
        packet.extend(A);
        packet.extend(B);
        packet.extend(rest);
        packet
    };
    vec![
        // UDP over IPv6: first, middle and last.
        ip6(44, &[&fragment(17, 0, true), &datagram[..40]]),
        ip6(44, &[&fragment(17, 40, true), &later, &[0; 28]]),
        ip6(44, &[&fragment(17, 80, false), &later]),
        // After another header, and with one in the fragmented part.
        ip6(0, &[&hop, &fragment(17, 48, false), &later]),
        ip6(44, &[&fragment(60, 48, false), &later]),
        // An atomic fragment (RFC 6946).
        ip6(44, &[&fragment(17, 0, false), &udp6(5_010, 30)[40..]]),
        // TCP and ICMPv6.
        ip6(44, &[&fragment(6, 64, true), &later, &[0; 28]]),
        ip6(44, &[&fragment(58, 64, false), &later]),
        // IPv4: first and later of UDP, later of TCP, one with Don't Fragment.
        four(0x2000, 17, &udp4(5_020, 80)[20..60]),
        four(0x0005, 17, &later),
        four(0x2005, 6, &[later, later].concat()),
        four(0x4000, 6, segment),
        // Headers before a transport: destination options, routing, authentication.
        ip6(60, &[&[17, 0, 1, 4, 0, 0, 0, 0], &udp6(5_011, 30)[40..]]),
        ip6(43, &[&[17, 2, 2, 0, 0, 0, 0, 0], &B6, &udp6(5_012, 30)[40..]]),
        ip6(51, &[&authentication(6), segment]),
        four(0, 51, &[&authentication(17)[..], &udp4(5_021, 9)[20..]].concat()),
    ]
}

#[test]
fn later_fragments_make_no_flows() {
    let frame = |packet: Vec<u8>| [ether(&kind(packet[0] >> 4 == 6)), packet].concat();
    let packets = captured(fragments().into_iter().map(frame));
    let (analysis, flows) = ours(1, &packets);
    assert!(analysis.complete, "{:?}", analysis.notes);
    let later: Vec<(&str, u64)> =
        analysis.later_fragments.iter().map(|row| (&row.protocol[..], row.packets)).collect();
    assert_eq!(
        later.into_iter().collect::<BTreeMap<_, _>>(),
        BTreeMap::from([("UDP", 4), ("TCP", 2), ("ICMPv6", 1), ("IPv6 destination options", 1)])
    );
    assert_eq!(flows.len(), 8, "{flows:#?}");
    assert!(analysis.messages.get("coap").is_none_or(|coap| coap.is_empty()), "no CoAP was sent");
    if tshark_version().is_some() {
        assert_eq!(flows, theirs(1, &packets));
    }
}

#[test]
fn a_jumbogram_is_as_long_as_its_option_says() {
    // 70,008 B after the first header; the capture has the first 80.
    let datagram = &udp6(5_030, 64)[40..];
    let mut packet = ip6(0, &[&[17, 0, 0xc2, 4, 0, 1, 0x11, 0x78], datagram]);
    packet[4..6].copy_from_slice(&[0, 0]);
    let packets = [TestPacket { at: 1, data: packet, length: 40 + 70_008 }];
    let (analysis, flows) = ours(101, &packets);
    assert_eq!((analysis.packets, flows.len()), (1, 1));
    assert_eq!((analysis.layers["network"], analysis.layers["transport"]), (48, 8));
    assert_eq!(analysis.layers["payload"], 69_992);
}

#[test]
fn what_cannot_be_read_is_named() {
    let radio = captured(vec![vec![0x40, 0x88, 1, 0xcd, 0xab]; 12]);
    for (link, name) in [
        (105, "IEEE 802.11"),
        (127, "IEEE 802.11"),
        (191, "IEEE 802.15.4 on Linux"),
        (251, "Bluetooth LE"),
        (256, "Bluetooth LE"),
        (65_000, "65000"),
    ] {
        let (analysis, flows) = ours(link, &radio);
        assert!(!analysis.complete && flows.is_empty());
        let note = &analysis.notes[0];
        assert!(note.starts_with("12 packets on `interface 0` have link type"), "{note}");
        assert!(note.contains(name) && note.contains(&format!("{link}")), "{note}");
        assert_eq!(analysis.layers["link"], analysis.bytes);
    }
    let frames = [&[0x88, 0xcc][..], &[0x12, 0x34], &[0x12, 0x34], &[0, 10, 0x42, 0x42, 3]];
    let frames = frames.into_iter().map(|kind| [ether(kind), vec![0; 50]].concat());
    let tunnels = [50, 47, 89].map(|protocol| {
        let mut packet = udp4(1, 30);
        packet[9] = protocol;
        [ether(&[8, 0]), packet].concat()
    });
    let (analysis, _) = ours(1, &captured(frames.chain(tunnels)));
    let named = |row: &crate::ProtocolFigures| (row.protocol.clone(), row.packets);
    let mut others: Vec<_> = analysis.other_protocols.iter().map(named).collect();
    others.sort();
    assert_eq!(others, [("LLDP", 1), ("OSPF", 1), ("STP", 1)].map(|(n, c)| (n.to_owned(), c)));
    let unread: Vec<_> =
        analysis.unread.iter().map(|row| (row.reason, row.number, row.packets)).collect();
    assert_eq!(
        unread,
        [
            ("EtherType", Some(0x1234), 2),
            ("IP protocol", Some(47), 1),
            ("IP protocol", Some(50), 1)
        ]
    );
    assert!(!analysis.complete && analysis.notes.len() == 3, "{:?}", analysis.notes);
}

#[test]
fn no_bytes_in_headers_break_an_analysis() {
    let mut random = Random(31);
    let mut good: Vec<(u32, Vec<u8>)> = Vec::new();
    for (link, _, make) in ENCAPSULATIONS {
        good.extend(encapsulated(*link, *make).into_iter().map(|packet| (*link, packet)));
    }
    good.extend(fragments().into_iter().map(|packet| (101, packet)));
    good.extend(frames(60, 32).into_iter().map(|frame| (230, frame)));
    for _ in 0..400 {
        let link = random.pick(&[
            0, 1, 9, 50, 51, 101, 104, 108, 113, 166, 204, 205, 219, 276, 195, 215, 230, 283,
        ]);
        let mut packets = Vec::new();
        for _ in 0..40 {
            let (from, mut packet) = good[random.below(good.len() as u64) as usize].clone();
            // Headers of another link type are one more kind of damage.
            let changes = if from == link { random.below(4) } else { random.below(2) };
            for _ in 0..changes {
                let head = packet.len().min(60) as u64;
                let place = random.below(head) as usize;
                let any = random.next() as u8;
                packet[place] = random.pick(&[
                    0, 1, 4, 6, 0x45, 0x60, 44, 51, 60, 0x7e, 0x80, 0xc0, 0xe1, 0xef, 0xf3, 255,
                    any,
                ]);
            }
            let length = packet.len() as u32 + random.pick(&[0, 0, 0, 1, 70_000]);
            let cut = random.below(90) as usize;
            packet.truncate(random.pick(&[usize::MAX, usize::MAX, cut]));
            packets.push(TestPacket { at: random.below(1 << 40), data: packet, length });
        }
        let (analysis, _) = ours(link, &packets);
        assert_eq!(analysis.packets, 40);
        assert_eq!(analysis.complete, analysis.unread.is_empty());
    }
}
