//! Random impairment decisions for each frame of a direction.

use crate::correlated::Correlated;
use crate::loss::{Loss, LossUnit};
use crate::{Frame, Impairment, Instant, Trains};
use units::{Draw, Purpose, Ratio};

/// Random decisions about one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decision {
    /// The frame is lost.
    pub lost: bool,
    /// The frame is duplicated.
    pub duplicated: bool,
    /// The frame is not delayed, and so overtakes others.
    pub overtakes: bool,
    /// Position of the flipped bit, as a fraction of the frame's length in units of 2^-32.
    pub corrupt: Option<u32>,
    /// Time from the end of serialisation to delivery, in ns.
    pub delay: u64,
}

/// Makes random decisions about the frames of one flow, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Decider {
    draw: Draw,
    loss: Loss,
    trains: Option<Box<Trains>>,
    jitter: Correlated,
    corrupt: Correlated,
    duplicate: Correlated,
    reorder: Correlated,
    /// Frames delayed since the last one that overtook.
    delayed: u32,
}

impl Decider {
    pub fn new(config: &Impairment, draw: Draw) -> Self {
        Self {
            draw,
            loss: loss(config),
            trains: trains(config.loss_unit),
            jitter: Correlated::new(config.correlation),
            corrupt: Correlated::new(config.corrupt_correlation),
            duplicate: Correlated::new(config.duplicate_correlation),
            reorder: Correlated::new(config.reorder_correlation),
            delayed: 0,
        }
    }

    /// Applies the new settings instead of `before`. A model keeps its state unless it is
    /// replaced by another model.
    pub fn change(&mut self, before: &Impairment, config: &Impairment) {
        let fresh = Self::new(config, self.draw);
        match (&mut self.loss, fresh.loss) {
            (Loss::Random { share, .. }, Loss::Random { share: new, .. })
                if before.loss_correlation == config.loss_correlation =>
            {
                *share = new;
            }
            (Loss::GilbertElliott { config, .. }, Loss::GilbertElliott { config: new, .. }) => {
                *config = new;
            }
            (Loss::Markov { config, .. }, Loss::Markov { config: new, .. }) => *config = new,
            (loss, fresh) => *loss = fresh,
        }
        if before.loss_unit != config.loss_unit {
            self.trains = fresh.trains;
        }
        let kept = [
            (&mut self.jitter, fresh.jitter, before.correlation, config.correlation),
            (
                &mut self.corrupt,
                fresh.corrupt,
                before.corrupt_correlation,
                config.corrupt_correlation,
            ),
            (
                &mut self.duplicate,
                fresh.duplicate,
                before.duplicate_correlation,
                config.duplicate_correlation,
            ),
            (
                &mut self.reorder,
                fresh.reorder,
                before.reorder_correlation,
                config.reorder_correlation,
            ),
        ];
        for (draws, fresh, was, is) in kept {
            if was != is {
                *draws = fresh;
            }
        }
    }

    /// Uses these random numbers from now on, for a decider without state.
    pub fn aim(&mut self, draw: Draw) {
        self.draw = draw;
        self.loss.forget_unit();
    }

    /// Whether decisions depend on the flow's earlier frames.
    pub fn has_state(config: &Impairment) -> bool {
        let correlations = [
            config.loss_correlation,
            config.correlation,
            config.corrupt_correlation,
            config.duplicate_correlation,
        ];
        config.gilbert_elliott.is_some()
            || config.markov.is_some()
            || config.loss_unit != LossUnit::Frame
            || config.reorder.fraction() > 0.0
            || correlations.iter().any(|correlation| correlation.fraction() > 0.0)
    }

