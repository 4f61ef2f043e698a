//! What happens when, in order.

use crate::change::{Change, Way};
use crate::step::Carried;
use crate::{Frame, Instant, Segments};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// What may happen in a segment.
#[derive(Debug)]
pub(crate) enum What {
    /// A frame (when it came into the segment) has come to the end of this link's
    /// direction.
    Land(Frame, Instant, u32, Way),
    /// The same, and it waits for a slot.
    Gather(Frame, Instant, u32, Way),
    /// A frame wants the channel.
    Offer(u32, Way, Box<Carried>),
    /// A direction can send what waits.
    Turn(u32, Way),
    /// The channel can.
    LineTurn(Way),
    /// What is asked of links changes.
    Change(Box<Change>),
}

/// A frame under way, or segments that fly together. With the bytes of frames there
/// may be millions of these, so they are kept small: 40 bytes here and 16 before the
/// frame. That is why there are two kinds, and not one of either.
#[derive(Debug)]
struct Flying<F> {
    at: Instant,
    frame: F,
    arrived: Instant,
    /// When it was added, to keep the order of what happens at one time. It wraps,
    /// after which two of one nanosecond may change places.
    order: u32,
    /// Link, way and whether it waits for a slot: see [`place`].
    place: u32,
}

/// Anything else.
#[derive(Debug)]
struct Entry {
    at: Instant,
    order: u32,
    what: What,
}

macro_rules! ordered {
    ($($kind:ident $(<$of:ident>)?),*) => {$(
        impl $(<$of>)? PartialEq for $kind $(<$of>)? {
            fn eq(&self, other: &Self) -> bool {
                (self.at, self.order) == (other.at, other.order)
            }
        }
        impl $(<$of>)? Eq for $kind $(<$of>)? {}
        impl $(<$of>)? PartialOrd for $kind $(<$of>)? {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }
        impl $(<$of>)? Ord for $kind $(<$of>)? {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                (self.at, self.order).cmp(&(other.at, other.order))
            }
        }
    )*};
}
ordered!(Flying<F>, Entry);

impl<F: Into<Frame>> Flying<F> {
    fn what(self) -> (Instant, What) {
        let Self { at, frame, arrived, place, .. } = self;
        let (frame, link) = (frame.into(), place >> 2);
        let way = if place & 1 == 1 { Way::Down } else { Way::Up };
        match place & 2 == 2 {
            true => (at, What::Gather(frame, arrived, link, way)),
            false => (at, What::Land(frame, arrived, link, way)),
        }
    }
}

/// A heap of what flies, the earliest first.
type Sky<F> = BinaryHeap<Reverse<Flying<F>>>;

/// What is to happen.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    frames: Sky<Rc<[u8]>>,
    segments: Sky<Segments>,
    entries: BinaryHeap<Reverse<Entry>>,
    order: u32,
    /// Frames that fly as segments.
    uncut: usize,
    /// Entries that somebody waits for: all but changes.
    awaited: usize,
}

