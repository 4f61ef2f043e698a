//! Which frames are lost: at random, in bursts, by Markov chains.

use crate::correlated::Correlated;
use serde::{Deserialize, Serialize};
use units::{Draw, Purpose, Ratio};

/// What shares one fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossUnit {
    /// Each frame is lost by itself.
    #[default]
    Frame,
    /// All fragments of one IP datagram are lost together.
    Datagram,
    /// The same, and back-to-back segments of one TCP flow up to 64 KiB: what a
    /// shaper sees behind segmentation offload.
    Train,
}

/// The model of Gilbert and Elliott: a good and a bad state, each with a loss of
/// its own (E. O. Elliott, BSTJ 42, 1963). The letters are tc-netem's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// From good to bad, at each frame.
    pub p: Ratio,
    /// From bad to good.
    pub r: Ratio,
    /// Loss in the bad state.
    #[serde(rename = "1-h")]
    pub loss_bad: Ratio,
    /// Loss in the good state.
    #[serde(rename = "1-k")]
    pub loss_good: Ratio,
}

/// tc-netem's four states: 1 received, 2 received within a burst, 3 lost within
/// a burst, 4 lost by itself (S. Salsano and others, "Definition of a general
/// and intuitive loss model for packet networks", 2012). `pij` leads from state
/// i to state j at each frame; from 4 it goes back to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Markov {
    /// Into a burst of losses.
    pub p13: Ratio,
    /// Out of it.
    pub p31: Ratio,
    /// From loss to reception within the burst.
    pub p32: Ratio,
    /// And back to loss.
    pub p23: Ratio,
    /// A loss by itself.
    pub p14: Ratio,
}

impl GilbertElliott {
    /// The share of frames lost over a long time; 1-k when nothing leads to the
    /// bad state.
    pub fn mean(&self) -> f64 {
        let (p, r) = (self.p.fraction(), self.r.fraction());
        let bad = if p + r == 0.0 { 0.0 } else { p / (p + r) };
        bad * self.loss_bad.fraction() + (1.0 - bad) * self.loss_good.fraction()
    }

    /// By how much more the share of losses varies from run to run than that of
    /// independent ones: the ratio of the variances over a long time. From the
    /// chain's autocorrelation, (1-p-r)^n at a distance of n.
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
    /// The share of frames lost over a long time, from the chain's stationary
    /// distribution.
    pub fn mean(&self) -> f64 {
        let [p13, p31, p32, p23, p14] =
            [self.p13, self.p31, self.p32, self.p23, self.p14].map(Ratio::fraction);
        if p31 == 0.0 && p13 > 0.0 {
            // No way back from the burst: it is a chain of states 2 and 3.
            return if p32 + p23 == 0.0 { 1.0 } else { p23 / (p32 + p23) };
        }
        // In terms of state 1, from the balance of the flows.
        let three = if p13 == 0.0 { 0.0 } else { p13 / p31 };
        let two = if p23 == 0.0 { 0.0 } else { three * p32 / p23 };
        let four = p14;
        if p23 == 0.0 && p32 > 0.0 && p13 > 0.0 {
            return 0.0;
        }
        (three + four) / (1.0 + two + three + four)
    }
}

/// The losses of one direction of a link.
#[derive(Debug, Clone)]
pub(crate) enum Loss {
    /// Each with the same probability.
    Random {
        share: f64,
        draws: Correlated,
        last: Option<(u64, bool)>,
    },
    GilbertElliott {
        asked: GilbertElliott,
        bad: bool,
    },
    Markov {
        asked: Markov,
        state: u8,
    },
}

impl Loss {
    pub fn random(share: Ratio, correlation: Ratio) -> Self {
        let draws = Correlated::new(correlation);
        Self::Random { share: share.fraction(), draws, last: None }
    }

    pub fn gilbert_elliott(asked: GilbertElliott) -> Self {
        Self::GilbertElliott { asked, bad: false }
    }

    pub fn markov(asked: Markov) -> Self {
        Self::Markov { asked, state: 1 }
    }

    /// Whether it has no states that go on while nothing is lost.
    pub fn is_random(&self) -> bool {
        matches!(self, Self::Random { .. })
    }

