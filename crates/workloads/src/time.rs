//! Times and durations of programs.

/// A time or duration on CLOCK_MONOTONIC, in nanoseconds.
pub type Nanos = u64;

/// One millisecond.
pub(crate) const MILLISECOND: Nanos = 1_000_000;
/// One second.
pub(crate) const SECOND: Nanos = 1_000 * MILLISECOND;
