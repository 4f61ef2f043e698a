//! Statistics of OpenTelemetry's histograms: explicit and exponential buckets, and summaries.

use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, SummaryDataPoint,
    exponential_histogram_data_point::Buckets,
};

/// Observations by buckets. Several points are merged.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Distribution {
    count: u64,
    sum: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    /// Lower and upper bound, and number; a bound may be infinite.
    buckets: Vec<(f64, f64, u64)>,
    /// Quantiles of a summary, which cannot be merged: the last one's.
    quantiles: Vec<(f64, f64)>,
}

impl Distribution {
    /// Adds a point with explicit bounds.
    pub fn add(&mut self, point: &HistogramDataPoint) {
        self.add_totals(point.count, point.sum, [point.min, point.max]);
        let lower = std::iter::once(f64::NEG_INFINITY).chain(point.explicit_bounds.iter().copied());
        let upper = point.explicit_bounds.iter().copied().chain(std::iter::once(f64::INFINITY));
        let bounds = lower.zip(upper).zip(&point.bucket_counts);
        self.buckets.extend(bounds.map(|((low, high), count)| (low, high, *count)));
    }

    /// Adds a point with exponential bounds: bucket `i` is from `base^i` to `base^(i+1)`, the base is `2^(2^-scale)`.
    /// <https://opentelemetry.io/docs/specs/otel/metrics/data-model/#exponentialhistogram>
    pub fn add_exponential(&mut self, point: &ExponentialHistogramDataPoint) {
        self.add_totals(point.count, point.sum, [point.min, point.max]);
        let bound = |index: i64| (index as f64 * (-f64::from(point.scale)).exp2()).exp2();
        let each = |buckets: &Option<Buckets>| -> Vec<(f64, f64, u64)> {
            let Some(buckets) = buckets else { return Vec::new() };
            let numbered = (i64::from(buckets.offset)..).zip(&buckets.bucket_counts);
            numbered.map(|(index, count)| (bound(index), bound(index + 1), *count)).collect()
        };
        self.buckets.extend(each(&point.positive));
        self.buckets.extend(each(&point.negative).iter().map(|(low, high, n)| (-high, -low, *n)));
        self.buckets.push((-point.zero_threshold, point.zero_threshold, point.zero_count));
    }

    /// Adds a summary: its quantiles are those that the program computed.
    pub fn add_summary(&mut self, point: &SummaryDataPoint) {
        self.add_totals(point.count, Some(point.sum), [None, None]);
        self.quantiles =
            point.quantile_values.iter().map(|one| (one.quantile, one.value)).collect();
    }

    fn add_totals(&mut self, count: u64, sum: Option<f64>, [min, max]: [Option<f64>; 2]) {
        self.count = self.count.saturating_add(count);
        if let Some(sum) = sum {
            *self.sum.get_or_insert(0.0) += sum;
        }
        self.min = self.min.into_iter().chain(min).reduce(f64::min);
        self.max = self.max.into_iter().chain(max).reduce(f64::max);
    }

    /// `count`, `sum`, `mean`, `min`, `max`, or a percentile such as `p99` or `p99.9`.
    pub fn statistic(&self, name: &str) -> Option<f64> {
        match name {
            "count" => Some(self.count as f64),
            "sum" => self.sum,
            "mean" => Some(self.sum? / (self.count > 0).then_some(self.count as f64)?),
            "min" => self.min.or_else(|| self.given(0.0)),
            "max" => self.max.or_else(|| self.given(1.0)),
            _ => {
                let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
                self.quantile(percent / 100.0)
            }
        }
    }

    /// A quantile that a summary contains.
    fn given(&self, share: f64) -> Option<f64> {
        let same = |own: &&(f64, f64)| (own.0 - share).abs() < 1e-9;
        self.quantiles.iter().find(same).map(|own| own.1)
    }

    /// Linear within a bucket, between its bounds and the extremes.
    fn quantile(&self, share: f64) -> Option<f64> {
        if !self.quantiles.is_empty() {
            return self.given(share);
        }
        let mut buckets: Vec<_> = self.buckets.iter().filter(|bucket| bucket.2 > 0).collect();
        // By the middle: buckets of merged points may have different bounds.
        buckets.sort_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
        let total: f64 = buckets.iter().map(|bucket| bucket.2 as f64).sum();
        let mut rest = share * total;
        for (low, high, count) in buckets {
            if rest > *count as f64 {
                rest -= *count as f64;
                continue;
            }
            // The extremes narrow the first and the last bucket, which may be infinite.
            let low = self.min.map_or(*low, |min| low.max(min));
            let high = self.max.map_or(*high, |max| high.min(max));
            // Of a bucket without an end only the bound is known.
            return Some(match (low.is_finite(), high.is_finite()) {
                (true, true) => low + (high - low) * rest / *count as f64,
                (true, false) => low,
                _ => high,
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(counts: &[u64], bounds: &[f64]) -> HistogramDataPoint {
        HistogramDataPoint {
            count: counts.iter().copied().fold(0, u64::saturating_add),
            bucket_counts: counts.to_vec(),
            explicit_bounds: bounds.to_vec(),
            ..Default::default()
        }
    }

    #[test]
    fn quantiles_are_linear_within_a_bucket_and_merge() {
        let mut all = Distribution::default();
        all.add(&point(&[0, 50, 40, 0], &[0.0, 10.0, 20.0]));
        all.add(&point(&[0, 0, 0, 10], &[0.0, 10.0, 20.0]));
        assert_eq!(all.statistic("p25"), Some(5.0));
        assert_eq!(all.statistic("p50"), Some(10.0));
        assert_eq!(all.statistic("p90"), Some(20.0));
        assert_eq!(all.statistic("p99"), Some(20.0), "the last bucket has no end");
        assert_eq!((all.statistic("count"), all.statistic("mean")), (Some(100.0), None));
        for wrong in ["p", "px", "median", "p-1x", ""] {
            assert_eq!(all.statistic(wrong), None, "{wrong}");
        }
        assert_eq!(Distribution::default().statistic("p50"), None);
    }

    #[test]
    fn exponential_buckets_have_the_bounds_of_the_specification() {
        // Scale 1: the base is the square root of 2; index 2 is from 2 to 2.83, index 3 to 4.
        let buckets = Buckets { offset: 2, bucket_counts: vec![1, 1] };
        let mut all = Distribution::default();
        all.add_exponential(&ExponentialHistogramDataPoint {
            count: 3,
            scale: 1,
            zero_count: 1,
            positive: Some(buckets),
            ..Default::default()
        });
        let p100 = all.statistic("p100").unwrap();
        assert!((p100 - 4.0).abs() < 1e-9, "{p100}");
        let p67 = all.statistic("p66.66666666666667").unwrap();
        assert!((p67 - 8f64.sqrt()).abs() < 1e-6, "{p67}");
        assert_eq!(all.statistic("p10"), Some(0.0));
    }

    #[test]
    fn extremes_of_any_input_do_not_panic() {
        let mut all = Distribution::default();
        all.add_exponential(&ExponentialHistogramDataPoint {
            count: u64::MAX,
            scale: i32::MIN,
            positive: Some(Buckets { offset: i32::MAX, bucket_counts: vec![u64::MAX; 3] }),
            negative: Some(Buckets { offset: i32::MIN, bucket_counts: vec![1] }),
            zero_threshold: f64::NAN,
            zero_count: 1,
            ..Default::default()
        });
        all.add(&point(&[u64::MAX, 1, 1], &[f64::NAN]));
        for name in ["p0", "p50", "p100", "pNaN", "pinf", "p-5", "mean"] {
            all.statistic(name);
        }
    }
}
