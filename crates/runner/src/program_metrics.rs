//! Values that programs printed: figures, rows, and what is missing.

use crate::bed::Shortened;
use crate::bed::jobs::{Job, Role};
use crate::bed::own_metrics::{ENDPOINT, VARIABLE};
use crate::collectors::CollectedValues;
use crate::program_output::values;
use experiment::{OTLP, Pattern, Plan, ProgramMetric, Rule, STATSD, Stream, Workload};
use measure::ProgramValue;
use record::Samples;
use record::event::CollectorSource;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Bytes, Instant};

/// The values that the programs of a run printed.
#[derive(Debug, Default)]
pub(crate) struct ProgramMetrics {
    /// A row for each value.
    pub rows: Vec<ProgramValue>,
    /// For the summary: by command or group, and by metric; `None` without any.
    pub figures: Option<BTreeMap<String, BTreeMap<String, Samples>>>,
    /// Metrics without a value.
    pub failures: Vec<String>,
    /// What the collectors recorded.
    collected: CollectedValues,
    /// Time of offset 0.
    start: Instant,
    /// Bytes that outputs lack.
    dropped: HashMap<PathBuf, u64>,
}

/// A value, with its time from offset 0 in ns where that is known.
type Value = (Option<i64>, f64);

/// Searches the outputs of all programs that have metrics; `shortened` outputs lack their middle.
pub(crate) fn collect(
    plan: &Plan,
    jobs: &[Job],
    start: Instant,
    shortened: &[Shortened],
) -> ProgramMetrics {
    let (collected, failures) = CollectedValues::read(jobs);
    let dropped = shortened.iter().map(|log| (log.log.clone(), log.bytes)).collect();
    let mut all =
        ProgramMetrics { collected, failures, start, dropped, ..ProgramMetrics::default() };
    let mut figures: BTreeMap<String, BTreeMap<String, Samples>> = BTreeMap::new();
    for (name, metrics, jobs) in programs(plan, jobs) {
        for metric in metrics {
            let samples = all.add(name, metric, &jobs);
            figures.entry(name.to_owned()).or_default().insert(metric.name.clone(), samples);
        }
    }
    all.figures = (!figures.is_empty()).then_some(figures);
    all
}

/// The commands and groups with metrics: name, metrics, and programs.
fn programs<'a>(
    plan: &'a Plan,
    jobs: &'a [Job],
) -> Vec<(&'a str, &'a [ProgramMetric], Vec<&'a Job>)> {
    let commands = plan.workloads.iter().enumerate().filter_map(|(number, workload)| {
        let Workload::Command(command) = workload else { return None };
        let jobs = jobs.iter().filter(|job| job.workload == Some(number));
        Some((command.name.as_str(), &command.metrics[..], jobs.collect()))
    });
    let mut groups: BTreeMap<&str, (&[ProgramMetric], Vec<&Job>)> = BTreeMap::new();
    for (number, node) in plan.nodes.iter().enumerate() {
        let Some(program) = &node.program else { continue };
        let own = |job: &&Job| job.node == number && job.role == Role::Node;
        let group = groups.entry(&node.group).or_insert((&program.metrics, Vec::new()));
        // A program that started again continued its files: one of its jobs represents all.
        group.1.extend(jobs.iter().rfind(own));
    }
    let groups = groups.into_iter().map(|(name, (metrics, jobs))| (name, metrics, jobs));
    commands.chain(groups).filter(|(_, metrics, _)| !metrics.is_empty()).collect()
}

