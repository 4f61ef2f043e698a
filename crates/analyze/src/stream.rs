//! Reassembles one direction of a TCP connection, in bounded memory.

use std::collections::VecDeque;

/// A part of the stream, in order.
pub(crate) enum Piece<'a> {
    Bytes(&'a [u8]),
    /// This many bytes are missing from the capture.
    Missing(u64),
}

/// Receives the reassembled stream.
pub(crate) trait Consumer {
    /// A piece of the data of packet `packet`; None for a gap between packets.
    fn take(&mut self, packet: Option<u32>, piece: Piece<'_>);
    /// All data of this packet has been delivered; `packet` is its length on the wire.
    fn done(&mut self, packet: u32);
}

#[derive(Debug)]
struct Waiting {
    from: u32,
    length: u32,
    /// The packet's length on the wire.
    packet: u32,
    data: Box<[u8]>,
}

/// Segments that wait for an earlier one.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The next expected sequence number.
    next: Option<u32>,
    waiting: VecDeque<Waiting>,
    /// Bytes in waiting segments.
    held: usize,
}

/// The maximum of waiting bytes per direction; larger than receive windows.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// The maximum number of waiting segments, and the overhead of each, in bytes.
const MAX_WAITING_SEGMENTS: usize = 8_192;
const SEGMENT_OVERHEAD: usize = 64;

