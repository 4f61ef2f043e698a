//! CoDel (controlled delay, RFC 8289): drops frames by their queueing delay.

use crate::keys::{Contradictions, Key, Keys, Kind, Model};
use serde::{Deserialize, Serialize};
use units::{Instant, Span};

/// CoDel parameters; RFC 8289, section 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Codel {
    /// Acceptable standing queue delay.
    pub target: Span,
    /// Time that the delay may exceed the target: about the longest round trip.
    pub interval: Span,
}

impl Default for Codel {
    fn default() -> Self {
        Self { target: Span::from_ns(5_000_000), interval: Span::from_ns(100_000_000) }
    }
}

pub(crate) const CODEL: Model = Model {
    name: "Codel",
    what: "CoDel",
    doc: "CoDel queue management (RFC 8289).",
    keys: &[
        Key::new("target", Kind::Time, "Acceptable standing delay. Default: 5 ms."),
        Key::new(
            "interval",
            Kind::Time,
            "Time above the target before drops start. Default: 100 ms.",
        ),
    ],
};

impl Codel {
    pub(crate) fn check(keys: &Keys, found: &mut Contradictions) {
        let codel: Keys = keys.get("codel").unwrap_or_default();
        if codel.get::<Span>("interval") == Some(Span::ZERO) {
            let fix = "use about the longest round trip; the default is `100 ms`";
            found.add("codel.interval", "an interval of 0", fix);
        }
    }
}

/// CoDel's state variables, as in RFC 8289, section 5.
#[derive(Debug, Clone)]
pub(crate) struct CodelState {
    config: Codel,
    /// When the delay will have exceeded the target for an interval.
    first_above: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    /// The largest frame so far: a queue of at most this size is not a standing queue.
    largest: u64,
    /// Whether this frame follows the drop that entered the dropping state.
    entered: bool,
}

impl CodelState {
    pub fn new(config: Codel) -> Self {
        Self {
            config,
            first_above: None,
            dropping: false,
            drop_next: Instant::START,
            count: 0,
            last_count: 0,
            largest: 0,
            entered: false,
        }
    }

    /// Whether to drop the frame of `len` bytes that would leave at `now` after waiting
    /// `waited`, with `behind` bytes queued behind it.
    pub fn drops(&mut self, waited: Span, behind: u64, len: u64, now: Instant) -> bool {
        self.largest = self.largest.max(len);
        let above = self.is_above(waited, behind, now);
        if self.dropping {
            if !above {
                self.dropping = false;
            } else if now >= self.drop_next && !self.entered {
                self.count += 1;
                self.drop_next = self.next_drop(self.drop_next);
                return true;
            }
            self.entered = false;
            return false;
        }
        if !above {
            return false;
        }
        // The first drop after entering the dropping state: the next frame leaves whatever
        // its delay. If the last dropping state ended recently, drops resume at nearly the
        // same rate.
        self.dropping = true;
        // 16 intervals and the difference of the counts are those of the pseudocode in RFC 8289,
        // section 5.
        // Differences saturate, so a `drop_next` ahead is recent, as with the RFC's signed times.
        let recent = now - self.drop_next < self.config.interval * 16;
        let before = self.count - self.last_count.min(self.count);
        self.count = if before > 1 && recent { before } else { 1 };
        self.drop_next = self.next_drop(now);
        self.last_count = self.count;
        self.entered = true;
        true
    }

    /// Resets the state: the queue is empty.
    pub fn empty(&mut self) {
        self.first_above = None;
        self.dropping = false;
        self.entered = false;
    }

    /// Whether the delay has exceeded the target for a whole interval.
    fn is_above(&mut self, waited: Span, behind: u64, now: Instant) -> bool {
        // Less than one frame behind is no standing queue: dropping could only idle the link.
        if waited < self.config.target || behind <= self.largest {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.config.interval);
                false
            }
            Some(at) => now >= at,
        }
    }

    /// The control law: the interval divided by the square root of the drop count.
    fn next_drop(&self, from: Instant) -> Instant {
        let interval = self.config.interval.as_ns() as f64;
        from + Span::from_ns((interval / f64::from(self.count).sqrt()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::{at, span};

    const MS: u64 = 1_000_000;

    /// Sends one frame of 1500 bytes per millisecond with a delay of `waited`. Returns the
    /// drop times in ms.
    fn drops(codel: &mut CodelState, ms: std::ops::Range<u64>, waited: u64) -> Vec<u64> {
        let mut times = Vec::new();
        for now in ms {
            while codel.drops(span(waited * MS), 100_000, 1500, at(now * MS)) {
                times.push(now);
            }
        }
        times
    }

    #[test]
    fn a_short_wait_is_never_punished() {
        let mut codel = CodelState::new(Codel::default());
        assert!(drops(&mut codel, 0..10_000, 4).is_empty());
    }

    #[test]
    fn drops_follow_the_control_law() {
        let mut codel = CodelState::new(Codel::default());
        let times = drops(&mut codel, 0..700, 20);
        // The first drop comes one interval after the delay exceeds the target, the second
        // one interval later, then interval/sqrt(n) apart: 70.7, 57.7, 50, 44.7 ...
        assert_eq!(times[..6], [100, 200, 271, 329, 379, 424]);
    }

    #[test]
    fn a_short_queue_is_left_alone() {
        let mut codel = CodelState::new(Codel::default());
        let any = (0..1000).any(|now| codel.drops(span(20 * MS), 1500, 1500, at(now * MS)));
        assert!(!any, "no more than one frame waits behind");
    }

    #[test]
    fn dropping_ends_with_the_wait_and_resumes_near_its_rate() {
        let mut codel = CodelState::new(Codel::default());
        let first = drops(&mut codel, 0..1000, 20).len();
        assert!(drops(&mut codel, 1000..1100, 4).is_empty());
        let again = drops(&mut codel, 1100..1400, 20);
        assert_eq!(again[0], 1200, "an interval above the target again");
        // After `first` drops the gap was about interval/sqrt(first). Drops resume at that
        // gap, not at a whole interval.
        assert!(first > 9 && again[1] - again[0] < 40, "{first} {again:?}");
    }
}
