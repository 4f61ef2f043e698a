//! What happens when, in order.

use crate::Instant;
use crate::change::{Change, Way};
use crate::direction::Carried;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// What may happen in a segment.
#[derive(Debug)]
pub(crate) enum What {
    /// A frame (when it came into the segment) has come to the end of this link's
    /// direction.
    Land(Rc<[u8]>, Instant, u32, Way),
    /// The same, and it waits for a slot.
    Gather(Rc<[u8]>, Instant, u32, Way),
    /// A frame wants the channel.
    Offer(u32, Way, Box<Carried>),
    /// A direction can send what waits.
    Turn(u32, Way),
    /// The channel can.
    LineTurn(Way),
    /// What is asked of links changes.
    Change(Box<Change>),
}

/// A frame under way. With its bytes there may be millions of these, so it is
/// kept small: 40 bytes here and 16 before the frame.
#[derive(Debug)]
struct Flying {
    at: Instant,
    frame: Rc<[u8]>,
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
    ($($kind:ty),*) => {$(
        impl PartialEq for $kind {
            fn eq(&self, other: &Self) -> bool {
                (self.at, self.order) == (other.at, other.order)
            }
        }
        impl Eq for $kind {}
        impl PartialOrd for $kind {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for $kind {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                (self.at, self.order).cmp(&(other.at, other.order))
            }
        }
    )*};
}
ordered!(Flying, Entry);

/// What is to happen.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    flying: BinaryHeap<Reverse<Flying>>,
    entries: BinaryHeap<Reverse<Entry>>,
    order: u32,
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
        if self.flying.len() == self.flying.capacity() {
            // An eighth more and not twice as much: most of what is held is held here.
            self.flying.reserve_exact((self.flying.len() / 8).max(64));
        }
        self.flying.push(Reverse(Flying { at, frame, arrived, order, place }));
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Instant> {
        let flying = self.flying.peek().map(|Reverse(flying)| flying.at);
        let entry = self.entries.peek().map(|Reverse(entry)| entry.at);
        [flying, entry].into_iter().flatten().min()
    }

    /// The next that happens at `now` or before, and when.
    pub fn take(&mut self, now: Instant) -> Option<(Instant, What)> {
        let flying = self.flying.peek().map(|Reverse(flying)| (flying.at, flying.order));
        let entry = self.entries.peek().map(|Reverse(entry)| (entry.at, entry.order));
        let (at, is_frame) = match (flying, entry) {
            (Some(flying), Some(entry)) => (flying.min(entry).0, flying < entry),
            (Some((at, _)), None) => (at, true),
            (None, Some((at, _))) => (at, false),
            (None, None) => return None,
        };
        if at > now {
            return None;
        }
        if !is_frame {
            let Reverse(Entry { what, .. }) = self.entries.pop()?;
            self.awaited -= usize::from(!matches!(what, What::Change(_)));
            return Some((at, what));
        }
        let Reverse(Flying { frame, arrived, place, .. }) = self.flying.pop()?;
        let (link, way) = (place >> 2, if place & 1 == 1 { Way::Down } else { Way::Up });
        let gathers = place & 2 == 2;
        Some((
            at,
            match gathers {
                true => What::Gather(frame, arrived, link, way),
                false => What::Land(frame, arrived, link, way),
            },
        ))
    }

    /// How many frames are under way. Turns count as one: somebody waits for them.
    pub fn frames(&self) -> usize {
        self.flying.len() + self.awaited
    }
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
        let frame: Rc<[u8]> = [0; 60].into();
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
        let each = size_of::<Reverse<Flying>>() as f64 * 1.125 + 16.0;
        assert!(each <= 64.0, "{each}");
        let mut calendar = Calendar::default();
        let frame: Rc<[u8]> = [0; 60].into();
        (0..100_000).for_each(|at| calendar.add(at, What::Land(frame.clone(), 0, 0, Way::Up)));
        assert!(calendar.flying.capacity() <= 112_600, "{}", calendar.flying.capacity());
    }
}
