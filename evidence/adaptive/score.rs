//! What runs are worth, and what somebody who knows the timetable could have had.

use crate::trial::Outcome;
use director::Nanos;

/// The cost of each message: the mean time that its answers took, in ms, where one that is
/// not there by the deadline took as long as that.
pub fn costs(outcome: &Outcome, deadline: Nanos) -> Vec<f64> {
    let capped = |took: &Option<Nanos>| took.map_or(deadline, |took| took.min(deadline)) as f64;
    let mean = |took: &[Option<Nanos>]| {
        took.iter().map(capped).sum::<f64>() / took.len().max(1) as f64 / 1e6
    };
    outcome.messages.iter().map(|told| mean(&told.took)).collect()
}

/// The share of answers that came by the deadline.
pub fn delivery(outcome: &Outcome, deadline: Nanos) -> f64 {
    let all = outcome.messages.iter().flat_map(|told| &told.took);
    let (mut came, mut count) = (0_u64, 0_u64);
    for took in all {
        count += 1;
        came += u64::from(took.is_some_and(|took| took <= deadline));
    }
    came as f64 / count.max(1) as f64
}

/// The phase that a moment is in; `borders` are in order.
pub fn phase(borders: &[Nanos], at: Nanos) -> usize {
    borders.partition_point(|border| *border <= at)
}

/// What somebody has who knows the timetable, but not what chance decides: in each phase the
/// model that is best there on average, where a change costs `switch_ms` once. `phases` holds
/// for each phase what each model's messages cost in sum. The models, and the sum.
pub fn oracle(phases: &[Vec<f64>], switch_ms: f64) -> (Vec<usize>, f64) {
    let models = phases.first().map_or(0, Vec::len);
    // The least cost so far that ends with each model, and by which way.
    let mut least: Vec<(f64, Vec<usize>)> = vec![(0.0, Vec::new()); models];
    for (place, costs) in phases.iter().enumerate() {
        let next = |model: usize| {
            let from = |before: usize| {
                let change = if place > 0 && before != model { switch_ms } else { 0.0 };
                least[before].0 + change + costs[model]
            };
            let best = (0..models).min_by(|a, b| from(*a).total_cmp(&from(*b))).unwrap_or(0);
            let mut way = least[best].1.clone();
            way.push(model);
            (from(best), way)
        };
        least = (0..models).map(next).collect();
    }
    let best = least.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or((Vec::new(), 0.0), |(cost, way)| (way, cost))
}

/// The mean of paired ratios and its interval of 95 %, by Student's distribution.
pub fn interval(values: &[f64]) -> (f64, f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let spread = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let error = (spread / (count - 1.0).max(1.0) / count).sqrt();
    // Of 19 degrees of freedom 2.093; of fewer more.
    let student = match values.len() {
        0..=2 => 12.706,
        3 => 4.303,
        4..=5 => 2.776,
        6..=10 => 2.262,
        11..=19 => 2.145,
        _ => 2.093,
    };
    (mean, mean - student * error, mean + student * error)
}
