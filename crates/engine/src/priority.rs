//! Scheduling priority of the engine's thread, above the programs under test.

use serde::{Deserialize, Serialize};
use units::{Instant, Span};

/// Scheduling of the engine's thread, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// SCHED_FIFO: before every ordinary thread.
    RealTime,
    /// Nice -20: a large share of CPU time, but it may wait for milliseconds.
    High,
    /// Default scheduling: the only one for an unprivileged user.
    Ordinary,
}

impl Priority {
    /// Name of the scheduling, as in `run.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RealTime => "real_time",
            Self::High => "high",
            Self::Ordinary => "ordinary",
        }
    }
}

/// Averaging window of a thread's run time. The kernel stops real-time threads that run for
/// 0.95 s of a second, for 50 ms at a time. A thread close to that limit lowers its
/// priority first.
const WINDOW: Span = Span::from_ms(250);
/// From this share of run time, in percent, the thread lowers its priority.
/// A little below the kernel's 95 % (decision 18).
const TOO_MUCH: u64 = 92;
/// With more than this share of wait time, in percent, it raises its priority again. Low
/// run time is no criterion: an ordinary thread also has it while others run.
const ENOUGH: u64 = 15;

/// Sets the calling thread's priority, and lowers it under overload.
#[derive(Debug)]
pub(crate) struct Governor {
    best: Priority,
    now_real_time: bool,
    /// Start of the window.
    since: Instant,
    /// Run time of the thread at that time.
    ran: Span,
    /// Wait time since then.
    waited: Span,
}

impl Governor {
    /// Raises the calling thread's priority as far as this process may.
    pub fn raise(now: Instant) -> Self {
        // Fallback of a thread that has lowered its priority.
        // SAFETY: setpriority with integer arguments; 0 is the calling thread.
        let high = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) } == 0;
        let best = match (set(true), high) {
            (true, _) => Priority::RealTime,
            (false, true) => Priority::High,
            (false, false) => Priority::Ordinary,
        };
        lock_memory();
        // Otherwise the kernel may delay timers of ordinary threads by 50 us.
        // SAFETY: prctl with integer arguments.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        let now_real_time = best == Priority::RealTime;
        Self { best, now_real_time, since: now, ran: clock::thread_time(), waited: Span::ZERO }
    }

    /// The highest priority that this process obtained.
    pub fn priority(&self) -> Priority {
        self.best
    }

    /// Call this after each wait, with its start and end.
    pub fn waited(&mut self, from: Instant, until: Instant) {
        self.waited += until - from;
        let window = until - self.since;
        if self.best != Priority::RealTime || window < WINDOW {
            return;
        }
        let ran = clock::thread_time();
        let change = self.decide(window, ran - self.ran);
        (self.since, self.ran, self.waited) = (until, ran, Span::ZERO);
        if let Some(real_time) = change {
            self.now_real_time = set(real_time) && real_time;
        }
    }

    /// Whether and how to change after a window in which the thread `ran` for this time.
    fn decide(&self, window: Span, ran: Span) -> Option<bool> {
        match self.now_real_time {
            true => (ran * 100 >= window * TOO_MUCH).then_some(false),
            false => (self.waited * 100 > window * ENOUGH).then_some(true),
        }
    }
}

/// Locks this process's memory. Otherwise a kernel that reclaims unused pages (DAMON does,
/// in many virtual machines) may evict the engine's code, and a real-time thread then waits
/// for the disk.
fn lock_memory() {
    // Other users have limits, and later allocations could fail.
    // SAFETY: reads this process's user, and then passes flags only.
    unsafe {
        if libc::geteuid() == 0 {
            libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT);
        }
    }
}

fn set(real_time: bool) -> bool {
    // Threads and programs that this one starts are ordinary again: SCHED_RESET_ON_FORK.
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

    fn decides(now_real_time: bool, ran: u64, waited: u64) -> Option<bool> {
        let best = Priority::RealTime;
        let governor = Governor {
            best,
            now_real_time,
            since: Instant::START,
            ran: Span::ZERO,
            waited: Span::from_ms(waited),
        };
        governor.decide(Span::from_ms(250), Span::from_ms(ran))
    }

    #[test]
    fn steps_down_before_the_kernel_stops_it() {
        assert_eq!(decides(true, 250, 0), Some(false));
        // Sleeps of 20 us per ms: it runs for 98 %.
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
        let before = clock::thread_time();
        let mut sum = 0u64;
        (0..100_000u64).for_each(|i| sum = std::hint::black_box(sum ^ i));
        assert!(clock::thread_time() > before);
    }
}
