//! Metrics of a run, by path.

use crate::exchanges::{self, Exchanges};
use crate::{Cell, Verdict};
use record::{Figure, OddCounts, ProbeStatistics, RequestCounts, Summary as Figures};
use serde::{Deserialize, de::Error};
use serde_json::Value;

/// Content of `summary.json`.
///
/// Metrics stay as written and are looked up by path, so that summaries of older and newer versions
/// work as well.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// The experiment's name.
    pub experiment: String,
    /// The cell of the matrix.
    pub cell: Cell,
    /// The seed of all draws.
    pub seed: u64,
    /// Repeat of the cell, from 0.
    pub repeat: u64,
    /// Verdict of the run.
    pub verdict: Verdict,
    figures: Value,
}

/// The keys that are not metrics. Parsed from text, because [`Cell`] keeps the order of its axes.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Head {
    experiment: String,
    cell: Cell,
    seed: u64,
    repeat: u64,
    verdict: Verdict,
}

impl Summary {
    /// Reads one summary.
    ///
    /// # Errors
    /// If the text is no JSON object with the keys of a summary.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        Self::join(serde_json::from_str(text)?, serde_json::from_str(text)?)
    }

    /// Reads a sweep's list of summaries.
    ///
    /// # Errors
    /// If the text is no JSON list of summaries.
    pub fn list_from_json(text: &str) -> serde_json::Result<Vec<Self>> {
        let heads: Vec<Head> = serde_json::from_str(text)?;
        let figures: Vec<Value> = serde_json::from_str(text)?;
        heads.into_iter().zip(figures).map(|(head, figures)| Self::join(head, figures)).collect()
    }

    fn join(head: Head, figures: Value) -> serde_json::Result<Self> {
        // Serde also reads a struct from a list, which is not a valid summary.
        if !figures.is_object() {
            return Err(serde_json::Error::custom("a summary is an object"));
        }
        let Head { experiment, cell, seed, repeat, verdict } = head;
        Ok(Self { experiment, cell, seed, repeat, verdict, figures })
    }

    /// The metric at a path such as `messages.rtd_ms.p50`. `*` matches all keys and gives their
    /// sum, or what the figure's row says, as in `groups.*.overhead_bytes`.
    pub fn metric(&self, path: &str) -> Option<f64> {
        Figures::value(&self.figures, path)
    }

    /// The figure at the end of these rows, such as `messages`, `rtd_ms`, `p50`.
    pub fn figure(&self, path: &[Figure]) -> Option<f64> {
        find(&self.figures, path)?.as_f64()
    }

    /// The workloads with exchanges, and the payload sizes of each.
    pub fn exchanged_sizes(&self) -> Vec<(&str, u64)> {
        let sizes = keys(&self.figures, Figures::exchanges).flat_map(|(name, workload)| {
            let sizes = keys(workload, record::Exchanges::sizes);
            sizes.filter_map(move |(size, _)| Some((name, size.parse().ok()?)))
        });
        sizes.collect()
    }

    /// A figure of the exchanges of one payload size in bytes. Separate from `metric`, because a
    /// workload's name may contain a dot.
    pub fn exchanged(&self, name: &str, size: u64, figure: Figure) -> Option<f64> {
        let workload = Figures::exchanges.of(&self.figures)?.get(name)?;
        let sizes = record::Exchanges::sizes.of(workload)?;
        figure.of(sizes.get(size.to_string())?)?.as_f64()
    }

    /// The metrics of exchanges, by workload.
    pub fn exchanges(&self) -> Vec<Exchanges> {
        let workloads = keys(&self.figures, Figures::exchanges);
        workloads.filter_map(|(name, figures)| exchanges::read(name, figures)).collect()
    }

    /// The loads, by name.
    pub fn loads(&self) -> Vec<Load<'_>> {
        let is_closed = |load: &Value| text(load, record::Load::r#loop) == "closed";
        keys(&self.figures, Figures::loads)
            .map(|(name, figures)| Load { name, closed: is_closed(figures), figures })
            .collect()
    }

    /// A figure of a load. Separate from `metric`, because a load's name may contain a dot.
    pub fn load(&self, name: &str, path: &[Figure]) -> Option<f64> {
        find(Figures::loads.of(&self.figures)?.get(name)?, path)?.as_f64()
    }

    /// Results of contention probes, by core and mode.
    pub fn probed(&self) -> Vec<ProbeResult<'_>> {
        let mut found = Vec::new();
        for (name, probe) in keys(&self.figures, Figures::probes) {
            let Ok(record::Probes { service_ms, cores, .. }) = record::Probes::deserialize(probe)
            else {
                continue;
            };
            for (core, modes) in cores {
                found.extend(modes.into_iter().map(|(mode, deviation)| ProbeResult {
                    name,
                    core,
                    mode,
                    service_ms,
                    deviation,
                }));
            }
        }
        found
    }

    /// The metrics of programs, by command or group.
    pub fn programs(&self) -> Vec<ProgramSamples<'_>> {
        let programs = keys(&self.figures, Figures::programs);
        let metrics = programs.flat_map(|(program, metrics)| {
            let metrics = metrics.as_object().into_iter().flatten();
            metrics.filter_map(move |(metric, samples)| {
                let samples = record::Samples::deserialize(samples).ok()?;
                Some(ProgramSamples { program, metric, samples })
            })
        });
        metrics.collect()
    }

    /// A figure of a program's metric. Separate from `metric`, because names may contain a dot.
    pub fn program(&self, program: &str, metric: &str, figure: Figure) -> Option<f64> {
        let metrics = Figures::programs.of(&self.figures)?.get(program)?;
        figure.of(metrics.get(metric)?)?.as_f64()
    }

    /// The names of the groups.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        keys(&self.figures, Figures::groups).map(|(name, _)| name)
    }

    /// A figure of a group. Separate from `metric`, because a group's name may contain a dot.
    pub fn group(&self, name: &str, figure: Figure) -> Option<f64> {
        figure.of(Figures::groups.of(&self.figures)?.get(name)?)?.as_f64()
    }

    /// A figure over all groups, as its row says.
    pub fn all_groups(&self, figure: Figure) -> Option<f64> {
        let groups = keys(&self.figures, Figures::groups);
        let each = groups.filter_map(|(_, group)| figure.of(group)?.as_f64());
        record::reduce(each, figure.over)
    }
}

