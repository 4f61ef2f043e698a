//! Short forms of times, for tests.

use units::{Instant, Span};

/// The time `ns` after the clock's start.
pub(crate) const fn at(ns: u64) -> Instant {
    Instant::from_ns(ns)
}

/// A span of `ns`.
pub(crate) const fn span(ns: u64) -> Span {
    Span::from_ns(ns)
}
