//! 6LoWPAN: addresses and ports behind each kind of compressed header are those of tshark.

use super::links::{Flows, captured, ours, theirs};
use super::{Random, TestPacket, tshark_version};

/// A data frame's header with these addresses (short, extended), little endian, and the
/// identifiers of one PAN.
fn mac(random: &mut Random) -> Vec<u8> {
    let [to, from] = [random.pick(&[2_u16, 3]), random.pick(&[2_u16, 3])];
    let control = 1 | 1 << 6 | to << 10 | 1 << 12 | from << 14;
    let mut frame = control.to_le_bytes().to_vec();
    frame.extend([random.next() as u8, 0xcd, 0xab]);
    for mode in [to, from] {
        // Few addresses, so that flows have more than one packet. Not the broadcast address.
        match mode {
            2 => frame.extend([random.below(3) as u8, 0x10]),
            _ => frame.extend([random.below(3) as u8, 0, 0, 0, 0, 0x4b, 0x12, 0]),
        }
    }
    frame
}

/// `count` bytes of an address, few different ones.
fn some(count: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; count];
    if count == 16 {
        bytes[..2].copy_from_slice(&[0xfd, 0]);
    }
    if let Some(last) = bytes.last_mut() {
        *last = 1 + random.below(3) as u8;
    }
    bytes
}

/// An IPv6 header compressed in one of all ways that need no context (RFC 6282, section 3), up to
/// its next header, which is inline with the value `next`, or compressed.
fn header(next: Option<u8>, random: &mut Random) -> Vec<u8> {
    let [class, hops] = [random.below(4) as u8, random.below(4) as u8];
    let [source, target] = [random.below(4) as u8, random.below(4) as u8];
    let multicast = random.chance(30);
    // Only the unspecified address of those with a context.
    let unspecified = random.chance(10);
    let first = 0x60 | class << 3 | u8::from(next.is_none()) << 2 | hops;
    let mode = if unspecified { 1 << 6 } else { source << 4 };
    let mut made = vec![first, mode | u8::from(multicast) << 3 | target];
    made.extend(vec![0; [4, 3, 1, 0][usize::from(class)]]);
    made.extend(next);
    if hops == 0 {
        made.push(64);
    }
    if !unspecified {
        made.extend(some([16, 8, 2, 0][usize::from(source)], random));
    }
    match multicast {
        false => made.extend(some([16, 8, 2, 0][usize::from(target)], random)),
        true if target == 3 => made.push(random.pick(&[1, 2, 0x1a, 0xfb])),
        true => {
            let mut group = some([16, 6, 4][usize::from(target)], random);
            match target {
                0 => group[0] = 0xff,
                _ => group[0] = random.pick(&[2, 3, 5]),
            }
            made.extend(group);
        }
    }
    made
}

/// A UDP header in one of all ways (RFC 6282, section 4.3).
fn compressed_udp(random: &mut Random) -> Vec<u8> {
    let mode = random.below(4) as u8;
    let mut made = vec![0xf0 | mode];
    match mode {
        0 => made.extend([0x16, 0x33, 0x9c, 0x40 + random.below(2) as u8]),
        1 => made.extend([0x16, 0x34, 0xb0 + random.below(2) as u8]),
        2 => made.extend([0xc0, 0x16, 0x35]),
        _ => made.push(0x12),
    }
    // The checksum.
    made.extend([0xab, 0xcd]);
    made
}

/// A UDP or TCP header as over IP, with `length` bytes after it.
fn plain(next: u8, length: usize) -> Vec<u8> {
    match next {
        17 => {
            let [high, low] = (8 + length as u16).to_be_bytes();
            vec![0x30, 0x39, 0x16, 0x33, high, low, 0xab, 0xcd]
        }
        _ => {
            let ports = [0x30, 0x39, 0x07, 0x5b];
            let rest = [0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x10, 1, 0, 0xab, 0xcd, 0, 0];
            [&ports[..], &rest].concat()
        }
    }
}

/// A frame with a packet: what may be in front of the IPv6 header, the header, extension
/// headers, and a transport.
fn frame(random: &mut Random) -> Vec<u8> {
    let mut made = mac(random);
    // A mesh header (RFC 4944, section 5.2), and one for broadcasts behind it.
    if random.chance(15) {
        made.extend([0x80 | 0x30 | 5, 0x20, random.below(3) as u8, 0x20, 7]);
        if random.chance(50) {
            made.extend([0x50, 9]);
        }
    }
    let length = random.pick(&[0, 1, 20, 40]);
    let payload = vec![0xb0; length];
    let next = random.pick(&[6, 17]);
    match random.below(5) {
        // IPv6 without compression.
        0 => {
            let rest = [plain(next, length), payload].concat();
            made.extend([0x41, 0x60, 0, 0, 0, 0, rest.len() as u8, next, 64]);
            made.extend(some(16, random));
            made.extend(some(16, random));
            made.extend(rest);
        }
        1 => {
            made.extend(header(Some(next), random));
            made.extend([plain(next, length), payload].concat());
        }
        // An extension header behind a compressed one.
        2 => {
            made.extend(header(Some(60), random));
            made.extend([next, 0, 1, 4, 0, 0, 0, 0]);
            made.extend([plain(next, length), payload].concat());
        }
        // A compressed hop-by-hop header with 6 B of options, as RPL's.
        3 => {
            made.extend(header(None, random));
            made.extend([0xe1, 6, 0x63, 4, 0, 0x1e, 0, 0x80]);
            made.extend([compressed_udp(random), payload].concat());
        }
        _ => {
            made.extend(header(None, random));
            made.extend([compressed_udp(random), payload].concat());
        }
    }
    made
}

/// The checksum at the end of a frame (IEEE 802.15.4-2015, section 7.2.10).
fn with_fcs(frame: Vec<u8>) -> Vec<u8> {
    let step = |sum: u16| if sum & 1 == 1 { sum >> 1 ^ 0x8408 } else { sum >> 1 };
    let sum = frame
        .iter()
        .fold(0_u16, |sum, byte| (0..8).fold(sum ^ u16::from(*byte), |sum, _| step(sum)));
    [&frame[..], &sum.to_le_bytes()].concat()
}

pub(super) fn frames(count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    (0..count).map(|_| frame(&mut random)).collect()
}

#[test]
fn flows_behind_compressed_headers_are_those_of_tshark() {
    for (link, seed) in [(230, 41), (195, 42)] {
        let made = frames(3_000, seed).into_iter();
        let packets = match link {
            195 => captured(made.map(with_fcs)),
            _ => captured(made),
        };
        let (analysis, flows) = ours(link, &packets);
        assert!(analysis.complete, "{:?}", analysis.notes);
        assert_eq!(flows.values().map(|[packets, _]| packets).sum::<u64>(), 3_000);
        if tshark_version().is_some() {
            same(&flows, &theirs(link, &packets), &packets);
        }
    }
}

/// Compares flows, and prints a few that differ.
fn same(ours: &Flows, theirs: &Flows, packets: &[TestPacket]) {
    let other = |a: &Flows, b: &Flows| -> Vec<String> {
        let other = a.iter().filter(|(key, sums)| b.get(*key) != Some(*sums));
        other.take(4).map(|row| format!("{row:?}")).collect()
    };
    let [more, less] = [other(ours, theirs), other(theirs, ours)];
    assert!(
        ours == theirs,
        "{} packets; only here: {more:#?}; only in tshark: {less:#?}",
        packets.len()
    );
}
