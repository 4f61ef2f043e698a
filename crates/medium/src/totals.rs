//! What one direction of a link did to the frames that came to it.

use crate::{Impairment, Instant};
use std::sync::Arc;

/// Counts over some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames that came.
    pub frames: u64,
    /// Their bytes, link header included.
    pub bytes: u64,
    /// Frames, copies included, that left the link with a delay: neither lost nor dropped.
    /// Counted when their serialisation ends, so a frame that still waits in a queue is
    /// among `frames` and not yet here.
    pub passed: u64,
    /// Frames that were lost.
    pub lost: u64,
    /// Frames that found the queue full, or were dropped by its discipline.
    pub overflow: u64,
    /// Frames that found the link down.
    pub outage: u64,
    /// Frames that a channel which all share did not let through: collided, or
    /// without access.
    pub denied: u64,
    /// What came and was no frame of this link. Not among `frames`.
    pub rejected: u64,
    /// Times that frames were sent again on a channel that all contend for, and
    /// times that something of theirs collided there. Not by interval.
    pub retried: u64,
    /// See `retried`.
    pub collided: u64,
    /// Frames of which a bit was turned over.
    pub corrupted: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Frames that overtook others.
    pub reordered: u64,
    /// Sum over the frames that passed of the time from the end of their
    /// serialisation to their release, in nanoseconds.
    pub delay_sum: u64,
    /// The longest such time, in nanoseconds.
    pub delay_max: u64,
    /// Bytes that were serialised, as they are on the link's wire, and the time
    /// it took, in nanoseconds.
    pub wire_bytes: u64,
    /// The time in which the link was sending, in nanoseconds.
    pub busy: u64,
    /// Frames delivered, and the sum of how much later than meant they were, in
    /// nanoseconds. Of the way down alone.
    pub released: u64,
    /// See `released`.
    pub late_sum: u64,
}

impl Totals {
    /// Frames for which loss was decided: those that passed and those that were lost.
    pub fn at_risk(&self) -> u64 {
        self.passed + self.lost
    }

    /// What happened since `before`. The longest delay stays that of all time.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            frames: self.frames - before.frames,
            bytes: self.bytes - before.bytes,
            passed: self.passed - before.passed,
            lost: self.lost - before.lost,
            overflow: self.overflow - before.overflow,
            outage: self.outage - before.outage,
            denied: self.denied - before.denied,
            retried: self.retried - before.retried,
            collided: self.collided - before.collided,
            rejected: self.rejected - before.rejected,
            corrupted: self.corrupted - before.corrupted,
            duplicated: self.duplicated - before.duplicated,
            reordered: self.reordered - before.reordered,
            delay_sum: self.delay_sum - before.delay_sum,
            delay_max: self.delay_max,
            wire_bytes: self.wire_bytes - before.wire_bytes,
            busy: self.busy - before.busy,
            released: self.released - before.released,
            late_sum: self.late_sum - before.late_sum,
        }
    }
}

/// What was asked of a direction and what it did over an interval in which
/// nothing asked changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// When it began.
    pub from: Instant,
    /// When it ended.
    pub to: Instant,
    /// What was asked; of a ramp, at the end of the interval.
    pub asked: Arc<Impairment>,
    /// Whether what was asked changed meanwhile, as on a ramp.
    pub changing: bool,
    /// What was done.
    pub got: Totals,
}

/// What a direction did, and what of it has been cut into intervals.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub totals: Totals,
    pub intervals: Vec<Interval>,
    /// When the present interval began, and the totals then: apart from what is counted
    /// for each frame.
    cut: Box<(Instant, Totals)>,
}

impl Record {
    /// Impairments begin.
    pub fn begin(&mut self, now: Instant) {
        self.cut.0 = now;
    }

    /// Ends an interval in which `asked` was asked, `changing` or not; one in
    /// which nothing came leaves no trace.
    pub fn end_interval(&mut self, asked: &Arc<Impairment>, changing: bool, now: Instant) {
        let (from, before) = *self.cut;
        if self.totals != before {
            let (asked, got) = (asked.clone(), self.totals.since(&before));
            self.intervals.push(Interval { from, to: now, asked, changing, got });
        }
        *self.cut = (now, self.totals);
    }
}
