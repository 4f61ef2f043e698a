//! Timer wheel of frames in flight: a calendar queue (R. Brown, Communications of the ACM
//! 31, 1988). Buckets are sorted one at a time.

use crate::in_flight::{Due, InFlight, touch};
use link::Frame;
use units::Instant;

/// A bucket covers 2^14 ns: at a million frames per second, it holds sixteen.
const SHIFT: u32 = 14;
/// Buckets for 268 ms.
const BUCKETS: usize = 1 << 14;
/// An open bucket with at most this many frames is closed again for an earlier frame.
/// Otherwise one late frame would exclude all earlier ones.
const FEW: usize = 16;
const NONE: u32 = u32::MAX;

/// A frame in a bucket. Its time is that of the bucket plus `within`, so that this takes no
/// more memory than a frame in a lane.
#[derive(Debug)]
struct Slot {
    /// `None` in a free slot.
    frame: Option<Frame>,
    arrived: Instant,
    within: u32,
    order: u32,
    spot: u32,
    /// The next frame of the bucket, or the next free slot.
    next: u32,
}

/// Frames in closed buckets, and those of the open bucket.
#[derive(Debug)]
pub(crate) struct TimerWheel {
    /// First frame of each bucket; empty until needed.
    heads: Vec<u32>,
    /// Bitmap of non-empty buckets.
    full: Vec<u64>,
    held: Vec<Slot>,
    free: u32,
    /// Frames in closed buckets.
    closed: usize,
    /// The open bucket, counted from time 0, and the last non-empty bucket.
    tick: u64,
    last: u64,
    /// Keys of the open bucket, the earliest last: time, order and slot, with 64, 32 and 32
    /// bits.
    open: Vec<u128>,
}

impl Default for TimerWheel {
    fn default() -> Self {
        let (heads, full, held, open) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { heads, full, held, free: NONE, closed: 0, tick: 0, last: 0, open }
    }
}

impl TimerWheel {
    /// Time and order of the earliest frame.
    #[inline]
    pub fn first(&self) -> Option<Due> {
        self.open
            .last()
            .map(|key| Due { at: Instant::from_ns((key >> 64) as u64), order: (key >> 32) as u32 })
    }

    /// Stores a frame, or returns it if it is due before the open bucket ends or later than
    /// the wheel covers.
    #[inline]
    pub fn push(&mut self, entry: InFlight) -> Result<(), InFlight> {
        let tick = entry.at.as_ns() >> SHIFT;
        if self.is_empty() {
            if self.heads.is_empty() {
                self.heads = vec![NONE; BUCKETS];
                self.full = vec![0; BUCKETS / 64];
            }
            (self.tick, self.last) = (tick.saturating_sub(1), tick);
        }
        if tick < self.tick
            && self.open.len() <= FEW
            && self.last.saturating_sub(tick) < BUCKETS as u64 - 1
        {
            self.close();
            self.tick = tick.saturating_sub(1);
        }
        if tick <= self.tick || tick - self.tick >= BUCKETS as u64 {
            return Err(entry);
        }
        self.last = self.last.max(tick);
        let InFlight { at, frame, arrived, order, spot } = entry;
        let within = at.as_ns() as u32 & ((1 << SHIFT) - 1);
        let held = Slot { frame: Some(frame), arrived, within, order, spot, next: NONE };
        let slot = self.keep(held);
        self.put(tick, slot);
        if self.open.is_empty() {
            self.turn();
        }
        Ok(())
    }

    /// Removes the earliest frame.
    #[inline]
    pub fn pop(&mut self) -> Option<InFlight> {
        let key = self.open.pop()?;
        let slot = key as u32;
        let held = &mut self.held[slot as usize];
        let (at, order) = (Instant::from_ns((key >> 64) as u64), held.order);
        let earliest = InFlight {
            at,
            frame: held.frame.take()?,
            arrived: held.arrived,
            order,
            spot: held.spot,
        };
        held.next = std::mem::replace(&mut self.free, slot);
        if self.open.is_empty() && self.closed > 0 {
            self.turn();
        }
        Some(earliest)
    }

    /// Puts a stored frame into its bucket.
    #[inline]
    fn put(&mut self, tick: u64, slot: u32) {
        let bucket = tick as usize % BUCKETS;
        self.held[slot as usize].next = std::mem::replace(&mut self.heads[bucket], slot);
        self.full[bucket / 64] |= 1 << (bucket % 64);
        self.closed += 1;
    }

    fn close(&mut self) {
        while let Some(key) = self.open.pop() {
            self.put(self.tick, key as u32);
        }
    }

