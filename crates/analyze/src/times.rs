//! Statistics of measured times: few bytes per flow, and a histogram for all flows.

use crate::figures::{RttFigures, TimeFigures};
use units::Histogram;

/// Count, sum, minimum and maximum of times, in ns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    pub count: u64,
    sum: i128,
    min: i64,
    max: i64,
}

impl Times {
    /// Records a time in ns.
    pub(crate) fn note(&mut self, ns: i64) {
        self.min = if self.count == 0 { ns } else { self.min.min(ns) };
        self.max = if self.count == 0 { ns } else { self.max.max(ns) };
        self.sum += i128::from(ns);
        self.count += 1;
    }

    pub(crate) fn figures(&self) -> Option<TimeFigures> {
        (self.count > 0).then(|| TimeFigures {
            count: self.count,
            mean: self.sum as f64 / self.count as f64 / 1e6,
            min: self.min as f64 / 1e6,
            max: self.max as f64 / 1e6,
        })
    }
}

/// Times with a histogram.
#[derive(Debug)]
pub(crate) struct Distribution {
    times: Times,
    histogram: Histogram,
}

impl Distribution {
    pub(crate) fn new() -> Self {
        Self { times: Times::default(), histogram: Histogram::new() }
    }

    pub(crate) fn note(&mut self, ns: i64) {
        self.times.note(ns);
        // Timestamps that go backwards give times below 0 (decision 22), which the histogram cannot
        // hold.
        self.histogram.record(u64::try_from(ns).unwrap_or(0).max(1));
    }

    pub(crate) fn figures(&self) -> Option<RttFigures> {
        let TimeFigures { count, mean, min, max } = self.times.figures()?;
        let at = |quantile| self.histogram.quantile_ns(quantile) as f64 / 1e6;
        Some(RttFigures { count, mean, min, p50: at(0.5), p95: at(0.95), p99: at(0.99), max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_figures_and_times_may_be_negative() {
        assert!(Times::default().figures().is_none() && Distribution::new().figures().is_none());
        let mut times = Times::default();
        [-3_000_000, -1_000_000].into_iter().for_each(|ns| times.note(ns));
        let found = times.figures().unwrap();
        assert_eq!((found.count, found.mean, found.min, found.max), (2, -2.0, -3.0, -1.0));
        // The sum of the largest times is larger than any of them.
        let mut large = Times::default();
        [i64::MAX; 3].into_iter().for_each(|ns| large.note(ns));
        assert_eq!(large.figures().unwrap().mean, i64::MAX as f64 / 1e6);
    }
}
