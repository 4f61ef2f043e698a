//! Network estimation from the session's own traffic.

use crate::Span;
use crate::conditions::Conditions;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use alloc::collections::VecDeque;
use serde::{Deserialize, Serialize};

/// A share with its 95 % confidence interval; all values are 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// Lower limit.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
}

/// Estimated state of the path to a peer or a group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Share of lost frames.
    pub loss: Interval,
    /// Mean number of consecutive lost frames.
    pub burst: f64,
    /// Median round-trip time; `None` before the first sample.
    pub rtt: Option<Span>,
    /// 90th percentile of the round-trip times.
    pub rtt_p90: Option<Span>,
    /// Effective number of frames behind the estimate; older frames count less.
    pub weight: f64,
}

/// Memory of the exponential average, in frames: a frame this old counts 1/e.
const MEMORY: f64 = 400.0;
/// The quantile of the normal distribution for 95 %.
const Z: f64 = 1.959_964;
/// Number of round-trip times kept.
const MAX_TRIPS: usize = 64;
/// After this many consecutive round-trip times above the usual 90th percentile, the path has
/// changed.
const PATH_CHANGE: usize = 5;
/// Weight of the assumed loss, in frames.
const PRIOR_WEIGHT: f64 = 30.0;

/// Estimates network state from received and lost frames.
///
/// Loss is an exponentially weighted average with the Wilson interval (1927) for its weight.
/// Burst length is the mean run of losses, as in the Gilbert model. Round-trip times are the
/// last 64.
#[derive(Debug, Clone, Default)]
pub struct Estimator {
    lost: f64,
    weight: f64,
    /// Number of loss runs and number of losses in them, with the same weights.
    runs: f64,
    in_runs: f64,
    last_lost: bool,
    trips: VecDeque<Span>,
    /// The same in order of length.
    sorted: Vec<Span>,
    /// Consecutive round-trip times above the previous 90th percentile, and that percentile.
    longer: usize,
    usual: Option<Span>,
    /// 10th, 50th and 90th percentile; cached, because reads are more frequent than updates.
    rtt: Option<[Span; 3]>,
}

impl Estimator {
    /// An estimator without samples.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a received or a lost frame.
    pub fn frame(&mut self, lost: bool) {
        let keep = (-1.0 / MEMORY).exp();
        for sum in [&mut self.lost, &mut self.weight, &mut self.runs, &mut self.in_runs] {
            *sum *= keep;
        }
        self.weight += 1.0;
        if lost {
            self.lost += 1.0;
            self.in_runs += 1.0;
            self.runs += f64::from(u8::from(!self.last_lost));
        }
        self.last_lost = lost;
    }

    /// Records received and lost frames that were sent in a row. Their order is
    /// unknown, so the losses are spread evenly and do not affect the burst length.
    pub fn frames(&mut self, received: u32, lost: u32) {
        let all = u64::from(received) + u64::from(lost);
        for place in 0..all {
            let before = place * u64::from(lost) / all;
            self.frame((place + 1) * u64::from(lost) / all > before);
        }
    }

    /// Records a round-trip time. Use only messages that were sent once: an answer to a
    /// retransmitted one is ambiguous (Karn and Partridge).
    pub fn round_trip(&mut self, ns: Span) {
        // The reference is the percentile from before the first longer sample.
        let usual = if self.longer == 0 { self.rtt.map(|[.., late]| late) } else { self.usual };
        self.usual = usual;
        self.longer = if usual.is_some_and(|usual| ns > usual) { self.longer + 1 } else { 0 };
        self.trips.push_back(ns);
        let place = self.sorted.partition_point(|known| *known < ns);
        self.sorted.insert(place, ns);
        if self.longer >= PATH_CHANGE && self.trips.len() > PATH_CHANGE {
            // The path has become longer: drop samples of the old path.
            self.trips.drain(..self.trips.len() - PATH_CHANGE);
            self.longer = 0;
            self.sorted = self.trips.iter().copied().collect();
            self.sorted.sort_unstable();
        } else if self.trips.len() > MAX_TRIPS
            && let Some(oldest) = self.trips.pop_front()
        {
            let place = self.sorted.partition_point(|known| *known < oldest);
            self.sorted.remove(place);
        }
        let trips = &self.sorted;
        self.rtt = Some([0.1, 0.5, 0.9].map(|share| trips[(share * trips.len() as f64) as usize]));
    }

    /// Number of round-trip samples, 64 at most.
    pub fn round_trips(&self) -> usize {
        self.trips.len()
    }

    /// The current estimate.
    pub fn estimate(&self) -> Estimate {
        Estimate {
            loss: wilson(self.lost, self.weight, Z),
            burst: self.burst(),
            rtt: self.rtt.map(|[_, median, _]| median),
            rtt_p90: self.rtt.map(|[.., late]| late),
            weight: self.weight,
        }
    }

    fn burst(&self) -> f64 {
        if self.runs > 0.0 { (self.in_runs / self.runs).max(1.0) } else { 1.0 }
    }

