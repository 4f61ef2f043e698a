//! Looking for the largest value that does, by bracketing and bisection.

use serde::Serialize;
use std::collections::BTreeMap;

/// What came of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Found {
    /// The targets were met, in runs that can be trusted.
    Met,
    /// They were not, in runs that can be trusted: the system's limit.
    Missed,
    /// No run of it can be trusted: the test bed's limit.
    Lost,
}

/// A search over whole numbers. What does for a value is taken to do for smaller ones.
#[derive(Debug)]
pub struct Search {
    least: u64,
    most: u64,
    from: u64,
    /// How close is close enough, as a share of the value.
    resolution: f64,
    tried: BTreeMap<u64, Found>,
}

impl Search {
    /// A search from `from` on, between `least` and `most`, to a share of
    /// `resolution` or to 1, whichever is larger.
    pub fn new(from: u64, least: u64, most: u64, resolution: f64) -> Self {
        let tried = BTreeMap::new();
        Self { least, most, from: from.clamp(least, most), resolution, tried }
    }

    /// Takes note of what came of a value.
    pub fn record(&mut self, value: u64, found: Found) {
        self.tried.insert(value, found);
    }

    /// The value to be tried next; none when the search is over.
    pub fn next(&self) -> Option<u64> {
        if self.tried.is_empty() {
            return Some(self.from);
        }
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
        (!self.tried.contains_key(&next)).then_some(next)
    }

    /// The largest value that did, below all that did not.
    pub fn best(&self) -> Option<u64> {
        let limit = self.limit().map_or(u64::MAX, |(limit, _)| limit);
        self.tried.range(..limit).rev().find(|(_, found)| **found == Found::Met).map(|(v, _)| *v)
    }

    /// The smallest value that did not, and how.
    pub fn limit(&self) -> Option<(u64, Found)> {
        self.tried.iter().find(|(_, found)| **found != Found::Met).map(|(v, found)| (*v, *found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a system of this capacity on a test bed that gives out above `bed`.
    fn search(mut search: Search, capacity: u64, bed: u64) -> (Search, Vec<u64>) {
        let mut tried = Vec::new();
        while let Some(value) = search.next() {
            tried.push(value);
            assert!(tried.len() < 70, "it goes on for ever: {tried:?}");
            search.record(
                value,
                match value {
                    _ if value > bed => Found::Lost,
                    _ if value > capacity => Found::Missed,
                    _ => Found::Met,
                },
            );
        }
        (search, tried)
    }

    #[test]
    fn it_brackets_and_then_halves() {
        let (found, tried) = search(Search::new(10, 1, 10_000, 0.0), 77, u64::MAX);
        assert_eq!((found.best(), found.limit()), (Some(77), Some((78, Found::Missed))));
        assert_eq!(tried, [10, 20, 40, 80, 60, 70, 75, 77, 78]);
    }

    #[test]
    fn every_capacity_is_found_from_everywhere() {
        for capacity in 1..=60 {
            for from in [1, 7, 30, 60] {
                let (found, tried) = search(Search::new(from, 1, 60, 0.0), capacity, u64::MAX);
                assert_eq!(found.best(), Some(capacity), "from {from}");
                let over = (capacity < 60).then_some((capacity + 1, Found::Missed));
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
        assert_eq!((found.best(), found.limit()), (Some(100), Some((101, Found::Lost))));
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
        for (value, found) in [(10, Found::Met), (20, Found::Missed), (40, Found::Met)] {
            search.record(value, found);
        }
        assert_eq!((search.best(), search.next()), (Some(10), Some(15)));
    }
}
