//! Arrivals of answers, and how long requested ones may still be under way.

use crate::pace::TICK;
use crate::{Instant, Span};

/// Arrivals of frames of answers to a message.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    count: u32,
    /// Those in a row, in similar intervals, and the time of the first of these.
    run: u32,
    first_at: Instant,
    last_at: Instant,
    /// Frames that members were asked for, with those of their slots.
    pub asked: f64,
}

/// Arrivals from which their interval is known.
const MIN_ARRIVALS: u32 = 3;
/// Arrivals this much slower than assumed wait in a queue.
const SLOWER: f64 = 1.5;
/// An interval that differs by this factor is none of a queue: an outage, or another member's way.
const OTHER: u64 = 8;
/// A queue is empty if nothing arrives in this many intervals.
const PAUSE: f64 = 3.0;

impl Arrivals {
    /// Records the arrival of a frame of an answer.
    pub fn add(&mut self, now: Instant) {
        let gap = now - self.last_at;
        let each = self.each();
        if self.run == 0 || each.is_some_and(|each| gap > OTHER * each) {
            (self.run, self.first_at) = (0, now);
        } else if each.is_some_and(|each| gap * OTHER < each) {
            (self.run, self.first_at) = (1, self.last_at);
        }
        (self.count, self.run, self.last_at) = (self.count + 1, self.run + 1, now);
    }

    /// The mean interval of the run.
    fn each(&self) -> Option<Span> {
        let span = self.last_at - self.first_at;
        (self.run > 1).then(|| span / u64::from(self.run - 1))
    }

    /// The time until which requested frames may still wait in a queue of the path: frames arrive
    /// more slowly than every `expected`, and more were asked for. A request before that would
    /// only make the queue longer.
    pub fn wait_until(&self, expected: Span, loss: f64) -> Option<Instant> {
        let waiting = self.asked * (1.0 - loss) - f64::from(self.count);
        if self.run < MIN_ARRIVALS || waiting < 1.0 {
            return None;
        }
        let each = self.each()?.as_ns_f64();
        // Lost frames make intervals longer without a queue.
        let slow = each * (1.0 - loss) > SLOWER * expected.as_ns_f64();
        slow.then_some(self.last_at + Span::from_ns_f64(PAUSE.min(1.0 + waiting) * each).max(TICK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_ms(1);

    fn arrivals(asked: f64, times: &[u64]) -> Arrivals {
        let mut arrivals = Arrivals { asked, ..Arrivals::default() };
        times.iter().for_each(|at| arrivals.add(Instant::START + *at * MS));
        arrivals
    }

    #[test]
    fn frames_that_wait_in_a_queue_are_not_asked_for_again() {
        let queued = arrivals(15.0, &[300, 600, 900]);
        assert_eq!(queued.wait_until(10 * MS, 0.0), Some(Instant::START + 1_800 * MS));
        assert_eq!(queued.wait_until(250 * MS, 0.0), None, "as fast as assumed");
        assert_eq!(arrivals(3.0, &[300, 600, 900]).wait_until(10 * MS, 0.0), None, "all are here");
        assert_eq!(arrivals(15.0, &[300, 600]).wait_until(10 * MS, 0.0), None, "too few to tell");
        // Half of what was asked for is lost.
        assert_eq!(
            arrivals(8.0, &[300, 600, 900]).wait_until(10 * MS, 0.5),
            Some(Instant::START + 1_500 * MS)
        );
    }

    #[test]
    fn an_outage_is_no_interval() {
        let after = arrivals(15.0, &[10, 20, 12_000, 12_010, 12_020]);
        assert_eq!(after.wait_until(2 * MS, 0.0), Some(Instant::START + 12_050 * MS));
        let late = arrivals(15.0, &[10, 12_000, 12_010, 12_020, 12_030]);
        assert_eq!(late.wait_until(2 * MS, 0.0), Some(Instant::START + 12_060 * MS));
    }
}
