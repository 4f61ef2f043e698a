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
    /// A frame (when it came into the segment, from whom) has come to the end of
    /// this link's direction.
    Land(Rc<[u8]>, Instant, u32, u32, Way),
    /// The same, and it waits for a slot.
    Gather(Rc<[u8]>, Instant, u32, u32, Way),
    /// A frame wants the channel.
    Offer(u32, Way, Box<Carried>),
    /// A direction can send what waits.
    Turn(u32, Way),
    /// The channel can.
    LineTurn(Way),
    /// What is asked of links changes.
    Change(Box<Change>),
}

/// Ordered by time, then by when it was added.
#[derive(Debug)]
struct Entry {
    at: Instant,
    order: u64,
    what: What,
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

/// What is to happen.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    entries: BinaryHeap<Reverse<Entry>>,
    order: u64,
    frames: usize,
}

impl Calendar {
    pub fn add(&mut self, at: Instant, what: What) {
        self.frames += usize::from(what.is_frame());
        self.entries.push(Reverse(Entry { at, order: self.order, what }));
        self.order += 1;
    }

    /// When something happens next.
    pub fn next(&self) -> Option<Instant> {
        self.entries.peek().map(|Reverse(entry)| entry.at)
    }

    /// The next that happens at `now` or before, and when.
    pub fn take(&mut self, now: Instant) -> Option<(Instant, What)> {
        if self.next()? > now {
            return None;
        }
        let Reverse(Entry { at, what, .. }) = self.entries.pop()?;
        self.frames -= usize::from(what.is_frame());
        Some((at, what))
    }

    /// How many frames there are among it. Turns count as one: somebody waits for
    /// them.
    pub fn frames(&self) -> usize {
        self.frames
    }
}

impl What {
    fn is_frame(&self) -> bool {
        !matches!(self, Self::Change(_))
    }
}
