//! Event queue of a segment.

use crate::change::{Change, Direction};
use crate::in_flight::{InFlight, InFlightQueue};
use crate::step::TransitFrame;
use crate::{Frame, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// An event in a segment.
#[derive(Debug)]
pub(crate) enum Event {
    /// A frame reaches the end of a link's direction. The instant is its arrival in the
    /// segment.
    Land(Frame, Instant, u32, Direction),
    /// As `Land`, but the frame waits for a slot.
    Gather(Frame, Instant, u32, Direction),
    /// A frame contends for the channel.
    Offer(u32, Direction, Box<TransitFrame>),
    /// A direction can send its next queued frame.
    Turn(u32, Direction),
    /// The shared link can send its next queued frame.
    SharedTurn(Direction),
    /// Link settings change.
    Change(Box<Change>),
    /// The network sends a multicast membership query.
    Query,
}

/// An event that is not a frame's landing or gathering.
#[derive(Debug)]
struct Entry {
    at: Instant,
    order: u32,
    what: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Pending events, ordered by time and then by insertion.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    frames: InFlightQueue,
    entries: BinaryHeap<Reverse<Entry>>,
    order: u32,
    /// Events that count as traffic: all but changes and queries.
    awaited: usize,
}

impl EventQueue {
    /// Schedules an event at `at` that is not a frame's landing or gathering.
    pub fn add(&mut self, at: Instant, what: Event) {
        self.awaited += usize::from(!matches!(what, Event::Change(_) | Event::Query));
        let order = self.order();
        self.entries.push(Reverse(Entry { at, order, what }));
    }

    /// Schedules a frame's landing at `at`, at a [`crate::in_flight::place`]. The second instant
    /// is its arrival in the segment.
    #[inline]
    pub fn push_frame(&mut self, at: Instant, (frame, arrived): (Frame, Instant), place: u32) {
        let order = self.order();
        self.frames.push(InFlight { at, frame, arrived, order, place });
    }

    fn order(&mut self) -> u32 {
        let order = self.order;
        self.order = order.wrapping_add(1);
        order
    }

    /// Time of the next event.
    pub fn next(&self) -> Option<Instant> {
        self.first().map(|((at, _), _)| at)
    }

    /// Time and order of the next event, and whether it is a frame's landing or gathering.
    fn first(&self) -> Option<((Instant, u32), bool)> {
        let frame = self.frames.first();
        let entry = self.entries.peek().map(|Reverse(entry)| (entry.at, entry.order));
        match (frame, entry) {
            (Some(frame), Some(entry)) => Some((frame.min(entry), frame < entry)),
            (Some(frame), None) => Some((frame, true)),
            (None, entry) => entry.map(|entry| (entry, false)),
        }
    }

    /// Removes the next event due at or before `now`, with its time.
    pub fn take(&mut self, now: Instant) -> Option<(Instant, Event)> {
        let ((at, _), is_frame) = self.first()?;
        if at > now {
            return None;
        }
        if is_frame {
            return self.frames.pop().map(InFlight::what);
        }
        let Reverse(Entry { what, .. }) = self.entries.pop()?;
        self.awaited -= usize::from(!matches!(what, Event::Change(_) | Event::Query));
        Some((at, what))
    }

    /// Number of frames in flight. A turn counts as one frame: a queued frame waits for it.
    pub fn frames(&self) -> usize {
        self.frames.len() + self.awaited
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_flight::place;

    #[test]
    fn what_happens_at_one_time_happens_in_the_order_it_was_added() {
        let mut queue = EventQueue::default();
        let frame = Frame::from(&[0; 60][..]);
        queue.push_frame(5, (frame.clone(), 1), place(7, Direction::Down, false));
        queue.add(5, Event::Turn(1, Direction::Up));
        queue.push_frame(5, (frame, 2), place(9, Direction::Up, true));
        queue.add(4, Event::SharedTurn(Direction::Up));
        assert_eq!((queue.next(), queue.frames()), (Some(4), 4));
        assert!(queue.take(3).is_none());
        let happened: Vec<_> = std::iter::from_fn(|| queue.take(5))
            .map(|(at, what)| match what {
                Event::Land(_, arrived, link, way) => format!("{at} land {arrived} {link} {way:?}"),
                Event::Gather(_, arrived, link, way) => {
                    format!("{at} gather {arrived} {link} {way:?}")
                }
                Event::Turn(..) => format!("{at} turn"),
                _ => format!("{at} line"),
            })
            .collect();
        assert_eq!(happened, ["4 line", "5 land 1 7 Down", "5 turn", "5 gather 2 9 Up"]);
        assert_eq!((queue.next(), queue.frames()), (None, 0));
    }
}