    /// Upper estimate of the loss with `assumed` as the prior: the upper limit of the Wilson
    /// interval at one standard deviation.
    pub fn upper_loss(&self, assumed: f64) -> f64 {
        wilson(assumed * PRIOR_WEIGHT + self.lost, PRIOR_WEIGHT + self.weight, 1.0).high
    }

    /// `known`, with assumed values replaced by estimates.
    pub fn conditions(&self, known: Conditions) -> Conditions {
        Conditions {
            // The assumed loss is a prior, so few samples change little.
            loss: (known.loss * PRIOR_WEIGHT + self.lost) / (PRIOR_WEIGHT + self.weight),
            burst: self.burst(),
            // The 10th percentile: most samples include queueing behind other messages.
            rtt: self.rtt.map_or(known.rtt, |[least, ..]| least),
            ..known
        }
    }
}

/// Wilson interval for `hits` of `of` trials (fractions allowed), `z` standard deviations to
/// each side.
pub(crate) fn wilson(hits: f64, of: f64, z: f64) -> Interval {
    if of <= 0.0 {
        return Interval { value: 0.0, low: 0.0, high: 1.0 };
    }
    let share = (hits / of).clamp(0.0, 1.0);
    let squared = z * z;
    let middle = (share + squared / (2.0 * of)) / (1.0 + squared / of);
    let half =
        z / (1.0 + squared / of) * (share * (1.0 - share) / of + squared / (4.0 * of * of)).sqrt();
    Interval { value: share, low: (middle - half).max(0.0), high: (middle + half).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reproducible generator without a crate.
    fn draws(seed: u64) -> impl Iterator<Item = f64> {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        })
    }

    #[test]
    fn intervals_are_those_of_published_tables() {
        // 10 of 20: 0.2993 to 0.7007; 0 of 10: 0 to 0.2775.
        let half = wilson(10.0, 20.0, Z);
        assert!((half.low - 0.2993).abs() < 1e-3 && (half.high - 0.7007).abs() < 1e-3);
        let none = wilson(0.0, 10.0, Z);
        assert!(none.low == 0.0 && (none.high - 0.2775).abs() < 1e-3);
        assert_eq!(wilson(0.0, 0.0, Z).high, 1.0);
    }

    #[test]
    fn loss_is_found_and_followed() {
        let mut estimator = Estimator::new();
        let mut draw = draws(7);
        let mut run = |estimator: &mut Estimator, loss: f64, frames| {
            for _ in 0..frames {
                estimator.frame(draw.next().unwrap() < loss);
            }
        };
        run(&mut estimator, 0.3, 4_000);
        let seen = estimator.estimate();
        assert!(seen.loss.low < 0.3 && 0.3 < seen.loss.high, "{seen:?}");
        assert!(seen.loss.high - seen.loss.low < 0.12, "{seen:?}");
        // Independent losses of 30 % have a mean run of 1/(1-0.3).
        assert!((seen.burst - 1.43).abs() < 0.15, "{seen:?}");
        run(&mut estimator, 0.01, 2_000);
        assert!(estimator.estimate().loss.value < 0.03);
    }

    #[test]
    fn bursts_are_told_from_chance() {
        let mut estimator = Estimator::new();
        for place in 0..4_000 {
            // Ten consecutive losses per hundred.
            estimator.frame(place % 100 < 10);
        }
        let seen = estimator.estimate();
        assert!((seen.burst - 10.0).abs() < 0.5, "{seen:?}");
        assert!((seen.loss.value - 0.1).abs() < 0.03);
    }

    #[test]
    fn a_round_trip_is_what_it_is_without_waiting() {
        let mut estimator = Estimator::new();
        // One of five arrives at once, the others queue.
        (0..64).for_each(|n| estimator.round_trip(Span::from_ms(40 + (n % 5) * 10)));
        let known = Conditions::default();
        assert_eq!(estimator.conditions(known).rtt, Span::from_ms(40));
        let seen = estimator.estimate();
        assert_eq!((seen.rtt, seen.rtt_p90), (Some(Span::from_ms(60)), Some(Span::from_ms(80))));
    }

    #[test]
    fn at_worst_more_is_lost_than_was_seen_and_less_so_the_more_was_seen() {
        let mut estimator = Estimator::new();
        let before = estimator.upper_loss(0.0);
        assert!((0.02..0.05).contains(&before), "{before}");
        (0..1_000).for_each(|_| estimator.frame(false));
        assert!(estimator.upper_loss(0.0) < 0.004);
        assert!(estimator.upper_loss(0.5) > 0.03, "what was assumed counts as 30 frames");
    }

    #[test]
    fn little_seen_moves_little() {
        let mut estimator = Estimator::new();
        let known = Conditions { loss: 0.1, ..Conditions::default() };
        assert_eq!(estimator.conditions(known).loss, 0.1);
        (0..5).for_each(|_| estimator.frame(false));
        assert!(estimator.conditions(known).loss > 0.08, "5 of 5 is no proof against 10 %");
        (0..500).for_each(|_| estimator.frame(false));
        assert!(estimator.conditions(known).loss < 0.02);
        assert_eq!(estimator.conditions(known).rtt, known.rtt);
        estimator.round_trip(Span::from_ms(5));
        assert_eq!(estimator.conditions(known).rtt, Span::from_ms(5));
    }
}