impl Calendar {
    pub fn add(&mut self, at: Instant, what: What) {
        let order = self.order;
        self.order = order.wrapping_add(1);
        let (frame, arrived, place) = match what {
            What::Land(frame, arrived, link, way) => (frame, arrived, place(link, way, false)),
            What::Gather(frame, arrived, link, way) => (frame, arrived, place(link, way, true)),
            what => {
                self.awaited += usize::from(!matches!(what, What::Change(_)));
                return self.entries.push(Reverse(Entry { at, order, what }));
            }
        };
        match frame {
            Frame::Whole(frame) => {
                push(&mut self.frames, Flying { at, frame, arrived, order, place });
            }
            Frame::Segments(frame) => {
                self.uncut += frame.count();
                push(&mut self.segments, Flying { at, frame, arrived, order, place });
            }
        }
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Instant> {
        self.first().map(|((at, _), _)| at)
    }

    /// When what comes first of all happens, and what kind it is.
    fn first(&self) -> Option<((Instant, u32), Kind)> {
        // Straight on, for this is asked for each frame several times.
        let mut first = self.frames.peek().map(|Reverse(f)| ((f.at, f.order), Kind::Frame));
        let before = |when, first: &Option<((Instant, u32), Kind)>| match first {
            Some((known, _)) => when < *known,
            None => true,
        };
        if let Some(Reverse(flying)) = self.segments.peek() {
            let when = (flying.at, flying.order);
            if before(when, &first) {
                first = Some((when, Kind::Segments));
            }
        }
        if let Some(Reverse(entry)) = self.entries.peek() {
            let when = (entry.at, entry.order);
            if before(when, &first) {
                first = Some((when, Kind::Entry));
            }
        }
        first
    }

    /// The next that happens at `now` or before, and when.
    pub fn take(&mut self, now: Instant) -> Option<(Instant, What)> {
        let ((at, _), kind) = self.first()?;
        if at > now {
            return None;
        }
        match kind {
            Kind::Frame => self.frames.pop().map(|Reverse(flying)| flying.what()),
            Kind::Segments => {
                let Reverse(flying) = self.segments.pop()?;
                self.uncut -= flying.frame.count();
                Some(flying.what())
            }
            Kind::Entry => {
                let Reverse(Entry { what, .. }) = self.entries.pop()?;
                self.awaited -= usize::from(!matches!(what, What::Change(_)));
                Some((at, what))
            }
        }
    }

    /// How many frames are under way. Turns count as one: somebody waits for them.
    pub fn frames(&self) -> usize {
        self.frames.len() + self.uncut + self.awaited
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Frame,
    Segments,
    Entry,
}

fn push<F>(sky: &mut Sky<F>, flying: Flying<F>) {
    if sky.len() == sky.capacity() {
        // An eighth more and not twice as much: most of what is held is held here.
        sky.reserve_exact((sky.len() / 8).max(64));
    }
    sky.push(Reverse(flying));
}

fn place(link: u32, way: Way, gathers: bool) -> u32 {
    link << 2 | u32::from(gathers) << 1 | way as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_at_one_time_happens_in_the_order_it_was_added() {
        let mut calendar = Calendar::default();
        let frame = Frame::from(&[0; 60][..]);
        calendar.add(5, What::Land(frame.clone(), 1, 7, Way::Down));
        calendar.add(5, What::Turn(1, Way::Up));
        calendar.add(5, What::Gather(frame.clone(), 2, 9, Way::Up));
        calendar.add(4, What::LineTurn(Way::Up));
        assert_eq!((calendar.next(), calendar.frames()), (Some(4), 4));
        assert!(calendar.take(3).is_none());
        let said: Vec<_> = std::iter::from_fn(|| calendar.take(5))
            .map(|(at, what)| match what {
                What::Land(_, arrived, link, way) => format!("{at} land {arrived} {link} {way:?}"),
                What::Gather(_, arrived, link, way) => {
                    format!("{at} gather {arrived} {link} {way:?}")
                }
                What::Turn(..) => format!("{at} turn"),
                _ => format!("{at} line"),
            })
            .collect();
        assert_eq!(said, ["4 line", "5 land 1 7 Down", "5 turn", "5 gather 2 9 Up"]);
        assert_eq!((calendar.next(), calendar.frames()), (None, 0));
    }

    #[test]
    fn a_frame_under_way_costs_its_bytes_and_at_most_64() {
        // An eighth more than is used, and two counters before the bytes.
        let each = size_of::<Reverse<Flying<Rc<[u8]>>>>() as f64 * 1.125 + 16.0;
        assert!(each <= 64.0, "{each}");
        assert_eq!(size_of::<Flying<Segments>>(), size_of::<Flying<Rc<[u8]>>>());
        let mut calendar = Calendar::default();
        let frame = Frame::from(&[0; 60][..]);
        (0..100_000).for_each(|at| calendar.add(at, What::Land(frame.clone(), 0, 0, Way::Up)));
        assert!(calendar.frames.capacity() <= 112_600, "{}", calendar.frames.capacity());
    }
}
