//! Statistical tests: how far a ratio or mean may deviate from its configured value by chance.
//!
//! Ratios of independent losses are tested with the exact binomial distribution (Clopper and
//! Pearson, Biometrika 26, 1934, computed with the regularised incomplete beta function). Losses of
//! a model with states are tested with Chernoff's bound on its moment generating function, and
//! means of bounded variables with Bernstein's inequality. The last two are bounds: their rate of
//! false alarms is at most the nominal one.

use crate::chain::ChainBound;
use link::{Impairment, Loss, LossUnit, RandomLoss};
use statrs::function::beta::beta_reg;
use std::sync::Arc;

/// The loss process of a link direction.
#[derive(Debug, Clone)]
pub(crate) enum Losses {
    /// Independent draws with the same probability; each decides `frames_a_draw` frames on average
    /// (1 unless neighbouring frames share a draw).
    Independent { share: f64, frames_a_draw: f64 },
    /// A model whose states have different loss rates.
    Chain(Arc<ChainBound>),
}

impl Losses {
    /// The loss process of `configured` for frames of `mean_bytes`. `chain` creates or looks up the
    /// bound of a model with states.
    pub fn of(
        configured: &Impairment,
        mean_bytes: f64,
        chain: impl FnOnce(&Impairment) -> Option<Arc<ChainBound>>,
    ) -> Self {
        if let Some(bound) = chain(configured) {
            return Self::Chain(bound);
        }
        let random = match configured.loss {
            Loss::Random(random) => random,
            _ => RandomLoss::default(),
        };
        // An autoregressive sequence with this correlation has the variance of fewer independent
        // draws, by this factor. The normal variables behind the draws have a slightly higher
        // correlation than the draws (at most 4.72 %: 2 sin(pi c/6)).
        let correlation = random.correlation.fraction();
        let normal = 2.0 * (std::f64::consts::FRAC_PI_6 * correlation).sin();
        // A correlation of 1 would divide by 0.
        let neighbours = (1.0 + normal) / (1.0 - normal).max(1e-3);
        let unit = match random.unit {
            LossUnit::Frame => 1.0,
            // A datagram of 64 KiB or a train has at most this many frames.
            LossUnit::Datagram | LossUnit::Train => (65_536.0 / mean_bytes.max(1.0)).max(1.0),
        };
        Self::Independent { share: random.share.fraction(), frames_a_draw: neighbours * unit }
    }

    /// The two-sided p-value of `lost` losses among `of` frames: the probability of as many or more
    /// (or, below the expected number, as many or fewer), doubled, at most 1.
    pub fn p_value(&self, lost: u64, of: u64) -> f64 {
        let (lost, of) = (lost.min(of) as f64, of as f64);
        if of == 0.0 {
            return 1.0;
        }
        (2.0 * self.at_least(lost, of).min(self.at_most(lost, of))).min(1.0)
    }

    /// Whether the p-value of `lost` of `of` frames is at least `alpha`, which is below 1 %.
    pub fn is_likely(&self, lost: u64, of: u64, alpha: f64) -> bool {
        if let Self::Independent { share, frames_a_draw } = self {
            // Within two standard deviations the p-value is above 3 % for every binomial
            // distribution: most intervals need no computation.
            let (expected, of) = (of as f64 * share, of as f64);
            let variance = expected * (1.0 - share) * frames_a_draw;
            if (lost as f64 - expected).powi(2) <= 4.0 * variance.min(of * of) {
                return true;
            }
        }
        self.p_value(lost, of) >= alpha
    }

    /// The least and greatest number of losses among `of` frames with a two-sided p-value of at
    /// least `alpha`.
    pub fn limits(&self, of: u64, alpha: f64) -> (u64, u64) {
        let total = of as f64;
        let likely = |p: f64| 2.0 * p >= alpha;
        // Both tails are monotone, so a binary search finds the limits.
        let least = first(0, of, |k| likely(self.at_most(k as f64, total)));
        let most = of - first(0, of, |k| likely(self.at_least((of - k) as f64, total)));
        (least, most)
    }

    fn at_least(&self, lost: f64, of: f64) -> f64 {
        match self {
            Self::Independent { share, frames_a_draw } => {
                upper_tail(lost / frames_a_draw, of / frames_a_draw, *share)
            }
            Self::Chain(bound) => bound.at_least(lost as u64, of as u64),
        }
    }

    fn at_most(&self, lost: f64, of: f64) -> f64 {
        match self {
            Self::Independent { share, frames_a_draw } => {
                upper_tail((of - lost) / frames_a_draw, of / frames_a_draw, 1.0 - share)
            }
            Self::Chain(bound) => bound.at_most(lost as u64, of as u64),
        }
    }
}

