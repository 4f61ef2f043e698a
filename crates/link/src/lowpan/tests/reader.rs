//! A second reader of 6LoWPAN, which follows the RFCs and not the writer.

use super::check_sequence;
use units::Contexts;

/// Restores the packet in these frames, as a receiver does.
pub(super) fn restore(frames: &[Vec<u8>], contexts: &Contexts) -> Vec<u8> {
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
                packet = headers(&content[4..], [&from, &to], contexts, size);
            }
            0b11100 => {
                tags.push((size, [content[2], content[3]]));
                assert_eq!(packet.len(), usize::from(content[4]) * 8);
                packet.extend(&content[5..]);
            }
            _ => packet = headers(content, [&from, &to], contexts, 0),
        }
    }
    tags.dedup();
    assert!(tags.is_empty() && frames.len() == 1 || tags.len() == 1, "{tags:?}");
    assert!(tags.iter().all(|(size, _)| *size == packet.len()));
    packet
}

/// Restores compressed headers, and appends what follows. `size` is that of a fragmented packet.
fn headers(content: &[u8], ends: [&[u8]; 2], contexts: &Contexts, size: usize) -> Vec<u8> {
    let mut rest = content.iter().copied();
    let mut take = |count: usize| -> Vec<u8> { rest.by_ref().take(count).collect() };
    let (first, second) = (take(1)[0], take(1)[0]);
    assert_eq!(first >> 5, 0b011);
    let numbers = if second & 0x80 != 0 { take(1)[0] } else { 0 };
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
    let known = |number: u8| contexts.get(number).map(|prefix| (prefix.bits(), prefix.length()));
    let prefixes = [known(numbers >> 4), known(numbers & 15)];
    let (source, destination) = addresses(second, ends, prefixes, &mut take);
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

/// Restores the addresses by their modes, with the prefixes of the contexts that are numbered, and with
/// further bytes from `take`.
fn addresses(
    modes: u8,
    [from, to]: [&[u8]; 2],
    prefixes: [Option<(u128, u8)>; 2],
    take: &mut dyn FnMut(usize) -> Vec<u8>,
) -> (Vec<u8>, Vec<u8>) {
    let link_local = (0xfe80 << 112, 64);
    // Bit by bit, as the RFC says it: those of the prefix, those of the identifier, else 0.
    let with = |(bits, length): (u128, u8), end: Vec<u8>| -> Vec<u8> {
        let identifier = end.iter().fold(0, |sum: u128, byte| sum << 8 | u128::from(*byte));
        let bit = |place: u8| match place < length {
            true => bits >> (127 - place) & 1,
            false if place >= 64 => identifier >> (127 - place) & 1,
            false => 0,
        };
        let whole = (0..128).fold(0, |sum: u128, place| sum << 1 | bit(place));
        whole.to_be_bytes().to_vec()
    };
    let mut unicast = |mode: u8, prefix: Option<(u128, u8)>, own: &[u8]| match (mode, prefix) {
        (0, None) => take(16),
        (1, _) => with(prefix.unwrap_or(link_local), take(8)),
        (2, _) => {
            let end = [&[0, 0, 0, 0xff, 0xfe, 0][..], &take(2)].concat();
            with(prefix.unwrap_or(link_local), end)
        }
        (3, _) => with(prefix.unwrap_or(link_local), own.to_vec()),
        (mode, prefix) => panic!("mode {mode}, {prefix:?}"),
    };
    let context = |flag: u8, number: usize| {
        (modes & flag != 0).then(|| prefixes[number].expect("a known context"))
    };
    let source = match modes >> 4 & 7 {
        4 => vec![0; 16],
        mode => unicast(mode & 3, context(0x40, 0), from),
    };
    let destination = match modes & 15 {
        mode @ 0..=7 => unicast(mode & 3, context(4, 1), to),
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
        12 => {
            let (bits, length) = context(4, 1).unwrap();
            let b = take(6);
            let network = &bits.to_be_bytes()[..8];
            [&[0xff, b[0], b[1], length][..], network, &b[2..]].concat()
        }
        other => panic!("mode {other}"),
    };
    (source, destination)
}
