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

/// Over this time it is reckoned how much a thread has slept. The kernel stops
/// real-time threads that run for 0.95 s of a second, for 50 ms at a stretch, so
/// one of them that does not sleep enough steps down well before.
const WINDOW: Instant = 250_000_000;
/// Below this share, in percent, it steps down: more than the 5 % that the kernel
/// asks for.
const TOO_LITTLE: u64 = 8;
/// Above this share it steps up again.
const ENOUGH: u64 = 15;
/// A wait that took this long slept; one that found something takes a tenth.
const SLEEP: Instant = 10_000;

/// Holds the calling thread's priority, and steps down under overload.
#[derive(Debug)]
pub(crate) struct Governor {
    best: Priority,
    now_real_time: bool,
    /// When the window began.
    since: Instant,
    /// Time slept in it.
    slept: Instant,
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
        Self { best, now_real_time: best == Priority::RealTime, since: now, slept: 0 }
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
        let wait = until.saturating_sub(from);
        if wait > SLEEP {
            self.slept += wait;
        }
        let window = until.saturating_sub(self.since);
        if window < WINDOW {
            return None;
        }
        let share = 100 * self.slept / window;
        self.since = until;
        self.slept = 0;
        match self.now_real_time {
            true => (share < TOO_LITTLE).then_some(false),
            false => (share > ENOUGH).then_some(true),
        }
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

    fn governor() -> impl FnMut(Instant, Instant) -> Option<bool> {
        let best = Priority::RealTime;
        let mut governor = Governor { best, now_real_time: true, since: 0, slept: 0 };
        move |from, until| {
            let change = governor.decide(from, until);
            governor.now_real_time = change.unwrap_or(governor.now_real_time);
            change
        }
    }

    #[test]
    fn steps_down_when_it_never_sleeps_and_up_when_it_does() {
        let mut wait = governor();
        assert_eq!(wait(0, 400 * MS), None, "a long sleep");
        assert_eq!(wait(600 * MS, 600 * MS + 1_000), None, "not yet");
        assert_eq!(wait(651 * MS, 651 * MS + 1_000), Some(false));
        assert_eq!(wait(700 * MS, 800 * MS), None, "has just stepped down");
        assert_eq!(wait(902 * MS, 902 * MS), Some(true));
        assert_eq!(wait(1_152 * MS, 1_152 * MS), Some(false));
        assert_eq!(wait(1_403 * MS, 1_403 * MS), None, "has not slept");
    }

    #[test]
    fn naps_that_are_too_short_for_the_kernel_do_not_count_as_sleep_enough() {
        let mut wait = governor();
        // 20 us in each ms: 2 %.
        let naps: Vec<_> = (1..=250).map(|ms| wait(ms * MS - 20_000, ms * MS)).collect();
        assert_eq!(naps.last(), Some(&Some(false)));
        // 200 us in each ms keeps it where it is.
        let mut wait = governor();
        assert!((1..=999).all(|ms| wait(ms * MS - 200_000, ms * MS).is_none()));
    }
}
