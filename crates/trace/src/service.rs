//! Choosing among resources so that service times are distributed as asked.

use crate::distribution::Distribution;
use std::sync::Arc;
use units::Span;

/// Resources of fixed service times, and the distribution that requests for them
/// are to have.
#[derive(Debug, Clone)]
pub struct Service {
    /// Path and service time in ns, by rising time.
    resources: Arc<Vec<(String, u64)>>,
    asked: Distribution,
}

impl Service {
    /// Resources for this distribution: `count` of them, 1 or more, each with the mean
    /// of an equal share of it, so that the mean of all is its mean. Their paths are
    /// `r0`, `r1`, ...
    pub fn made(asked: Distribution, count: usize) -> Self {
        let count = if asked.is_constant() { 1 } else { count.max(1) };
        const STEPS: usize = 64;
        let mean_of = |share: usize| -> f64 {
            let at = |step: usize| {
                asked
                    .quantile_ns((share as f64 + (step as f64 + 0.5) / STEPS as f64) / count as f64)
            };
            (0..STEPS).map(at).sum::<f64>() / STEPS as f64
        };
        let mut times: Vec<f64> = (0..count).map(mean_of).collect();
        // The last share has the tail, which sampling cuts short: it gets what is missing.
        let missing = asked.mean_ns() * count as f64 - times.iter().sum::<f64>();
        if let Some(last) = times.last_mut() {
            *last = (*last + missing).max(0.0);
        }
        let mut resources: Vec<(String, u64)> = times
            .iter()
            .enumerate()
            // To the microsecond, which is what a file of resources shows.
            .map(|(i, ns)| (format!("r{i}"), (ns / 1e3).round() as u64 * 1_000))
            .collect();
        resources.sort_by_key(|(_, ns)| *ns);
        Self { resources: Arc::new(resources), asked }
    }

    /// Resources that a device has, with their service times in ns; nothing of none.
    pub fn chosen(asked: Distribution, mut resources: Vec<(String, u64)>) -> Option<Self> {
        resources.sort_by_key(|(_, ns)| *ns);
        (!resources.is_empty()).then(|| Self { resources: Arc::new(resources), asked })
    }

    /// The resource for a request, by two uniform draws: a time is drawn from what was
    /// asked for, and of the two resources beside it the nearer is taken the oftener,
    /// so that the mean is kept. Times beyond the first and the last get those.
    pub fn pick(&self, time: f64, side: f64, index: u64) -> &(String, u64) {
        let wanted = self.asked.draw_ns(time, index);
        let above = self.resources.partition_point(|(_, ns)| *ns <= wanted);
        if above == 0 {
            return &self.resources[0];
        }
        let below = &self.resources[above - 1];
        let Some(next) = self.resources.get(above) else { return below };
        let share = (wanted - below.1) as f64 / (next.1 - below.1).max(1) as f64;
        if side < share { next } else { below }
    }

    /// What was asked for.
    pub fn asked(&self) -> &Distribution {
        &self.asked
    }

    /// Each resource's path and time.
    pub fn resources(&self) -> impl Iterator<Item = (&str, Span)> {
        self.resources.iter().map(|(path, ns)| (path.as_str(), Span::from_ns(*ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spread::Spread;
    use units::{Draw, Purpose};

    fn had(service: &Service, count: u64) -> Spread {
        let draw = Draw::new(5, 0, 0);
        let mut spread = Spread::new();
        for i in 0..count {
            let (time, side) =
                (draw.uniform(Purpose::Service, i), draw.uniform(Purpose::Choice, i));
            spread.record(service.pick(time, side, i).1);
        }
        spread
    }

    #[test]
    fn made_resources_give_the_mean_and_the_shape_that_was_asked_for() {
        for text in ["exponential:16ms", "gamma:mean=5ms,shape=3", "weibull:mean=5ms,shape=0.8"] {
            let asked: Distribution = text.parse().unwrap();
            let service = Service::made(asked.clone(), 100);
            let spread = had(&service, 50_000);
            assert!((spread.mean_ns() / asked.mean_ns() - 1.0).abs() < 0.015, "{text}");
            // Steps of 1 % cannot be nearer than half a step; chance adds 1.95 / sqrt(n).
            let distance = spread.distance_from(|ns| asked.cdf(ns));
            assert!(distance < 0.01 + 0.009, "{text}: {distance}");
        }
    }

    #[test]
    fn of_resources_that_there_are_those_are_chosen_that_keep_the_mean() {
        let asked: Distribution = "uniform:10ms,50ms".parse().unwrap();
        let resources = vec![("fast".into(), 10_000_000), ("slow".into(), 50_000_000)];
        let service = Service::chosen(asked, resources).unwrap();
        let mean = had(&service, 50_000).mean_ns();
        assert!((mean / 30e6 - 1.0).abs() < 0.01, "{mean}");
        assert!(Service::chosen("constant:1ms".parse().unwrap(), vec![]).is_none());
    }

    #[test]
    fn one_resource_is_always_it() {
        let service = Service::made("constant:5ms".parse().unwrap(), 100);
        assert_eq!(service.pick(0.3, 0.9, 0), &("r0".to_owned(), 5_000_000));
        assert_eq!(service.resources().count(), 1);
    }
}
