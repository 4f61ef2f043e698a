//! Latency histograms, and the distance between two of them.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A histogram of times in ns up to 1,000 hours, with three significant digits. Count, mean,
/// standard deviation, minimum and maximum are exact.
#[derive(Debug, Clone)]
pub struct Spread {
    histogram: Histogram<u64>,
    sum: f64,
    squares: f64,
    least: u64,
    most: u64,
}

/// Summary of a histogram, in us.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpreadSummary {
    /// Number of times.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// Minimum.
    pub min: f64,
    /// 1st percentile.
    pub p1: f64,
    /// 5th percentile.
    pub p5: f64,
    /// 25th percentile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// Maximum.
    pub max: f64,
}

const LONGEST_NS: u64 = 3_600_000_000_000_000;

impl Default for Spread {
    fn default() -> Self {
        Self::new()
    }
}

impl Spread {
    /// An empty histogram with three significant digits.
    pub fn new() -> Self {
        Self::with_digits(3)
    }

    /// An empty histogram with `digits` significant digits, 1 to 5. Fewer digits use less memory.
    pub fn with_digits(digits: u8) -> Self {
        let mut histogram = Histogram::new_with_bounds(1, 1 << 20, digits.clamp(1, 5))
            .expect("bounds that are constant");
        histogram.auto(true);
        Self { histogram, sum: 0.0, squares: 0.0, least: u64::MAX, most: 0 }
    }

    /// Adds a time.
    pub fn record(&mut self, ns: u64) {
        let ns = ns.min(LONGEST_NS);
        // Cannot fail: the histogram resizes up to `LONGEST_NS`.
        let _ = self.histogram.record(ns);
        self.sum += ns as f64;
        self.squares += ns as f64 * ns as f64;
        self.least = self.least.min(ns);
        self.most = self.most.max(ns);
    }

    /// Merges `other`, without loss: counts are added.
    pub fn add(&mut self, other: &Self) {
        let _ = self.histogram.add(&other.histogram);
        self.sum += other.sum;
        self.squares += other.squares;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The mean in ns; 0 if empty.
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum / self.count() as f64 }
    }

    /// The standard deviation in ns; 0 if empty.
    pub fn deviation_ns(&self) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        let mean = self.mean_ns();
        (self.squares / self.count() as f64 - mean * mean).max(0.0).sqrt()
    }

    /// The `q`-quantile in ns, `q` from 0 to 1; 0 if empty.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        self.histogram.value_at_quantile(q).min(self.most)
    }

    /// The share of times up to `ns`, 0 to 1.
    pub fn cdf(&self, ns: u64) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        self.histogram.count_between(0, ns.min(self.histogram.high())) as f64 / self.count() as f64
    }

    /// Kolmogorov-Smirnov distance between two histograms, 0 to 1, to the digits they keep; 0 if
    /// either is empty.
    pub fn distance(&self, other: &Self) -> f64 {
        if self.count() == 0 || other.count() == 0 {
            return 0.0;
        }
        let mut times: Vec<u64> = [self, other]
            .iter()
            .flat_map(|spread| {
                spread.histogram.iter_recorded().map(|step| step.value_iterated_to())
            })
            .collect();
        times.sort_unstable();
        times.dedup();
        let mut one = Running::new(self);
        let mut two = Running::new(other);
        times.iter().map(|ns| (one.up_to(*ns) - two.up_to(*ns)).abs()).fold(0.0, f64::max)
    }

    /// Kolmogorov-Smirnov distance from a cumulative distribution function of times in ns.
    pub fn distance_from(&self, cdf: impl Fn(f64) -> f64) -> f64 {
        let mut running = Running::new(self);
        let mut before = 0.0;
        let mut worst: f64 = 0.0;
        for step in self.histogram.iter_recorded() {
            let (low, high) = (
                self.histogram.lowest_equivalent(step.value_iterated_to()),
                step.value_iterated_to(),
            );
            let here = running.up_to(high);
            worst = worst.max((cdf(high as f64 + 0.5) - here).abs());
            worst = worst.max((cdf(low as f64 - 0.5) - before).abs());
            before = here;
        }
        worst
    }

    /// Wraps a histogram of times in ns. Mean and standard deviation are those of its buckets.
    pub fn of(histogram: Histogram<u64>) -> Self {
        let (count, mean) = (histogram.len() as f64, histogram.mean());
        let deviation = histogram.stdev();
        let some = !histogram.is_empty();
        Self {
            sum: if some { mean * count } else { 0.0 },
            squares: if some { (deviation * deviation + mean * mean) * count } else { 0.0 },
            least: if some { histogram.min() } else { u64::MAX },
            most: histogram.max(),
            histogram,
        }
    }

    /// The histogram, to write to a log.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// The summary.
    pub fn summary(&self) -> SpreadSummary {
        let at = |q: f64| self.quantile_ns(q) as f64 / 1e3;
        SpreadSummary {
            count: self.count(),
            mean: self.mean_ns() / 1e3,
            deviation: self.deviation_ns() / 1e3,
            min: if self.count() == 0 { 0.0 } else { self.least as f64 / 1e3 },
            p1: at(0.01),
            p5: at(0.05),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            max: self.most as f64 / 1e3,
        }
    }
}