/// Binary search: the first number from `from` to `to` for which `holds` is true, given that it
/// stays true; `to` if there is none before.
fn first(from: u64, to: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut from, mut to) = (from, to);
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) { to = middle } else { from = middle + 1 }
    }
    to
}

/// The probability of at least `k` successes in `n` draws with probability `p`: I_p(k, n - k + 1),
/// which is defined for fractional draws, too.
fn upper_tail(k: f64, n: f64, p: f64) -> f64 {
    if k <= 0.0 || p >= 1.0 {
        1.0
    } else if p <= 0.0 {
        0.0
    } else {
        beta_reg(k, (n - k).max(0.0) + 1.0, p)
    }
}

/// The deviation of the mean of `n` independent variables from its expected value that is exceeded
/// with a probability of less than `alpha`. The variables have this standard deviation and lie
/// within `bound` of their mean (Bernstein's inequality). In their unit.
pub(crate) fn mean_tolerance(deviation: f64, bound: f64, n: f64, alpha: f64) -> f64 {
    let log = (2.0 / alpha).ln();
    let linear = bound * log / (3.0 * n);
    let tolerance = linear + (linear * linear + 2.0 * deviation * deviation * log / n).sqrt();
    // No mean can deviate more than each of its variables.
    tolerance.min(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn independent(share: f64) -> Losses {
        Losses::Independent { share, frames_a_draw: 1.0 }
    }

    #[test]
    fn tails_are_those_of_the_binomial_distribution() {
        // P(X >= 8) of 10 at 0.3 is 0.0015903864, P(X <= 0) is 0.7^10 = 0.0282475249.
        let losses = independent(0.3);
        assert!((losses.p_value(8, 10) - 2.0 * 0.001_590_386_4).abs() < 1e-9);
        assert!((losses.p_value(0, 10) - 2.0 * 0.028_247_524_9).abs() < 1e-9);
        assert_eq!(losses.p_value(3, 10), 1.0);
        assert!((independent(0.02).p_value(1, 1) - 0.04).abs() < 1e-12, "one frame of one");
    }

    #[test]
    fn what_cannot_happen_has_no_probability() {
        assert_eq!(independent(0.0).p_value(1, 1_000), 0.0);
        assert_eq!(independent(1.0).p_value(999, 1_000), 0.0);
        assert_eq!(independent(0.0).p_value(0, 1_000), 1.0);
        assert_eq!(independent(0.3).p_value(0, 0), 1.0);
    }

    #[test]
    fn what_is_near_the_mean_is_likely_without_a_sum() {
        for n in 1..60 {
            for share in [0.001, 0.02, 0.1, 0.3, 0.5, 0.97] {
                let losses = independent(share);
                for k in 0..=n {
                    let exact = losses.p_value(k, n) >= 0.009;
                    assert_eq!(losses.is_likely(k, n, 0.009), exact, "{k} of {n} at {share}");
                }
            }
        }
    }

    #[test]
    fn limits_are_where_the_p_value_crosses() {
        for (share, of) in [(0.02, 1), (0.3, 40), (0.3, 10_000), (0.001, 5_000), (0.0, 7)] {
            let losses = independent(share);
            let (least, most) = losses.limits(of, 1e-6);
            assert!(losses.p_value(least, of) >= 1e-6 && losses.p_value(most, of) >= 1e-6);
            assert!(least == 0 || losses.p_value(least - 1, of) < 1e-6, "{share} {of}");
            assert!(most == of || losses.p_value(most + 1, of) < 1e-6, "{share} {of}");
        }
    }

    #[test]
    fn neighbours_that_share_their_luck_may_vary_more() {
        let alone = independent(0.1).limits(10_000, 1e-6).1;
        let pairs = Losses::Independent { share: 0.1, frames_a_draw: 2.0 };
        let (_, most) = pairs.limits(10_000, 1e-6);
        // Larger by a factor of the square root of 2.
        let ratio = (most as f64 - 1_000.0) / (alone as f64 - 1_000.0);
        assert!((ratio - 2f64.sqrt()).abs() < 0.05, "{ratio}");
    }

    #[test]
    fn bernstein_is_near_the_normal_for_many_and_the_bound_for_few() {
        let many = mean_tolerance(1.0, 4.0, 1e6, 1e-6) * 1e3;
        assert!((many - (2.0 * (2e6f64).ln()).sqrt()).abs() < 0.05, "{many}");
        assert_eq!(mean_tolerance(1.0, 4.0, 1.0, 1e-6), 4.0);
        assert_eq!(mean_tolerance(0.0, 0.0, 10.0, 1e-6), 0.0);
    }
}
