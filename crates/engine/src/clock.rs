//! The clock of all nodes.

use link::Instant;

/// Current CLOCK_MONOTONIC time in nanoseconds, the clock of all nodes.
pub fn monotonic_now() -> Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec that lives over the call; this clock exists everywhere.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
