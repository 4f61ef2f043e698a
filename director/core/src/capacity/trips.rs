//! Round-trip times: their minimum, their mean, and whether a queue remains.

use crate::Nanos;
use alloc::collections::VecDeque;

/// Interval in which the minimum is kept, in ns.
const MIN_WINDOW: Nanos = 30_000_000_000;
/// Queueing delay below this does not count, in ns: timers and radios have as much jitter.
const MIN_QUEUE: Nanos = 5_000_000;
/// A queue is empty below this share of its recent maximum (Copa, 3.2).
const EMPTY: f64 = 0.1;
/// Delay of an empty queue, in ns.
const MIN_EMPTY: Nanos = 2_000_000;
/// Duration of a period, in mean round-trip times.
const PERIOD: Nanos = 2;
/// Decrease of the recent maximum with each period.
const FADES: f64 = 0.9;
/// Consecutive periods with a queue, in spite of slower sending, after which other traffic must
/// fill it.
const COMPETITION: u32 = 4;

/// Round-trip times of a path.
#[derive(Debug, Clone, Default)]
pub(super) struct Trips {
    /// Samples that can be the minimum of the window: times, and values in ns.
    least: VecDeque<(Nanos, Nanos)>,
    /// Time of the last sample.
    at: Nanos,
    /// Smoothed time, in ns (RFC 6298).
    mean: Option<f64>,
    /// Longest time recently, in ns.
    longest: f64,
    /// Begin of the period, and the shortest time in it.
    period: Option<(Nanos, Nanos)>,
    /// Consecutive periods in which the queue was never empty, and in which it was.
    full: u32,
    empty: u32,
    competes: bool,
}

impl Trips {
    /// Records a round-trip time of `ns`; a packet takes `packet` ns on the bottleneck.
    pub fn add(&mut self, now: Nanos, ns: Nanos, packet: Nanos) {
        while self.least.pop_back_if(|(_, known)| *known >= ns).is_some() {}
        self.least.push_back((now, ns));
        while self.least.len() > 1
            && self.least.pop_front_if(|(at, _)| *at + MIN_WINDOW < now).is_some()
        {}
        self.at = now;
        let seen = ns as f64;
        self.mean = Some(self.mean.map_or(seen, |mean| 0.875 * mean + 0.125 * seen));
        self.longest = self.longest.max(seen);
        let (began_at, shortest) = self.period.unwrap_or((now, ns));
        let shortest = shortest.min(ns);
        self.period = Some((began_at, shortest));
        if now >= began_at + PERIOD * self.mean().unwrap_or(0) && now > began_at {
            self.end_period(shortest, packet);
        }
    }

    fn end_period(&mut self, shortest: Nanos, packet: Nanos) {
        self.period = None;
        let least = self.least().unwrap_or(0);
        let queue = ((self.longest - least as f64) * EMPTY) as Nanos;
        let is_empty = shortest <= least + queue.max(MIN_EMPTY).max(2 * packet);
        (self.full, self.empty) = match is_empty {
            true => (0, self.empty + 1),
            false => (self.full + 1, 0),
        };
        self.longest = least as f64 + (self.longest - least as f64) * FADES;
        if self.full >= COMPETITION {
            self.competes = true;
        } else if self.empty >= 2 {
            self.competes = false;
        }
    }

    /// The minimum of the last half minute, in ns.
    pub fn least(&self) -> Option<Nanos> {
        self.least.front().map(|(_, trip)| *trip)
    }

    /// The longest recent time, in ns; `None` before the first sample.
    pub fn longest(&self) -> Option<Nanos> {
        self.mean.map(|mean| self.longest.max(mean) as Nanos)
    }

    /// Time of the last sample; `None` before the first.
    pub fn sampled_at(&self) -> Option<Nanos> {
        self.mean.map(|_| self.at)
    }

    /// The smoothed time, in ns.
    pub fn mean(&self) -> Option<Nanos> {
        self.mean.map(|mean| mean as Nanos)
    }

    /// Whether a round-trip time includes a queue of some length.
    pub fn queues(&self, trip: Nanos, packet: Nanos) -> bool {
        let Some(least) = self.least() else { return false };
        trip > least + (least / 2).max(MIN_QUEUE).max(3 * packet)
    }

    /// Whether a queue has not been empty in the last period.
    pub fn stands(&self) -> bool {
        self.full > 0
    }

    /// Whether other traffic fills the queue.
    pub fn competes(&self) -> bool {
        self.competes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn a_queue_that_never_empties_is_of_others() {
        let mut trips = Trips::default();
        let mut now = 0;
        let mut add = |trips: &mut Trips, ms: u64| {
            now += 20 * MS;
            trips.add(now, ms * MS, MS);
        };
        (0..20).for_each(|n| add(&mut trips, 40 + n % 3));
        assert!(!trips.stands() && !trips.competes());
        (0..24).for_each(|_| add(&mut trips, 120));
        assert!(trips.stands() && !trips.competes(), "it may be the own one");
        (0..60).for_each(|_| add(&mut trips, 120));
        assert!(trips.competes());
        (0..40).for_each(|_| add(&mut trips, 41));
        assert!(!trips.competes());
        assert_eq!(trips.least(), Some(40 * MS));
    }
}