    /// Whether the frame is lost that is the `index`th of its link and belongs
    /// to the loss unit `unit`. Frames come in order.
    pub fn takes(&mut self, draw: Draw, index: u64, unit: u64) -> bool {
        match self {
            Self::Random { share, .. } if *share == 0.0 => false,
            Self::Random { share, draws, last } => match last {
                // One draw for all frames of a unit.
                Some((known, lost)) if *known == unit => *lost,
                _ => {
                    let lost = draws.next(draw.of(Purpose::Loss), unit) < *share;
                    *last = Some((unit, lost));
                    lost
                }
            },
            Self::GilbertElliott { asked, bad } => {
                let loss = if *bad { asked.loss_bad } else { asked.loss_good };
                let leave = if *bad { asked.r } else { asked.p };
                *bad ^= draw.uniform(Purpose::State, index) < leave.fraction();
                // Mostly nothing or all is lost in a state, and then no draw is looked at.
                match loss.fraction() {
                    share if share <= 0.0 => false,
                    share if share >= 1.0 => true,
                    share => draw.uniform(Purpose::Loss, index) < share,
                }
            }
            Self::Markov { asked, state } => {
                *state = next(asked, *state, draw.uniform(Purpose::State, index));
                matches!(*state, 3 | 4)
            }
        }
    }
}

/// The state after `state`, for `u` uniform in [0, 1).
fn next(asked: &Markov, state: u8, u: f64) -> u8 {
    match state {
        1 if u < asked.p14.fraction() => 4,
        1 if u < asked.p14.fraction() + asked.p13.fraction() => 3,
        2 if u < asked.p23.fraction() => 3,
        2 => 2,
        3 if u < asked.p32.fraction() => 2,
        3 if u < asked.p32.fraction() + asked.p31.fraction() => 1,
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

    /// Lengths of the runs of losses.
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
        // Of independent losses a run goes on with probability 0.3: 1/0.7 long.
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
        // Simple Gilbert: everything is lost in the bad state, nothing in the good.
        let asked = GilbertElliott {
            p: share(2.0),
            r: share(25.0),
            loss_bad: share(100.0),
            loss_good: share(0.0),
        };
        let fates = fates(Loss::gilbert_elliott(asked));
        assert!((asked.mean() - 2.0 / 27.0).abs() < 1e-12);
        let error = 4.0 * (asked.mean() * asked.dispersion() / FRAMES as f64).sqrt();
        assert!((mean(&fates) - asked.mean()).abs() < error, "{}", mean(&fates));
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
        let asked = GilbertElliott {
            p: share(2.0),
            r: share(25.0),
            loss_bad: share(30.0),
            loss_good: share(1.0),
        };
        let fates = fates(Loss::gilbert_elliott(asked));
        let shares: Vec<f64> = fates.chunks(1000).map(mean).collect();
        let variance =
            shares.iter().map(|s| (s - asked.mean()).powi(2)).sum::<f64>() / shares.len() as f64;
        let independent = asked.mean() * (1.0 - asked.mean()) / 1000.0;
        let ratio = variance / independent / asked.dispersion();
        // A variance of 1,000 samples has a standard error of 4.5 %.
        assert!((ratio - 1.0).abs() < 0.18, "{ratio}, dispersion {}", asked.dispersion());
    }

    #[test]
    fn four_states_lose_as_their_balance_says() {
        let asked = Markov {
            p13: share(1.0),
            p31: share(20.0),
            p32: share(30.0),
            p23: share(40.0),
            p14: share(0.5),
        };
        let fates = fates(Loss::markov(asked));
        // Bursts make it vary more than independent losses; 0.004 is 4 standard
        // errors for a dispersion of 12.
        assert!((mean(&fates) - asked.mean()).abs() < 0.004, "{} {}", mean(&fates), asked.mean());
        let runs = runs(&fates);
        let single = runs.iter().filter(|run| **run == 1.0).count() as f64 / runs.len() as f64;
        assert!(single > 0.5, "half of the stays in 3 are of one frame, and all in 4: {single}");
    }

    #[test]
    fn a_burst_without_end_is_told() {
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
