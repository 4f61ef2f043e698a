//! The run's clock.

/// A moment or a span on CLOCK_MONOTONIC, in nanoseconds.
pub type Nanos = u64;

/// One millisecond.
pub(crate) const MILLISECOND: Nanos = 1_000_000;
/// One second.
pub(crate) const SECOND: Nanos = 1_000 * MILLISECOND;

/// The present moment. All nodes of one host share this clock, so times of
/// different programs may be subtracted.
pub fn monotonic_now() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours and writable; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as Nanos * SECOND + time.tv_nsec as Nanos
}
