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
        (times.count() > 0 && rank <= times.count() as f64)
            .then(|| times.quantile_ns(rank / times.count() as f64) as f64 / 1e3)
    }
}