    /// The decision for `frame`, number `index` of its flow, which arrived at `now`.
    pub fn decide(
        &mut self,
        config: &Impairment,
        index: u64,
        frame: &Frame,
        now: Instant,
    ) -> Decision {
        let trains = self.trains.as_mut();
        let unit = trains.map_or(index, |trains| trains.number(frame, now));
        let draw = self.draw;
        let overtakes = self.overtakes(config, index);
        Decision {
            lost: self.loss.takes(draw, index, unit),
            duplicated: takes(
                &mut self.duplicate,
                draw,
                Purpose::Duplicate,
                config.duplicate,
                index,
            ),
            overtakes,
            corrupt: takes(&mut self.corrupt, draw, Purpose::Corrupt, config.corrupt, index)
                .then(|| (draw.uniform(Purpose::Bit, index) * 4_294_967_296.0) as u32),
            delay: match overtakes {
                true => 0,
                false if config.jitter.as_ns() == 0 => config.delay.as_ns(),
                false => {
                    let shape = &config.distribution;
                    config.delay_ns(self.jitter.shaped(shape, draw.of(Purpose::Jitter), index))
                }
            },
        }
    }

    /// The decision for a duplicate, independent of the original.
    pub fn decide_copy(&self, config: &Impairment, index: u64) -> Decision {
        let draw = self.draw.of_copies();
        Decision {
            lost: draw.uniform(Purpose::Loss, index) < config.mean_loss(),
            delay: match config.jitter.as_ns() {
                0 => config.delay.as_ns(),
                _ => config
                    .delay_ns(config.distribution.quantile(draw.uniform(Purpose::Jitter, index))),
            },
            ..Decision::default()
        }
    }

    /// tc-netem's rule: after `gap - 1` delayed frames, each frame overtakes with the
    /// configured probability.
    fn overtakes(&mut self, config: &Impairment, index: u64) -> bool {
        if config.reorder.fraction() == 0.0 {
            return false;
        }
        let u = self.reorder.next(self.draw.of(Purpose::Reorder), index);
        let overtakes =
            self.delayed >= config.gap.saturating_sub(1) && u < config.reorder.fraction();
        self.delayed = if overtakes { 0 } else { self.delayed.saturating_add(1) };
        overtakes
    }
}

fn takes(draws: &mut Correlated, draw: Draw, purpose: Purpose, share: Ratio, index: u64) -> bool {
    share.fraction() > 0.0 && draws.next(draw.of(purpose), index) < share.fraction()
}

fn loss(config: &Impairment) -> Loss {
    match (config.gilbert_elliott, config.markov) {
        (Some(model), _) => Loss::gilbert_elliott(model),
        (None, Some(model)) => Loss::markov(model),
        (None, None) => Loss::random(config.loss, config.loss_correlation),
    }
}

