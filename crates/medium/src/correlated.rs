//! Uniform draws of which successive ones are correlated.

use crate::distribution::normal;
use statrs::function::erf::erfc;
use units::{Draw, Purpose, Ratio};

/// A sequence of uniform draws with a given correlation from one to the next.
///
/// Made by a Gaussian copula: a first-order autoregressive sequence of normal
/// numbers, taken back to uniform ones by their distribution function. Each
/// draw is as uniform as without a correlation, so that a loss of 30 % stays
/// 30 %; tc-netem mixes the draw with the one before, which narrows it towards
/// one half and so changes the loss.
#[derive(Debug, Clone)]
pub(crate) struct Correlated {
    purpose: Purpose,
    /// Of the normal numbers.
    correlation: f64,
    last: Option<f64>,
}

impl Correlated {
    /// Draws for `purpose`; `correlation` is that of the uniform draws.
    pub fn new(purpose: Purpose, correlation: Ratio) -> Self {
        // Of a bivariate normal, 6/pi asin(r/2) is the rank correlation
        // (Pearson, 1907), which for uniform numbers is the correlation.
        let correlation = 2.0 * (std::f64::consts::FRAC_PI_6 * correlation.fraction()).sin();
        Self { purpose, correlation, last: None }
    }

    /// The draw for the frame at `index`, in [0, 1).
    pub fn next(&mut self, draw: Draw, index: u64) -> f64 {
        let fresh = draw.uniform(self.purpose, index);
        if self.correlation == 0.0 {
            return fresh;
        }
        // Kept off 0, whose quantile is minus infinity.
        let fresh = normal(fresh.max(f64::EPSILON));
        let number = match self.last {
            None => fresh,
            Some(last) => {
                self.correlation * last + (1.0 - self.correlation.powi(2)).max(0.0).sqrt() * fresh
            }
        };
        self.last = Some(number);
        (0.5 * erfc(-number / std::f64::consts::SQRT_2)).min(1.0 - f64::EPSILON)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(correlation: f64) -> Vec<f64> {
        let mut draws = Correlated::new(Purpose::Loss, Ratio::from_fraction(correlation).unwrap());
        let draw = Draw::new(7, 1, 0);
        (0..200_000).map(|index| draws.next(draw, index)).collect()
    }

    fn correlation(draws: &[f64]) -> f64 {
        let n = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / n;
        let product = |lag: usize| {
            let pairs = draws.iter().zip(&draws[lag..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>()
        };
        product(1) / product(0)
    }

    #[test]
    fn the_correlation_is_the_one_asked_for() {
        for asked in [0.0, 0.25, 0.5, 0.9] {
            let got = correlation(&sequence(asked));
            // Four standard errors of a correlation of 200,000 pairs: 0.009.
            assert!((got - asked).abs() < 0.009, "{got} for {asked}");
        }
    }

    #[test]
    fn each_draw_stays_uniform() {
        for correlation in [0.25, 0.9] {
            let draws = sequence(correlation);
            for share in [0.003, 0.3, 0.5, 0.9] {
                let below = draws.iter().filter(|u| **u < share).count() as f64 / 2e5;
                // A correlation of 0.9 leaves a twentieth of the draws independent
                // (0.1/1.9); four standard errors of a binomial of those.
                let error = 4.0 * (share * (1.0 - share) / (2e5 / 19.0)).sqrt();
                assert!((below - share).abs() < error, "{below} for {share} at {correlation}");
            }
        }
    }

    #[test]
    fn whole_correlation_repeats_the_first_draw() {
        let draws = sequence(1.0);
        assert!(draws.iter().all(|u| (u - draws[0]).abs() < 1e-6));
    }
}
