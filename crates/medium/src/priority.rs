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

/// A real-time thread that has not slept for this long steps down: the kernel
/// stops one that runs for 0.95 s of a second, for 50 ms at a stretch.
const PATIENCE: Instant = 500_000_000;

/// Holds the calling thread's priority, and steps down under overload.
#[derive(Debug)]
pub(crate) struct Governor {
    best: Priority,
    now_real_time: bool,
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
        // Timers of ordinary threads may otherwise be 50 us late on purpose.
        // SAFETY: prctl with integer arguments.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        Self { best, now_real_time: best == Priority::RealTime, slept: now }
    }

    /// The priority that was had.
    pub fn priority(&self) -> Priority {
        self.best
    }

    /// To be told after each wait whether the thread slept.
    pub fn waited(&mut self, slept: bool, now: Instant) {
        if self.best != Priority::RealTime {
            return;
        }
        if slept {
            self.slept = now;
            if !self.now_real_time {
                self.now_real_time = set(true);
            }
        } else if self.now_real_time && now.saturating_sub(self.slept) > PATIENCE {
            self.now_real_time = !set(false);
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
