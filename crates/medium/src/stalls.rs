//! Moments in which the medium stood still though it had something to do.

use crate::Instant;
use serde::{Deserialize, Serialize};

/// A wait that ended this much after its time was no wait of the medium's: a
/// timer is some tens of microseconds late, a busy machine's some hundreds.
const OVERSLEPT: Instant = 1_000_000;
/// Between two looks at the clock lies the work for one frame, for a multicast to
/// thousands of members at most.
const STUCK: Instant = 3_000_000;

/// Times in which the machine did not let the medium run: its host gave the
/// processor to others, or another thread had it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// How many there were.
    pub count: u64,
    /// The longest, in ns.
    pub longest_ns: u64,
    /// All of them together, in ns.
    pub total_ns: u64,
    /// The most that a frame was taken in after it had come, with its time
    /// reckoned from then, in ns: where the path tells when frames come.
    pub behind_ns: u64,
}

/// Watches the medium's clock for gaps.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    stalls: Stalls,
    measuring: bool,
    last: Instant,
    /// When the last wait ended, until the first frame after it.
    woke: Option<Instant>,
}

impl Watch {
    /// Counts from now on, or no more.
    pub fn measure(&mut self, measuring: bool) {
        self.measuring = measuring;
    }

    /// The clock was read at work.
    pub fn worked(&mut self, now: Instant) {
        let gap = now.saturating_sub(self.last);
        self.last = now;
        if gap > STUCK {
            self.note(gap);
        }
    }

    /// A wait that arrivals were not to end has, at `until` or when it was called off.
    pub fn dozed(&mut self, until: Option<Instant>, now: Instant) {
        self.waited(until, now);
        // What came meanwhile was meant to wait.
        self.woke = None;
    }

    /// A wait that was to end at `until` has ended.
    pub fn waited(&mut self, until: Option<Instant>, now: Instant) {
        self.last = now;
        self.woke = Some(now);
        let late = until.map_or(0, |until| now.saturating_sub(until));
        if late > OVERSLEPT {
            self.woke = None;
            self.note(late);
        }
    }

    /// A frame that arrived at `arrived` was taken in. After a wait nothing had
    /// been left over, so what the first frame waited, the medium overslept.
    pub fn took(&mut self, arrived: Instant) {
        let Some(woke) = self.woke.take() else { return };
        let late = woke.saturating_sub(arrived);
        if late > OVERSLEPT {
            self.note(late);
        }
    }

    /// A frame's time is reckoned from `ns` after its arrival.
    pub fn behind(&mut self, ns: Instant) {
        if self.measuring {
            self.stalls.behind_ns = self.stalls.behind_ns.max(ns);
        }
    }

    /// What was seen.
    pub fn stalls(&self) -> Stalls {
        self.stalls
    }

    fn note(&mut self, ns: Instant) {
        if self.measuring {
            self.stalls.count += 1;
            self.stalls.total_ns += ns;
            self.stalls.longest_ns = self.stalls.longest_ns.max(ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Instant = 1_000_000;

    fn watch() -> Watch {
        let mut watch = Watch::default();
        watch.waited(None, 100 * MS);
        watch.measure(true);
        watch
    }

    #[test]
    fn waits_that_end_in_time_and_work_are_no_stalls() {
        let mut watch = watch();
        watch.worked(101 * MS);
        watch.waited(Some(130 * MS), 130 * MS + 400_000);
        watch.took(130 * MS);
        watch.waited(None, 900 * MS);
        watch.took(900 * MS - 50_000);
        assert_eq!(watch.stalls(), Stalls::default());
    }

    #[test]
    fn who_dozes_lets_frames_wait_but_is_not_to_oversleep() {
        let mut watch = watch();
        watch.dozed(Some(101 * MS), 101 * MS + 50_000);
        watch.took(99 * MS);
        assert_eq!(watch.stalls(), Stalls::default());
        watch.dozed(Some(102 * MS), 109 * MS);
        assert_eq!((watch.stalls().count, watch.stalls().longest_ns), (1, 7 * MS));
    }

    #[test]
    fn each_kind_is_counted_once() {
        let mut watch = watch();
        watch.waited(Some(130 * MS), 138 * MS);
        watch.took(129 * MS);
        assert_eq!((watch.stalls().count, watch.stalls().longest_ns), (1, 8 * MS));
        watch.waited(None, 150 * MS);
        watch.took(145 * MS);
        watch.took(145 * MS);
        assert_eq!((watch.stalls().count, watch.stalls().total_ns), (2, 13 * MS));
        watch.worked(151 * MS);
        watch.worked(171 * MS);
        assert_eq!((watch.stalls().count, watch.stalls().longest_ns), (3, 20 * MS));
    }

    #[test]
    fn nothing_counts_before_and_after_measuring() {
        let mut watch = watch();
        watch.measure(false);
        watch.waited(Some(0), 500 * MS);
        watch.behind(7);
        assert_eq!(watch.stalls(), Stalls::default());
    }
}
