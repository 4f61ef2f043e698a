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
            _ => self.quantile(percent(name)? / 100.0),
        }
    }

    /// The buckets that are not empty in order; those of several points with the same bounds as one.
    fn merged(&self) -> Vec<(f64, f64, u64)> {
        let mut buckets: Vec<_> = self.buckets.iter().filter(|bucket| bucket.2 > 0).collect();
        buckets.sort_by(|a, b| {
            let middle = (a.0 + a.1).total_cmp(&(b.0 + b.1));
            middle.then(a.0.total_cmp(&b.0)).then(a.1.total_cmp(&b.1))
        });
        let mut merged: Vec<(f64, f64, u64)> = Vec::new();
        for (low, high, count) in buckets {
            match merged.last_mut().filter(|last| (last.0, last.1) == (*low, *high)) {
                Some(last) => last.2 = last.2.saturating_add(*count),
                None => merged.push((*low, *high, *count)),
            }
        }
        merged
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
        let buckets = self.merged();
        let total: f64 = buckets.iter().map(|bucket| bucket.2 as f64).sum();
        let mut rest = share * total;
        for (low, high, count) in buckets {
            if rest > count as f64 {
                rest -= count as f64;
                continue;
            }
            // Not beyond the bucket: other points may be without extremes.
            let (least, most) = (low, high);
            let low = self.min.map_or(least, |min| least.max(min.min(most)));
            let high = self.max.map_or(most, |max| most.min(max.max(low)));
            // Of a bucket without an end only the bound is known.
            return Some(match (low.is_finite(), high.is_finite()) {
                (true, true) => low + (high - low) * rest / count as f64,
                (true, false) => low,
                _ => high,
            });
        }
        None
    }
}

/// Whether [`Distribution::statistic`] has a statistic of this name.
pub(super) fn is_statistic(name: &str) -> bool {
    matches!(name, "count" | "sum" | "mean" | "min" | "max") || percent(name).is_some()
}

/// The percentage of a percentile such as `p99.9`, from 0 to 100.
fn percent(name: &str) -> Option<f64> {
    let percent = name.strip_prefix('p')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent)
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
    use proptest::prelude::*;

    /// Points of one or several programs, of which some report their extremes.
    fn any_points() -> impl Strategy<Value = Vec<HistogramDataPoint>> {
        let one = (prop::collection::vec(0..5_u64, 4), any::<bool>());
        let points = prop::collection::vec(one, 1..4);
        points.prop_map(|points| {
            let bounds = [0.0, 10.0, 20.0];
            let ends = [f64::NEG_INFINITY, 0.0, 10.0, 20.0, f64::INFINITY];
            let of = |(counts, has_extremes): (Vec<u64>, bool)| {
                let filled = || (0..4).filter(|bucket| counts[*bucket] > 0);
                // In the middle of the outermost buckets that have something.
                let inside = |bucket: usize| match bucket {
                    0 => -5.0,
                    3 => 25.0,
                    _ => f64::midpoint(ends[bucket], ends[bucket + 1]),
                };
                let extremes = has_extremes.then(|| (filled().next(), filled().next_back()));
                let (min, max) = extremes.unwrap_or_default();
                HistogramDataPoint {
                    min: min.map(inside),
                    max: max.map(inside),
                    ..point(&counts, &bounds)
                }
            };
            points.into_iter().map(of).collect()
        })
    }

    proptest! {
        /// Each percentile is in the bucket that holds that share of all observations.
        #[test]
        fn percentiles_rise_and_stay_in_their_bucket(points in any_points()) {
            let mut all = Distribution::default();
            points.iter().for_each(|point| all.add(point));
            let count = |bucket: usize| points.iter().map(|p| p.bucket_counts[bucket]).sum::<u64>();
            let total: u64 = (0..4).map(count).sum();
            prop_assert_eq!(all.statistic("count"), Some(total as f64));
            let mut last = f64::NEG_INFINITY;
            for percent in 0..=100_u32 {
                let found = all.statistic(&format!("p{percent}"));
                prop_assert_eq!(found.is_some(), total > 0);
                let Some(found) = found else { continue };
                prop_assert!(found >= last, "p{percent}: {found} after {last}");
                last = found;
                let rank = f64::from(percent) / 100.0 * total as f64;
                let below = |bucket: usize| (0..=bucket).map(count).sum::<u64>() as f64 >= rank;
                let bucket = (0..4).find(|b| count(*b) > 0 && below(*b)).unwrap();
                let (low, high) = [(-5.0, 0.0), (0.0, 10.0), (10.0, 20.0), (20.0, 25.0)][bucket];
                prop_assert!((low..=high).contains(&found), "p{percent} of {found} in {bucket}");
            }
        }
    }
}
