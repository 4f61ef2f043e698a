//! Loss models: random, and bursts from Markov chains.

use crate::correlated::Correlated;
use serde::{Deserialize, Serialize};
use units::{Draw, Purpose, Ratio};

/// The unit of one loss decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossUnit {
    /// Each frame separately.
    #[default]
    Frame,
    /// All fragments of one IP datagram.
    Datagram,
    /// As `Datagram`, and back-to-back segments of one TCP flow up to 64 KiB: what a shaper
    /// sees behind segmentation offload.
    Train,
}

/// Gilbert-Elliott model: a good and a bad state with separate loss probabilities (E. O.
/// Elliott, BSTJ 42, 1963). The letters are those of tc-netem.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// Transition probability from good to bad, per frame.
    pub p: Ratio,
    /// Transition probability from bad to good, per frame.
    pub r: Ratio,
    /// Loss probability in the bad state.
    #[serde(rename = "1-h")]
    pub loss_bad: Ratio,
    /// Loss probability in the good state.
    #[serde(rename = "1-k")]
    pub loss_good: Ratio,
}

/// tc-netem's four states: 1 received, 2 received within a burst, 3 lost within a burst, 4
/// isolated loss (S. Salsano and others, "Definition of a general and intuitive loss model
/// for packet networks", 2012). `pij` is the transition probability from state i to state j
/// per frame; state 4 always returns to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Markov {
    /// Start of a loss burst.
    pub p13: Ratio,
    /// End of a loss burst.
    pub p31: Ratio,
    /// From loss to reception within a burst.
    pub p32: Ratio,
    /// From reception back to loss within a burst.
    pub p23: Ratio,
    /// Isolated loss.
    pub p14: Ratio,
}

impl GilbertElliott {
    /// Long-term share of frames in the bad state; 0 if there are no transitions.
    fn bad(&self) -> f64 {
        let (p, r) = (self.p.fraction(), self.r.fraction());
        if p + r == 0.0 { 0.0 } else { p / (p + r) }
    }

    /// Long-term share of frames lost; 1-k if no transition leads to the bad state.
    pub fn mean(&self) -> f64 {
        let bad = self.bad();
        bad * self.loss_bad.fraction() + (1.0 - bad) * self.loss_good.fraction()
    }

    /// Ratio of the variance of the loss share between runs to that of independent losses,
    /// over a long time. From the chain's autocorrelation (1-p-r)^n at lag n.
    pub fn dispersion(&self) -> f64 {
        let (p, r, mean) = (self.p.fraction(), self.r.fraction(), self.mean());
        let variance = mean * (1.0 - mean);
        if p + r == 0.0 || variance == 0.0 {
            return 1.0;
        }
        let gap = self.loss_bad.fraction() - self.loss_good.fraction();
        let states = p * r / (p + r).powi(2) * gap * gap;
        1.0 + 2.0 * states * (1.0 - p - r) / (p + r) / variance
    }
}

impl Markov {
    /// Long-term share of frames lost, from the chain's stationary distribution.
    pub fn mean(&self) -> f64 {
        let [_, _, three, four] = self.stationary();
        three + four
    }

    /// Long-term share of frames in states 1 to 4.
    fn stationary(&self) -> [f64; 4] {
        let [p13, p31, p32, p23, p14] =
            [self.p13, self.p31, self.p32, self.p23, self.p14].map(Ratio::fraction);
        if p23 == 0.0 && p32 > 0.0 && p13 > 0.0 {
            // State 2 is never left.
            return [0.0, 1.0, 0.0, 0.0];
        }
        if p31 == 0.0 && p13 > 0.0 {
            // The burst never ends: a chain of states 2 and 3.
            let lost = if p32 + p23 == 0.0 { 1.0 } else { p23 / (p32 + p23) };
            return [0.0, 1.0 - lost, lost, 0.0];
        }
        // Relative to state 1, from the balance of transitions.
        let three = if p13 == 0.0 { 0.0 } else { p13 / p31 };
        let two = if p23 == 0.0 { 0.0 } else { three * p32 / p23 };
        [1.0, two, three, p14].map(|share| share / (1.0 + two + three + p14))
    }

