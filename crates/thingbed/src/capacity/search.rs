//! Searches for the largest value that meets the targets, by bracketing and bisection.

use serde::Serialize;
use std::collections::BTreeMap;

/// Result of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Trusted runs met the targets.
    Met,
    /// Trusted runs missed the targets: the system's limit.
    Missed,
    /// No run is trusted: the test bed's limit.
    Lost,
}

/// A search over whole numbers. Assumes that if a value meets the targets, smaller ones do, too.
#[derive(Debug)]
pub struct Search {
    least: u64,
    most: u64,
    from: u64,
    /// Relative precision of the result.
    resolution: f64,
    tried: BTreeMap<u64, Outcome>,
}

impl Search {
    /// A search from `from`, between `least` and `most`, to a precision of `resolution` (a share of
    /// the value) or of 1, whichever is larger.
    pub fn new(from: u64, least: u64, most: u64, resolution: f64) -> Self {
        let tried = BTreeMap::new();
        Self { least, most, from: from.clamp(least, most), resolution, tried }
    }

    /// Records the result of a value.
    pub fn record(&mut self, value: u64, found: Outcome) {
        self.tried.insert(value, found);
    }

    /// The next value to test; `None` when the search is done.
    pub fn next(&self) -> Option<u64> {
        if self.tried.is_empty() {
            return Some(self.from);
        }
        // Doubling finds a bracket in few runs even if the file's values are far from the limit.
        let next = match (self.best(), self.limit()) {
            (None, None) => return None,
            (Some(good), None) => good.saturating_mul(2).min(self.most),
            (None, Some((bad, _))) => (bad / 2).max(self.least),
            (Some(good), Some((bad, _))) => {
                let close = (self.resolution * good as f64).max(1.0);
                if (bad - good) as f64 <= close {
                    return None;
                }
                good + (bad - good) / 2
            }
        };
        // At the end of the range, doubling or halving gives a value that was tested.
        (!self.tried.contains_key(&next)).then_some(next)
    }

    /// The largest value that met the targets, below all that did not.
    pub fn best(&self) -> Option<u64> {
        // Where results contradict each other (noise), the smallest value that failed decides.
        let limit = self.limit().map_or(u64::MAX, |(limit, _)| limit);
        self.tried.range(..limit).rev().find(|(_, found)| **found == Outcome::Met).map(|(v, _)| *v)
    }

    /// The smallest value that did not meet the targets, and its result.
    pub fn limit(&self) -> Option<(u64, Outcome)> {
        self.tried.iter().find(|(_, found)| **found != Outcome::Met).map(|(v, found)| (*v, *found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a system of this capacity, on a test bed whose limit is `bed`.
    fn search(mut search: Search, capacity: u64, bed: u64) -> (Search, Vec<u64>) {
        let mut tried = Vec::new();
        while let Some(value) = search.next() {
            tried.push(value);
            assert!(tried.len() < 70, "it goes on for ever: {tried:?}");
            search.record(
                value,
                match value {
                    _ if value > bed => Outcome::Lost,
                    _ if value > capacity => Outcome::Missed,
                    _ => Outcome::Met,
                },
            );
        }
        (search, tried)
    }

    #[test]
    fn it_brackets_and_then_halves() {
        let (found, tried) = search(Search::new(10, 1, 10_000, 0.0), 77, u64::MAX);
        assert_eq!((found.best(), found.limit()), (Some(77), Some((78, Outcome::Missed))));
        assert_eq!(tried, [10, 20, 40, 80, 60, 70, 75, 77, 78]);
    }

    #[test]
    fn every_capacity_is_found_from_everywhere() {
        for capacity in 1..=60 {
            for from in [1, 7, 30, 60] {
                let (found, tried) = search(Search::new(from, 1, 60, 0.0), capacity, u64::MAX);
                assert_eq!(found.best(), Some(capacity), "from {from}");
                let over = (capacity < 60).then_some((capacity + 1, Outcome::Missed));
                assert_eq!(found.limit(), over);
                assert!(tried.len() <= 13, "{tried:?}");
            }
        }
    }

    #[test]
    fn close_enough_is_a_share() {
        let (found, tried) = search(Search::new(1, 1, 1 << 40, 0.05), 1_000_000, u64::MAX);
        let best = found.best().unwrap();
        assert!((950_000..=1_000_000).contains(&best), "{best}");
        assert!(tried.len() < 28, "{tried:?}");
    }

    #[test]
    fn the_beds_limit_is_told_from_the_systems() {
        let (found, _) = search(Search::new(8, 1, 1_000, 0.0), 500, 100);
        assert_eq!((found.best(), found.limit()), (Some(100), Some((101, Outcome::Lost))));
    }

    #[test]
    fn nothing_does_or_all_does() {
        let (found, tried) = search(Search::new(16, 4, 100, 0.0), 0, u64::MAX);
        assert_eq!((found.best(), tried.last()), (None, Some(&4)));
        let (found, tried) = search(Search::new(16, 4, 100, 0.0), 1_000, u64::MAX);
        assert_eq!((found.best(), found.limit(), tried.last()), (Some(100), None, Some(&100)));
    }

    #[test]
    fn luck_above_a_miss_does_not_count() {
        let mut search = Search::new(10, 1, 100, 0.0);
        for (value, found) in [(10, Outcome::Met), (20, Outcome::Missed), (40, Outcome::Met)] {
            search.record(value, found);
        }
        assert_eq!((search.best(), search.next()), (Some(10), Some(15)));
    }
}
