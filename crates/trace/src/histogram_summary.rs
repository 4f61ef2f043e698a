//! The summary of a histogram of times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Histogram;

/// Summary of a histogram, in us.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramSummary {
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

impl From<&Histogram> for HistogramSummary {
    fn from(times: &Histogram) -> Self {
        let at = |q: f64| times.quantile_ns(q) as f64 / 1e3;
        Self {
            count: times.count(),
            mean: times.mean_ns() / 1e3,
            deviation: times.deviation_ns() / 1e3,
            min: times.min_ns() as f64 / 1e3,
            p1: at(0.01),
            p5: at(0.05),
            p25: at(0.25),
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            max: times.max_ns() as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_us() {
        let summary =
            HistogramSummary::from(&(1..=1000).map(|us| us * 1_000).collect::<Histogram>());
        assert_eq!((summary.count, summary.min, summary.max), (1000, 1.0, 1000.0));
        assert_eq!(summary.mean, 500.5);
        assert!((summary.p99 - 990.0).abs() < 1.0);
        assert_eq!(HistogramSummary::from(&Histogram::new()), HistogramSummary::default());
    }
}