    fn keep(&mut self, held: Slot) -> u32 {
        if let Some(free) = self.held.get_mut(self.free as usize) {
            let slot = std::mem::replace(&mut self.free, free.next);
            *free = held;
            return slot;
        }
        if self.held.len() == self.held.capacity() {
            // Grow by an eighth instead of doubling: see [`crate::in_flight_queue`].
            self.held.reserve_exact((self.held.len() / 8).max(64));
        }
        self.held.push(held);
        self.held.len() as u32 - 1
    }

    /// Opens the next non-empty bucket; there must be one.
    fn turn(&mut self) {
        self.tick += self.to_next();
        let bucket = self.tick as usize % BUCKETS;
        self.full[bucket / 64] &= !(1 << (bucket % 64));
        let mut slot = std::mem::replace(&mut self.heads[bucket], NONE);
        while let Some(held) = self.held.get(slot as usize) {
            let at = self.tick << SHIFT | u64::from(held.within);
            let key = u128::from(at) << 64 | u128::from(held.order) << 32 | u128::from(slot);
            self.open.push(key);
            // Stored milliseconds ago, needed within microseconds: prefetch a whole bucket
            // at once.
            held.frame.iter().for_each(touch);
            slot = held.next;
        }
        self.closed -= self.open.len();
        self.open.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Distance from the open bucket to the next non-empty one.
    fn to_next(&self) -> u64 {
        let from = (self.tick as usize + 1) % BUCKETS;
        let words = self.full.len();
        let first = self.full[from / 64] >> (from % 64);
        if first != 0 {
            return 1 + u64::from(first.trailing_zeros());
        }
        let rest = 64 - from % 64;
        let later = (1..=words).find(|word| self.full[(from / 64 + word) % words] != 0);
        let word = later.unwrap_or(words);
        let bit = self.full[(from / 64 + word) % words].trailing_zeros();
        (1 + rest + (word - 1) * 64) as u64 + u64::from(bit)
    }

    fn is_empty(&self) -> bool {
        self.closed == 0 && self.open.is_empty()
    }

    pub fn len(&self) -> usize {
        self.closed + self.open.len()
    }

    /// Slots for frames, in use or free.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.held.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::instant;
    use std::rc::Rc;

    fn in_flight(at: Instant, order: u32) -> InFlight {
        InFlight {
            at,
            frame: Rc::from(&[0; 60][..]),
            arrived: instant(at.as_ns() / 2),
            order,
            spot: 7,
        }
    }

    fn drain(wheel: &mut TimerWheel) -> Vec<(u64, u32)> {
        let all = std::iter::from_fn(|| {
            let first = wheel.first();
            let next = wheel.pop()?;
            assert_eq!((first, next.arrived), (Some(next.due()), instant(next.at.as_ns() / 2)));
            Some((next.at.as_ns(), next.order))
        });
        all.collect()
    }

    #[test]
    fn a_late_frame_does_not_keep_earlier_ones_out() {
        let mut wheel = TimerWheel::default();
        let ms = 1_000_000;
        for (order, at) in [250 * ms, 100 * ms, 3 * ms, 4 * ms, 200 * ms].into_iter().enumerate() {
            assert!(wheel.push(in_flight(instant(at), order as u32)).is_ok());
            assert_eq!(wheel.len(), order + 1);
        }
        let (soon, late) = (
            wheel.push(in_flight(instant(3 * ms), 9)),
            wheel.push(in_flight(instant(300 * ms), 9)),
        );
        assert!(soon.is_err(), "of the open bucket");
        assert!(late.is_err(), "268 ms after the first");
        let all = [(3 * ms, 2), (4 * ms, 3), (100 * ms, 1), (200 * ms, 4), (250 * ms, 0)];
        assert_eq!(drain(&mut wheel), all);
        assert!(
            wheel.push(in_flight(instant(300 * ms), 5)).is_ok(),
            "an empty one begins anywhere"
        );
        assert_eq!((drain(&mut wheel), wheel.len()), (vec![(300 * ms, 5)], 0));
    }

    #[test]
    fn buckets_come_round_again() {
        // Wraps many times, with strides that do not divide the number of buckets.
        let (mut wheel, mut down) = (TimerWheel::default(), Vec::new());
        let mut all = Vec::new();
        for order in 0..20_000u32 {
            let now = u64::from(order) * 777_777;
            let at = now + 1_000_000 + u64::from(order).wrapping_mul(0x9e37_79b9) % 200_000_000;
            while wheel.first().is_some_and(|due| due.at <= instant(now)) {
                down.push(wheel.pop().map(|next| (next.at.as_ns(), next.order)).unwrap());
            }
            if wheel.push(in_flight(instant(at), order)).is_ok() {
                all.push((at, order));
            }
        }
        assert!(all.len() > 19_900, "{} found a bucket", all.len());
        down.extend(drain(&mut wheel));
        all.sort_unstable();
        assert!(down == all);
    }
}
