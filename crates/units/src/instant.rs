//! A time on the run's clock, and arithmetic of times and spans.

use crate::Span;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// A time on a monotonic clock, in ns since that clock's start: CLOCK_MONOTONIC in a real run, any
/// number in a test. Serialised as that number.
///
/// Arithmetic saturates: there is no time before [`Instant::START`], and [`Instant::NEVER`] plus a
/// span is still never. A wrapped time would be in the past, so a timer with it would fire at once.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Instant(u64);

impl Instant {
    /// The start of the clock.
    pub const START: Self = Self(0);
    /// Later than any other time, 584 years after the start.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time `ns` nanoseconds after the clock's start.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the clock's start.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The span since the clock's start.
    pub const fn since_start(self) -> Span {
        Span::from_ns(self.0)
    }

    /// The span since `earlier`; `None` if that is later than this time.
    pub const fn checked_since(self, earlier: Self) -> Option<Span> {
        match self.0.checked_sub(earlier.0) {
            Some(ns) => Some(Span::from_ns(ns)),
            None => None,
        }
    }

    /// The time `span` before this one; `None` if that is before the clock's start.
    pub const fn checked_sub(self, span: Span) -> Option<Self> {
        match self.0.checked_sub(span.as_ns()) {
            Some(ns) => Some(Self(ns)),
            None => None,
        }
    }

    /// Nanoseconds from `origin` to this time, negative if this is earlier: an offset in a table.
    /// Limited to what the type holds.
    pub const fn ns_from(self, origin: Self) -> i64 {
        let ns = self.0 as i128 - origin.0 as i128;
        if ns > i64::MAX as i128 {
            i64::MAX
        } else if ns < i64::MIN as i128 {
            i64::MIN
        } else {
            ns as i64
        }
    }

    /// Seconds from `origin` to this time, negative if this is earlier.
    pub const fn seconds_from(self, origin: Self) -> f64 {
        self.ns_from(origin) as f64 / 1e9
    }

    /// The time with this offset from this one, in ns: the inverse of [`Instant::ns_from`].
    pub const fn at_offset(self, ns: i64) -> Self {
        Self(self.0.saturating_add_signed(ns))
    }
}

impl Sub for Instant {
    type Output = Span;
    /// The span since `earlier`; zero if that is later.
    fn sub(self, earlier: Self) -> Span {
        Span::from_ns(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Instant {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.as_ns()))
    }
}

impl Sub<Span> for Instant {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.as_ns()))
    }
}

impl AddAssign<Span> for Instant {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::from_ns(self.as_ns().saturating_add(other.as_ns()))
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::from_ns(self.as_ns().saturating_sub(other.as_ns()))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Span {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Self>>(spans: I) -> Self {
        spans.fold(Self::ZERO, Self::add)
    }
}

impl Mul<u64> for Span {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self::from_ns(self.as_ns().saturating_mul(times))
    }
}

impl Mul<Span> for u64 {
    type Output = Span;
    fn mul(self, span: Span) -> Span {
        span * self
    }
}

impl Div<u64> for Span {
    type Output = Self;
    /// Rounds down to a whole ns.
    ///
    /// # Panics
    /// If `parts` is 0.
    fn div(self, parts: u64) -> Self {
        Self::from_ns(self.as_ns() / parts)
    }
}

impl From<Duration> for Span {
    /// The longest span if the duration is longer.
    fn from(duration: Duration) -> Self {
        Self::from_ns(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_nanos(span.as_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_ms(1);

    #[test]
    fn times_and_spans_add_up() {
        let (early, late) = (Instant::from_ns(1_000_000), Instant::from_ns(3_500_000));
        assert_eq!(late - early, Span::from_ns(2_500_000));
        assert_eq!(early + (late - early), late);
        assert_eq!(late - (late - early), early);
        assert_eq!(MS * 5 / 2, Span::from_ns(2_500_000));
        assert_eq!(MS + MS - MS * 2, Span::ZERO);
        assert_eq!([MS, MS * 2].into_iter().sum::<Span>(), MS * 3);
        let mut at = early;
        at += MS;
        assert_eq!(at.since_start(), MS * 2);
        assert_eq!(Duration::from(MS), Duration::from_millis(1));
        assert_eq!(Span::from(Duration::from_millis(1)), MS);
        assert_eq!([MS, MS, MS].into_iter().sum::<Span>(), MS * 3);
    }

    #[test]
    fn an_offset_has_a_sign_and_leads_back() {
        let (early, late) = (Instant::from_ns(1_000_000), Instant::from_ns(3_500_000));
        assert_eq!((late.ns_from(early), early.ns_from(late)), (2_500_000, -2_500_000));
        assert_eq!(early.seconds_from(late), -0.0025);
        assert_eq!(late.at_offset(early.ns_from(late)), early);
        assert_eq!(Instant::START.at_offset(-1), Instant::START);
        assert_eq!(Instant::NEVER.at_offset(1), Instant::NEVER);
        assert_eq!(Instant::NEVER.ns_from(Instant::START), i64::MAX);
        assert_eq!(Instant::START.ns_from(Instant::NEVER), i64::MIN);
    }

    #[test]
    fn nothing_wraps_around() {
        assert_eq!(Instant::NEVER + MS, Instant::NEVER);
        assert_eq!(Instant::START - MS, Instant::START);
        assert_eq!(Instant::START - Instant::NEVER, Span::ZERO);
        assert_eq!(Instant::START.checked_since(Instant::NEVER), None);
        assert_eq!(Instant::START.checked_sub(MS), None);
        assert_eq!(MS - MS * 2, Span::ZERO);
        assert_eq!(Span::MAX + MS, Span::MAX * 2);
        assert_eq!(Span::from(Duration::MAX), Span::MAX);
    }

    #[test]
    fn a_time_is_a_number_in_files() {
        let at = Instant::from_ns(u64::MAX - 1);
        let text = serde_json::to_string(&at).unwrap();
        assert_eq!(text, "18446744073709551614");
        assert_eq!(serde_json::from_str::<Instant>(&text).unwrap(), at);
    }
}