fn trains(unit: LossUnit) -> Option<Box<Trains>> {
    match unit {
        LossUnit::Frame => None,
        LossUnit::Datagram => Some(Box::new(Trains::of_datagrams())),
        LossUnit::Train => Some(Box::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;

    const FRAME: [u8; 127] = [0; 127];

    fn decisions(change: impl FnOnce(&mut Impairment)) -> Vec<Decision> {
        let mut config = Impairment::default();
        change(&mut config);
        let mut fates = Decider::new(&config, Draw::new(7, 1, 0));
        let frame = Frame::from(&FRAME[..]);
        (0..100_000).map(|i| fates.decide(&config, i, &frame, i * 1_000_000_000)).collect()
    }

    fn jittered(distribution: Distribution) -> Vec<f64> {
        let all = decisions(|config| {
            config.delay = "30 ms".parse().unwrap();
            config.jitter = "5 ms".parse().unwrap();
            config.distribution = distribution;
        });
        all.iter().map(|decision| decision.delay as f64 / 1e6).collect()
    }

    /// The largest distance between the sample's distribution and `cdf` (Kolmogorov and
    /// Smirnov), times the root of the sample size; above 1.95 with probability 0.001.
    fn kolmogorov(mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
        sample.sort_by(f64::total_cmp);
        let n = sample.len() as f64;
        let distance = |(i, x): (usize, &f64)| {
            (cdf(*x) - i as f64 / n).abs().max((cdf(*x) - (i + 1) as f64 / n).abs())
        };
        sample.iter().enumerate().map(distance).fold(0.0, f64::max) * n.sqrt()
    }

    #[test]
    fn delays_are_distributed_as_asked() {
        use statrs::function::erf::erfc;
        let normal = |x: f64| 0.5 * erfc(-(x - 30.0) / 5.0 / std::f64::consts::SQRT_2);
        // For a Pareto variable X of shape 3: 1 - X^-3, X = 3/4 z + 1.5.
        let pareto = |x: f64| 1.0 - (0.75 * (x - 30.0) / 5.0 + 1.5).max(1.0).powi(-3);
        let uniform = |x: f64| ((x - 25.0) / 10.0).clamp(0.0, 1.0);
        let far = [
            kolmogorov(jittered(Distribution::Uniform), uniform),
            kolmogorov(jittered(Distribution::Normal), normal),
            // Values above four jitters are truncated there: 0.0105 of the frames have that
            // one value, while the formula spreads them.
            kolmogorov(
                jittered(Distribution::Pareto).into_iter().filter(|x| *x < 49.9).collect(),
                |x| pareto(x) / pareto(49.9),
            ),
        ];
        assert!(far.iter().all(|distance| *distance < 1.95), "{far:?}");
    }

    #[test]
    fn shares_are_those_asked_for() {
        let share = |n: usize| n as f64 / 1e5;
        let all = decisions(|config| {
            config.corrupt = "10 %".parse().unwrap();
            config.duplicate = "20 %".parse().unwrap();
            config.loss = "30 %".parse().unwrap();
        });
        let count = |of: fn(&Decision) -> bool| share(all.iter().filter(|d| of(d)).count());
        // Four standard deviations of a binomial of 100,000: at most 0.006.
        assert!((count(|d| d.corrupt.is_some()) - 0.1).abs() < 0.004);
        assert!((count(|d| d.duplicated) - 0.2).abs() < 0.006);
        assert!((count(|d| d.lost) - 0.3).abs() < 0.006);
        assert!((count(|d| d.lost && d.duplicated) - 0.06).abs() < 0.003, "independent draws");
    }

    #[test]
    fn any_bit_may_be_turned_over() {
        let all = decisions(|config| config.corrupt = "100 %".parse().unwrap());
        let places: Vec<f64> =
            all.iter().map(|d| f64::from(d.corrupt.unwrap()) / 4_294_967_296.0).collect();
        let far = kolmogorov(places, |x| x);
        assert!(far < 1.95, "{far}");
    }

    #[test]
    fn every_gapth_frame_overtakes() {
        let all = decisions(|config| {
            config.delay = "30 ms".parse().unwrap();
            config.reorder = "100 %".parse().unwrap();
            config.gap = 5;
        });
        assert!(all.iter().enumerate().all(|(i, d)| d.overtakes == (i % 5 == 4)));
        assert!(all.iter().all(|d| d.delay == if d.overtakes { 0 } else { 30_000_000 }));
    }

    #[test]
    fn a_gap_and_a_share_give_the_predicted_mean_delay() {
        let change = |config: &mut Impairment| {
            config.delay = "30 ms".parse().unwrap();
            config.reorder = "25 %".parse().unwrap();
            config.gap = 3;
        };
        let mut config = Impairment::default();
        change(&mut config);
        let all = decisions(change);
        let mean = all.iter().map(|d| d.delay as f64).sum::<f64>() / all.len() as f64;
        assert!((mean / config.mean_delay_ns() - 1.0).abs() < 0.005, "{mean}");
    }

    #[test]
    fn one_impairment_does_not_change_the_draws_of_another() {
        let alone = decisions(|config| config.loss = "30 %".parse().unwrap());
        let along = decisions(|config| {
            config.loss = "30 %".parse().unwrap();
            config.corrupt = "10 %".parse().unwrap();
            config.jitter = "5 ms".parse().unwrap();
        });
        assert!(alone.iter().zip(&along).all(|(a, b)| a.lost == b.lost));
    }
}
