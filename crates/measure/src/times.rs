//! Statistics of measured times.

use record::Times;
use units::Histogram;

/// The statistics in units of `unit_ns` nanoseconds; `None` when empty.
pub fn times(of: &Histogram, unit_ns: f64) -> Option<Times> {
    let at = |q| of.quantile_ns(q) as f64 / unit_ns;
    (of.count() > 0).then(|| Times {
        mean: of.mean_ns() / unit_ns,
        p50: at(0.5),
        p90: at(0.9),
        p95: at(0.95),
        p99: at(0.99),
        max: of.max_ns() as f64 / unit_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_known_times() {
        let histogram: Histogram = (1..=1000).map(|ms| ms * 1_000_000).collect();
        let summary = times(&histogram, 1e6).unwrap();
        assert_eq!((summary.mean, summary.max), (500.5, 1000.0));
        let (p50, p90, p95, p99) = (summary.p50, summary.p90, summary.p95, summary.p99);
        for (got, want) in [(p50, 500.0), (p90, 900.0), (p95, 950.0), (p99, 990.0)] {
            assert!((got / want - 1.0).abs() < 0.002, "{got} for {want}");
        }
        assert!(times(&Histogram::new(), 1e6).is_none());
    }
}
