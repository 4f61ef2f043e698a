//! Event queue of a segment.

use crate::change::Change;
use crate::in_flight::{Due, InFlight, Spot};
use crate::in_flight_queue::InFlightQueue;
use link::{Direction, Downlink, Heard, StampedFrame, TransitFrame};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use units::Instant;

/// An event in a segment.
#[derive(Debug)]
pub(crate) enum Event {
    /// A frame reaches the end of a link's direction, or waits there for a slot.
    Frame(StampedFrame, Spot),
    /// A frame that only some of the stations of a channel received reaches the end of a link's
    /// uplink, or waits there for a slot.
    Heard(u32, Box<HeardFrame>),
    /// A frame contends for the channel.
    Offer(u32, Direction, Box<TransitFrame>),
    /// A packet from a LoRa gateway to the device of a link has been on the air.
    SentDown(u32, Box<SentDown>),
    /// A pipe can send its next queued frame.
    Turn(u32, Direction),
    /// The shared channel can continue.
    SharedTurn(Direction),
    /// Link settings change.
    Change(Box<Change>),
    /// The switch sends multicast membership queries.
    Query,
}

/// A packet from a LoRa gateway to a device.
#[derive(Debug)]
pub(crate) struct SentDown {
    pub frame: TransitFrame,
    pub downlink: Downlink,
}

/// A frame, and who received it.
#[derive(Debug)]
pub(crate) struct HeardFrame {
    pub frame: StampedFrame,
    pub heard: Rc<Heard>,
    /// Whether it waits for a slot.
    pub gathers: bool,
}

/// An event other than a frame in flight.
#[derive(Debug)]
struct Entry {
    due: Due,
    what: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
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
        self.due.cmp(&other.due)
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
    /// Schedules an event at `at` that is not a frame in flight.
    pub fn add(&mut self, at: Instant, what: Event) {
        self.awaited += usize::from(!matches!(what, Event::Change(_) | Event::Query));
        let due = self.due(at);
        self.entries.push(Reverse(Entry { due, what }));
    }

    /// Schedules a frame in flight at `at`.
    #[inline]
    pub fn push_frame(&mut self, at: Instant, frame: StampedFrame, spot: Spot) {
        let due = self.due(at);
        self.frames.push(InFlight::new(due, frame, spot));
    }

    fn due(&mut self, at: Instant) -> Due {
        let order = self.order;
        self.order = order.wrapping_add(1);
        Due { at, order }
    }

    /// Time of the next event.
    pub fn next(&self) -> Option<Instant> {
        self.first().map(|(due, _)| due.at)
    }

    /// Key of the next event, and whether it is a frame in flight.
    fn first(&self) -> Option<(Due, bool)> {
        let frame = self.frames.first();
        let entry = self.entries.peek().map(|Reverse(entry)| entry.due);
        match (frame, entry) {
            (Some(frame), Some(entry)) => Some((frame.min(entry), frame < entry)),
            (Some(frame), None) => Some((frame, true)),
            (None, entry) => entry.map(|entry| (entry, false)),
        }
    }

    /// Removes the next event due at or before `now`, with its time.
    pub fn take(&mut self, now: Instant) -> Option<(Instant, Event)> {
        let (Due { at, .. }, is_frame) = self.first()?;
        if at > now {
            return None;
        }
        if is_frame {
            let in_flight = self.frames.pop()?;
            let spot = in_flight.spot();
            let InFlight { frame, arrived, .. } = in_flight;
            return Some((at, Event::Frame(StampedFrame { frame, arrived }, spot)));
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
    use crate::test_times::instant;
    use link::Frame;

    #[test]
    fn what_happens_at_one_time_happens_in_the_order_it_was_added() {
        let mut queue = EventQueue::default();
        let stamped = |arrived| StampedFrame { frame: Frame::from(&[0; 60][..]), arrived };
        queue.push_frame(
            instant(5),
            stamped(instant(1)),
            Spot { link: 7, direction: Direction::Down, gathers: false },
        );
        queue.add(instant(5), Event::Turn(1, Direction::Up));
        queue.push_frame(
            instant(5),
            stamped(instant(2)),
            Spot { link: 9, direction: Direction::Up, gathers: true },
        );
        queue.add(instant(4), Event::SharedTurn(Direction::Up));
        assert_eq!((queue.next(), queue.frames()), (Some(instant(4)), 4));
        assert!(queue.take(instant(3)).is_none());
        let happened: Vec<_> = std::iter::from_fn(|| queue.take(instant(5)))
            .map(|(at, what)| (at.as_ns(), what))
            .map(|(at, what)| match what {
                Event::Frame(frame, Spot { link, direction, gathers }) => {
                    let arrived = frame.arrived.as_ns();
                    format!("{at} frame {arrived} {link} {direction:?} {gathers}")
                }
                Event::Turn(..) => format!("{at} turn"),
                _ => format!("{at} shared turn"),
            })
            .collect();
        assert_eq!(
            happened,
            ["4 shared turn", "5 frame 1 7 Down false", "5 turn", "5 frame 2 9 Up true"]
        );
        assert_eq!((queue.next(), queue.frames()), (None, 0));
    }
}
