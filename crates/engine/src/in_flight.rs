//! In-flight queue: frames by delivery time, the earliest first.

use crate::change::Direction;
use crate::event_queue::Event;
use crate::timer_wheel::TimerWheel;
use crate::{Frame, Instant};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hint::black_box;

/// A frame in flight. There may be millions, so they are small: 40 bytes here and 16 before
/// the frame's bytes.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Delivery time.
    pub at: Instant,
    pub frame: Frame,
    /// Arrival time in the segment.
    pub arrived: Instant,
    /// Insertion number, to keep the order of simultaneous events. It wraps; then two
    /// frames of the same nanosecond may change places.
    pub order: u32,
    /// Link, direction and whether it waits for a slot: see [`place`].
    pub place: u32,
}

/// Encodes link, direction and whether a frame waits for a slot.
pub(crate) fn place(link: u32, way: Direction, gathers: bool) -> u32 {
    link << 2 | u32::from(gathers) << 1 | way as u32
}

impl InFlight {
    fn when(&self) -> (Instant, u32) {
        (self.at, self.order)
    }
}

impl InFlight {
    /// The event of its delivery, and the time.
    pub fn what(self) -> (Instant, Event) {
        let Self { at, frame, arrived, place, .. } = self;
        let link = place >> 2;
        let way = if place & 1 == 1 { Direction::Down } else { Direction::Up };
        match place & 2 == 2 {
            true => (at, Event::Gather(frame, arrived, link, way)),
            false => (at, Event::Land(frame, arrived, link, way)),
        }
    }
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.when() == other.when()
    }
}
impl Eq for InFlight {}
impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.when().cmp(&other.when())
    }
}

/// Reads the first and the last byte of a frame, so that it is in the CPU cache when needed:
/// small frames occupy two or three cache lines.
#[inline]
pub(crate) fn touch(frame: &Frame) {
    black_box((frame.first(), frame.last()));
}

/// FIFO lanes in front of the wheel. Links with equal delays release frames in order of
/// arrival, and a lane stores those at the cost of a list. A few lanes cover as many
/// different delays. Frames that fit no lane go into the wheel. Frames without a bucket
/// there, because they are due very soon or very late, go into the heap.
const LANES: usize = 4;
/// Prefetch distance in a lane, in frames.
const PREFETCH: usize = 4;
const WHEEL: usize = LANES;
const HEAP: usize = LANES + 1;

/// All frames in flight.
#[derive(Debug)]
pub(crate) struct InFlightQueue {
    lanes: [VecDeque<InFlight>; LANES],
    wheel: TimerWheel,
    heap: BinaryHeap<Reverse<InFlight>>,
    /// The earliest frame, and where it is: a lane, the wheel or the heap.
    first: Option<((Instant, u32), usize)>,
}

impl Default for InFlightQueue {
    fn default() -> Self {
        Self {
            lanes: std::array::from_fn(|_| VecDeque::new()),
            wheel: TimerWheel::default(),
            heap: BinaryHeap::new(),
            first: None,
        }
    }
}

impl InFlightQueue {
    /// Time and order of the earliest frame.
    #[inline]
    pub fn first(&self) -> Option<(Instant, u32)> {
        self.first.map(|(when, _)| when)
    }

    pub fn push(&mut self, flying: InFlight) {
        let when = flying.when();
        let fits = |lane: &VecDeque<InFlight>| lane.back().is_none_or(|last| last.at <= when.0);
        // Grow by an eighth instead of doubling: most of the memory in use is here.
        let more = |len: usize| (len / 8).max(64);
        match self.lanes.iter().position(fits) {
            Some(place) => {
                let lane = &mut self.lanes[place];
                if lane.len() == lane.capacity() {
                    lane.reserve_exact(more(lane.len()));
                }
                lane.push_back(flying);
                self.note(when, place);
            }
            None => match self.wheel.push(flying) {
                // Use the wheel's earliest frame, not the one pushed: closed buckets are
                // unsorted.
                Ok(()) => self.note_wheel(),
                Err(flying) => {
                    if self.heap.len() == self.heap.capacity() {
                        self.heap.reserve_exact(more(self.heap.len()));
                    }
                    self.heap.push(Reverse(flying));
                    self.note(when, HEAP);
                }
            },
        }
    }

