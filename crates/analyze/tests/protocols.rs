//! Messages of the protocols' own documents, in captures: counted, and never more of them when bytes
//! are missing.

use analyze::{Analysis, Options, analyze};
use etherparse::PacketBuilder;
use std::collections::BTreeMap;

/// Link type of packets that begin with their IP header (tcpdump.org's list).
const RAW: u32 = 101;

/// A packet, and its length on the wire.
struct Sent {
    data: Vec<u8>,
    length: usize,
}

/// A pcap file of these packets, 1 ms apart.
fn pcap(packets: &[Sent]) -> Vec<u8> {
    let header = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, RAW].map(u32::to_le_bytes);
    let mut file = header.concat();
    for (place, Sent { data, length }) in packets.iter().enumerate() {
        let head = [1, place as u32 * 1_000_000, data.len() as u32, *length as u32];
        file.extend(head.map(u32::to_le_bytes).concat());
        file.extend(data);
    }
    file
}

fn of(packets: &[Sent]) -> Analysis {
    analyze(&pcap(packets)[..], &Options::default()).unwrap()
}

fn whole(data: Vec<u8>) -> Sent {
    let length = data.len();
    Sent { data, length }
}

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// A datagram between the client and the server's port.
fn datagram(from_client: bool, port: u16, payload: &[u8]) -> Sent {
    let (from, to) = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
    let ports = if from_client { [40_000, port] } else { [port, 40_000] };
    let mut data = Vec::new();
    let packet = PacketBuilder::ipv4(from, to, 64).udp(ports[0], ports[1]);
    packet.write(&mut data, payload).unwrap();
    whole(data)
}

/// A connection to the server's port, with these writes of the client and the server, each in
/// segments of at most `segment` bytes.
fn connection(port: u16, writes: &[(bool, &[u8])], segment: usize) -> Vec<Sent> {
    let mut next = [1_000_u32, 9_000];
    let mut packets = Vec::new();
    let mut send = |from_client: bool, syn: bool, payload: &[u8]| {
        let (own, other) = if from_client { (0, 1) } else { (1, 0) };
        let (from, to) = if from_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let ports = if from_client { [50_000, port] } else { [port, 50_000] };
        let mut packet =
            PacketBuilder::ipv4(from, to, 64).tcp(ports[0], ports[1], next[own], 64_000);
        if syn {
            packet = packet.syn();
        }
        if !syn || !from_client {
            packet = packet.ack(next[other]);
        }
        let mut data = Vec::new();
        packet.write(&mut data, payload).unwrap();
        next[own] += payload.len() as u32 + u32::from(syn);
        packets.push(whole(data));
    };
    send(true, true, &[]);
    send(false, true, &[]);
    send(true, false, &[]);
    for (from_client, bytes) in writes {
        for part in bytes.chunks(segment) {
            send(*from_client, false, part);
            send(!*from_client, false, &[]);
        }
    }
    packets
}

fn counts(analysis: &Analysis, protocol: &str) -> BTreeMap<String, u64> {
    analysis.messages.get(protocol).cloned().unwrap_or_default()
}

