//! A data rate as serialisation time, with a token bucket's burst.

use crate::Instant;
use units::{Bytes, Rate};

/// Sends frames one after another at a rate.
///
/// Kept as a virtual schedule (the generic cell rate algorithm, ITU-T I.371):
/// one time stands for bucket and queue together.
#[derive(Debug, Clone)]
pub struct Serialiser {
    rate: Rate,
    burst_ns: u64,
    busy_until: Instant,
}

impl Serialiser {
    /// A serialiser at `rate` that lets `burst` bytes pass at once after idling.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        Self { rate, burst_ns: rate.serialisation(burst.get()).as_ns(), busy_until: 0 }
    }

    /// When the last bit of a frame of `len` bytes that comes at `now` has left.
    pub fn send(&mut self, len: usize, now: Instant) -> Instant {
        self.busy_until = self.busy_until.max(now) + self.rate.serialisation(len as u64).as_ns();
        now.max(self.busy_until.saturating_sub(self.burst_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_1_mbit(burst: u64) -> Serialiser {
        Serialiser::new(Rate::from_bit_s(1_000_000).unwrap(), Bytes::new(burst))
    }

    #[test]
    fn back_to_back_frames_leave_one_serialisation_time_apart() {
        let mut link = at_1_mbit(0);
        assert_eq!(link.send(125, 0), 1_000_000);
        assert_eq!(link.send(125, 0), 2_000_000);
        assert_eq!(link.send(125, 10_000_000), 11_000_000);
    }

    #[test]
    fn a_burst_passes_at_once_and_then_the_rate_holds() {
        let mut link = at_1_mbit(250);
        let left: Vec<_> = (0..4).map(|_| link.send(125, 5)).collect();
        assert_eq!(left, [5, 5, 1_000_005, 2_000_005]);
    }

    #[test]
    fn over_a_long_time_throughput_is_the_rate_plus_one_burst() {
        let mut link = at_1_mbit(1_600);
        let last = (0..10_000).map(|_| link.send(100, 0)).last().unwrap();
        assert_eq!(last, (10_000 * 100 - 1_600) * 8_000);
    }
}
