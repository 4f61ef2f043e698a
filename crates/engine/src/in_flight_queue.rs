//! In-flight queue: frames by delivery time, the earliest first.

use crate::in_flight::{Due, InFlight, touch};
use crate::timer_wheel::TimerWheel;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

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
    first: Option<(Due, usize)>,
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
    pub fn first(&self) -> Option<Due> {
        self.first.map(|(due, _)| due)
    }

    pub fn push(&mut self, frame: InFlight) {
        let due = frame.due();
        let fits = |lane: &VecDeque<InFlight>| lane.back().is_none_or(|last| last.at <= due.at);
        // Grow by an eighth instead of doubling: most of the memory in use is here.
        let more = |len: usize| (len / 8).max(64);
        match self.lanes.iter().position(fits) {
            Some(place) => {
                let lane = &mut self.lanes[place];
                if lane.len() == lane.capacity() {
                    lane.reserve_exact(more(lane.len()));
                }
                lane.push_back(frame);
                self.note(due, place);
            }
            None => match self.wheel.push(frame) {
                // Use the wheel's earliest frame, not the one pushed: closed buckets are
                // unsorted.
                Ok(()) => self.note_wheel(),
                Err(frame) => {
                    if self.heap.len() == self.heap.capacity() {
                        self.heap.reserve_exact(more(self.heap.len()));
                    }
                    self.heap.push(Reverse(frame));
                    self.note(due, HEAP);
                }
            },
        }
    }

    #[inline]
    fn note(&mut self, due: Due, from: usize) {
        if self.first.is_none_or(|(first, _)| due < first) {
            self.first = Some((due, from));
        }
    }

    #[inline]
    fn note_wheel(&mut self) {
        if let Some(due) = self.wheel.first() {
            self.note(due, WHEEL);
        }
    }

    pub fn pop(&mut self) -> Option<InFlight> {
        let (_, from) = self.first?;
        let earliest = match from {
            WHEEL => self.wheel.pop(),
            HEAP => self.heap.pop().map(|Reverse(frame)| frame),
            _ => {
                let lane = &mut self.lanes[from];
                // Stored long ago, needed soon.
                lane.get(PREFETCH).iter().for_each(|next| touch(&next.frame));
                lane.pop_front()
            }
        };
        self.first = None;
        for lane in 0..LANES {
            if let Some(due) = self.lanes[lane].front().map(InFlight::due) {
                self.note(due, lane);
            }
        }
        self.note_wheel();
        if let Some(due) = self.heap.peek().map(|Reverse(frame)| frame.due()) {
            self.note(due, HEAP);
        }
        earliest
    }

    pub fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum::<usize>() + self.wheel.len() + self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::instant;
    use link::Frame;
    use units::Instant;
    use units::{Draw, Purpose};

    fn in_flight(at: Instant, order: u32) -> InFlight {
        InFlight { at, frame: Frame::from(&[0; 60][..]), arrived: instant(0), order, spot: 0 }
    }

    #[test]
    fn all_come_down_in_order_whatever_the_order_they_were_added_in() {
        // Some in order, some with few delays, some random, and many at the same time.
        let draw = Draw::new(1, 2, 3);
        let (mut queue, mut down, mut now) = (InFlightQueue::default(), Vec::new(), 0);
        for order in 0..20_000u32 {
            let u = draw.uniform(Purpose::Jitter, u64::from(order));
            let delay = match order / 5_000 {
                0 => 500,
                1 => [500, 20, 90, 3][order as usize % 4],
                2 => (u * 1e9) as u64,
                _ => (u * 5.0) as u64,
            };
            queue.push(in_flight(instant(now + delay), order));
            if u < 0.5 {
                now += 2;
            }
            while queue.first().is_some_and(|due| due.at <= instant(now)) {
                down.push(queue.pop().unwrap().due());
            }
        }
        assert_eq!(queue.len() + down.len(), 20_000);
        assert!(!queue.heap.is_empty() || queue.heap.capacity() > 0, "the heap was in use, too");
        down.extend(std::iter::from_fn(|| queue.pop()).map(|frame| frame.due()));
        assert_eq!((queue.len(), queue.first()), (0, None));
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
            let mut queue = InFlightQueue::default();
            for i in 0..100_000u32 {
                queue.push(in_flight(instant(u64::from(order(i)[kind])), i));
            }
            let lanes = queue.lanes.iter().map(VecDeque::capacity).sum::<usize>();
            let room = lanes + queue.wheel.room() + queue.heap.capacity();
            assert!(room <= 112_900, "{room}");
        }
    }
}
