//! Results of loads: the records of all senders, merged, never averaged.

use crate::jobs::{Job, Role};
use crate::load::{log, workloads};
use experiment::Plan;
use load::{Latency, Percentiles, read_log};
use measure::Submitted;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use trace::Spread;
use units::Timeline;

/// Results of the loads of a run.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    /// For the summary: each load's results by name; null without any.
    pub figures: Value,
    /// For the verdict: how well each sender kept its schedule.
    pub submitted: Vec<Submitted>,
    /// Files that could not be read.
    pub failures: Vec<String>,
}

const COUNTS: [&str; 9] = [
    "scheduled",
    "sent",
    "unsent",
    "answered",
    "errors",
    "timed_out",
    "no_connection",
    "unreachable",
    "without_answer",
];
const ODD: [&str; 6] = ["late", "twice", "garbage", "stray", "retransmitted", "trace_faults"];
const OBSERVED: [&str; 8] = [
    "registered",
    "refused",
    "notifications",
    "outdated",
    "stale",
    "deregistered",
    "unanswered",
    "ended",
];

/// Reads the records of all senders.
pub(crate) fn collect(plan: &Plan, jobs: &[Job]) -> Loads {
    let mut loads = Loads::default();
    let mut figures = Map::new();
    for (number, load) in workloads(plan) {
        let mut sum = Sum::default();
        let senders =
            jobs.iter().filter(|job| job.workload == Some(number) && job.role == Role::Source);
        for job in senders {
            // A dead program is already reported as a failure; its unwritten results are missing.
            let Ok(text) = fs::read(&job.files.events) else { continue };
            let read = serde_json::from_slice(&text).map_err(|error| error.to_string());
            let added = read.and_then(|figures: Value| sum.add(job, &load.name, &figures));
            match added {
                Ok(submitted) => loads.submitted.push(submitted),
                Err(why) => {
                    loads
                        .failures
                        .push(format!("could not read the results of {}: {why}", job.name));
                }
            }
        }
        figures.insert(load.name.clone(), sum.json(load.users));
    }
    if !figures.is_empty() {
        loads.figures = Value::Object(figures);
    }
    loads
}

/// Merged records of several senders.
#[derive(Debug, Default)]
struct Sum {
    counts: BTreeMap<&'static str, u64>,
    codes: BTreeMap<String, u64>,
    reasons: BTreeMap<String, u64>,
    response: Spread,
    service: Spread,
    slip: Spread,
    wait: Spread,
    notification: Spread,
    observed: BTreeMap<&'static str, u64>,
    rate: f64,
    seconds: f64,
    timeline: Timeline,
    schedule_ns: u64,
    senders: Map<String, Value>,
}

impl Sum {
    fn add(&mut self, job: &Job, name: &str, figures: &Value) -> Result<Submitted, String> {
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
        for name in COUNTS {
            *self.counts.entry(name).or_default() += whole(&figures["counts"][name]);
        }
        for name in ODD {
            *self.counts.entry(name).or_default() += whole(&figures[name]);
        }
        for name in OBSERVED {
            *self.observed.entry(name).or_default() += whole(&figures["observed"][name]);
        }
        for (sum, name) in [(&mut self.codes, "codes"), (&mut self.reasons, "reasons")] {
            for (key, count) in figures[name].as_object().into_iter().flatten() {
                *sum.entry(key.clone()).or_default() += whole(count);
            }
        }
        self.rate += number(&figures["rate"]);
        self.seconds = self.seconds.max(number(&figures["seconds"]));
        let timeline = Timeline::deserialize(&figures["timeline"]);
        self.timeline.add(&timeline.map_err(|error| error.to_string())?);
        self.schedule_ns = self.schedule_ns.max(whole(&figures["schedule_ns"]));
        let (expected, had) = (&figures["between_expected"], &figures["between_submitted"]);
        self.senders.insert(
            job.name.clone(),
            json!({
                "pace": figures["pace"],
                "rate": figures["rate"],
                "behind_us": figures["behind_us"],
                "between_expected_us": expected,
                "between_submitted_us": had,
                "between_distance": figures["between_distance"],
            }),
        );
        Ok(Submitted {
            node: job.name.clone(),
            open: figures["loop"] == "open",
            unsent: whole(&figures["counts"]["unsent"]),
            scheduled: whole(&figures["counts"]["scheduled"]),
            expected_us: number(&expected["mean"]),
            submitted_us: number(&had["mean"]),
            slip_p99_us: number(&figures["all"]["slip"]["p99"]),
            wait_p99_us: figures["all"]["wait"]["p99"].as_f64(),
        })
    }

    fn json(&self, users: Option<u32>) -> Value {
        let count = |name: &str| self.counts.get(name).copied().unwrap_or(0);
        let scheduled = count("scheduled");
        let unanswered = scheduled - (count("answered") + count("without_answer")).min(scheduled);
        let mut figures = json!({
            "loop": if users.is_some() { "closed" } else { "open" },
            "users": users,
            "seconds": self.seconds,
            "rate": self.rate,
            "unanswered_pct": 100.0 * unanswered as f64 / scheduled.max(1) as f64,
            "quarters": self.timeline.quarters(self.schedule_ns),
            "codes": self.codes,
            "reasons": self.reasons,
            // Over all scheduled requests: an unanswered one ranks above every answer.
            "response_ms": of_all(&self.response, scheduled),
            "service_ms": of_all(&self.service, scheduled),
            "slip_ms": of_all(&self.slip, self.slip.count()),
            // A request without a connection waited longer than all others.
            "wait_ms": (self.wait.count() > 0)
                .then(|| of_all(&self.wait, self.wait.count() + count("no_connection"))),
            "notification_ms": (self.notification.count() > 0)
                .then(|| of_all(&self.notification, self.notification.count())),
            "observed": self.observed.values().any(|count| *count > 0).then_some(&self.observed),
            "senders": self.senders,
        });
        for name in COUNTS.into_iter().chain(ODD) {
            figures[name] = json!(count(name));
        }
        figures
    }
}

fn of_all(times: &Spread, all: u64) -> Value {
    let shares = Percentiles::of(times, all);
    let ms = |us: Option<f64>| us.map(|us| us / 1e3);
    let p95 = Percentiles::at(times, all, 0.95);
    json!({
        "mean": (times.count() > 0 && times.count() >= all).then(|| times.mean_ns() / 1e6),
        "p50": ms(shares.p50),
        "p90": ms(shares.p90),
        "p95": ms(p95),
        "p99": ms(shares.p99),
        "p99_9": ms(shares.p99_9),
        "max": ms(shares.max),
    })
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_answer_is_above_every_answer() {
        let mut times = Spread::new();
        (1..=95).for_each(|ms| times.record(ms * 1_000_000));
        let figures = of_all(&times, 100);
        assert!((figures["p50"].as_f64().unwrap() - 50.0).abs() < 0.1);
        assert!((figures["p95"].as_f64().unwrap() - 95.0).abs() < 0.1);
        assert_eq!((&figures["p99"], &figures["mean"]), (&Value::Null, &Value::Null));
        assert_eq!(of_all(&times, 95)["mean"].as_f64().unwrap().round(), 48.0);
        assert_eq!(of_all(&Spread::new(), 0)["mean"], Value::Null);
    }
}
