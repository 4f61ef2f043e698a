//! Stall detection: whether the clock of a guest moves.

use guest::{Guest, Running};
use std::time::{Duration, Instant};

/// A guest is queried after this time without a message, and then at this interval.
const PERIOD: Duration = Duration::from_secs(10);
/// A clock that moved by less than this between two queries (ns) is stalled: each read of the
/// time moves it a little.
const LEAST_NS: u64 = 1_000_000;

/// Watches a guest that sends no messages.
#[derive(Debug)]
pub(super) struct StallDetector {
    last_check: Instant,
    /// When the clock's current value was first seen, that value in ns, and the running process.
    since: Option<(Instant, u64, u32)>,
    still: Option<(Duration, String)>,
}

impl StallDetector {
    pub fn new() -> Self {
        Self { last_check: Instant::now(), since: None, still: None }
    }

    /// For how long the guest's clock has been stalled, and the program that runs; none while the
    /// clock moves or its state is unknown.
    pub fn still(&mut self, guest: &mut Guest) -> Option<(Duration, String)> {
        if self.last_check.elapsed() >= PERIOD {
            let running = guest.running();
            self.last_check = Instant::now();
            self.take(self.last_check, running);
        }
        self.still.clone()
    }

    fn take(&mut self, now: Instant, running: Option<Running>) {
        self.still = match (self.since, running) {
            // A change of process is no stall: many programs may have work at the same moment.
            (Some((since, at_ns, pid)), Some(running))
                if running.at_ns < at_ns + LEAST_NS && running.pid == pid =>
            {
                Some((now - since, running.program))
            }
            (_, Some(running)) => {
                self.since = Some((now, running.at_ns, running.pid));
                None
            }
            (_, None) => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_creeps_stands_still_and_one_that_goes_on_does_not() {
        let mut stall = StallDetector::new();
        let (start, s) = (Instant::now(), Duration::from_secs);
        let mut at = |second: u64, at_ns: u64, pid: u32| {
            let running = Running { at_ns, program: "sh".to_owned(), pid };
            stall.take(start + s(second), Some(running));
            stall.still.clone()
        };
        assert_eq!(at(10, 5_000_000, 7), None);
        assert_eq!(at(20, 9_000_000, 7), None);
        assert_eq!(at(30, 9_000_100, 7), Some((s(10), "sh".to_owned())));
        assert_eq!(at(40, 9_000_200, 7), Some((s(20), "sh".to_owned())));
        // Another program has work at the same moment: no stall.
        assert_eq!(at(50, 9_000_300, 8), None);
        assert_eq!(at(60, 9_000_400, 7), None);
        assert_eq!(at(70, 11_000_000, 7), None);
        stall.take(start, None);
        assert_eq!(stall.still, None);
    }
}