fn ahead(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

impl Stream {
    /// The memory that it uses in addition to its own size, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.held + self.waiting.len() * SEGMENT_OVERHEAD
    }

    /// Sets the first sequence number, after a SYN.
    pub(crate) fn begin(&mut self, syn: u32) {
        self.next.get_or_insert(syn.wrapping_add(1));
    }

    /// Takes a segment of `length` bytes from number `from`; `data` is its captured part.
    /// With `spare` it may wait. Returns the number of gaps that were given up: 0 or 1.
    pub(crate) fn take(
        &mut self,
        (from, length): (u32, u32),
        data: &[u8],
        packet: u32,
        spare: bool,
        consumer: &mut impl Consumer,
    ) -> u64 {
        let next = *self.next.get_or_insert(from);
        // Also a repetition: `deliver` passes on only what is new in it.
        if ahead(from, next) <= 0 {
            self.deliver(from, length, data, packet, consumer);
            self.go_on(consumer);
            return 0;
        }
        if spare
            && self.held + data.len() <= MAX_WAITING_BYTES
            && self.waiting.len() < MAX_WAITING_SEGMENTS
        {
            self.wait(from, length, data, packet);
            return 0;
        }
        // The missing data will not arrive any more, or there is no room to wait for it.
        let gaps = self.skip_to(from, consumer);
        self.deliver(from, length, data, packet, consumer);
        self.go_on(consumer);
        gaps
    }

    fn wait(&mut self, from: u32, length: u32, data: &[u8], packet: u32) {
        let place = self.waiting.partition_point(|old| ahead(old.from, from) <= 0);
        self.held += data.len();
        self.waiting.insert(place, Waiting { from, length, packet, data: data.into() });
    }

    /// Handles an acknowledgement: missing data before `ack` will not arrive.
    pub(crate) fn acknowledged(&mut self, ack: u32, consumer: &mut impl Consumer) -> u64 {
        let Some(first) = self.waiting.front() else { return 0 };
        // The receiver has what is before `first`, though the capture has not.
        if ahead(ack, first.from) < 0 {
            return 0;
        }
        let from = first.from;
        let gaps = self.skip_to(from, consumer);
        self.go_on(consumer);
        gaps
    }

    /// Delivers everything that waits.
    pub(crate) fn end(&mut self, consumer: &mut impl Consumer) -> u64 {
        let mut gaps = 0;
        while let Some(from) = self.waiting.front().map(|first| first.from) {
            gaps += self.skip_to(from, consumer);
            self.go_on(consumer);
        }
        gaps
    }

    /// Delivers what waits before `from` with its gaps, and the gap up to `from`.
    fn skip_to(&mut self, from: u32, consumer: &mut impl Consumer) -> u64 {
        let mut gaps = 0;
        while let Some(next) = self.next {
            let first = self.waiting.front().map(|first| first.from);
            let target = first.filter(|first| ahead(*first, from) < 0).unwrap_or(from);
            let missing = ahead(target, next);
            if missing > 0 {
                consumer.take(None, Piece::Missing(missing as u64));
                self.next = Some(target);
                gaps += 1;
            }
            if target == from {
                break;
            }
            self.go_on(consumer);
        }
        gaps
    }

    fn go_on(&mut self, consumer: &mut impl Consumer) {
        while let Some(next) = self.next {
            match self.waiting.front() {
                Some(first) if ahead(first.from, next) <= 0 => {}
                _ => return,
            }
            let Some(Waiting { from, length, packet, data }) = self.waiting.pop_front() else {
                return;
            };
            self.held -= data.len();
            self.deliver(from, length, &data, packet, consumer);
        }
    }

    /// Delivers the new part of a segment.
    fn deliver(
        &mut self,
        from: u32,
        length: u32,
        data: &[u8],
        packet: u32,
        consumer: &mut impl Consumer,
    ) {
        let next = self.next.unwrap_or(from);
        // A retransmission may begin with delivered bytes and end with new ones.
        let old = (ahead(next, from).max(0) as u32).min(length);
        if old < length {
            let new = data.get(old as usize..).unwrap_or_default();
            if !new.is_empty() {
                consumer.take(Some(packet), Piece::Bytes(new));
            }
            let cut = u64::from(length - old) - new.len() as u64;
            if cut > 0 {
                consumer.take(Some(packet), Piece::Missing(cut));
            }
            self.next = Some(from.wrapping_add(length));
        }
        consumer.done(packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Output(Vec<u8>, u64, usize);

    impl Consumer for Output {
        fn take(&mut self, _: Option<u32>, piece: Piece<'_>) {
            match piece {
                Piece::Bytes(bytes) => self.0.extend(bytes),
                Piece::Missing(n) => self.1 += n,
            }
        }
        fn done(&mut self, _: u32) {
            self.2 += 1;
        }
    }

    fn run(segments: &[(u32, &[u8])]) -> (Stream, Output, u64) {
        let (mut stream, mut output, mut gaps) = (Stream::default(), Output::default(), 0);
        stream.begin(u32::MAX - 3);
        for (from, data) in segments {
            let from = from.wrapping_sub(3);
            gaps += stream.take((from, data.len() as u32), data, 60, true, &mut output);
        }
        (stream, output, gaps)
    }

    #[test]
    fn in_order_again_over_the_wrap_of_numbers() {
        let (stream, output, gaps) =
            run(&[(0, b"ab"), (4, b"ef"), (6, b"g"), (2, b"cd"), (0, b"abc"), (5, b"fgh")]);
        assert_eq!((output.0.as_slice(), output.1, output.2, gaps), (&b"abcdefgh"[..], 0, 6, 0));
        assert_eq!(stream.memory(), 0);
    }

    #[test]
    fn what_was_acknowledged_is_not_waited_for() {
        let (mut stream, mut output, _) = run(&[(0, b"ab"), (4, b"ef"), (9, b"xy")]);
        assert_eq!(stream.acknowledged(0_u32.wrapping_sub(1), &mut output), 0);
        assert_eq!(stream.acknowledged(6_u32.wrapping_sub(3), &mut output), 1);
        assert_eq!((output.0.as_slice(), output.1), (&b"abef"[..], 2));
        assert_eq!(stream.end(&mut output), 1);
        assert_eq!((output.0.as_slice(), output.1), (&b"abefxy"[..], 5));
    }

    #[test]
    fn no_more_than_so_much_waits() {
        let (mut stream, mut output) = (Stream::default(), Output::default());
        stream.begin(0);
        let mut gaps = 0;
        for n in 0..20_000_u32 {
            gaps += stream.take((10 + n * 20, 10), &[7; 10], 60, true, &mut output);
            assert!(stream.memory() <= MAX_WAITING_BYTES + MAX_WAITING_SEGMENTS * SEGMENT_OVERHEAD);
        }
        gaps += stream.end(&mut output);
        assert_eq!((output.0.len(), gaps, output.2), (200_000, 20_000, 20_000));
    }
    use proptest::prelude::*;

    /// The byte of the stream at a place.
    fn byte(place: u32) -> u8 {
        (place.wrapping_mul(0x9e37_79b1) >> 24) as u8
    }

    /// Follows the place in the stream, and compares each byte with that of its place.
    #[derive(Default)]
    struct Follower {
        place: u64,
        missing: u64,
        done: usize,
    }

    impl Consumer for Follower {
        fn take(&mut self, packet: Option<u32>, piece: Piece<'_>) {
            match piece {
                Piece::Bytes(bytes) => {
                    for found in bytes {
                        assert_eq!(*found, byte(self.place as u32), "at {}", self.place);
                        self.place += 1;
                    }
                    assert!(packet.is_some() && !bytes.is_empty());
                }
                Piece::Missing(count) => {
                    assert!(count > 0);
                    self.missing += count;
                    self.place += count;
                }
            }
        }

        fn done(&mut self, _: u32) {
            self.done += 1;
        }
    }

    /// Segments of a stream: where, how long, how much of it was captured, whether there is memory,
    /// and what the other side acknowledges then.
    fn any_segments() -> impl Strategy<Value = Vec<(u32, u32, u32, bool, Option<u32>)>> {
        let captured = prop_oneof![3 => Just(u32::MAX), 1 => 0..20_u32];
        let memory = prop::bool::weighted(0.8);
        let acknowledged = prop::option::weighted(0.2, 0..220_u32);
        prop::collection::vec((0..200_u32, 0..20_u32, captured, memory, acknowledged), 0..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Losses, repetitions, overlaps and any order, over the wrap of sequence numbers.
        #[test]
        fn each_byte_comes_once_and_in_its_place(
            first in prop_oneof![Just(0), Just(u32::MAX - 100), any::<u32>()],
            segments in any_segments(),
        ) {
            let (mut stream, mut output, mut gaps) = (Stream::default(), Follower::default(), 0);
            stream.begin(first.wrapping_sub(1));
            let (mut furthest, mut known) = (0, vec![false; 256]);
            for (from, length, captured, spare, acknowledged) in &segments {
                let kept = (*length).min(*captured);
                let data: Vec<u8> = (*from..from + kept).map(byte).collect();
                let at = first.wrapping_add(*from);
                gaps += stream.take((at, *length), &data, 60, *spare, &mut output);
                furthest = furthest.max(from + length);
                (*from..from + kept).for_each(|place| known[place as usize] = true);
                if let Some(ack) = acknowledged {
                    gaps += stream.acknowledged(first.wrapping_add(*ack), &mut output);
                }
                prop_assert!(output.place <= u64::from(furthest));
            }
            let waiting = !stream.waiting.is_empty();
            gaps += stream.end(&mut output);
            prop_assert_eq!((stream.memory(), output.done), (0, segments.len()));
            prop_assert!(output.place >= u64::from(furthest), "all was delivered");
            let unknown = known[..furthest as usize].iter().filter(|known| !**known).count() as u64;
            prop_assert!(output.missing >= unknown, "{} of {unknown}", output.missing);
            prop_assert!(gaps > 0 || !waiting);
            let whole = segments.iter().all(|(_, length, captured, spare, ack)| {
                captured >= length && *spare && ack.is_none()
            });
            if whole && output.place == u64::from(furthest) {
                prop_assert_eq!(output.missing, unknown, "nothing that was captured is missing");
            }
        }
    }
}
