//! What is seen of the network, from the traffic itself.

use crate::Nanos;
use crate::conditions::Conditions;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A share and between which values it lies with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// What is known of the way to a peer or a group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Share of frames lost.
    pub loss: Interval,
    /// Mean number of frames lost in a row.
    pub burst: f64,
    /// The median round trip in ns; nothing while none was seen.
    pub rtt_ns: Option<Nanos>,
    /// What nine tenths of the round trips do not exceed.
    pub rtt_p90_ns: Option<Nanos>,
    /// How many frames this rests on, the older ones by part.
    pub weight: f64,
}

/// Frames are forgotten at this pace: one of so many ago counts 1/e.
const MEMORY: f64 = 400.0;
/// The quantile of the normal distribution for 95 %.
const Z: f64 = 1.959_964;
/// Round trips that are remembered.
const TRIPS: usize = 64;
/// So many round trips in a row that are longer than nearly all before are no chance.
const LONGER: usize = 5;
/// What was assumed weighs as much as so many frames that were seen.
const ASSUMED: f64 = 30.0;
/// So many arrivals in a row tell a rate.
const RUN: usize = 8;

/// Estimates from frames that came and frames that did not.
///
/// Loss is an exponentially weighted share with the interval of Wilson (1927) for the
/// weight that it rests on; bursts are the mean run of losses, as in the model of Gilbert;
/// round trips are the last 64. How densely datagrams came is told apart: what that says of
/// the network depends on how they were sent.
#[derive(Debug, Clone, Default)]
pub struct Estimator {
    lost: f64,
    weight: f64,
    /// Runs of losses, and how many losses they had, by the same weights.
    runs: f64,
    in_runs: f64,
    last_lost: bool,
    trips: VecDeque<Nanos>,
    /// How many in a row were longer than nine tenths of those before, and how long those were.
    longer: usize,
    usual: Option<Nanos>,
    /// What a tenth, half and nine tenths of those do not exceed: asked for more often than told.
    rtt: Option<[Nanos; 3]>,
    /// When the last datagrams came, and their bytes.
    arrivals: VecDeque<(Nanos, usize)>,
    densest: Option<f64>,
    /// Datagrams that came since the rate was asked for.
    since: usize,
}

impl Estimator {
    /// Knows nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// A frame has come, or will not come.
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

    /// Of some frames that went one after another so many came and so many did not; in which
    /// order is not known, so that it says nothing of bursts.
    pub fn frames(&mut self, came: u32, lost: u32) {
        let all = u64::from(came) + u64::from(lost);
        for place in 0..all {
            let before = place * u64::from(lost) / all;
            self.frame((place + 1) * u64::from(lost) / all > before);
        }
    }

    /// An answer came after `ns`, to something that was sent once: of what was sent twice
    /// nobody knows which the answer is to (Karn and Partridge).
    pub fn round_trip(&mut self, ns: Nanos) {
        // Held against what was seen before the row began.
        let usual = if self.longer == 0 { self.rtt.map(|[.., late]| late) } else { self.usual };
        self.usual = usual;
        self.longer = if usual.is_some_and(|usual| ns > usual) { self.longer + 1 } else { 0 };
        self.trips.push_back(ns);
        if self.longer >= LONGER && self.trips.len() > LONGER {
            // The way is longer than it was: what was seen before is of another one.
            self.trips.drain(..self.trips.len() - LONGER);
            self.longer = 0;
        } else if self.trips.len() > TRIPS {
            self.trips.pop_front();
        }
        let mut trips: Vec<Nanos> = self.trips.iter().copied().collect();
        trips.sort_unstable();
        self.rtt = Some([0.1, 0.5, 0.9].map(|share| trips[(share * trips.len() as f64) as usize]));
    }

    /// How many round trips it rests on, 64 at most.
    pub fn round_trips(&self) -> usize {
        self.trips.len()
    }

    /// A datagram that has so many bytes on the wire has come.
    pub fn arrival(&mut self, now: Nanos, bytes: usize) {
        self.arrivals.push_back((now, bytes));
        self.since += 1;
        if self.arrivals.len() > RUN {
            self.arrivals.pop_front();
        }
        if let (Some((first, skip)), RUN) = (self.arrivals.front(), self.arrivals.len()) {
            let all: usize = self.arrivals.iter().map(|(_, bytes)| bytes).sum();
            let span = now.saturating_sub(*first).max(1);
            let rate = (all - skip) as f64 * 8e9 / span as f64;
            self.densest = Some(self.densest.map_or(rate, |known| known.max(rate)));
        }
    }

