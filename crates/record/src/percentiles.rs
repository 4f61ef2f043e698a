//! Percentiles over operations of which some have no time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Histogram;

/// Percentiles over all scheduled operations, in us. Unanswered operations rank above all
/// answers; a percentile among them has no value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// The median.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    pub p99_9: Option<f64>,
    /// The maximum.
    pub max: Option<f64>,
}

impl Percentiles {
    /// Percentiles over `all` operations, of which those in `times` have a time.
    pub fn of(times: &Histogram, all: u64) -> Self {
        let at = |q| Self::at(times, all, q);
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p99_9: at(0.999), max: at(1.0) }
    }

    /// The quantile `q` (0 to 1) over `all` operations, in us; None if it falls on an
    /// operation without a time.
    pub fn at(times: &Histogram, all: u64, q: f64) -> Option<f64> {
        // The rank among all operations; those with a time have the first ranks.
        let rank = (q * all as f64).ceil().max(1.0);
        // Half a rank less: a rounded quotient may belong to the next rank.
        let quantile = |count: f64| times.quantile_ns((rank - 0.5) / count) as f64 / 1e3;
        let count = times.count() as f64;
        (count > 0.0 && rank <= count).then(|| quantile(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Times that differ by more than the precision of a histogram.
    fn time_ns(number: usize) -> u64 {
        (1e3 * 1.01_f64.powi(number as i32)) as u64
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// What failed: some quotients of rank and number, multiplied by the number, were more than
        /// the rank.
        #[test]
        fn a_percentile_is_the_time_of_its_rank_among_all(
            count in 0..1_200_usize,
            unanswered in prop_oneof![Just(0), 0..1_200_u64],
        ) {
            let times: Histogram = (0..count).map(time_ns).collect();
            let all = count as u64 + unanswered;
            let found = Percentiles::of(&times, all);
            let Percentiles { p50, p90, p99, p99_9, max } = found;
            for (found, thousandths) in [(p50, 500), (p90, 900), (p99, 990), (p99_9, 999), (max, 1_000)] {
                let rank = (thousandths * all).div_ceil(1_000).max(1);
                prop_assert_eq!(found.is_some(), rank <= count as u64, "{} of {}", rank, all);
                let Some(found) = found else { continue };
                let expected = time_ns(rank as usize - 1) as f64 / 1e3;
                prop_assert!((found / expected - 1.0).abs() < 0.004, "{found}, not {expected}");
            }
        }
    }
}
