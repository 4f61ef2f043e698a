//! Queue of frames with a departure time that is known on arrival.

use crate::Limit;
use std::collections::VecDeque;
use units::Instant;

/// Queued frames with known departure times, in order of departure.
#[derive(Debug, Clone, Default)]
pub(crate) struct DepartureQueue {
    /// Departure time and length in bytes.
    frames: VecDeque<(Instant, usize)>,
    bytes: u64,
}

impl DepartureQueue {
    /// Whether a frame of `len` bytes that arrives at `now` fits into the queue.
    pub fn has_room(&mut self, len: usize, limit: Limit, now: Instant) -> bool {
        while let Some((_, len)) = self.frames.pop_front_if(|(left, _)| *left <= now) {
            self.bytes -= len as u64;
        }
        match limit {
            Limit::Frames(most) => self.frames.len() < most as usize,
            Limit::Bytes(most) => self.bytes + len as u64 <= most.get(),
        }
    }

    /// Adds a frame of `len` bytes that leaves at `left`.
    pub fn add(&mut self, len: usize, left: Instant) {
        self.frames.push_back((left, len));
        self.bytes += len as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::at;
    use units::Bytes;

    #[test]
    fn what_has_left_makes_room() {
        let mut ahead = DepartureQueue::default();
        for left in [10, 20] {
            assert!(ahead.has_room(100, Limit::Frames(2), at(0)));
            ahead.add(100, at(left));
        }
        assert!(!ahead.has_room(100, Limit::Frames(2), at(9)));
        assert!(ahead.has_room(100, Limit::Frames(2), at(10)));
        assert!(!ahead.has_room(100, Limit::Bytes(Bytes::new(199)), at(10)));
        assert!(ahead.has_room(100, Limit::Bytes(Bytes::new(200)), at(10)));
    }
}