/// Cumulative share of times, for ascending times.
struct Running<'a> {
    steps: Vec<(u64, u64)>,
    at: usize,
    seen: u64,
    of: &'a Spread,
}

impl<'a> Running<'a> {
    fn new(of: &'a Spread) -> Self {
        let steps = of
            .histogram
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
            .collect();
        Self { steps, at: 0, seen: 0, of }
    }

    fn up_to(&mut self, ns: u64) -> f64 {
        while let Some((_, count)) = self.steps.get(self.at).filter(|(value, _)| *value <= ns) {
            self.seen += count;
            self.at += 1;
        }
        self.seen as f64 / self.of.count().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Spread {
        let mut spread = Spread::new();
        times.into_iter().for_each(|ns| spread.record(ns));
        spread
    }

    #[test]
    fn figures_are_those_of_the_times() {
        let spread = of((1..=1000).map(|i| i * 1_000));
        let summary = spread.summary();
        assert_eq!((summary.count, summary.min, summary.max), (1000, 1.0, 1000.0));
        assert_eq!(summary.mean, 500.5);
        assert!((summary.p99 - 990.0).abs() < 1.0);
        assert!((summary.deviation - 288.67).abs() < 0.01);
        assert_eq!(Spread::new().summary(), SpreadSummary::default());
    }

    #[test]
    fn merging_is_as_recording_together() {
        let (one, two) = (of(1..500), of((500..100_000).step_by(7)));
        let mut both = one.clone();
        both.add(&two);
        let together = of((1..500).chain((500..100_000).step_by(7)));
        assert_eq!(both.summary(), together.summary());
        assert_eq!(both.distance(&together), 0.0);
    }

    #[test]
    fn distances_are_those_of_the_shares() {
        assert_eq!(of(0..1000).distance(&of(0..1000)), 0.0);
        assert_eq!(of(0..10).distance(&of(1_000..1_010)), 1.0);
        // Half of them are 500 ns later.
        let apart = of(0..1000).distance(&of(500..1500));
        assert!((apart - 0.5).abs() < 0.01, "{apart}");
        let uniform = of(0..1000).distance_from(|ns| (ns / 1000.0).clamp(0.0, 1.0));
        assert!(uniform < 0.002, "{uniform}");
        let wrong = of(0..1000).distance_from(|ns| (ns / 2000.0).clamp(0.0, 1.0));
        assert!((wrong - 0.5).abs() < 0.01, "{wrong}");
    }

    #[test]
    fn times_beyond_all_measure_do_no_harm() {
        let spread = of([u64::MAX, 0]);
        assert_eq!(spread.count(), 2);
        assert!(spread.summary().max > 1e9);
    }
}
