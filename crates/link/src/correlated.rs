//! Uniform random numbers with serial correlation.

use crate::Distribution;
use crate::decisions::Arrival;
use crate::distribution::normal;
use statrs::function::erf::erfc;
use units::{Purpose, RandomStream, Ratio};

/// A sequence of uniform numbers with a given lag-1 correlation.
///
/// A Gaussian copula: a first-order autoregressive sequence of normal numbers, mapped to
/// uniform numbers by the normal distribution function. The marginal distribution stays
/// uniform, so a loss of 30 % stays 30 %. tc-netem instead mixes each number with the one
/// before, which narrows it towards one half and so changes the loss.
#[derive(Debug, Clone)]
pub(crate) struct Correlated {
    /// Correlation of the normal numbers.
    correlation: f64,
    /// Weight of the new normal number: sqrt(1 - r^2).
    own: f64,
    last: Option<f64>,
}

impl Default for Correlated {
    fn default() -> Self {
        Self::new(Ratio::default())
    }
}

impl Correlated {
    /// `correlation` is that of the uniform numbers.
    pub fn new(correlation: Ratio) -> Self {
        // For a bivariate normal, 6/pi asin(r/2) is the rank correlation (Pearson, 1907),
        // which is the correlation of the uniform numbers.
        let correlation = 2.0 * (std::f64::consts::FRAC_PI_6 * correlation.fraction()).sin();
        let own = (1.0 - correlation.powi(2)).max(0.0).sqrt();
        Self { correlation, own, last: None }
    }

    /// The number for the frame at `index`, in [0, 1), from `lot`.
    pub fn next(&mut self, lot: RandomStream, index: u64) -> f64 {
        let fresh = lot.uniform(index);
        if self.correlation == 0.0 {
            return fresh;
        }
        let number = self.step(fresh);
        (0.5 * erfc(-number / std::f64::consts::SQRT_2)).min(1.0 - f64::EPSILON)
    }

    /// Whether something that happens to this share of frames happens to this one.
    pub fn takes(&mut self, frame: &Arrival<'_>, purpose: Purpose, share: Ratio) -> bool {
        let share = share.fraction();
        share > 0.0 && self.next(frame.draw.of(purpose), frame.index) < share
    }

    /// The quantile of `shape` for the frame at `index`. A normal shape uses the normal
    /// number directly.
    pub fn shaped(&mut self, shape: &Distribution, lot: RandomStream, index: u64) -> f64 {
        let fresh = lot.uniform(index);
        match self.correlation == 0.0 {
            true => shape.quantile(fresh),
            false => shape.quantile_of_normal(self.step(fresh)),
        }
    }

    /// The next normal number of the autoregressive sequence.
    fn step(&mut self, fresh: f64) -> f64 {
        // Keep off 0: its quantile is minus infinity.
        let fresh = normal(fresh.max(f64::EPSILON));
        let number = self.last.map_or(fresh, |last| self.correlation * last + self.own * fresh);
        self.last = Some(number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Draw;

    fn sequence(correlation: f64) -> Vec<f64> {
        let mut draws = Correlated::new(Ratio::from_fraction(correlation).unwrap());
        let lot = Draw::new(7, 1, 0).of(Purpose::Loss);
        (0..200_000).map(|index| draws.next(lot, index)).collect()
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
        for expected in [0.0, 0.25, 0.5, 0.9] {
            let got = correlation(&sequence(expected));
            // Four standard errors of a correlation of 200,000 pairs: 0.009.
            assert!((got - expected).abs() < 0.009, "{got} for {expected}");
        }
    }

    #[test]
    fn each_draw_stays_uniform() {
        for correlation in [0.25, 0.9] {
            let draws = sequence(correlation);
            for share in [0.003, 0.3, 0.5, 0.9] {
                let below = draws.iter().filter(|u| **u < share).count() as f64 / 2e5;
                // A correlation of 0.9 leaves 1/19 of the numbers independent (0.1/1.9);
                // four standard errors of a binomial of those.
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