/// Metrics of one load.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// Name of the workload.
    pub name: &'a str,
    /// Whether it is a closed loop.
    pub closed: bool,
    figures: &'a Value,
}

impl Load<'_> {
    /// The sender nodes, each with its metrics.
    pub fn senders(&self) -> impl Iterator<Item = (&str, Sender<'_>)> {
        keys(self.figures, record::Load::senders).map(|(name, figures)| (name, Sender(figures)))
    }

    /// Number of answers per code, and of other events.
    pub fn counts(&self) -> Vec<(&str, u64)> {
        let parts = [record::Load::codes, record::Load::reasons].into_iter();
        let parts = parts.flat_map(|part| keys(self.figures, part));
        let mut all: Vec<_> =
            parts.filter_map(|(key, count)| Some((key, count.as_u64()?))).collect();
        let unanswered = [
            RequestCounts::unsent,
            RequestCounts::timed_out,
            RequestCounts::no_connection,
            RequestCounts::unreachable,
        ];
        for figure in unanswered.iter().chain(OddCounts::FIGURES) {
            let count = figure.of(self.figures).and_then(Value::as_u64);
            all.push((figure.name, count.unwrap_or(0)));
        }
        all.retain(|(_, count)| *count > 0);
        all
    }
}

/// The values of a metric of programs.
#[derive(Debug, Clone)]
pub struct ProgramSamples<'a> {
    /// The command, or the group whose program it is.
    pub program: &'a str,
    /// The metric.
    pub metric: &'a str,
    /// Statistics of its values.
    pub samples: record::Samples,
}

/// Results of contention probes on one core in one mode.
#[derive(Debug, Clone)]
pub struct ProbeResult<'a> {
    /// Name of the workload.
    pub name: &'a str,
    /// The core.
    pub core: u64,
    /// `sleep` or `busy`.
    pub mode: String,
    /// Configured service time, ms.
    pub service_ms: f64,
    /// The deviation from the service time, as a share of it.
    pub deviation: Option<ProbeStatistics>,
}

/// Schedule accuracy of one sender node.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a>(&'a Value);

impl Sender<'_> {
    /// The verdict on the schedule, in a word.
    pub fn pace(&self) -> &str {
        text(self.0, record::Sender::pace)
    }

    /// A figure.
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        figure.of(self.0)?.as_f64()
    }

    /// One of the statistics of a figure, such as `mean`.
    pub fn statistic(&self, figure: Figure, name: &str) -> Option<f64> {
        figure.of(self.0)?.get(name)?.as_f64()
    }
}

/// The value at the end of these rows.
fn find<'a>(value: &'a Value, path: &[Figure]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, figure| figure.of(value))
}

/// The text of a row; empty if it is missing.
fn text(value: &Value, figure: Figure) -> &str {
    figure.of(value).and_then(Value::as_str).unwrap_or_default()
}

/// The keys of a row whose value has one for each of several things, and their values.
fn keys(value: &Value, figure: Figure) -> impl Iterator<Item = (&str, &Value)> {
    let object = figure.of(value).and_then(Value::as_object);
    object.into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_figures_by_path() {
        let text = r#"{"experiment":"e","cell":{"m":"a"},"seed":7,"repeat":1,
            "messages":{"rtd_ms":{"p50":2.5,"p99":null}},
            "groups":{"a":{"tx_bytes":3},"b.c":{"tx_bytes":4}}}"#;
        let summary = Summary::from_json(text).unwrap();
        assert_eq!(summary.metric("messages.rtd_ms.p50"), Some(2.5));
        assert_eq!(summary.metric("messages.rtd_ms.p99"), None);
        assert_eq!(summary.metric("messages.none.p99"), None);
        assert_eq!(summary.metric("groups.*.tx_bytes"), Some(7.0));
        let [messages, times] = [Figures::messages, record::Messages::rtd_ms];
        assert_eq!(summary.figure(&[messages, times, record::Times::p50]), Some(2.5));
        assert_eq!(summary.figure(&[messages, times]), None);
        assert_eq!(summary.all_groups(record::Group::tx_bytes), Some(7.0));
        assert_eq!(summary.group("b.c", record::Group::tx_bytes), Some(4.0));
        assert_eq!(summary.groups().collect::<Vec<_>>(), ["a", "b.c"]);
    }

    #[test]
    fn a_list_is_a_sweep() {
        let list = Summary::list_from_json(r#"[{"repeat":0},{"repeat":1}]"#).unwrap();
        assert_eq!(list[1].repeat, 1);
        assert!(Summary::from_json("[]").is_err());
    }
}
