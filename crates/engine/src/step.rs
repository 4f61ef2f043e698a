//! Steps of frames on one direction of a link.

use crate::decisions::Decision;
use crate::replay::Recorded;
use crate::{Frame, Instant};

/// A frame in transit on a direction.
#[derive(Debug, Clone)]
pub(crate) struct TransitFrame {
    /// The frame.
    pub frame: Frame,
    /// Arrival time in the segment.
    pub arrived: Instant,
    /// Number that random numbers about the frame in this direction belong to.
    pub place: u64,
    /// The random decision in this direction.
    pub decision: Decision,
}

/// Why a frame was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The link lost it.
    Lost,
    /// The queue was full, or its discipline dropped the frame.
    Overflow,
    /// The link was down.
    Outage,
    /// A shared channel did not carry it.
    Denied,
    /// A partition separated sender and receiver.
    Partitioned,
    /// Not a valid frame of this link: too short, too long, or with the source address of
    /// another.
    Rejected,
}

/// The next step of a direction's frames.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// The frame is released at this time.
    Release(TransitFrame, Instant),
    /// The frame has left the link's own transmission at this time and contends for the
    /// channel.
    Offer(TransitFrame, Instant),
    /// The frame is dropped.
    Drop(Cause),
    /// A random decision about a frame, and how the frame differs from the recorded one.
    Decided(Recorded, Option<Box<str>>),
    /// Call the direction's `turn` at this time, to send its next queued frame.
    Turn(Instant),
}
