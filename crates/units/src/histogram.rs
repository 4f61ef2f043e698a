//! Latency histograms, and the distance between two of them.

use hdrhistogram::Histogram as Buckets;

/// A histogram of times in ns up to 1,000 hours, with three significant digits. Count, mean,
/// standard deviation, minimum and maximum are exact.
#[derive(Debug, Clone)]
pub struct Histogram {
    buckets: Buckets<u64>,
    sum: f64,
    squares: f64,
    least: u64,
    most: u64,
}

/// Longer times count as this long, except in sum and maximum.
const LONGEST_NS: u64 = 3_600_000_000_000_000;

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram with three significant digits.
    pub fn new() -> Self {
        Self::with_digits(3)
    }

    /// An empty histogram with `digits` significant digits, 1 to 5. Fewer digits use less memory.
    pub fn with_digits(digits: u8) -> Self {
        // A range of a millisecond at first, which grows with the times that occur.
        let mut buckets = Buckets::new_with_bounds(1, 1 << 20, digits.clamp(1, 5))
            .expect("bounds that are constant");
        buckets.auto(true);
        Self { buckets, sum: 0.0, squares: 0.0, least: u64::MAX, most: 0 }
    }

    /// Adds a time.
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Adds a time `times` times.
    pub fn record_n(&mut self, ns: u64, times: u64) {
        // Cannot fail: the histogram resizes up to `LONGEST_NS`.
        let _ = self.buckets.record_n(ns.min(LONGEST_NS), times);
        self.sum += ns as f64 * times as f64;
        self.squares += ns as f64 * ns as f64 * times as f64;
        self.least = self.least.min(ns);
        self.most = self.most.max(ns);
    }

    /// Merges `other`, without loss: counts are added.
    pub fn add(&mut self, other: &Self) {
        let _ = self.buckets.add(&other.buckets);
        self.sum += other.sum;
        self.squares += other.squares;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    /// The sum of both histograms.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.add(other);
        both
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.buckets.len()
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
        // By rounding, the difference of equal times may be slightly negative.
        (self.squares / self.count() as f64 - mean * mean).max(0.0).sqrt()
    }

    /// The minimum in ns; 0 if empty.
    pub fn min_ns(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.least }
    }

    /// The maximum in ns; 0 if empty.
    pub fn max_ns(&self) -> u64 {
        self.most
    }

    /// The `q`-quantile in ns, `q` from 0 to 1; 0 if empty.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        // A bucket's upper end may exceed the longest time in it.
        self.buckets.value_at_quantile(q).min(self.most)
    }

    /// The share of times up to `ns`, 0 to 1.
    pub fn cdf(&self, ns: u64) -> f64 {
        if self.count() == 0 {
            return 0.0;
        }
        self.buckets.count_between(0, ns.min(self.buckets.high())) as f64 / self.count() as f64
    }

    /// Kolmogorov-Smirnov distance between two histograms, 0 to 1, to the digits they keep; 0 if
    /// either is empty.
    pub fn distance(&self, other: &Self) -> f64 {
        if self.count() == 0 || other.count() == 0 {
            return 0.0;
        }
        let mut times: Vec<u64> = [self, other]
            .iter()
            .flat_map(|one| one.buckets.iter_recorded().map(|step| step.value_iterated_to()))
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
        for step in self.buckets.iter_recorded() {
            let (low, high) = (
                self.buckets.lowest_equivalent(step.value_iterated_to()),
                step.value_iterated_to(),
            );
            let here = running.up_to(high);
            // A time of whole ns is the interval around it; the steps of both functions are
            // compared at its ends.
            worst = worst.max((cdf(high as f64 + 0.5) - here).abs());
            worst = worst.max((cdf(low as f64 - 0.5) - before).abs());
            before = here;
        }
        worst
    }

    /// Wraps a histogram of times in ns. Mean and standard deviation are those of its buckets.
    pub fn of(buckets: Buckets<u64>) -> Self {
        let (count, mean) = (buckets.len() as f64, buckets.mean());
        let deviation = buckets.stdev();
        let some = !buckets.is_empty();
        Self {
            sum: if some { mean * count } else { 0.0 },
            squares: if some { (deviation * deviation + mean * mean) * count } else { 0.0 },
            least: if some { buckets.min() } else { u64::MAX },
            most: buckets.max(),
            buckets,
        }
    }

    /// The buckets, to write to a log.
    pub fn buckets(&self) -> &Buckets<u64> {
        &self.buckets
    }
}

impl FromIterator<u64> for Histogram {
    fn from_iter<T: IntoIterator<Item = u64>>(times: T) -> Self {
        let mut histogram = Self::new();
        times.into_iter().for_each(|ns| histogram.record(ns));
        histogram
    }
}

/// Cumulative share of times, for ascending times.
struct Running<'a> {
    steps: Vec<(u64, u64)>,
    at: usize,
    seen: u64,
    of: &'a Histogram,
}

impl<'a> Running<'a> {
    fn new(of: &'a Histogram) -> Self {
        let steps = of
            .buckets
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

    fn of(times: impl IntoIterator<Item = u64>) -> Histogram {
        times.into_iter().collect()
    }

    #[test]
    fn figures_are_those_of_the_times() {
        let times = of((1..=1000).map(|i| i * 1_000_000));
        assert_eq!(
            (times.count(), times.min_ns(), times.max_ns()),
            (1000, 1_000_000, 1_000_000_000)
        );
        assert_eq!(times.mean_ns(), 500.5e6);
        assert!((times.deviation_ns() - 288.67e6).abs() < 0.01e6);
        for (q, want) in [(0.5, 500.0), (0.9, 900.0), (0.95, 950.0), (0.99, 990.0)] {
            let got = times.quantile_ns(q) as f64 / 1e6;
            assert!((got / want - 1.0).abs() < 0.002, "{got} for {want}");
        }
        let none = Histogram::new();
        assert_eq!((none.count(), none.min_ns(), none.max_ns(), none.mean_ns()), (0, 0, 0, 0.0));
    }

    #[test]
    fn merging_is_as_recording_together() {
        let (one, two) = (of(1..500), of((500..100_000).step_by(7)));
        let both = one.with(&two);
        let together = of((1..500).chain((500..100_000).step_by(7)));
        let figures =
            |of: &Histogram| (of.count(), of.mean_ns(), of.deviation_ns(), of.quantile_ns(0.9));
        assert_eq!(figures(&both), figures(&together));
        assert_eq!(both.distance(&together), 0.0);
        let mut many = Histogram::new();
        many.record_n(7, 3);
        assert_eq!(figures(&many), figures(&of([7, 7, 7])));
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
    fn times_beyond_the_range_still_count() {
        let times = of([u64::MAX, 0]);
        assert_eq!((times.count(), times.max_ns()), (2, u64::MAX));
    }
}
