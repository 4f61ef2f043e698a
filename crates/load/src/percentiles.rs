//! Percentiles over operations of which some have no time.

use serde::Serialize;
use trace::Spread;

/// Percentiles over all operations that were scheduled, in us: what was never answered
/// ranks above every answer, and a percentile among those has no value.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: Option<f64>,
    /// What 90 % do not exceed.
    pub p90: Option<f64>,
    /// What 99 % do not exceed.
    pub p99: Option<f64>,
    /// What 99.9 % do not exceed.
    pub p99_9: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
}

impl Percentiles {
    /// Of the `times` of those that have one among `all`.
    pub fn of(times: &Spread, all: u64) -> Self {
        let at = |q| Self::at(times, all, q);
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p99_9: at(0.999), max: at(1.0) }
    }

    /// What a share `q`, 0 to 1, of `all` do not exceed, in us; nothing if that is one
    /// without a time.
    pub fn at(times: &Spread, all: u64, q: f64) -> Option<f64> {
        let rank = (q * all as f64).ceil().max(1.0);
        (times.count() > 0 && rank <= times.count() as f64)
            .then(|| times.quantile_ns(rank / times.count() as f64) as f64 / 1e3)
    }
}