fn named(names: &[(&str, u64)]) -> BTreeMap<String, u64> {
    names.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// The exchanges of RFC 7252, appendix A: figures 16 (piggybacked response), 17 (with a token), 19
/// (lost response, repeated), 20 (separate response), 22 (non-confirmable), 21's empty messages.
fn rfc7252() -> Vec<Sent> {
    let temperature = b"\xbbtemperature";
    let value = b"\xff22.3 C";
    let message =
        |from_client, head: &[u8], rest: &[u8]| datagram(from_client, 5683, &[head, rest].concat());
    vec![
        message(true, b"\x40\x01\x7d\x34", temperature),
        message(false, b"\x60\x45\x7d\x34", value),
        message(true, b"\x41\x01\x7d\x35\x20", temperature),
        message(false, b"\x61\x45\x7d\x35\x20", value),
        message(true, b"\x41\x01\x7d\x37\x42", temperature),
        message(true, b"\x41\x01\x7d\x37\x42", temperature),
        message(false, b"\x61\x45\x7d\x37\x42", value),
        message(true, b"\x41\x01\x7d\x38\x53", temperature),
        message(false, b"\x60\x00\x7d\x38", b""),
        message(false, b"\x41\x45\xad\x7b\x53", value),
        message(true, b"\x60\x00\xad\x7b", b""),
        message(true, b"\x51\x01\x7d\x40\x75", temperature),
        message(false, b"\x51\x45\xad\x7c\x75", value),
        message(false, b"\x70\x00\xad\x7d", b""),
    ]
}

#[test]
fn coap_messages_of_rfc_7252_are_counted_by_type_and_code() {
    let all = of(&rfc7252());
    let expected = named(&[
        ("CON", 6),
        ("NON", 2),
        ("ACK", 5),
        ("RST", 1),
        ("0.00 empty", 3),
        ("0.01 GET", 6),
        ("2.05", 5),
    ]);
    assert_eq!(counts(&all, "coap"), expected);
    // `22.3 C`, five times.
    assert_eq!(all.goodput.payload_bytes, 5 * 6);
    assert_eq!(all.layers["transport"], 14 * 8);
    assert_eq!((all.complete, all.notes.len()), (true, 0), "{:?}", all.notes);
    // On a port that is not CoAP's, datagrams are data.
    let other = of(&[datagram(true, 9, b"\x40\x01\x7d\x34\xbbtemperature")]);
    assert!(other.messages.is_empty());
    assert_eq!(other.goodput.payload_bytes, 16);
}

/// The examples of MQTT 3.1.1: figures 3.6 (CONNECT), 3.11 (PUBLISH), 3.23 (SUBSCRIBE), 3.27
/// (SUBACK), 3.30 (UNSUBSCRIBE), and packets that have only a head.
fn mqtt() -> Vec<(bool, &'static [u8])> {
    vec![
        // Client id, will topic and message, user name, password: one letter each.
        (true, b"\x10\x19\0\x04MQTT\x04\xce\0\x0a\0\x01c\0\x01w\0\x01m\0\x01u\0\x01p"),
        (false, b"\x20\x02\0\0"),
        (true, b"\x82\x0e\0\x0a\0\x03a/b\x01\0\x03c/d\x02"),
        (false, b"\x90\x05\0\x0a\0\x02\x80"),
        (true, b"\x32\x0c\0\x03a/b\0\x0ahello"),
        (false, b"\x40\x02\0\x0a"),
        (false, b"\x34\x0c\0\x03c/d\0\x0bworld"),
        (true, b"\x50\x02\0\x0b"),
        (false, b"\x62\x02\0\x0b"),
        (true, b"\x70\x02\0\x0b"),
        (true, b"\x30\x05\0\x03a/b"),
        (true, b"\xa2\x0c\0\x0a\0\x03a/b\0\x03c/d"),
        (false, b"\xb0\x02\0\x0a"),
        (true, b"\xc0\0"),
        (false, b"\xd0\0"),
        (true, b"\xe0\0"),
    ]
}

#[test]
fn mqtt_packets_are_counted_by_type_on_its_port_and_on_others() {
    let expected = named(&[
        ("CONNECT", 1),
        ("CONNACK", 1),
        ("PUBLISH", 3),
        ("PUBACK", 1),
        ("PUBREC", 1),
        ("PUBREL", 1),
        ("PUBCOMP", 1),
        ("SUBSCRIBE", 1),
        ("SUBACK", 1),
        ("UNSUBSCRIBE", 1),
        ("UNSUBACK", 1),
        ("PINGREQ", 1),
        ("PINGRESP", 1),
        ("DISCONNECT", 1),
    ]);
    for port in [1883, 40_001] {
        for segment in [1_000, 40] {
            let all = of(&connection(port, &mqtt(), segment));
            assert_eq!(counts(&all, "mqtt"), expected, "port {port}, segments of {segment} B");
            assert_eq!(all.goodput.payload_bytes, 10, "hello and world");
            assert_eq!((all.streams.gaps, all.streams.resyncs), (0, 0));
            assert_eq!(all.tcp.retransmissions, 0);
        }
    }
}

/// ZMTP 3.1 (RFC 37): greetings, READY of both sides as in its section on the NULL mechanism, a
/// subscription and a message of two frames.
fn zmtp() -> Vec<(bool, Vec<u8>)> {
    let greeting = || {
        let mut greeting = b"\xff\0\0\0\0\0\0\0\0\x7f\x03\x01NULL".to_vec();
        greeting.resize(64, 0);
        greeting
    };
    let ready = |kind: &[u8]| {
        let body = [b"\x05READY\x0bSocket-Type\0\0\0", &[kind.len() as u8][..], kind].concat();
        [&[4, body.len() as u8][..], &body].concat()
    };
    vec![
        (true, greeting()),
        (false, greeting()),
        (true, ready(b"SUB")),
        (false, ready(b"PUB")),
        (true, b"\x04\x0e\x09SUBSCRIBEtopi".to_vec()),
        (false, b"\x01\x05topic\x00\x05value".to_vec()),
        (false, [&[2, 0, 0, 0, 0, 0, 0, 1, 0][..], &[7; 256]].concat()),
    ]
}

#[test]
fn zmtp_is_known_by_its_greeting_on_any_port() {
    let writes = zmtp();
    let writes: Vec<(bool, &[u8])> = writes.iter().map(|(who, bytes)| (*who, &bytes[..])).collect();
    let all = of(&connection(5_555, &writes, 100));
    let expected =
        named(&[("greeting", 2), ("READY", 2), ("SUBSCRIBE", 1), ("frame", 3), ("message", 2)]);
    assert_eq!(counts(&all, "zmtp"), expected);
    assert_eq!(all.goodput.payload_bytes, 5 + 5 + 256);
}

/// OPC UA: Hello, Acknowledge, an open channel, and a message of two chunks (OPC 10000-6, 7.1.2).
fn opcua() -> Vec<(bool, Vec<u8>)> {
    let chunk = |kind: &[u8; 4], body: usize| {
        let mut chunk = kind.to_vec();
        chunk.extend((body as u32 + 8).to_le_bytes());
        chunk.resize(8 + body, 0x55);
        chunk
    };
    vec![
        (true, chunk(b"HELF", 48)),
        (false, chunk(b"ACKF", 20)),
        (true, chunk(b"OPNF", 124)),
        (false, chunk(b"OPNF", 127)),
        (true, [chunk(b"MSGC", 16 + 60), chunk(b"MSGF", 16 + 40)].concat()),
        (false, chunk(b"MSGF", 16 + 30)),
        (true, chunk(b"CLOF", 49)),
    ]
}

#[test]
fn opcua_chunks_are_counted_by_type_and_messages_once() {
    let writes = opcua();
    let writes: Vec<(bool, &[u8])> = writes.iter().map(|(who, bytes)| (*who, &bytes[..])).collect();
    for port in [4840, 48_010] {
        let all = of(&connection(port, &writes, 90));
        let found = counts(&all, "opcua");
        for (name, count) in [("HEL", 1), ("ACK", 1), ("OPN", 2), ("MSG", 3), ("CLO", 1)] {
            assert_eq!(found.get(name), Some(&count), "{name} of {found:?}");
        }
        assert_eq!(all.goodput.payload_bytes, 60 + 40 + 30);
        assert!(!found.contains_key("aborted message"), "{found:?}");
    }
}

/// All of them in one capture, with ICMP and a packet of no known protocol.
fn mixed() -> Vec<Sent> {
    let mut all = rfc7252();
    all.extend(connection(1883, &mqtt(), 60));
    for (port, writes) in [(5_555, zmtp()), (4_840, opcua())] {
        let writes: Vec<(bool, &[u8])> =
            writes.iter().map(|(who, bytes)| (*who, &bytes[..])).collect();
        all.extend(connection(port, &writes, 200));
    }
    let mut ping = Vec::new();
    let packet = PacketBuilder::ipv6([1; 16], [2; 16], 64).icmpv6_echo_request(7, 1);
    packet.write(&mut ping, b"abcdefgh").unwrap();
    all.push(whole(ping));
    all.push(whole(vec![0x90; 40]));
    all
}

/// What is true of each analysis, whatever the capture.
fn consistent(all: &Analysis, place: &str) {
    assert_eq!(all.layers.values().sum::<u64>(), all.bytes, "{place}: layers");
    let sum = |of: fn(&analyze::KindFigures) -> u64| all.kinds.iter().map(of).sum::<u64>();
    assert_eq!(sum(|kind| kind.packets), all.packets, "{place}: packets by kind");
    assert_eq!(sum(|kind| kind.bytes), all.bytes, "{place}: bytes by kind");
    let sizes: u64 = all.sizes.iter().map(|size| size.packets).sum();
    assert_eq!(sizes, all.packets, "{place}: packets by size");
    let points: u64 = all.points.iter().map(|point| point.packets).sum();
    assert_eq!(points, all.packets, "{place}: packets by point");
    let goodput = &all.goodput;
    assert!(goodput.payload_bytes <= goodput.carried_bytes, "{place}: goodput");
    assert!(goodput.carried_bytes <= all.bytes, "{place}: goodput");
    let unread: u64 = all.unread.iter().map(|row| row.packets).sum();
    let kind = all.kinds.iter().find(|kind| kind.kind == "unread");
    assert_eq!(unread, kind.map_or(0, |kind| kind.packets), "{place}: unread");
    assert!(!all.complete || unread == 0, "{place}: complete");
}

fn messages(all: &Analysis) -> u64 {
    all.messages.values().flat_map(|types| types.values()).sum()
}

#[test]
fn a_file_that_ends_at_any_byte_has_the_packets_before_it() {
    let mut packets = rfc7252();
    packets.truncate(4);
    packets.extend(connection(1883, &mqtt()[..2], 60));
    let file = pcap(&packets);
    let mut ends = vec![24];
    ends.extend(packets.iter().scan(24, |end, packet| {
        *end += 16 + packet.data.len();
        Some(*end)
    }));
    let mut before = 0;
    for cut in 0..=file.len() {
        let found = analyze(&file[..cut], &Options::default());
        let Ok(all) = found else {
            assert!(cut < 24, "no analysis of {cut} B");
            continue;
        };
        let whole = ends[1..].iter().filter(|end| **end <= cut).count() as u64;
        assert_eq!(all.packets, whole, "{cut} B");
        assert_eq!(all.read_to_end, ends.contains(&cut), "{cut} B");
        assert!(all.read_to_end || all.notes[0].contains("could not be read to its end"));
        consistent(&all, &format!("{cut} B"));
        // More of a file never has fewer messages.
        assert!(messages(&all) >= before, "{cut} B");
        before = messages(&all);
    }
}

#[test]
fn packets_that_were_captured_up_to_any_byte_keep_their_number_and_lengths() {
    let full = of(&mixed());
    consistent(&full, "whole");
    let longest = mixed().iter().map(|packet| packet.length).max().unwrap();
    // Each place of the headers, and some of the bodies.
    for snap in (0..=longest).filter(|snap| *snap < 90 || snap % 13 == 0) {
        let mut packets = mixed();
        packets.iter_mut().for_each(|packet| packet.data.truncate(snap));
        let all = of(&packets);
        assert_eq!((all.packets, all.bytes), (full.packets, full.bytes), "snap {snap}");
        let cut = packets.iter().filter(|packet| packet.data.len() < packet.length).count();
        assert_eq!(all.cut, cut as u64, "snap {snap}");
        assert!(messages(&all) <= messages(&full), "snap {snap}");
        consistent(&all, &format!("snap {snap}"));
    }
}

#[test]
fn headers_with_any_wrong_byte_never_unbalance_the_sums() {
    let packets = mixed();
    let headers = 60;
    for place in 0..headers {
        for change in [0x01, 0x80] {
            let mut packets = mixed();
            for packet in &mut packets {
                if let Some(byte) = packet.data.get_mut(place) {
                    *byte ^= change;
                }
            }
            consistent(&of(&packets), &format!("byte {place} by {change:#x}"));
        }
    }
    assert_eq!(of(&packets).packets, packets.len() as u64);
}