    /// The state in which a flow begins, for `u` uniform in [0, 1).
    fn first(&self, u: f64) -> u8 {
        let mut below = 0.0;
        let states = self.stationary().into_iter().zip(1..);
        let reached = |(share, state)| {
            below += share;
            (u < below).then_some(state)
        };
        states.filter_map(reached).next().unwrap_or(1)
    }
}

/// The index of the random number for the state before the first frame.
const BEFORE: u64 = u64::MAX;

/// Loss model of one flow in one direction of a link.
#[derive(Debug, Clone)]
pub(crate) enum Loss {
    /// All units with the same probability.
    Random { share: f64, draws: Correlated, last: Option<(u64, bool)> },
    GilbertElliott {
        config: GilbertElliott,
        /// `None` before the first frame of the flow.
        bad: Option<bool>,
    },
    Markov {
        config: Markov,
        /// 1 to 4; `None` before the first frame of the flow.
        state: Option<u8>,
    },
}

impl Loss {
    pub fn random(share: Ratio, correlation: Ratio) -> Self {
        let draws = Correlated::new(correlation);
        Self::Random { share: share.fraction(), draws, last: None }
    }

    pub fn gilbert_elliott(config: GilbertElliott) -> Self {
        Self::GilbertElliott { config, bad: None }
    }

    pub fn markov(config: Markov) -> Self {
        Self::Markov { config, state: None }
    }

    /// Forgets the decision about the last unit.
    pub fn forget_unit(&mut self) {
        if let Self::Random { last, .. } = self {
            *last = None;
        }
    }

    /// Whether the frame `index` of its flow, in the loss unit `unit`, is lost. Call this
    /// in frame order.
    pub fn takes(&mut self, draw: Draw, index: u64, unit: u64) -> bool {
        match self {
            Self::Random { share, .. } if *share == 0.0 => false,
            Self::Random { share, draws, last } => match last {
                // One decision for all frames of a unit.
                Some((known, lost)) if *known == unit => *lost,
                _ => {
                    let lost = draws.next(draw.of(Purpose::Loss), unit) < *share;
                    *last = Some((unit, lost));
                    lost
                }
            },
            Self::GilbertElliott { config, bad } => {
                // A flow begins in the long-term distribution: short flows lose as many frames.
                let first = || draw.uniform(Purpose::State, BEFORE) < config.bad();
                let state = *bad.get_or_insert_with(first);
                let loss = if state { config.loss_bad } else { config.loss_good };
                let leave = if state { config.r } else { config.p };
                *bad = Some(state ^ (draw.uniform(Purpose::State, index) < leave.fraction()));
                // In most models a state loses nothing or everything, and needs no random
                // number.
                match loss.fraction() {
                    share if share <= 0.0 => false,
                    share if share >= 1.0 => true,
                    share => draw.uniform(Purpose::Loss, index) < share,
                }
            }
            Self::Markov { config, state } => {
                let first = || config.first(draw.uniform(Purpose::State, BEFORE));
                let before = *state.get_or_insert_with(first);
                let now = next(config, before, draw.uniform(Purpose::State, index));
                *state = Some(now);
                matches!(now, 3 | 4)
            }
        }
    }
}

