//! Running ahead of the programs under test.

use crate::Instant;
use serde::{Deserialize, Serialize};

/// How the engine's thread is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// SCHED_FIFO: ahead of every ordinary thread.
    RealTime,
    /// Nice -20: a large share, but it may wait for milliseconds.
    High,
    /// As any other thread; all that an unprivileged user gets.
    Ordinary,
}

/// A real-time thread that has not slept for this long steps down, and up again
/// no sooner than after the same: the kernel stops one that runs for 0.95 s of a
/// second, for 50 ms at a stretch.
const PATIENCE: Instant = 500_000_000;
/// A wait that took this long slept; one that found something takes a tenth.
const SLEEP: Instant = 20_000;

/// Holds the calling thread's priority, and steps down under overload.
#[derive(Debug)]
pub(crate) struct Governor {
    best: Priority,
    now_real_time: bool,
    /// When it last slept, or stepped down.
    since: Instant,
}

impl Governor {
    /// Raises the calling thread as far as this process may.
    pub fn raise(now: Instant) -> Self {
        // What a thread that has stepped down falls back to.
        // SAFETY: setpriority with integer arguments; 0 is the calling thread.
        let high = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) } == 0;
        let best = match (set(true), high) {
            (true, _) => Priority::RealTime,
            (false, true) => Priority::High,
            (false, false) => Priority::Ordinary,
        };
        lock_memory();
        // Timers of ordinary threads may otherwise be 50 us late on purpose.
        // SAFETY: prctl with integer arguments.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        Self { best, now_real_time: best == Priority::RealTime, since: now }
    }

    /// The priority that was had.
    pub fn priority(&self) -> Priority {
        self.best
    }

    /// To be told of each wait, from when to when it was.
    pub fn waited(&mut self, from: Instant, until: Instant) {
        if self.best == Priority::RealTime
            && let Some(real_time) = self.decide(from, until)
        {
            self.now_real_time = set(real_time) && real_time;
        }
    }

    /// Whether to change, and to what.
    fn decide(&mut self, from: Instant, until: Instant) -> Option<bool> {
        let long = until.saturating_sub(self.since) > PATIENCE;
        let slept = until.saturating_sub(from) > SLEEP;
        let change = match self.now_real_time {
            true => (long && !slept).then_some(false),
            false => (long && slept).then_some(true),
        };
        if change.is_some() || (slept && self.now_real_time) {
            self.since = until;
        }
        change
    }
}

/// Keeps what the tool has in memory there: a kernel that reclaims what was not
/// used for a while (DAMON does, under many a virtual machine) else takes the
/// engine's own code away, and a thread at real-time priority waits for the disk.
fn lock_memory() {
    // Others have limits within which later memory could not be had at all.
    // SAFETY: asks for this process's user, and then takes flags alone.
    unsafe {
        if libc::geteuid() == 0 {
            libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT);
        }
    }
}

fn set(real_time: bool) -> bool {
    let (policy, level) = if real_time { (libc::SCHED_FIFO, 10) } else { (libc::SCHED_OTHER, 0) };
    let param = libc::sched_param { sched_priority: level };
    // SAFETY: the parameter lives over the call; 0 is the calling thread.
    unsafe {
        libc::sched_setscheduler(0, policy | libc::SCHED_RESET_ON_FORK, &raw const param) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Instant = 1_000_000;

    #[test]
    fn steps_down_when_it_never_sleeps_and_up_when_it_does() {
        let mut governor = Governor { best: Priority::RealTime, now_real_time: true, since: 0 };
        let mut wait = |from, until| {
            let change = governor.decide(from, until);
            governor.now_real_time = change.unwrap_or(governor.now_real_time);
            change
        };
        assert_eq!(wait(0, 400 * MS), None, "a long sleep");
        assert_eq!(wait(800 * MS, 800 * MS + 1_000), None, "not yet");
        assert_eq!(wait(901 * MS, 901 * MS + 1_000), Some(false));
        assert_eq!(wait(1_000 * MS, 1_001 * MS), None, "has just stepped down");
        assert_eq!(wait(1_402 * MS, 1_402 * MS), None, "has not slept");
        assert_eq!(wait(1_402 * MS, 1_403 * MS), Some(true));
        assert_eq!(wait(1_904 * MS, 1_904 * MS), Some(false));
    }
}
