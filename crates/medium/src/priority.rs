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

/// Over this time it is reckoned how long a thread has run. The kernel stops
/// real-time threads that run for 0.95 s of a second, for 50 ms at a stretch, so
/// one of them that runs nearly as much steps down before.
const WINDOW: Instant = 250_000_000;
/// From this share, in percent, it steps down.
const TOO_MUCH: u64 = 92;
/// When it has waited for more than this share it steps up again. Not when it has
/// run for less: an ordinary thread does, because others do.
const ENOUGH: u64 = 15;

/// Holds the calling thread's priority, and steps down under overload.
#[derive(Debug)]
pub(crate) struct Governor {
    best: Priority,
    now_real_time: bool,
    /// When the window began.
    since: Instant,
    /// What the thread had run by then.
    ran: Instant,
    /// Time waited since then.
    waited: Instant,
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
        let now_real_time = best == Priority::RealTime;
        Self { best, now_real_time, since: now, ran: run_time(), waited: 0 }
    }

    /// The priority that was had.
    pub fn priority(&self) -> Priority {
        self.best
    }

    /// To be told of each wait, from when to when it was.
    pub fn waited(&mut self, from: Instant, until: Instant) {
        self.waited += until.saturating_sub(from);
        let window = until.saturating_sub(self.since);
        if self.best != Priority::RealTime || window < WINDOW {
            return;
        }
        let ran = run_time();
        let change = self.decide(window, ran - self.ran);
        (self.since, self.ran, self.waited) = (until, ran, 0);
        if let Some(real_time) = change {
            self.now_real_time = set(real_time) && real_time;
        }
    }

    /// Whether to change, and to what, after a window in which the thread `ran` for
    /// so long.
    fn decide(&self, window: Instant, ran: Instant) -> Option<bool> {
        match self.now_real_time {
            true => (100 * ran >= TOO_MUCH * window).then_some(false),
            false => (100 * self.waited > ENOUGH * window).then_some(true),
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

/// The processor time of the calling thread, as the kernel counts it.
fn run_time() -> Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec that lives over the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
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

    fn decides(now_real_time: bool, ran: u64, waited: u64) -> Option<bool> {
        let best = Priority::RealTime;
        let governor = Governor { best, now_real_time, since: 0, ran: 0, waited: waited * MS };
        governor.decide(250 * MS, ran * MS)
    }

    #[test]
    fn steps_down_before_the_kernel_stops_it() {
        assert_eq!(decides(true, 250, 0), Some(false));
        // Naps of 20 us in each ms: it runs for 98 %.
        assert_eq!(decides(true, 245, 5), Some(false));
        assert_eq!(decides(true, 225, 25), None);
    }

    #[test]
    fn steps_up_when_it_waits_and_not_when_others_run() {
        assert_eq!(decides(false, 100, 150), Some(true));
        assert_eq!(decides(false, 125, 2), None);
    }

    #[test]
    fn a_thread_that_works_has_run() {
        let before = run_time();
        let mut sum = 0u64;
        (0..100_000u64).for_each(|i| sum = std::hint::black_box(sum ^ i));
        assert!(run_time() > before);
    }
}
