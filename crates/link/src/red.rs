//! RED (random early detection): drops by the mean queue length.

use crate::keys::{Contradictions, Key, Keys, Kind, Model};
use serde::{Deserialize, Serialize};
use units::{Bytes, Draw, Instant, Purpose, Ratio};

/// RED parameters (S. Floyd, V. Jacobson, "Random early detection gateways for congestion
/// avoidance", IEEE/ACM ToN 1(4), 1993).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Red {
    /// Mean length from which RED drops frames.
    pub min: Bytes,
    /// Mean length from which RED drops all frames.
    pub max: Bytes,
    /// Drop probability just below `max`.
    #[serde(default = "probability")]
    pub probability: Ratio,
    /// Weight of the current length in the mean.
    #[serde(default = "weight")]
    pub weight: Ratio,
}

fn probability() -> Ratio {
    // The paper's simulations use a maximum of 1/50, and a weight of 0.002.
    Ratio::from_fraction(0.02).unwrap_or_default()
}

fn weight() -> Ratio {
    Ratio::from_fraction(0.002).unwrap_or_default()
}

pub(crate) const RED: Model = Model {
    name: "Red",
    what: "RED",
    doc: "Random early detection.",
    keys: &[
        Key::new("min", Kind::Size, "Mean queue length from which frames are dropped.").required(),
        Key::new("max", Kind::Size, "Mean queue length from which all frames are dropped.")
            .required(),
        Key::new("probability", Kind::Share, "Drop probability just below `max`. Default: 2 %."),
        Key::new(
            "weight",
            Kind::Share,
            "Weight of the current queue length in the mean. Default: 0.2 %.",
        ),
    ],
};

impl Red {
    pub(crate) fn check(keys: &Keys, found: &mut Contradictions) {
        let red: Keys = keys.get("red").unwrap_or_default();
        let [min, max] = ["min", "max"].map(|key| red.get::<Bytes>(key));
        let (Some(min), Some(max)) = (min, max) else { return };
        if min >= max {
            let text = format!("`max` of {max} is not above `min` of {min}");
            found.add("red.max", text, "RED drops frames between the two");
        }
        if red.get::<Ratio>("weight").is_some_and(|weight| weight.fraction() == 0.0) {
            let text = "with a weight of 0 % the mean never changes";
            found.add("red.weight", text, "write for example `0.2 %`");
        }
    }
}

/// RED's state variables, as in the paper's figure 2.
#[derive(Debug, Clone)]
pub(crate) struct RedState {
    config: Red,
    mean: f64,
    /// Frames since the last drop; `None` below `min`.
    count: Option<u32>,
    /// Start of the current empty period.
    idle_since: Option<Instant>,
    last: Instant,
    /// Mean time between arrivals at a non-empty queue, in ns: the queue's estimate of a
    /// frame's transmission time.
    gap: f64,
}

impl RedState {
    pub fn new(config: Red) -> Self {
        Self {
            config,
            mean: 0.0,
            count: None,
            idle_since: Some(Instant::START),
            last: Instant::START,
            gap: 0.0,
        }
    }

    /// The queue is empty from `now`.
    pub fn idle(&mut self, now: Instant) {
        self.idle_since.get_or_insert(now);
    }

    /// Whether to drop a frame that finds `bytes` in the queue.
    pub fn drops(&mut self, bytes: u64, now: Instant, draw: Draw, index: u64) -> bool {
        let weight = self.config.weight.fraction();
        match self.idle_since.take() {
            // As if frames had found an empty queue in the meantime.
            Some(since) if self.gap > 0.0 => {
                let frames = (now - since).as_ns() as f64 / self.gap;
                self.mean *= (1.0 - weight).powf(frames);
            }
            Some(_) => {}
            None => {
                let gap = (now - self.last).as_ns() as f64;
                self.gap = if self.gap == 0.0 { gap } else { 0.9 * self.gap + 0.1 * gap };
            }
        }
        self.last = now;
        self.mean += weight * (bytes as f64 - self.mean);
        let (min, max) = (self.config.min.get() as f64, self.config.max.get() as f64);
        if self.mean < min {
            self.count = None;
            return false;
        }
        if self.mean >= max {
            self.count = Some(0);
            return true;
        }
        let count = self.count.map_or(0, |count| count + 1);
        let base = self.config.probability.fraction() * (self.mean - min) / (max - min);
        // Spreads drops evenly: the gap between drops is uniform, not geometric.
        let spread = base / (1.0 - f64::from(count) * base).max(f64::MIN_POSITIVE);
        // The bound: when `count` reaches 1 / `base`, the frame is dropped for certain.
        let drops = draw.uniform(Purpose::Queue, index) < spread;
        self.count = Some(if drops { 0 } else { count });
        drops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::at;

    fn red() -> RedState {
        let share = |percent: f64| Ratio::from_fraction(percent / 100.0).unwrap();
        RedState::new(Red {
            min: Bytes::new(10_000),
            max: Bytes::new(30_000),
            probability: share(10.0),
            weight: share(1.0),
        })
    }

    /// Gaps between drops of frames that always find `bytes`.
    fn gaps(bytes: u64) -> Vec<u64> {
        let mut red = red();
        let draw = Draw::new(7, 1, 0);
        let drops: Vec<u64> =
            (0..200_000).filter(|i| red.drops(bytes, at(i * 1000), draw, *i)).collect();
        drops.windows(2).map(|pair| pair[1] - pair[0]).skip(100).collect()
    }

    #[test]
    fn a_short_queue_loses_nothing_and_a_long_one_all() {
        assert!(gaps(9_000).is_empty());
        assert!(gaps(40_000).iter().all(|gap| *gap == 1));
    }

    #[test]
    fn between_the_thresholds_gaps_are_uniform_round_the_reciprocal() {
        // Half way: a base probability of 5 %. The frame after a drop has a count of 1 and
        // is dropped with 0.05/0.95: gaps are uniform from 1 to 19.
        let gaps = gaps(20_000);
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        // Four standard errors of a mean of about 20,000 such gaps: 0.16.
        assert!((mean - 10.0).abs() < 0.16, "{mean}");
        assert_eq!((gaps.iter().min(), gaps.iter().max()), (Some(&1), Some(&19)));
    }

    #[test]
    fn the_mean_forgets_while_the_queue_is_empty() {
        let mut red = red();
        let draw = Draw::new(7, 1, 0);
        for i in 0..1000 {
            red.drops(20_000, at(i * 1000), draw, i);
        }
        let before = red.mean;
        red.idle(at(1_000_000));
        red.drops(0, at(1_000_000 + 500 * 1000), draw, 1000);
        // 500 frame times with a weight of 1 %.
        assert!((red.mean / before - 0.99f64.powi(501)).abs() < 0.01, "{} {before}", red.mean);
    }
}