/// The state after `state`, for `u` uniform in [0, 1).
fn next(config: &Markov, state: u8, u: f64) -> u8 {
    match state {
        1 if u < config.p14.fraction() => 4,
        1 if u < config.p14.fraction() + config.p13.fraction() => 3,
        2 if u < config.p23.fraction() => 3,
        2 => 2,
        3 if u < config.p32.fraction() => 2,
        3 if u < config.p32.fraction() + config.p31.fraction() => 1,
        3 => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAMES: u64 = 1_000_000;

    fn share(percent: f64) -> Ratio {
        Ratio::from_fraction(percent / 100.0).unwrap()
    }

    fn fates(mut loss: Loss) -> Vec<bool> {
        let draw = Draw::new(7, 1, 0);
        (0..FRAMES).map(|index| loss.takes(draw, index, index)).collect()
    }

    fn mean(fates: &[bool]) -> f64 {
        fates.iter().filter(|lost| **lost).count() as f64 / fates.len() as f64
    }

    /// Lengths of loss runs.
    fn runs(fates: &[bool]) -> Vec<f64> {
        fates.chunk_by(|a, b| a == b).filter(|run| run[0]).map(|run| run.len() as f64).collect()
    }

    #[test]
    fn correlation_makes_runs_and_leaves_the_share() {
        let independent = fates(Loss::random(share(30.0), share(0.0)));
        let correlated = fates(Loss::random(share(30.0), share(75.0)));
        let length = |fates: &[bool]| {
            let runs = runs(fates);
            runs.iter().sum::<f64>() / runs.len() as f64
        };
        // With independent losses, a run continues with probability 0.3: mean length 1/0.7.
        assert!((length(&independent) - 1.0 / 0.7).abs() < 0.01, "{}", length(&independent));
        assert!(length(&correlated) > 2.0, "{}", length(&correlated));
        assert!((mean(&correlated) - 0.3).abs() < 0.005, "{}", mean(&correlated));
    }

    #[test]
    fn a_unit_is_lost_whole() {
        let mut loss = Loss::random(share(50.0), share(0.0));
        let draw = Draw::new(7, 1, 0);
        let fates: Vec<_> = (0..1000).map(|i| loss.takes(draw, i, i / 10)).collect();
        assert!(fates.chunks(10).all(|unit| unit.iter().all(|lost| *lost == unit[0])));
        assert!(mean(&fates) > 0.3 && mean(&fates) < 0.7);
    }

    #[test]
    fn bursts_of_gilbert_are_geometric() {
        // Simple Gilbert model: the bad state loses everything, the good state nothing.
        let config = GilbertElliott {
            p: share(2.0),
            r: share(25.0),
            loss_bad: share(100.0),
            loss_good: share(0.0),
        };
        let fates = fates(Loss::gilbert_elliott(config));
        assert!((config.mean() - 2.0 / 27.0).abs() < 1e-12);
        let error = 4.0 * (config.mean() * config.dispersion() / FRAMES as f64).sqrt();
        assert!((mean(&fates) - config.mean()).abs() < error, "{}", mean(&fates));
        let runs = runs(&fates);
        for length in 1..8 {
            let longer = runs.iter().filter(|run| **run > length as f64).count() as f64;
            let want = 0.75f64.powi(length);
            let error = 4.0 * (want * (1.0 - want) / runs.len() as f64).sqrt();
            assert!((longer / runs.len() as f64 - want).abs() < error, "runs over {length}");
        }
    }

    #[test]
    fn dispersion_is_the_variance_over_many_runs() {
        let config = GilbertElliott {
            p: share(2.0),
            r: share(25.0),
            loss_bad: share(30.0),
            loss_good: share(1.0),
        };
        let fates = fates(Loss::gilbert_elliott(config));
        let shares: Vec<f64> = fates.chunks(1000).map(mean).collect();
        let variance =
            shares.iter().map(|s| (s - config.mean()).powi(2)).sum::<f64>() / shares.len() as f64;
        let independent = config.mean() * (1.0 - config.mean()) / 1000.0;
        let ratio = variance / independent / config.dispersion();
        // A variance of 1,000 samples has a standard error of 4.5 %.
        assert!((ratio - 1.0).abs() < 0.18, "{ratio}, dispersion {}", config.dispersion());
    }

    #[test]
    fn four_states_lose_as_their_balance_says() {
        let config = Markov {
            p13: share(1.0),
            p31: share(20.0),
            p32: share(30.0),
            p23: share(40.0),
            p14: share(0.5),
        };
        let fates = fates(Loss::markov(config));
        // Bursts make the share vary more than independent losses; 0.004 is 4 standard
        // errors for a dispersion of 12.
        assert!((mean(&fates) - config.mean()).abs() < 0.004, "{} {}", mean(&fates), config.mean());
        let runs = runs(&fates);
        let single = runs.iter().filter(|run| **run == 1.0).count() as f64 / runs.len() as f64;
        assert!(single > 0.5, "half of the stays in 3 are of one frame, and all in 4: {single}");
    }

    #[test]
    fn the_mean_of_an_endless_burst_is_known() {
        let stuck = Markov {
            p13: share(1.0),
            p31: share(0.0),
            p32: share(50.0),
            p23: share(50.0),
            p14: share(0.0),
        };
        assert_eq!(stuck.mean(), 0.5);
        assert_eq!(Markov { p32: share(0.0), p23: share(0.0), ..stuck }.mean(), 1.0);
        assert_eq!(Markov { p13: share(0.0), ..stuck }.mean(), 0.0);
    }
}