impl ProgramMetrics {
    /// Searches the outputs of one command or group for one metric.
    fn add(&mut self, name: &str, metric: &ProgramMetric, jobs: &[&Job]) -> Samples {
        let texts: [Arc<str>; 3] = [name, &metric.name, &metric.unit].map(Arc::from);
        let [program, metric_name, unit] = texts;
        let (mut found, mut last, mut without) = (Vec::new(), Vec::new(), Vec::new());
        for job in jobs {
            let own = match self.values_of(metric, job) {
                Ok((own, incomplete)) => {
                    self.failures.extend(incomplete.map(|why| {
                        format!("metric `{}` of `{name}` on {}: {why}", metric.name, job.name)
                    }));
                    own
                }
                Err(why) => {
                    self.failures.push(format!("metric `{}`: {why}", metric.name));
                    continue;
                }
            };
            if let Some(bytes) = self.dropped.get(output(metric, job)).filter(|_| is_output(metric))
            {
                self.failures.push(incomplete(name, metric, &job.name, *bytes));
            } else if own.is_empty() && !job.has_failed() {
                without.push(*job);
            }
            last.extend(own.last().map(|(_, value)| *value));
            let node: Arc<str> = job.name.as_str().into();
            self.rows.extend((0..).zip(&own).map(|(number, (time_ns, value))| ProgramValue {
                program: program.clone(),
                node: node.clone(),
                metric: metric_name.clone(),
                number,
                time_ns: *time_ns,
                value: *value,
                unit: unit.clone(),
            }));
            found.extend(own.into_iter().map(|(_, value)| value));
        }
        if !metric.optional && !counts_matches(metric) {
            self.failures.extend(self.missing(name, metric, &without));
        }
        samples(metric, found, &last)
    }

    /// The values of a metric of one program, in order, with their times from offset 0 in ns where
    /// these are known; and why there may be more.
    fn values_of(
        &self,
        metric: &ProgramMetric,
        job: &Job,
    ) -> Result<(Vec<Value>, Option<String>), String> {
        if let Some(values) = self.collected.values(job.node, &metric.rule) {
            let since = |at: Instant| Some(at.ns_from(self.start));
            let values = values.into_iter().map(|(at, value)| (since(at), value));
            return Ok((values.collect(), None));
        }
        let path = output(metric, job);
        let values = values(metric, || File::open(path));
        let values = values.map_err(|error| format!("{}: {error}", path.display()))?;
        let found = values.found.into_iter().map(|value| (None, value));
        Ok((found.collect(), values.incomplete))
    }

    /// What to report about programs without a value.
    fn missing(&self, name: &str, metric: &ProgramMetric, without: &[&Job]) -> Option<String> {
        let first = without.first()?;
        let more = match without.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        let head =
            format!("metric `{}` of `{name}` has no value on {}{more}", metric.name, first.name);
        let why = match &metric.rule {
            Rule::Json(_) | Rule::Match(_) => format!(
                "{} is not in the {} of the program. Compare it with the file in `programs/`",
                metric.rule, metric.from
            ),
            Rule::Statsd(_) => self.not_received(
                metric,
                self.collected.unknown(first.node, CollectorSource::Statsd).collect(),
                format!("The program must send it to UDP {STATSD}, the address in `{VARIABLE}`"),
            ),
            Rule::Opentelemetry(_) => self.not_received(
                metric,
                self.collected.unknown(first.node, CollectorSource::Opentelemetry).collect(),
                format!(
                    "The program must export it by HTTP or gRPC to {OTLP}, the endpoint in \
                     `{ENDPOINT}`, before it ends"
                ),
            ),
            Rule::Prometheus(scrape) => {
                let unreadable = self.collected.unreadable(first.node, scrape);
                let why = unreadable.map_or(String::new(), |why| format!(": {why}"));
                format!(
                    "{} was not found{why}. Check that the program serves it on that port of its node: \
                     `thingbed up` the experiment, then `thingbed exec {} -- curl -s URL`",
                    metric.rule, first.name
                )
            }
        };
        Some(format!("{head}: {why}, or write `optional: true`"))
    }

    /// Why a metric that a program sends has no value; `others` are names that it sent.
    fn not_received(&self, metric: &ProgramMetric, others: Vec<&str>, hint: String) -> String {
        match others.is_empty() {
            true => format!("{} was not received. {hint}", metric.rule),
            false => {
                let others = others.join(", ");
                format!("{} was not received, but these names were: {others}", metric.rule)
            }
        }
    }
}

/// The file with the output that a metric searches.
fn output<'a>(metric: &ProgramMetric, job: &'a Job) -> &'a Path {
    match metric.from {
        Stream::Stdout => &job.files.out,
        Stream::Stderr => &job.files.err,
    }
}

/// Whether the values are in a program's output.
fn is_output(metric: &ProgramMetric) -> bool {
    matches!(metric.rule, Rule::Json(_) | Rule::Match(_))
}

