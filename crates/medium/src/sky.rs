//! What flies, the earliest first.

use crate::calendar::What;
use crate::change::Way;
use crate::wheel::Wheel;
use crate::{Frame, Instant, Segments};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hint::black_box;
use std::rc::Rc;

/// A frame under way, or segments that fly together. With the bytes of frames there
/// may be millions of these, so they are kept small: 40 bytes here and 16 before the
/// frame. That is why there are two kinds, and not one of either.
#[derive(Debug)]
pub(crate) struct Flying<F> {
    /// When it comes down.
    pub at: Instant,
    pub frame: F,
    /// When it came into the segment.
    pub arrived: Instant,
    /// When it was added, to keep the order of what happens at one time. It wraps,
    /// after which two of one nanosecond may change places.
    pub order: u32,
    /// Link, way and whether it waits for a slot: see [`place`].
    pub place: u32,
}

/// A link's way, and whether a frame waits for a slot there.
pub(crate) fn place(link: u32, way: Way, gathers: bool) -> u32 {
    link << 2 | u32::from(gathers) << 1 | way as u32
}

impl<F> Flying<F> {
    fn when(&self) -> (Instant, u32) {
        (self.at, self.order)
    }
}

impl<F: Into<Frame>> Flying<F> {
    /// What happens when it comes down, and when that is.
    pub fn what(self) -> (Instant, What) {
        let Self { at, frame, arrived, place, .. } = self;
        let (frame, link) = (frame.into(), place >> 2);
        let way = if place & 1 == 1 { Way::Down } else { Way::Up };
        match place & 2 == 2 {
            true => (at, What::Gather(frame, arrived, link, way)),
            false => (at, What::Land(frame, arrived, link, way)),
        }
    }
}

impl<F> PartialEq for Flying<F> {
    fn eq(&self, other: &Self) -> bool {
        self.when() == other.when()
    }
}
impl<F> Eq for Flying<F> {}
impl<F> PartialOrd for Flying<F> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<F> Ord for Flying<F> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.when().cmp(&other.when())
    }
}

/// Something whose bytes can be asked for ahead of time.
pub(crate) trait Touch {
    /// Looks at its bytes, so that they are in the cache when they are wanted.
    fn touch(&self);
}

impl Touch for Rc<[u8]> {
    #[inline]
    fn touch(&self) {
        // The first and the last: small frames lie in two lines or three.
        black_box((self.first(), self.last()));
    }
}

impl Touch for Segments {
    fn touch(&self) {}
}

/// Lanes beside the wheel. Links that delay alike let frames go in the order in which
/// they came: a lane takes those for the price of a list. A few lanes are as many
/// different delays; what fits into none goes into the wheel, and what finds no bucket
/// there, since it comes down very soon or very late, into the heap.
const LANES: usize = 4;
/// How many frames ahead in a lane one is looked at.
const AHEAD: usize = 4;
const WHEEL: usize = LANES;
const HEAP: usize = LANES + 1;

/// All that flies.
#[derive(Debug)]
pub(crate) struct Sky<F> {
    lanes: [VecDeque<Flying<F>>; LANES],
    wheel: Wheel<F>,
    heap: BinaryHeap<Reverse<Flying<F>>>,
    /// What comes down first, and from where: a lane, the wheel or the heap.
    first: Option<((Instant, u32), usize)>,
}

impl<F> Default for Sky<F> {
    fn default() -> Self {
        Self {
            lanes: std::array::from_fn(|_| VecDeque::new()),
            wheel: Wheel::default(),
            heap: BinaryHeap::new(),
            first: None,
        }
    }
}

impl<F: Touch> Sky<F> {
    /// When the first comes down, and its order.
    #[inline]
    pub fn first(&self) -> Option<(Instant, u32)> {
        self.first.map(|(when, _)| when)
    }

    pub fn push(&mut self, flying: Flying<F>) {
        let when = flying.when();
        let fits = |lane: &VecDeque<Flying<F>>| lane.back().is_none_or(|last| last.at <= when.0);
        // An eighth more and not twice as much: most of what is held is held here.
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
                // Not what was pushed: buckets that are not open are in no order.
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

    pub fn pop(&mut self) -> Option<Flying<F>> {
        let (_, from) = self.first?;
        let flying = match from {
            WHEEL => self.wheel.pop(),
            HEAP => self.heap.pop().map(|Reverse(flying)| flying),
            _ => {
                let lane = &mut self.lanes[from];
                // Put away long ago, and wanted soon.
                lane.get(AHEAD).iter().for_each(|flying| flying.frame.touch());
                lane.pop_front()
            }
        };
        self.first = None;
        for lane in 0..LANES {
            if let Some(when) = self.lanes[lane].front().map(Flying::when) {
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

    fn flying(at: Instant, order: u32) -> Flying<Rc<[u8]>> {
        Flying { at, frame: Rc::from(&[0; 60][..]), arrived: 0, order, place: 0 }
    }

    #[test]
    fn all_come_down_in_order_whatever_the_order_they_were_added_in() {
        // Some in order, some of few delays, some by chance, and many at one time.
        let draw = Draw::new(1, 2, 3);
        let (mut sky, mut down, mut now) = (Sky::default(), Vec::new(), 0);
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
        // An eighth more than is used, and two counters before the bytes.
        let each = size_of::<Reverse<Flying<Rc<[u8]>>>>() as f64 * 1.125 + 16.0;
        assert!(each <= 64.0, "{each}");
        assert_eq!(size_of::<Flying<crate::Segments>>(), size_of::<Flying<Rc<[u8]>>>());
        // In a lane; in buckets of some hundred; in one bucket and so in the heap.
        let order = |i: u32| [i, 10_000 * (100_000 - i) / 4, 100_000 - i];
        for kind in 0..3 {
            let mut sky = Sky::default();
            for i in 0..100_000u32 {
                sky.push(flying(u64::from(order(i)[kind]), i));
            }
            let lanes = sky.lanes.iter().map(VecDeque::capacity).sum::<usize>();
            let room = lanes + sky.wheel.room() + sky.heap.capacity();
            assert!(room <= 112_900, "{room}");
        }
    }
}
