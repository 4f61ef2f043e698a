//! A frame in flight.

use link::{Direction, Frame, StampedFrame};
use std::hint::black_box;
use units::Instant;

/// A frame in flight. There may be millions, so they are small: 40 bytes here and 16 before
/// the frame's bytes.
#[derive(Debug)]
pub(crate) struct InFlight {
    /// Delivery time.
    pub at: Instant,
    pub frame: Frame,
    /// Arrival time in the segment.
    pub arrived: Instant,
    /// Insertion number, to keep the order of simultaneous events. It wraps; then two
    /// frames of the same nanosecond may change places.
    pub order: u32,
    /// Encodes a [`Spot`].
    pub spot: u32,
}

/// Where a frame is in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub link: u32,
    pub direction: Direction,
    /// Whether it waits for a slot.
    pub gathers: bool,
}

/// Key of events: time, and insertion number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Due {
    pub at: Instant,
    pub order: u32,
}

impl InFlight {
    /// A frame due at that time.
    #[inline]
    pub fn new(due: Due, frame: StampedFrame, spot: Spot) -> Self {
        let StampedFrame { frame, arrived } = frame;
        let Spot { link, direction, gathers } = spot;
        // 30 bits are left for the link.
        let spot = link << 2 | u32::from(gathers) << 1 | direction as u32;
        Self { at: due.at, frame, arrived, order: due.order, spot }
    }

    pub fn due(&self) -> Due {
        Due { at: self.at, order: self.order }
    }

    pub fn spot(&self) -> Spot {
        let direction = if self.spot & 1 == 1 { Direction::Down } else { Direction::Up };
        Spot { link: self.spot >> 2, direction, gathers: self.spot & 2 == 2 }
    }
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.due() == other.due()
    }
}
impl Eq for InFlight {}
impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due().cmp(&other.due())
    }
}

/// Reads the first and the last byte of a frame, so that it is in the CPU cache when needed:
/// small frames occupy two or three cache lines.
#[inline]
pub(crate) fn touch(frame: &Frame) {
    black_box((frame.first(), frame.last()));
}