/// What to report about a program whose output lacks `bytes`.
fn incomplete(name: &str, metric: &ProgramMetric, node: &str, bytes: u64) -> String {
    format!(
        "metric `{}` of `{name}` is incomplete on {node}: {} of its output exceeded the limit and were \
         dropped. Let it print less, or raise `limits: {{output: ...}}` of the node",
        metric.name,
        Bytes::new(bytes),
    )
}

/// Whether the metric is the number of matches, which may be 0.
fn counts_matches(metric: &ProgramMetric) -> bool {
    let Rule::Match(text) = &metric.rule else { return false };
    Pattern::new(text).is_ok_and(|pattern| pattern.counts())
}

/// The figures of all values; `last` are the programs' last ones.
fn samples(metric: &ProgramMetric, mut values: Vec<f64>, last: &[f64]) -> Samples {
    let count = values.len() as u64;
    if counts_matches(metric) {
        return Samples { count, ..Samples::default() };
    }
    values.sort_by(f64::total_cmp);
    let mean = |values: &[f64]| match values.len() {
        0 => None,
        number => Some(values.iter().sum::<f64>() / number as f64),
    };
    // Nearest rank: the smallest value that at least this share of all values do not exceed.
    let percentile = |share: f64| {
        let rank = (share * values.len() as f64).ceil().max(1.0) as usize;
        values.get(rank - 1).copied()
    };
    Samples {
        unit: metric.unit.clone(),
        count,
        // The sum of nothing is -0.0.
        sum: values.iter().sum::<f64>() + 0.0,
        mean: mean(&values),
        min: values.first().copied(),
        p50: percentile(0.5),
        p90: percentile(0.9),
        p95: percentile(0.95),
        p99: percentile(0.99),
        max: values.last().copied(),
        last: mean(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(optional: bool) -> ProgramMetric {
        ProgramMetric {
            name: "delay".to_owned(),
            from: Stream::Stdout,
            rule: Rule::Match(r"delay (\d+)".to_owned()),
            unit: "ms".to_owned(),
            optional,
        }
    }

    #[test]
    fn percentiles_are_values_that_were_printed() {
        let values = (1..=100).map(f64::from).rev().collect();
        let found = samples(&metric(false), values, &[4.0, 8.0]);
        assert_eq!((found.count, found.sum, found.mean), (100, 5050.0, Some(50.5)));
        assert_eq!((found.min, found.p50, found.p90), (Some(1.0), Some(50.0), Some(90.0)));
        assert_eq!((found.p99, found.max, found.last), (Some(99.0), Some(100.0), Some(6.0)));
        let none = samples(&metric(false), Vec::new(), &[]);
        assert_eq!((none.count, none.mean, none.p99, none.last), (0, None, None, None));
        assert!(none.sum.is_sign_positive());
    }

    #[test]
    fn a_program_without_a_value_is_a_failure_unless_it_may_have_none() {
        let dir = tempfile::tempdir().unwrap();
        let job = |node: &str, text: &str| {
            let files = crate::bed::jobs::Files::of(dir.path(), node, Some(0));
            std::fs::write(&files.out, text).unwrap();
            Job::of(0, node, Some(0), Role::Command, Vec::new(), dir.path(), files)
        };
        let jobs = [job("a", "delay 5\ndelay 7\n"), job("b", "no delay"), job("c", "")];
        let jobs: Vec<&Job> = jobs.iter().collect();
        let mut all = ProgramMetrics::default();
        let found = all.add("sensor", &metric(false), &jobs);
        assert_eq!((found.count, found.last), (2, Some(7.0)));
        let rows: Vec<_> = all.rows.iter().map(|row| (&*row.node, row.number, row.value)).collect();
        assert_eq!(rows, [("a", 0, 5.0), ("a", 1, 7.0)]);
        assert_eq!(all.failures.len(), 1);
        assert!(all.failures[0].contains("no value on b (and 1 more)"), "{}", all.failures[0]);
        let mut all = ProgramMetrics::default();
        all.add("sensor", &metric(true), &jobs);
        assert!(all.failures.is_empty());
        for (pattern, matches) in [("delay 9", 0), ("delay [57]", 2)] {
            let count = ProgramMetric { rule: Rule::Match(pattern.to_owned()), ..metric(false) };
            let found = all.add("sensor", &count, &jobs);
            assert_eq!((found.count, found.mean), (matches, None));
        }
        assert!(all.failures.is_empty(), "no match is a count of 0");
    }
}
