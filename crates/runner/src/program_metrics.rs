//! Values that programs printed: figures, rows, and what is missing.

use crate::bed::Shortened;
use crate::bed::jobs::{Job, Role};
use crate::bed::own_metrics::{ENDPOINT, VARIABLE};
use crate::collectors::CollectedValues;
use crate::program_output::values;
use experiment::{OTLP, Pattern, Plan, ProgramMetric, Rule, STATSD, Stream, Workload};
use measure::{OrderStatistics, ProgramValue, RowTable};
use record::Samples;
use record::event::CollectorSource;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Bytes, Instant};

/// The values that the programs of a run printed.
#[derive(Debug)]
pub(crate) struct ProgramMetrics {
    /// A row for each value.
    pub rows: RowTable<ProgramValue>,
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
    /// The folder of files for many rows and values.
    folder: PathBuf,
}

/// Searches the outputs of all programs that have metrics; `shortened` outputs lack their middle.
/// Many values need files in `folder`.
pub(crate) fn collect(
    plan: &Plan,
    jobs: &[Job],
    start: Instant,
    shortened: &[Shortened],
    folder: &Path,
) -> ProgramMetrics {
    let mut all = ProgramMetrics::new(folder);
    (all.collected, all.failures) = CollectedValues::read(jobs);
    all.dropped = shortened.iter().map(|log| (log.log.clone(), log.bytes)).collect();
    all.start = start;
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
    fn new(folder: &Path) -> Self {
        Self {
            rows: RowTable::new(folder),
            figures: None,
            failures: Vec::new(),
            collected: CollectedValues::default(),
            start: Instant::START,
            dropped: HashMap::new(),
            folder: folder.to_owned(),
        }
    }

    /// Searches the outputs of one command or group for one metric.
    fn add(&mut self, name: &str, metric: &ProgramMetric, jobs: &[&Job]) -> Samples {
        let texts: [Arc<str>; 3] = [name, &metric.name, &metric.unit].map(Arc::from);
        let [program, metric_name, unit] = texts;
        let (mut found, mut without) = (Found::new(&self.folder), Vec::new());
        let mut rows = std::mem::replace(&mut self.rows, RowTable::new(&self.folder));
        for job in jobs {
            let node: Arc<str> = job.name.as_str().into();
            let mut own = Own::default();
            let read = self.values_of(metric, job, &mut |time_ns, value| {
                found.add(value);
                rows.push(ProgramValue {
                    program: program.clone(),
                    node: node.clone(),
                    metric: metric_name.clone(),
                    number: own.count,
                    time_ns,
                    value,
                    unit: unit.clone(),
                });
                own = Own { count: own.count + 1, last: Some(value) };
            });
            found.last.extend(own.last);
            match read {
                Ok(incomplete) => self.failures.extend(incomplete.map(|why| {
                    format!("metric `{}` of `{name}` on {}: {why}", metric.name, job.name)
                })),
                Err(why) => {
                    self.failures.push(format!("metric `{}`: {why}", metric.name));
                    continue;
                }
            }
            if let Some(bytes) = self.dropped.get(output(metric, job)).filter(|_| is_output(metric))
            {
                self.failures.push(incomplete(name, metric, &job.name, *bytes));
            } else if own.count == 0 && !job.has_failed() {
                without.push(*job);
            }
        }
        self.rows = rows;
        if !metric.optional && !counts_matches(metric) {
            self.failures.extend(self.missing(name, metric, &without));
        }
        found.samples(metric).unwrap_or_else(|error| {
            self.failures.push(format!("metric `{}`: read its values: {error}", metric.name));
            Samples::default()
        })
    }

    /// Passes the values of a metric of one program to `take` in order, with their times from offset 0
    /// in ns where these are known. Returns why there may be more.
    fn values_of(
        &self,
        metric: &ProgramMetric,
        job: &Job,
        take: &mut dyn FnMut(Option<i64>, f64),
    ) -> Result<Option<String>, String> {
        let timed = &mut |at: Instant, value| take(Some(at.ns_from(self.start)), value);
        let collected = self.collected.values(job.node, &metric.rule, timed);
        if collected.map_err(|error| error.to_string())? {
            return Ok(None);
        }
        let path = output(metric, job);
        let found = values(metric, || File::open(path), &mut |value| take(None, value));
        found.map_err(|error| format!("{}: {error}", path.display()))
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

/// The values of one program.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    count: u64,
    last: Option<f64>,
}

/// The values of a metric of all programs.
struct Found {
    /// Of a single series.
    values: OrderStatistics<()>,
    sum: f64,
    /// The last value of each program.
    last: Vec<f64>,
}

impl Found {
    fn new(folder: &Path) -> Self {
        // The sum of nothing is 0, not -0.
        Self { values: OrderStatistics::new(folder), sum: 0.0, last: Vec::new() }
    }

    fn add(&mut self, value: f64) {
        self.values.push((), value);
        self.sum += value;
    }

    /// The figures of all values.
    ///
    /// # Errors
    /// When the file of values cannot be read.
    fn samples(&self, metric: &ProgramMetric) -> io::Result<Samples> {
        let count = self.values.count(&());
        if counts_matches(metric) {
            return Ok(Samples { count, ..Samples::default() });
        }
        // Nearest rank: the smallest value that at least this share of all values do not exceed.
        let rank = |share: f64| (share * count as f64).ceil().max(1.0) as u64 - 1;
        let ranks = [0, rank(0.5), rank(0.9), rank(0.95), rank(0.99), count.saturating_sub(1)];
        let found = self.values.ranks(&(), &ranks)?;
        let at = |place: usize| found.get(place).copied();
        let last: f64 = self.last.iter().sum();
        Ok(Samples {
            unit: metric.unit.clone(),
            count,
            sum: self.sum,
            mean: (count > 0).then(|| self.sum / count as f64),
            min: at(0),
            p50: at(1),
            p90: at(2),
            p95: at(3),
            p99: at(4),
            max: at(5),
            last: (!self.last.is_empty()).then(|| last / self.last.len() as f64),
        })
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
        let of = |values: Vec<f64>, last: &[f64]| {
            let mut found = Found::new(Path::new("/nowhere"));
            values.into_iter().for_each(|value| found.add(value));
            found.last.extend(last);
            found.samples(&metric(false)).unwrap()
        };
        let found = of((1..=100).map(f64::from).rev().collect(), &[4.0, 8.0]);
        assert_eq!((found.count, found.sum, found.mean), (100, 5050.0, Some(50.5)));
        assert_eq!((found.min, found.p50, found.p90), (Some(1.0), Some(50.0), Some(90.0)));
        assert_eq!((found.p99, found.max, found.last), (Some(99.0), Some(100.0), Some(6.0)));
        let none = of(Vec::new(), &[]);
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
        let mut all = ProgramMetrics::new(dir.path());
        let found = all.add("sensor", &metric(false), &jobs);
        assert_eq!((found.count, found.last), (2, Some(7.0)));
        let rows: Vec<_> = all.rows.iter().map(Result::unwrap).collect();
        let rows: Vec<_> = rows.iter().map(|row| (&*row.node, row.number, row.value)).collect();
        assert_eq!(rows, [("a", 0, 5.0), ("a", 1, 7.0)]);
        assert_eq!(all.failures.len(), 1);
        assert!(all.failures[0].contains("no value on b (and 1 more)"), "{}", all.failures[0]);
        let mut all = ProgramMetrics::new(dir.path());
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
