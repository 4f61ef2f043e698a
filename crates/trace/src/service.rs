//! Chooses resources so that service times follow a distribution.

use crate::distribution::Distribution;
use std::sync::Arc;
use units::Span;

/// Resources with fixed service times, and the distribution of service times over requests.
#[derive(Debug, Clone)]
pub struct Service {
    /// Path and service time in ns, ascending by time.
    resources: Arc<Vec<(String, u64)>>,
    distribution: Distribution,
}

impl Service {
    /// Generates `count` resources (1 or more) for this distribution. Each takes the mean of an
    /// equal share of it, so the mean over all is that of the distribution. Their paths are `r0`,
    /// `r1`, ...
    pub fn made(distribution: Distribution, count: usize) -> Self {
        let count = if distribution.is_constant() { 1 } else { count.max(1) };
        const STEPS: usize = 64;
        let mean_of = |share: usize| -> f64 {
            let at = |step: usize| {
                distribution
                    .quantile_ns((share as f64 + (step as f64 + 0.5) / STEPS as f64) / count as f64)
            };
            (0..STEPS).map(at).sum::<f64>() / STEPS as f64
        };
        let mut times: Vec<f64> = (0..count).map(mean_of).collect();
        // Sampling truncates the tail in the last share: add what is missing to the mean.
        let missing = distribution.mean_ns() * count as f64 - times.iter().sum::<f64>();
        if let Some(last) = times.last_mut() {
            *last = (*last + missing).max(0.0);
        }
        let mut resources: Vec<(String, u64)> = times
            .iter()
            .enumerate()
            // Rounded to microseconds, the resolution of resource files.
            .map(|(i, ns)| (format!("r{i}"), (ns / 1e3).round() as u64 * 1_000))
            .collect();
        resources.sort_by_key(|(_, ns)| *ns);
        Self { resources: Arc::new(resources), distribution }
    }

    /// Uses existing resources with service times in ns; none if the list is empty.
    pub fn chosen(distribution: Distribution, mut resources: Vec<(String, u64)>) -> Option<Self> {
        resources.sort_by_key(|(_, ns)| *ns);
        (!resources.is_empty()).then(|| Self { resources: Arc::new(resources), distribution })
    }

    /// The resource for a request, from two uniform random numbers. `time` draws a service time
    /// from the distribution; `side` chooses between the two neighbouring resources with a
    /// probability that preserves the mean. Times outside the range use the first or last
    /// resource.
    pub fn pick(&self, time: f64, side: f64, index: u64) -> &(String, u64) {
        let target = self.distribution.draw_ns(time, index);
        let above = self.resources.partition_point(|(_, ns)| *ns <= target);
        if above == 0 {
            return &self.resources[0];
        }
        let below = &self.resources[above - 1];
        let Some(next) = self.resources.get(above) else { return below };
        let share = (target - below.1) as f64 / (next.1 - below.1).max(1) as f64;
        if side < share { next } else { below }
    }

    /// The configured distribution of service times.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// Path and service time of each resource.
    pub fn resources(&self) -> impl Iterator<Item = (&str, Span)> {
        self.resources.iter().map(|(path, ns)| (path.as_str(), Span::from_ns(*ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Histogram;
    use units::{Draw, Purpose};

    fn had(service: &Service, count: u64) -> Histogram {
        let draw = Draw::new(5, 0, 0);
        let mut spread = Histogram::new();
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
            let distribution: Distribution = text.parse().unwrap();
            let service = Service::made(distribution.clone(), 100);
            let spread = had(&service, 50_000);
            assert!((spread.mean_ns() / distribution.mean_ns() - 1.0).abs() < 0.015, "{text}");
            // Steps of 1 % resolve to half a step; random error adds 1.95 / sqrt(n).
            let distance = spread.distance_from(|ns| distribution.cdf(ns));
            assert!(distance < 0.01 + 0.009, "{text}: {distance}");
        }
    }

    #[test]
    fn of_resources_that_there_are_those_are_chosen_that_keep_the_mean() {
        let distribution: Distribution = "uniform:10ms,50ms".parse().unwrap();
        let resources = vec![("fast".into(), 10_000_000), ("slow".into(), 50_000_000)];
        let service = Service::chosen(distribution, resources).unwrap();
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
