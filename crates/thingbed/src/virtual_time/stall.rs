//! Stall detection: whether the clock of a guest moves, and how long to wait for one that stands still.

use guest::{Guest, Running};
use runner::{Error, Phase};
use std::time::{Duration, Instant};

/// A guest is queried after this time without a message, and then at this interval.
const PERIOD: Duration = Duration::from_secs(10);
/// A clock that moved by less than this between two queries (ns) is stalled: each read of the
/// time moves it a little.
const LEAST_NS: u64 = 1_000_000;
/// The run fails after the clock has not moved for this time: some programs compute for long.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The same for a run that the user has stopped. On an overloaded machine, a guest may be without the
/// CPU for tens of seconds.
const INTERRUPTED_TIMEOUT: Duration = Duration::from_secs(60);

/// The error of a run in this phase, in which `program` has computed for `time` while the clock did not
/// move; none while the host waits on. `is_interrupted`: the user has stopped it, and the guest has the message.
pub(super) fn give_up(
    phase: Phase,
    is_interrupted: bool,
    time: Duration,
    program: &str,
) -> Option<Error> {
    // Thingbed itself computes, judges and writes: that takes no virtual time, and it ends.
    if phase == Phase::Write {
        return None;
    }
    match is_interrupted {
        true if time < INTERRUPTED_TIMEOUT => None,
        true => Some(abandoned(phase, || {
            format!("`{program}` computed for {} s without waiting", time.as_secs())
        })),
        false => (time > TIMEOUT).then(|| busy_wait_error(program)),
    }
}

/// The error of a run that the user has stopped and that ends without results in this phase; `why` it
/// has none after the measurement has begun.
pub(super) fn abandoned(phase: Phase, why: impl FnOnce() -> String) -> Error {
    match phase {
        Phase::Up | Phase::SetUp => Error::Interrupted,
        Phase::Load | Phase::Drain | Phase::Stop | Phase::Write => Error::Abandoned(why()),
    }
}

fn busy_wait_error(program: &str) -> Error {
    Error::Guest {
        text: format!(
            "virtual time has not moved for {} s: `{program}` computes without waiting, and \
             computation takes no virtual time\n  a loop that neither sleeps, nor does I/O, nor reads \
             the clock never ends: change the program, or use --clock real",
            TIMEOUT.as_secs()
        ),
        ends_sweep: false,
    }
}

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

    /// What failed: a run was said not to have started, and lost its results, if it wrote them or had no
    /// CPU when it was stopped.
    #[test]
    fn a_stopped_run_has_time_for_its_results() {
        let text = |phase, is_interrupted, second| {
            let error = give_up(phase, is_interrupted, Duration::from_secs(second), "sh");
            error.map(|error| error.to_string())
        };
        for phase in [Phase::Load, Phase::Drain, Phase::Stop] {
            assert_eq!(text(phase, true, 59), None);
            let error = text(phase, true, 60).unwrap();
            assert!(
                error.contains("`sh` computed for 60 s") && !error.contains("before"),
                "{error}"
            );
        }
        assert!(text(Phase::SetUp, true, 60).unwrap().contains("before the run started"));
        assert_eq!(text(Phase::Load, false, 300), None);
        assert!(text(Phase::Load, false, 301).unwrap().contains("change the program"));
        for is_interrupted in [true, false] {
            assert_eq!(text(Phase::Write, is_interrupted, 100_000), None);
        }
    }

    #[test]
    fn an_unanswered_query_is_no_stall() {
        let mut stall = StallDetector::new();
        let (start, s) = (Instant::now(), Duration::from_secs);
        let running = || Some(Running { at_ns: 5, program: "sh".to_owned(), pid: 7 });
        stall.take(start, running());
        stall.take(start + s(10), None);
        assert_eq!(stall.still, None);
        stall.take(start + s(20), running());
        assert_eq!(stall.still, Some((s(20), "sh".to_owned())));
    }

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
