//! Random segments around the limits of the rules, and damage to captures: missing,
//! swapped, duplicated or wrongly timestamped packets.

use super::conversation::{ACK, FIN, RST, SYN, Segment};
use super::{Random, TestPacket};

/// Segments of one pair of ports with numbers near those of the previous segments.
pub(super) fn segments(
    port: u16,
    count: usize,
    start: u64,
    random: &mut Random,
) -> Vec<TestPacket> {
    let first = if random.chance(50) {
        0u32.wrapping_sub(random.below(3_000) as u32).max(1)
    } else {
        random.next() as u32
    };
    let mut next = [first, (random.next() as u32).max(1)];
    let mut window = [500u16, 500];
    let mut at = start;
    let mut made = Vec::new();
    for _ in 0..count {
        at += random.pick(&[
            0,
            1_000,
            500_000,
            2_900_000,
            3_100_000,
            19_000_000,
            21_000_000,
            250_000_000,
        ]);
        let from = random.below(2) as usize;
        let mut flags = random.pick(&[
            ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            ACK,
            ACK | SYN,
            SYN,
            ACK | FIN,
            RST,
            ACK | RST,
        ]);
        if flags & (SYN | FIN | RST) != 0 && random.chance(70) {
            flags = ACK;
        }
        let length = random.pick(&[0, 0, 0, 0, 1, 1, 100, 100, 500]);
        let length = if flags & (SYN | RST) != 0 { 0 } else { length };
        if random.chance(15) {
            window[from] = random.pick(&[0, 0, 500, 501, 1]);
        }
        let sequence = next[from].wrapping_add(random.pick(&[
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            u32::MAX,
            100,
            600,
            0u32.wrapping_sub(100),
            0u32.wrapping_sub(600),
        ]));
        let acknowledgement = match flags & ACK {
            0 => 0,
            _ => next[1 - from].wrapping_add(random.pick(&[
                0,
                0,
                0,
                0,
                0,
                1,
                100,
                0u32.wrapping_sub(100),
                0u32.wrapping_sub(100),
                700,
            ])),
        };
        let scale = random.pick(&[None, Some(2), Some(15)]);
        let segment = Segment {
            port,
            from,
            sequence,
            acknowledgement,
            flags,
            window: window[from],
            length,
            scale,
        };
        made.push(segment.made(at));
        let end = sequence
            .wrapping_add(u32::from(length))
            .wrapping_add(u32::from(flags & (SYN | FIN) != 0));
        if (end.wrapping_sub(next[from]) as i32) > 0 {
            next[from] = end;
        }
    }
    made
}

/// The damage to a capture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Damage {
    /// The shares of packets, in percent, that are missing, swapped with the next, or
    /// duplicated.
    pub missing: u64,
    pub swapped: u64,
    pub doubled: u64,
    /// The missing part of its beginning, in percent.
    pub start: usize,
}

impl Damage {
    pub(super) fn apply(self, packets: &[TestPacket], random: &mut Random) -> Vec<TestPacket> {
        let mut left = Vec::new();
        for packet in &packets[packets.len() * self.start / 100..] {
            if random.chance(self.missing) {
                continue;
            }
            left.push(packet.clone());
            if random.chance(self.doubled) {
                left.push(packet.clone());
            }
        }
        for place in 1..left.len() {
            if random.chance(self.swapped) {
                left.swap(place - 1, place);
                // Some captures timestamp packets in the wrong order.
                if random.chance(50) {
                    let (a, b) = (left[place - 1].at, left[place].at);
                    (left[place - 1].at, left[place].at) = (b, a);
                }
            }
        }
        left
    }
}
