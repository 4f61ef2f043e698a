//! The clock of a run.

/// A time or duration on CLOCK_MONOTONIC, in nanoseconds.
pub type Nanos = u64;

/// One millisecond.
pub(crate) const MILLISECOND: Nanos = 1_000_000;
/// One second.
pub(crate) const SECOND: Nanos = 1_000 * MILLISECOND;

/// The current time. All nodes of a host share this clock, so you can subtract times of different
/// programs.
pub fn monotonic_now() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is local and writable; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as Nanos * SECOND + time.tv_nsec as Nanos
}
