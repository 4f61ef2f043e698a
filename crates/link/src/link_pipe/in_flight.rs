//! Released frames on their way to the end of a pipe, and their slots.

use super::LinkPipe;
use units::Instant;

/// Maximum bytes in flight on one direction, which a delay without a rate does not bound:
/// 64 ms of 8 Gbit/s, or 5 s of 100 Mbit/s. Excess frames are dropped as by a full queue.
const MAX_IN_FLIGHT: u64 = 64 << 20;

impl LinkPipe {
    /// Whether the limit of bytes in flight allows a frame of `bytes`. If not, counts the frame
    /// as dropped.
    #[inline]
    pub fn has_room(&mut self, bytes: u64) -> bool {
        let has_room = self.in_flight + bytes <= MAX_IN_FLIGHT;
        self.record.totals.overflow += u64::from(!has_room);
        has_room
    }

    /// Adds `bytes` in flight.
    #[inline]
    pub fn take_off(&mut self, bytes: u64) {
        self.in_flight += bytes;
    }

    /// Removes `bytes` that have arrived at the end of the direction.
    #[inline]
    pub fn land(&mut self, bytes: u64) {
        // Frames that entered before impairments began were never added.
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// Whether released frames wait for slots.
    #[inline]
    pub fn has_slots(&self) -> bool {
        self.slots.is_some()
    }

    /// Departure time of a frame of `bytes` in its slot; `now` without slots.
    pub fn slot(&mut self, bytes: u64, now: Instant) -> Instant {
        self.slots.as_mut().map_or(now, |slots| slots.send(bytes, now))
    }
}
