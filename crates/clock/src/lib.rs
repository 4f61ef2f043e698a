//! The clocks of this machine. No other crate reads them, so a crate without an arrow to this one
//! in ARCHITECTURE.md runs in any time that its caller passes.
//!
//! All times are on CLOCK_MONOTONIC: it is never set, and all network namespaces share it, so you
//! can subtract times of programs in different nodes.

use units::{Instant, Span};

/// The current time.
pub fn now() -> Instant {
    Instant::from_ns(now_ns())
}

/// The current time in ns, for code that computes with plain numbers.
pub fn now_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time that the calling thread has used.
pub fn thread_time() -> Span {
    Span::from_ns(read(libc::CLOCK_THREAD_CPUTIME_ID))
}

/// How far CLOCK_REALTIME, the time since 1970, is ahead of CLOCK_MONOTONIC. It changes when
/// somebody or NTP sets the machine's clock.
pub fn realtime_offset() -> Span {
    let (realtime, monotonic) = both();
    Span::from_ns(realtime.saturating_sub(monotonic))
}

/// Converts a past event's time, in ns since 1970 (the kernel's socket timestamps, for example),
/// by the current offset of the two clocks. The result is never before the event, as long as the clock
/// is not set, and never later than `now`.
pub fn from_realtime(ns: u64, now: Instant) -> Instant {
    let (realtime, monotonic) = both();
    now.min(Instant::from_ns(monotonic) - Span::from_ns(realtime.saturating_sub(ns)))
}

/// CLOCK_REALTIME and CLOCK_MONOTONIC at the same time, in ns. The monotonic clock is read last: a
/// converted time is late by the time between the two reads, and never before the event. If the CPU was
/// taken away between them, they are read again.
fn both() -> (u64, u64) {
    let pair = || {
        let before = now_ns();
        let realtime = read(libc::CLOCK_REALTIME);
        let after = now_ns();
        (after - before, (realtime, after))
    };
    let mut best = pair();
    for _ in 1..READINGS {
        if best.0 <= CLOSE_NS {
            break;
        }
        best = best.min(pair());
    }
    best.1
}

/// Most readings of both clocks, and the duration of one that is good enough.
const READINGS: u32 = 5;
const CLOSE_NS: u64 = 1_000;

/// Sleeps until `at`. Returns slightly late, by the timer slack of the thread (prctl(2),
/// PR_SET_TIMERSLACK; 50 us by default) and its wait for a CPU.
pub fn sleep_until(at: Instant) {
    let until = timespec(at.since_start());
    loop {
        // SAFETY: `until` lives over the call; an absolute sleep needs no remainder.
        let result = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const until,
                std::ptr::null_mut(),
            )
        };
        // A signal ends a sleep early.
        if result != libc::EINTR {
            return;
        }
    }
}

/// A span as the kernel's calls take it.
pub fn timespec(span: Span) -> libc::timespec {
    let ns = span.as_ns();
    libc::timespec { tv_sec: (ns / SECOND) as libc::time_t, tv_nsec: (ns % SECOND) as libc::c_long }
}

/// Nanoseconds of a time that the kernel reports; it is not negative.
pub fn timespec_ns(time: libc::timespec) -> u64 {
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours and writable. The call cannot fail: the three clocks exist
    // since Linux 2.6.12.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    timespec_ns(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn a_sleep_ends_at_its_time_or_later() {
        let at = now() + Span::from_ms(2);
        sleep_until(at);
        assert!(now() >= at);
        sleep_until(Instant::from_ns(0));
    }

    #[test]
    fn a_wall_clock_time_becomes_one_between_the_readings_around_it() {
        let before = now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let after = now();
        let at = from_realtime(wall, after);
        assert!(at <= after);
        // What failed before: time between the reading of `after` and the conversion came off. NTP may
        // change the rate by 500 ppm (adjtimex(2)), so a us is left for it.
        sleep_until(now() + Span::from_ms(1));
        let later = from_realtime(wall, after);
        assert!(
            [at, later].iter().all(|at| *at + Span::from_us(1) >= before),
            "{at:?} {later:?} {before:?}"
        );
        assert_eq!(from_realtime(u64::MAX, after), after, "a clock that was set back");
        let offset = realtime_offset().as_ns();
        assert!(wall.abs_diff(after.as_ns() + offset) < 1_000_000_000);
    }

    #[test]
    fn a_span_is_the_same_after_a_round_trip() {
        for ns in [0, 1, 999_999_999, 1_000_000_000, u64::from(u32::MAX) * SECOND + 7] {
            assert_eq!(timespec_ns(timespec(Span::from_ns(ns))), ns);
        }
    }

    #[test]
    fn cpu_time_does_not_pass_while_a_thread_sleeps() {
        let (begin, cpu) = (now(), thread_time());
        sleep_until(begin + Span::from_ms(20));
        assert!(thread_time() - cpu < now() - begin);
    }
}