    #[inline]
    fn note(&mut self, when: (Instant, u32), from: usize) {
        if self.first.is_none_or(|(first, _)| when < first) {
            self.first = Some((when, from));
        }
    }

    #[inline]
    fn note_wheel(&mut self) {
        if let Some(when) = self.wheel.first() {
            self.note(when, WHEEL);
        }
    }

    pub fn pop(&mut self) -> Option<InFlight> {
        let (_, from) = self.first?;
        let flying = match from {
            WHEEL => self.wheel.pop(),
            HEAP => self.heap.pop().map(|Reverse(flying)| flying),
            _ => {
                let lane = &mut self.lanes[from];
                // Stored long ago, needed soon.
                lane.get(PREFETCH).iter().for_each(|flying| touch(&flying.frame));
                lane.pop_front()
            }
        };
        self.first = None;
        for lane in 0..LANES {
            if let Some(when) = self.lanes[lane].front().map(InFlight::when) {
                self.note(when, lane);
            }
        }
        self.note_wheel();
        if let Some(when) = self.heap.peek().map(|Reverse(flying)| flying.when()) {
            self.note(when, HEAP);
        }
        flying
    }

    pub fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum::<usize>() + self.wheel.len() + self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Draw, Purpose};

    fn flying(at: Instant, order: u32) -> InFlight {
        InFlight { at, frame: Frame::from(&[0; 60][..]), arrived: 0, order, place: 0 }
    }

    #[test]
    fn all_come_down_in_order_whatever_the_order_they_were_added_in() {
        // Some in order, some with few delays, some random, and many at the same time.
        let draw = Draw::new(1, 2, 3);
        let (mut sky, mut down, mut now) = (InFlightQueue::default(), Vec::new(), 0);
        for order in 0..20_000u32 {
            let u = draw.uniform(Purpose::Jitter, u64::from(order));
            let delay = match order / 5_000 {
                0 => 500,
                1 => [500, 20, 90, 3][order as usize % 4],
                2 => (u * 1e9) as u64,
                _ => (u * 5.0) as u64,
            };
            sky.push(flying(now + delay, order));
            if u < 0.5 {
                now += 2;
            }
            while sky.first().is_some_and(|(at, _)| at <= now) {
                down.push(sky.pop().unwrap().when());
            }
        }
        assert_eq!(sky.len() + down.len(), 20_000);
        assert!(!sky.heap.is_empty() || sky.heap.capacity() > 0, "the heap was in use, too");
        down.extend(std::iter::from_fn(|| sky.pop()).map(|flying| flying.when()));
        assert_eq!((sky.len(), sky.first()), (0, None));
        assert!(down.is_sorted(), "in order");
        assert_eq!(down.len(), 20_000);
    }

    #[test]
    fn a_frame_under_way_costs_its_bytes_and_at_most_64() {
        // An eighth more than in use, and two counters before the bytes.
        let each = size_of::<Reverse<InFlight>>() as f64 * 1.125 + 16.0;
        assert!(each <= 64.0, "{each}");
        // In a lane; in buckets of a few hundred; in one bucket and so in the heap.
        let order = |i: u32| [i, 10_000 * (100_000 - i) / 4, 100_000 - i];
        for kind in 0..3 {
            let mut sky = InFlightQueue::default();
            for i in 0..100_000u32 {
                sky.push(flying(u64::from(order(i)[kind]), i));
            }
            let lanes = sky.lanes.iter().map(VecDeque::capacity).sum::<usize>();
            let room = lanes + sky.wheel.room() + sky.heap.capacity();
            assert!(room <= 112_900, "{room}");
        }
    }
}