    /// The greatest rate at which datagrams came one after another since the last time, in
    /// bit/s; nothing while fewer than `least` came.
    pub fn densest(&mut self, least: usize) -> Option<f64> {
        if self.since < least {
            return None;
        }
        self.since = 0;
        self.densest.take()
    }

    /// What is known now.
    pub fn estimate(&self) -> Estimate {
        Estimate {
            loss: wilson(self.lost, self.weight, Z),
            burst: self.burst(),
            rtt_ns: self.rtt.map(|[_, median, _]| median),
            rtt_p90_ns: self.rtt.map(|[.., late]| late),
            weight: self.weight,
        }
    }

    fn burst(&self) -> f64 {
        if self.runs > 0.0 { (self.in_runs / self.runs).max(1.0) } else { 1.0 }
    }

    /// The share of frames that may be lost at worst, where so many were `assumed` to be: the
    /// upper end of Wilson's interval of one standard deviation.
    pub fn most_loss(&self, assumed: f64) -> f64 {
        wilson(assumed * ASSUMED + self.lost, ASSUMED + self.weight, 1.0).high
    }

    /// `known`, with what has been seen in place of what was assumed.
    pub fn conditions(&self, known: Conditions) -> Conditions {
        Conditions {
            // Little seen moves little.
            loss: (known.loss * ASSUMED + self.lost) / (ASSUMED + self.weight),
            burst: self.burst(),
            // Without the waiting for others that is in most of them.
            rtt_ns: self.rtt.map_or(known.rtt_ns, |[least, ..]| least),
            ..known
        }
    }
}

/// The interval of Wilson for `hits` of `of` tries, which need not be whole numbers, `z` standard
/// deviations to each side.
fn wilson(hits: f64, of: f64, z: f64) -> Interval {
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

    /// Draws without a crate: the same each time.
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
        // Independent losses of 30 % come 1/(1-0.3) in a row.
        assert!((seen.burst - 1.43).abs() < 0.15, "{seen:?}");
        run(&mut estimator, 0.01, 2_000);
        assert!(estimator.estimate().loss.value < 0.03);
    }

    #[test]
    fn bursts_are_told_from_chance() {
        let mut estimator = Estimator::new();
        for place in 0..4_000 {
            // Ten lost in a row of each hundred.
            estimator.frame(place % 100 < 10);
        }
        let seen = estimator.estimate();
        assert!((seen.burst - 10.0).abs() < 0.5, "{seen:?}");
        assert!((seen.loss.value - 0.1).abs() < 0.03);
    }

    #[test]
    fn the_densest_run_of_arrivals_is_the_rate_of_the_narrowest_part() {
        let mut estimator = Estimator::new();
        // 125 B each 4 ms are 250 kbit/s; before and after that they come as they are sent.
        let times = [0, 90, 180].into_iter().chain((0..12).map(|n| 300 + 4 * n)).chain([900]);
        times.for_each(|ms| estimator.arrival(ms * 1_000_000, 125));
        let rate = estimator.densest(9).unwrap();
        assert!((rate / 250e3 - 1.0).abs() < 1e-9, "{rate}");
        assert_eq!(estimator.densest(0), None, "since the last time");
    }

    #[test]
    fn a_round_trip_is_what_it_is_without_waiting() {
        let mut estimator = Estimator::new();
        // One of five comes at once, the others wait for each other.
        (0..64).for_each(|n| estimator.round_trip(40_000_000 + (n % 5) * 10_000_000));
        let known = Conditions::default();
        assert_eq!(estimator.conditions(known).rtt_ns, 40_000_000);
        let seen = estimator.estimate();
        assert_eq!((seen.rtt_ns, seen.rtt_p90_ns), (Some(60_000_000), Some(80_000_000)));
    }

    #[test]
    fn at_worst_more_is_lost_than_was_seen_and_less_so_the_more_was_seen() {
        let mut estimator = Estimator::new();
        let before = estimator.most_loss(0.0);
        assert!((0.02..0.05).contains(&before), "{before}");
        (0..1_000).for_each(|_| estimator.frame(false));
        assert!(estimator.most_loss(0.0) < 0.004);
        assert!(estimator.most_loss(0.5) > 0.03, "what was assumed counts as 30 frames");
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
        assert_eq!(estimator.conditions(known).rtt_ns, known.rtt_ns);
        estimator.round_trip(5_000_000);
        assert_eq!(estimator.conditions(known).rtt_ns, 5_000_000);
    }
}
