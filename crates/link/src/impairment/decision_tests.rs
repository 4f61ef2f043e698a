//! Tests of random decisions: their distributions and shares.

use super::{Decider, Impairment};
use crate::decisions::{Arrival, Decision};
use crate::test_times::{at, span};
use crate::{Distribution, Frame};
use units::Draw;

const FRAME: [u8; 127] = [0; 127];

fn decisions(change: impl FnOnce(&mut Impairment)) -> Vec<Decision> {
    let mut config = Impairment::default();
    change(&mut config);
    let mut decider = Decider::new(&config);
    let (frame, draw) = (&Frame::from(&FRAME[..]), Draw::new(7, 1, 0));
    let arrival = |index| Arrival { frame, index, now: at(index * 1_000_000_000), draw };
    (0..100_000).map(|index| decider.decide(&config, &arrival(index))).collect()
}

fn jittered(distribution: Distribution) -> Vec<f64> {
    let all = decisions(|config| {
        config.delay.mean = "30 ms".parse().unwrap();
        config.delay.jitter = "5 ms".parse().unwrap();
        config.delay.distribution = distribution;
    });
    all.iter().map(|decision| decision.delay.as_ns() as f64 / 1e6).collect()
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
        config.corrupt.share = "10 %".parse().unwrap();
        config.duplicate.share = "20 %".parse().unwrap();
        config.loss = "30 %".parse::<units::Ratio>().unwrap().into();
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
    let all = decisions(|config| config.corrupt.share = "100 %".parse().unwrap());
    let places: Vec<f64> =
        all.iter().map(|d| f64::from(d.corrupt.unwrap()) / 4_294_967_296.0).collect();
    let far = kolmogorov(places, |x| x);
    assert!(far < 1.95, "{far}");
}

#[test]
fn every_gapth_frame_overtakes() {
    let all = decisions(|config| {
        config.delay.mean = "30 ms".parse().unwrap();
        config.reorder.share = "100 %".parse().unwrap();
        config.reorder.gap = 5;
    });
    assert!(all.iter().enumerate().all(|(i, d)| d.overtakes == (i % 5 == 4)));
    assert!(all.iter().all(|d| d.delay == if d.overtakes { span(0) } else { span(30_000_000) }));
}

#[test]
fn a_gap_and_a_share_give_the_predicted_mean_delay() {
    let change = |config: &mut Impairment| {
        config.delay.mean = "30 ms".parse().unwrap();
        config.reorder.share = "25 %".parse().unwrap();
        config.reorder.gap = 3;
    };
    let mut config = Impairment::default();
    change(&mut config);
    let all = decisions(change);
    let mean = all.iter().map(|d| d.delay.as_ns() as f64).sum::<f64>() / all.len() as f64;
    assert!((mean / config.mean_delay_ns() - 1.0).abs() < 0.005, "{mean}");
}

/// What failed before: frames between two candidates drew a number, too, so the decisions of candidates
/// correlated less the larger the `gap` was. tc-netem draws for candidates only.
#[test]
fn successive_decisions_to_reorder_correlate_with_any_gap() {
    for gap in [1, 2, 5] {
        let all = decisions(|config| {
            config.delay.mean = "30 ms".parse().unwrap();
            config.reorder.share = "50 %".parse().unwrap();
            config.reorder.correlation = "50 %".parse().unwrap();
            config.reorder.gap = gap;
        });
        let mut delayed = 0;
        let mut candidates = Vec::new();
        for overtakes in all.iter().map(|decision| decision.overtakes) {
            if delayed >= gap - 1 {
                candidates.push(overtakes);
            }
            delayed = if overtakes { 0 } else { delayed + 1 };
        }
        let share = |count: usize| count as f64 / candidates.len() as f64;
        let one = share(candidates.iter().filter(|overtakes| **overtakes).count());
        let both = share(candidates.windows(2).filter(|pair| pair[0] && pair[1]).count());
        // Two normal numbers with correlation r are both negative with probability
        // 1/4 + asin(r) / 2 pi (Sheppard, 1899), and r is 2 sin(0.5 pi / 6).
        let expected =
            0.25 + (2.0 * (std::f64::consts::PI / 12.0).sin()).asin() / std::f64::consts::TAU;
        // More than four standard deviations of 33,000 correlated decisions.
        assert!((one - 0.5).abs() < 0.02, "{one} with gap {gap}");
        assert!((both - expected).abs() < 0.02, "{both} for {expected} with gap {gap}");
    }
}

#[test]
fn one_impairment_does_not_change_the_draws_of_another() {
    let alone = decisions(|config| config.loss = "30 %".parse::<units::Ratio>().unwrap().into());
    let along = decisions(|config| {
        config.loss = "30 %".parse::<units::Ratio>().unwrap().into();
        config.corrupt.share = "10 %".parse().unwrap();
        config.delay.jitter = "5 ms".parse().unwrap();
    });
    assert!(alone.iter().zip(&along).all(|(a, b)| a.lost == b.lost));
}
