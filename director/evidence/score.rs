//! Costs of runs, and those of an oracle that knows the timetable.

use crate::trial::Outcome;
use director::Span;

/// The cost of each message in ms: the mean time of its answers, where an answer that has
/// not arrived by the deadline counts as the deadline.
pub fn costs(outcome: &Outcome, deadline: Span) -> Vec<f64> {
    let capped = |duration: &Option<Span>| {
        duration.map_or(deadline, |duration| duration.min(deadline)).as_ns_f64()
    };
    let mean = |durations: &[Option<Span>]| {
        durations.iter().map(capped).sum::<f64>() / durations.len().max(1) as f64 / 1e6
    };
    outcome.messages.iter().map(|message| mean(&message.durations)).collect()
}

/// The share of answers that arrived by the deadline, 0 to 1.
pub fn delivery(outcome: &Outcome, deadline: Span) -> f64 {
    let all = outcome.messages.iter().flat_map(|message| &message.durations);
    let (mut arrived, mut count) = (0_u64, 0_u64);
    for duration in all {
        count += 1;
        arrived += u64::from(duration.is_some_and(|duration| duration <= deadline));
    }
    arrived as f64 / count.max(1) as f64
}

/// The index of the phase that contains a time; `boundaries` are sorted.
pub fn phase(boundaries: &[Span], at: Span) -> usize {
    boundaries.partition_point(|boundary| *boundary <= at)
}

/// The oracle's models by phase, and their total cost in ms. The oracle knows the timetable but
/// not the random decisions: it uses in each phase the model that is best there on average, and
/// a change costs `switch_ms` once. `phases` has each model's total cost by phase.
pub fn oracle(phases: &[Vec<f64>], switch_ms: f64) -> (Vec<usize>, f64) {
    let models = phases.first().map_or(0, Vec::len);
    // The smallest cost so far that ends with each model, and its path.
    let mut smallest: Vec<(f64, Vec<usize>)> = vec![(0.0, Vec::new()); models];
    for (place, costs) in phases.iter().enumerate() {
        let next = |model: usize| {
            // The first phase may start with any model at no cost.
            let from = |before: usize| {
                let change = if place > 0 && before != model { switch_ms } else { 0.0 };
                smallest[before].0 + change + costs[model]
            };
            let best = (0..models).min_by(|a, b| from(*a).total_cmp(&from(*b))).unwrap_or(0);
            let mut path = smallest[best].1.clone();
            path.push(model);
            (from(best), path)
        };
        smallest = (0..models).map(next).collect();
    }
    let best = smallest.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or((Vec::new(), 0.0), |(cost, path)| (path, cost))
}

/// The mean of paired ratios and its 95 % interval, by Student's t-distribution.
pub fn interval(values: &[f64]) -> (f64, f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let spread = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    // The standard error of the mean, with n - 1 for the unbiased variance.
    let error = (spread / (count - 1.0).max(1.0) / count).sqrt();
    // The 97.5 % quantile for one degree of freedom less than values. Each row has that of its
    // smallest number, so no interval is too narrow.
    let student = match values.len() {
        0..=2 => 12.706,
        3 => 4.303,
        4 => 3.182,
        5 => 2.776,
        6..=7 => 2.571,
        8..=10 => 2.365,
        11..=14 => 2.228,
        15..=19 => 2.145,
        _ => 2.093,
    };
    (mean, mean - student * error, mean + student * error)
}
