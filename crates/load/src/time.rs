//! Times and durations of loads and devices.

/// A time or a duration on CLOCK_MONOTONIC, in ns.
pub type Nanos = u64;

/// One second.
pub(crate) const SECOND: Nanos = 1_000_000_000;
