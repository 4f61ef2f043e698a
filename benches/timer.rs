//! The machine's own limit for timely frames: wake-up lateness of a thread that only sleeps until
//! given times.

use crate::load::{Cpu, pin_to};
use std::time::Duration;
use units::Span;

/// Wake-up lateness, in us.
pub struct Lateness {
    pub p50: f64,
    pub p99: f64,
}

/// Sleeps until absolute times, `rate` per second, for `lasts`, on the first CPU and, if permitted,
/// with real-time priority.
pub fn sleep(rate: u32, lasts: Duration) -> Lateness {
    let work = move || {
        pin_to(Cpu::First);
        let param = libc::sched_param { sched_priority: 10 };
        // SAFETY: the parameter lives over the call; 0 is the calling thread.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) };
        let step = Span::from_s(1) / u64::from(rate);
        let begin = clock::now();
        let times = (1..=lasts.as_nanos() as u64 / step.as_ns()).map(|n| begin + step * n);
        let mut late: Vec<f64> = times
            .map(|until| {
                clock::sleep_until(until);
                (clock::now() - until).as_ns() as f64 / 1e3
            })
            .collect();
        late.sort_by(f64::total_cmp);
        let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize];
        Lateness { p50: at(0.5), p99: at(0.99) }
    };
    std::thread::spawn(work).join().unwrap_or(Lateness { p50: f64::NAN, p99: f64::NAN })
}
