//! Results of loads: the records of all senders, merged, never averaged.

use crate::bed::jobs::{Job, Role};
use crate::load::{log, workloads};
use experiment::Plan;
use load::{Latency, read_log};
use measure::Submitted;
use record::event::{Loop, SenderResults};
use record::{Load, LoadTimes, Observed, Percentiles, RequestCounts, Sender, Timeline};
use std::collections::BTreeMap;
use std::fs;
use units::{Histogram, Span};

/// Results of the loads of a run.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    /// For the summary: each load's results by name; `None` without any.
    pub figures: Option<BTreeMap<String, Load>>,
    /// For the verdict: how well each sender kept its schedule.
    pub submitted: Vec<Submitted>,
    /// Files that could not be read.
    pub failures: Vec<String>,
}

/// Reads the records of all senders.
pub(crate) fn collect(plan: &Plan, jobs: &[Job]) -> Loads {
    let mut loads = Loads::default();
    let mut figures = BTreeMap::new();
    for (number, load) in workloads(plan) {
        let mut sum = Sum::default();
        let senders =
            jobs.iter().filter(|job| job.workload == Some(number) && job.role == Role::Source);
        for job in senders {
            // A dead program is already reported as a failure; its unwritten results are missing.
            let Ok(text) = fs::read(&job.files.events) else { continue };
            let read = serde_json::from_slice(&text).map_err(|error| error.to_string());
            let added = read.and_then(|figures| sum.add(job, &load.name, figures));
            match added {
                Ok(submitted) => loads.submitted.push(submitted),
                Err(why) => {
                    loads
                        .failures
                        .push(format!("could not read the results of {}: {why}", job.name));
                }
            }
        }
        figures.insert(load.name.clone(), sum.load(load.users));
    }
    loads.figures = (!figures.is_empty()).then_some(figures);
    loads
}

/// Merged records of several senders.
#[derive(Debug, Default)]
struct Sum {
    /// What adds up.
    load: Load,
    observed: Observed,
    response: Histogram,
    service: Histogram,
    slip: Histogram,
    wait: Histogram,
    notification: Histogram,
    timeline: Timeline,
    schedule: Span,
}

impl Sum {
    fn add(&mut self, job: &Job, name: &str, file: SenderResults) -> Result<Submitted, String> {
        let log = fs::read(log(&job.files, name, &job.name)).map_err(|error| error.to_string())?;
        for history in read_log(&log)? {
            let times = match history.latency {
                Latency::Response => &mut self.response,
                Latency::Service => &mut self.service,
                Latency::Slip => &mut self.slip,
                Latency::Wait => &mut self.wait,
                Latency::Notification => &mut self.notification,
            };
            times.add(&history.times);
        }
        self.timeline.add(&file.timeline);
        self.schedule = self.schedule.max(Span::from_ns(file.schedule_ns));
        let file = file.load;
        self.observed.add(&file.observed);
        let submitted = Submitted {
            node: job.name.clone(),
            open: file.r#loop == Loop::Open,
            unsent: file.counts.unsent,
            scheduled: file.counts.scheduled,
            expected_us: file.between_expected.mean,
            submitted_us: file.between_submitted.mean,
            slip_p99_us: file.all.slip.p99,
            wait_p99_us: file.all.wait.map(|wait| wait.p99),
        };
        let sender = Sender {
            pace: file.pace,
            rate: file.rate,
            max_lag_us: file.max_lag_us,
            between_expected_us: file.between_expected,
            between_submitted_us: file.between_submitted,
            between_distance: file.between_distance,
        };
        self.load.add(&Load {
            counts: file.counts,
            odd: file.odd,
            rate: file.rate,
            seconds: file.seconds,
            codes: file.codes,
            reasons: file.reasons,
            senders: BTreeMap::from([(job.name.clone(), sender)]),
            ..Load::default()
        });
        Ok(submitted)
    }

    /// The load's results; `users` of a closed loop.
    fn load(self, users: Option<u32>) -> Load {
        let RequestCounts { scheduled, answered, without_answer, no_connection, .. } =
            self.load.counts;
        let unanswered = scheduled - (answered + without_answer).min(scheduled);
        Load {
            r#loop: if users.is_some() { Loop::Closed } else { Loop::Open },
            users,
            unanswered_pct: 100.0 * unanswered as f64 / scheduled.max(1) as f64,
            quarters: self.timeline.quarters(self.schedule.as_ns()),
            // Over all scheduled requests: an unanswered one ranks above every answer.
            response_ms: of_all(&self.response, scheduled),
            service_ms: of_all(&self.service, scheduled),
            slip_ms: of_all(&self.slip, self.slip.count()),
            // A request without a connection waited longer than all others.
            wait_ms: (self.wait.count() > 0)
                .then(|| of_all(&self.wait, self.wait.count() + no_connection)),
            notification_ms: (self.notification.count() > 0)
                .then(|| of_all(&self.notification, self.notification.count())),
            observed: (self.observed != Observed::default()).then_some(self.observed),
            ..self.load
        }
    }
}

fn of_all(times: &Histogram, all: u64) -> LoadTimes {
    let shares = Percentiles::of(times, all);
    let ms = |us: Option<f64>| us.map(|us| us / 1e3);
    LoadTimes {
        // While some have no answer, the mean over all is unknown; percentiles below them are not.
        mean: (times.count() > 0 && times.count() >= all).then(|| times.mean_ns() / 1e6),
        p50: ms(shares.p50),
        p90: ms(shares.p90),
        p95: ms(Percentiles::at(times, all, 0.95)),
        p99: ms(shares.p99),
        p99_9: ms(shares.p99_9),
        max: ms(shares.max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_answer_is_above_every_answer() {
        let mut times = Histogram::new();
        (1..=95).for_each(|ms| times.record(ms * 1_000_000));
        let figures = of_all(&times, 100);
        assert!((figures.p50.unwrap() - 50.0).abs() < 0.1);
        assert!((figures.p95.unwrap() - 95.0).abs() < 0.1);
        assert_eq!((figures.p99, figures.mean), (None, None));
        assert_eq!(of_all(&times, 95).mean.unwrap().round(), 48.0);
        assert_eq!(of_all(&Histogram::new(), 0).mean, None);
    }
}
