//! Compression of the headers of IPv6 and UDP (RFC 6282).

/// IANA's protocol number of UDP.
const UDP: u8 = 17;
const LINK_LOCAL: [u8; 8] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];
/// Interface identifiers of 16 bits begin with these bytes (RFC 6282, section 3.1.1).
const SHORT: [u8; 6] = [0, 0, 0, 0xff, 0xfe, 0];

/// Compressed headers of a packet.
pub(super) struct Header {
    pub compressed: Vec<u8>,
    /// Length of the headers in the packet that these replace, B.
    pub original: usize,
}

/// An address in its shortest form: its mode, and the bytes that remain inline.
struct Inline<'a> {
    mode: u8,
    bytes: &'a [u8],
}

/// Compresses the headers of a packet between stations with these interface identifiers.
pub(super) fn compress(packet: &[u8], [from, to]: [u64; 2]) -> Option<Header> {
    let header: &[u8; 40] = packet.first_chunk()?;
    let (source, destination) = header[8..].split_at(16);
    let udp = packet.get(40..48).filter(|udp| header[6] == UDP && is_whole(udp, packet));
    let (class, class_mode) = traffic_class(header);
    let (hops, hops_mode) = match header[7] {
        1 => (None, 1),
        64 => (None, 2),
        255 => (None, 3),
        other => (Some(other), 0),
    };
    let is_unspecified = source.iter().all(|byte| *byte == 0);
    let source = match is_unspecified {
        true => Inline { mode: 0, bytes: &[] },
        false => unicast(source, from),
    };
    let is_group = destination[0] == 0xff;
    let destination = if is_group { multicast(destination) } else { unicast(destination, to) };
    let first = 0b011 << 5 | class_mode << 3 | u8::from(udp.is_some()) << 2 | hops_mode;
    let second = u8::from(is_unspecified) << 6
        | source.mode << 4
        | u8::from(is_group) << 3
        | destination.mode;
    let mut compressed = vec![first, second];
    compressed.extend(class);
    compressed.extend(udp.is_none().then_some(header[6]));
    compressed.extend(hops);
    compressed.extend(source.bytes);
    match is_group {
        true => compressed.extend(group_bytes(destination)),
        false => compressed.extend(destination.bytes),
    }
    let Some(udp) = udp else { return Some(Header { compressed, original: 40 }) };
    compressed.extend(ports(udp));
    // Eliding the checksum needs the consent of the application (section 4.3.2).
    compressed.extend(&udp[6..8]);
    Some(Header { compressed, original: 48 })
}

/// Whether the length in a UDP header is that of the packet, which replaces it.
fn is_whole(udp: &[u8], packet: &[u8]) -> bool {
    usize::from(u16::from_be_bytes([udp[4], udp[5]])) == packet.len() - 40
}

/// Traffic class and flow label, and their mode (section 3.1.1).
fn traffic_class(header: &[u8; 40]) -> (Vec<u8>, u8) {
    let class = header[0] << 4 | header[1] >> 4;
    let label = [header[1] & 15, header[2], header[3]];
    // The bits of ECN, the lowest in the class, are the highest here.
    let (ecn, services) = (class << 6, class >> 2);
    let [a, b, c] = label;
    match (services, label) {
        (0, [0, 0, 0]) if ecn == 0 => (Vec::new(), 3),
        (_, [0, 0, 0]) => (vec![ecn | services], 2),
        (0, _) => (vec![ecn | a, b, c], 1),
        _ => (vec![ecn | services, a, b, c], 0),
    }
}

/// An address; `identifier` is that of its station's interface.
fn unicast(address: &[u8], identifier: u64) -> Inline<'_> {
    let (prefix, interface) = address.split_at(8);
    match prefix == LINK_LOCAL {
        true if interface == identifier.to_be_bytes() => Inline { mode: 3, bytes: &[] },
        true if interface[..6] == SHORT => Inline { mode: 2, bytes: &interface[6..] },
        true => Inline { mode: 1, bytes: interface },
        false => Inline { mode: 0, bytes: address },
    }
}

/// A group address: the bytes include those between its scope and its end, which are 0.
fn multicast(address: &[u8]) -> Inline<'_> {
    let zero = |from: usize, to: usize| address[from..to].iter().all(|byte| *byte == 0);
    let mode = match address[1] {
        2 if zero(2, 15) => 3,
        _ if zero(2, 13) => 2,
        _ if zero(2, 11) => 1,
        _ => 0,
    };
    Inline { mode, bytes: address }
}

/// The bytes of a group address that remain.
fn group_bytes(Inline { mode, bytes }: Inline<'_>) -> Vec<u8> {
    match mode {
        3 => bytes[15..].to_vec(),
        2 => [&bytes[1..2], &bytes[13..]].concat(),
        1 => [&bytes[1..2], &bytes[11..]].concat(),
        _ => bytes.to_vec(),
    }
}

/// The dispatch of a UDP header, and its ports (section 4.3.3).
fn ports(udp: &[u8]) -> Vec<u8> {
    match *udp {
        [0xf0, a, 0xf0, b, ..] if a >> 4 == 0xb && b >> 4 == 0xb => vec![0xf3, a << 4 | b & 15],
        [0xf0, a, c, d, ..] => vec![0xf2, a, c, d],
        [a, b, 0xf0, d, ..] => vec![0xf1, a, b, d],
        [a, b, c, d, ..] => vec![0xf0, a, b, c, d],
        _ => Vec::new(),
    }
}
