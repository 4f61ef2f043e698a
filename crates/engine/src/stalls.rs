//! Stalls: times in which the medium had work but did not run.

use units::{Instant, Span};

/// A wait that ends this much late counts as a stall: timers are late by some tens of
/// microseconds, on a busy machine by some hundreds.
const MAX_TIMER_LATENESS: Span = Span::from_ms(1);
/// Between two clock reads the medium processes one frame, at most a multicast to thousands
/// of members.
const MAX_WORK: Span = Span::from_ms(3);

/// Times in which the machine did not run the medium: the hypervisor gave the CPU to
/// another guest, or another thread had it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Number of stalls.
    pub count: u64,
    /// The longest stall.
    pub longest: Span,
    /// All stalls together.
    pub total: Span,
    /// Maximum time between a frame's arrival and the time that it counts from, on
    /// paths with arrival times.
    pub behind: Span,
}

impl Stalls {
    /// These stalls and those of another thread.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            longest: self.longest.max(other.longest),
            total: self.total + other.total,
            behind: self.behind.max(other.behind),
        }
    }
}

/// Watches the medium's clock for gaps.
#[derive(Debug, Default)]
pub(crate) struct StallDetector {
    stalls: Stalls,
    measuring: bool,
    last: Instant,
    /// End of the last wait, until the first frame after it.
    woken_at: Option<Instant>,
}

impl StallDetector {
    /// Starts or stops counting.
    pub fn measure(&mut self, measuring: bool) {
        self.measuring = measuring;
    }

    /// The clock was read during work.
    pub fn on_work(&mut self, now: Instant) {
        let gap = now - self.last;
        self.last = now;
        if gap > MAX_WORK {
            self.note(gap);
        }
    }

    /// A wait that ignores arrivals has ended, at `until` or early.
    pub fn on_doze(&mut self, until: Option<Instant>, now: Instant) {
        self.on_wait(until, now);
        // Frames that arrived in the meantime were meant to wait.
        self.woken_at = None;
    }

    /// A wait until `until` has ended.
    pub fn on_wait(&mut self, until: Option<Instant>, now: Instant) {
        self.last = now;
        self.woken_at = Some(now);
        let late = until.map_or(Span::ZERO, |until| now - until);
        if late > MAX_TIMER_LATENESS {
            self.woken_at = None;
            self.note(late);
        }
    }

    /// A frame that arrived at `arrived` was read. No frame was left before the wait, so
    /// the medium overslept for as long as the first frame waited.
    pub fn on_frame(&mut self, arrived: Instant) {
        let Some(woken_at) = self.woken_at.take() else { return };
        let late = woken_at - arrived;
        if late > MAX_TIMER_LATENESS {
            self.note(late);
        }
    }

    /// A frame counts from this long after its arrival.
    pub fn on_backlog(&mut self, behind: Span) {
        if self.measuring {
            self.stalls.behind = self.stalls.behind.max(behind);
        }
    }

    /// Stalls so far.
    pub fn stalls(&self) -> Stalls {
        self.stalls
    }

    fn note(&mut self, late: Span) {
        if self.measuring {
            self.stalls.count += 1;
            self.stalls.total += late;
            self.stalls.longest = self.stalls.longest.max(late);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::{instant, span};

    const MS: u64 = 1_000_000;

    fn watch() -> StallDetector {
        let mut watch = StallDetector::default();
        watch.on_wait(None, instant(100 * MS));
        watch.measure(true);
        watch
    }

    #[test]
    fn waits_that_end_in_time_and_work_are_no_stalls() {
        let mut watch = watch();
        watch.on_work(instant(101 * MS));
        watch.on_wait(Some(instant(130 * MS)), instant(130 * MS + 400_000));
        watch.on_frame(instant(130 * MS));
        watch.on_wait(None, instant(900 * MS));
        watch.on_frame(instant(900 * MS - 50_000));
        assert_eq!(watch.stalls(), Stalls::default());
    }

    #[test]
    fn who_dozes_lets_frames_wait_but_is_not_to_oversleep() {
        let mut watch = watch();
        watch.on_doze(Some(instant(101 * MS)), instant(101 * MS + 50_000));
        watch.on_frame(instant(99 * MS));
        assert_eq!(watch.stalls(), Stalls::default());
        watch.on_doze(Some(instant(102 * MS)), instant(109 * MS));
        assert_eq!((watch.stalls().count, watch.stalls().longest), (1, Span::from_ms(7)));
    }

    #[test]
    fn each_kind_is_counted_once() {
        let mut watch = watch();
        watch.on_wait(Some(instant(130 * MS)), instant(138 * MS));
        watch.on_frame(instant(129 * MS));
        assert_eq!((watch.stalls().count, watch.stalls().longest), (1, Span::from_ms(8)));
        watch.on_wait(None, instant(150 * MS));
        watch.on_frame(instant(145 * MS));
        watch.on_frame(instant(145 * MS));
        assert_eq!((watch.stalls().count, watch.stalls().total), (2, Span::from_ms(13)));
        watch.on_work(instant(151 * MS));
        watch.on_work(instant(171 * MS));
        assert_eq!((watch.stalls().count, watch.stalls().longest), (3, Span::from_ms(20)));
    }

    #[test]
    fn nothing_counts_before_and_after_measuring() {
        let mut watch = watch();
        watch.measure(false);
        watch.on_wait(Some(instant(0)), instant(500 * MS));
        watch.on_backlog(span(7));
        assert_eq!(watch.stalls(), Stalls::default());
    }
}
