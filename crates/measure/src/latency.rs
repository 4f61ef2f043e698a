//! Latency histograms.

use hdrhistogram::Histogram;
use record::Times;

/// A histogram of times from 1 ns to about 27 hours with three significant digits; mean and maximum
/// are exact.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
}

const LONGEST_NS: u64 = 100_000_000_000_000;

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// An empty histogram.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_max(LONGEST_NS, 3).expect("bounds that are constant");
        Self { histogram, sum_ns: 0, max_ns: 0 }
    }

    /// Adds a time.
    pub fn record_ns(&mut self, ns: u64) {
        self.record_n_ns(ns, 1);
    }

    /// Adds a time `times` times.
    pub fn record_n_ns(&mut self, ns: u64, times: u64) {
        self.histogram.saturating_record_n(ns, times);
        self.sum_ns += u128::from(ns) * u128::from(times);
        self.max_ns = self.max_ns.max(ns);
    }

    /// The sum of both histograms.
    pub fn with(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.histogram.add(&other.histogram).expect("bounds are the same for all");
        both.sum_ns += other.sum_ns;
        both.max_ns = both.max_ns.max(other.max_ns);
        both
    }

    /// Number of recorded times.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The quantile `q` (0 to 1), in ns; 0 when empty.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        self.histogram.value_at_quantile(q).min(self.max_ns)
    }

    /// The maximum, in ns.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The statistics in units of `unit_ns` nanoseconds; `None` when empty.
    pub fn summary(&self, unit_ns: f64) -> Option<Times> {
        if self.count() == 0 {
            return None;
        }
        let at = |q| self.quantile_ns(q) as f64 / unit_ns;
        Some(Times {
            mean: self.sum_ns as f64 / self.count() as f64 / unit_ns,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            max: self.max_ns as f64 / unit_ns,
        })
    }
}

impl FromIterator<u64> for Latency {
    fn from_iter<T: IntoIterator<Item = u64>>(times: T) -> Self {
        let mut latency = Self::new();
        times.into_iter().for_each(|ns| latency.record_ns(ns));
        latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_known_times() {
        let times: Latency = (1..=1000).map(|ms| ms * 1_000_000).collect();
        let summary = times.summary(1e6).unwrap();
        assert_eq!((summary.mean, summary.max), (500.5, 1000.0));
        let (p50, p90, p95, p99) = (summary.p50, summary.p90, summary.p95, summary.p99);
        for (got, want) in [(p50, 500.0), (p90, 900.0), (p95, 950.0), (p99, 990.0)] {
            assert!((got / want - 1.0).abs() < 0.002, "{got} for {want}");
        }
    }

    #[test]
    fn nothing_has_no_figures() {
        assert!(Latency::new().summary(1e6).is_none());
    }

    #[test]
    fn what_is_beyond_the_range_still_counts() {
        let times: Latency = [0, u64::MAX].into_iter().collect();
        assert_eq!((times.count(), times.max_ns()), (2, u64::MAX));
    }

    #[test]
    fn two_make_one_of_all_their_times() {
        let [a, b, all] = [&[5, 900][..], &[70_000], &[5, 900, 70_000]]
            .map(|times| times.iter().copied().collect::<Latency>());
        assert_eq!(a.with(&b).summary(1.0), all.summary(1.0));
        assert_eq!(a.with(&b).count(), 3);
    }
}
