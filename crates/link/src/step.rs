//! Frames in a pipe, and their steps.

use crate::Frame;
use crate::decisions::Decision;
use crate::replay::Recorded;
use units::Instant;

/// A frame with a timestamp.
#[derive(Debug, Clone)]
pub struct StampedFrame {
    /// The frame.
    pub frame: Frame,
    /// Arrival time in the network.
    pub arrived: Instant,
}

/// A frame in a pipe or in the shared channel behind it.
#[derive(Debug, Clone)]
pub struct TransitFrame {
    pub(crate) frame: Frame,
    /// Arrival time in the network.
    pub(crate) arrived: Instant,
    /// Number that random numbers about the frame in this direction belong to.
    pub(crate) place: u64,
    /// The random decision in this direction.
    pub(crate) decision: Decision,
}

impl TransitFrame {
    /// The frame, including the link header.
    pub fn bytes(&self) -> &[u8] {
        &self.frame
    }
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
    /// A shared channel did not carry it: it collided.
    Denied,
    /// A shared channel did not carry it, because it was always busy.
    NoAccess,
    /// All demodulators of the gateways that it reached were busy.
    NoDemodulator,
    /// The gateways that it reached sent at the same time.
    HalfDuplex,
    /// The signal was too weak at the receiver.
    WeakSignal,
    /// A partition separated sender and receiver.
    Partitioned,
    /// The packet was longer than the path's MTU.
    TooLong,
    /// Not a valid frame of this link: too short, too long, or with the source address of
    /// another.
    Rejected,
}

/// The next step of a pipe's frames.
#[derive(Debug, Clone)]
pub enum Step {
    /// The frame is released at this time.
    Release(StampedFrame, Instant),
    /// The frame has left the link's own transmission at this time and contends for the
    /// channel.
    Offer(TransitFrame, Instant),
    /// The frame is dropped.
    Drop(Cause),
    /// A random decision about a frame, and how the frame differs from the recorded one.
    Decided(Recorded, Option<Box<str>>),
    /// Call [`crate::Link::turn`] at this time, to send its next queued frame.
    Turn(Instant),
    /// The same for the other direction of the link: its frames may leave earlier now.
    TurnOther(Instant),
}
