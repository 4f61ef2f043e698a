//! Compression of the headers of IPv6 and UDP (RFC 6282).

use std::net::Ipv6Addr;
use units::{Contexts, Ipv6Prefix};

/// IANA's protocol number of UDP.
const UDP: u8 = 17;
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);
/// Interface identifiers of 16 bits begin with these bits (RFC 6282, section 3.1.1).
const SHORT: u64 = 0x0000_00ff_fe00_0000;

/// Compressed headers of a packet.
pub(super) struct Header {
    pub compressed: Vec<u8>,
    /// Length of the headers in the packet that these replace, B.
    pub original: usize,
}

/// An address in its shortest form: its mode, the number of its context if it has one, and the bytes
/// that remain inline.
struct Inline {
    mode: u8,
    context: Option<u8>,
    bytes: Vec<u8>,
}

/// Compresses the headers of a packet between stations with these interface identifiers.
pub(super) fn compress(packet: &[u8], [from, to]: [u64; 2], contexts: &Contexts) -> Option<Header> {
    let header: &[u8; 40] = packet.first_chunk()?;
    let source: &[u8; 16] = header[8..].first_chunk()?;
    let destination: &[u8; 16] = header[24..].first_chunk()?;
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
        true => Inline { mode: 0, context: None, bytes: Vec::new() },
        false => unicast(source, from, contexts),
    };
    let is_group = destination[0] == 0xff;
    let destination = match is_group {
        true => multicast(destination, contexts),
        false => unicast(destination, to, contexts),
    };
    // Context 0 is the default; the numbers of others are in a byte behind the first two.
    let numbers = [&source, &destination].map(|address| address.context.unwrap_or(0));
    let has_numbers = numbers != [0, 0];
    let first = 0b011 << 5 | class_mode << 3 | u8::from(udp.is_some()) << 2 | hops_mode;
    // The unspecified address has the mode that an address with a context and all its bytes would have.
    let second = u8::from(has_numbers) << 7
        | u8::from(is_unspecified || source.context.is_some()) << 6
        | source.mode << 4
        | u8::from(is_group) << 3
        | u8::from(destination.context.is_some()) << 2
        | destination.mode;
    let mut compressed = vec![first, second];
    compressed.extend(has_numbers.then_some(numbers[0] << 4 | numbers[1]));
    compressed.extend(class);
    compressed.extend(udp.is_none().then_some(header[6]));
    compressed.extend(hops);
    compressed.extend(source.bytes);
    compressed.extend(destination.bytes);
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

/// An address; `identifier` is that of its station's interface (section 3.1.1). Of several forms of the
/// same length, the one without a context or with the lowest number is taken. A number of a context
/// costs a byte, and a shorter form saves two or more.
fn unicast(address: &[u8; 16], identifier: u64, contexts: &Contexts) -> Inline {
    let whole = u128::from_be_bytes(*address);
    let inline = |context, mode: u8, length: usize| Inline {
        mode,
        context,
        bytes: address[16 - length..].to_vec(),
    };
    let forms = [(3, identifier, 0), (2, SHORT | whole as u64 & 0xffff, 2), (1, whole as u64, 8)];
    let shortest = |context, prefix: Ipv6Prefix| {
        let mut forms = forms.into_iter();
        let form = forms.find(|(_, identifier, _)| prefix.with_identifier(*identifier) == whole);
        form.map(|(mode, _, length)| inline(context, mode, length))
    };
    let link_local = Ipv6Prefix::new(LINK_LOCAL, 64);
    let stateless = link_local.and_then(|prefix| shortest(None, prefix));
    let stateful = contexts.iter().filter_map(|(number, prefix)| shortest(Some(number), prefix));
    let shortest = stateless.into_iter().chain(stateful).min_by_key(|form| form.bytes.len());
    shortest.unwrap_or_else(|| inline(None, 0, 16))
}

/// A group address (section 3.1.1).
fn multicast(address: &[u8; 16], contexts: &Contexts) -> Inline {
    let zero = |from: usize, to: usize| address[from..to].iter().all(|byte| *byte == 0);
    let (mode, bytes) = match address[1] {
        2 if zero(2, 15) => (3, address[15..].to_vec()),
        _ if zero(2, 13) => (2, [&address[1..2], &address[13..]].concat()),
        _ if zero(2, 11) => (1, [&address[1..2], &address[11..]].concat()),
        _ => match contexts.iter().find(|(_, prefix)| is_based_on(address, *prefix)) {
            Some((number, _)) => {
                let bytes = [&address[1..3], &address[12..]].concat();
                return Inline { mode: 0, context: Some(number), bytes };
            }
            None => (0, address.to_vec()),
        },
    };
    Inline { mode, context: None, bytes }
}

/// Whether a group address has this prefix of a network in it (RFC 3306, section 4).
fn is_based_on(address: &[u8; 16], prefix: Ipv6Prefix) -> bool {
    let network = &prefix.bits().to_be_bytes()[..8];
    prefix.length() <= 64 && address[3] == prefix.length() && &address[4..12] == network
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
