//! Metrics of a run, by path.

use crate::exchanges::{self, Exchanges};
use crate::{Cell, Verdict};
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
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        Self::join(serde_json::from_str(text)?, serde_json::from_str(text)?)
    }

    /// Reads a sweep's list of summaries.
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
    /// sum, as in `groups.*.overhead_bytes`.
    pub fn metric(&self, path: &str) -> Option<f64> {
        find(&self.figures, path)
    }

    /// The workloads with exchanges, and the payload sizes of each.
    pub fn exchanged_sizes(&self) -> Vec<(&str, u64)> {
        let workloads = self.figures["exchanges"].as_object().into_iter().flatten();
        let sizes = workloads.flat_map(|(name, workload)| {
            let sizes = workload["sizes"].as_object().into_iter().flatten();
            sizes.filter_map(|(size, _)| Some((name.as_str(), size.parse().ok()?)))
        });
        sizes.collect()
    }

    /// The metrics of exchanges, by workload.
    pub fn exchanges(&self) -> Vec<Exchanges> {
        exchanges::read(&self.figures["exchanges"])
    }

    /// The loads, by name.
    pub fn loads(&self) -> Vec<Load<'_>> {
        let loads = self.figures["loads"].as_object().into_iter().flatten();
        loads
            .map(|(name, figures)| Load { name, closed: figures["loop"] == "closed", figures })
            .collect()
    }

    /// A metric of a load. Separate from `metric`, because a load's name may contain a dot.
    pub fn load(&self, name: &str, path: &str) -> Option<f64> {
        find(self.figures["loads"].get(name)?, path)
    }

    /// Results of contention probes, by core and mode.
    pub fn probed(&self) -> Vec<ProbeResult<'_>> {
        let probes = self.figures["probes"].as_object().into_iter().flatten();
        let cores = probes.flat_map(|(name, probe)| {
            let cores = probe["cores"].as_object().into_iter().flatten();
            cores.map(move |(core, modes)| (name, probe, core, modes))
        });
        let each = cores.flat_map(|(name, probe, core, modes)| {
            let modes = modes.as_object().into_iter().flatten();
            modes.map(move |(mode, figures)| ProbeResult {
                name,
                core,
                mode,
                service_ms: probe["service_ms"].as_f64().unwrap_or(0.0),
                figures,
            })
        });
        each.collect()
    }

    /// The names of the groups.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.figures["groups"].as_object().into_iter().flatten().map(|(name, _)| name.as_str())
    }

    /// A metric of a group. Separate from `metric`, because a group's name may contain a dot.
    pub fn group(&self, name: &str, key: &str) -> Option<f64> {
        self.figures["groups"].get(name)?.get(key)?.as_f64()
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
        let senders = self.figures["senders"].as_object().into_iter().flatten();
        senders.map(|(name, figures)| (name.as_str(), Sender(figures)))
    }

    /// Number of answers per code, and of other events.
    pub fn counts(&self) -> Vec<(&str, u64)> {
        let parts = ["codes", "reasons"].into_iter();
        let parts = parts.flat_map(|part| self.figures[part].as_object().into_iter().flatten());
        let mut all: Vec<_> =
            parts.filter_map(|(key, count)| Some((key.as_str(), count.as_u64()?))).collect();
        for key in [
            "unsent",
            "timed_out",
            "no_connection",
            "unreachable",
            "late",
            "twice",
            "garbage",
            "stray",
            "retransmitted",
            "trace_faults",
        ] {
            all.push((key, self.figures[key].as_u64().unwrap_or(0)));
        }
        all.retain(|(_, count)| *count > 0);
        all
    }
}

/// Results of contention probes on one core in one mode.
#[derive(Debug, Clone, Copy)]
pub struct ProbeResult<'a> {
    /// Name of the workload.
    pub name: &'a str,
    /// The core.
    pub core: &'a str,
    /// `sleep` or `busy`.
    pub mode: &'a str,
    /// Configured service time, ms.
    pub service_ms: f64,
    figures: &'a Value,
}

impl ProbeResult<'_> {
    /// The deviation from the service time, as a share of it: `mean`, `p50` and so on.
    pub fn deviation(&self, name: &str) -> Option<f64> {
        self.figures[name].as_f64()
    }
}

/// Schedule accuracy of one sender node.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a>(&'a Value);

impl Sender<'_> {
    /// The verdict on the schedule, in a word.
    pub fn pace(&self) -> &str {
        self.0["pace"].as_str().unwrap_or_default()
    }

    /// A metric, such as `between_expected_us.mean`.
    pub fn figure(&self, path: &str) -> Option<f64> {
        find(self.0, path)
    }
}

fn find(value: &Value, path: &str) -> Option<f64> {
    let (key, rest) = match path.split_once('.') {
        Some((key, rest)) => (key, Some(rest)),
        None => (path, None),
    };
    if key == "*" {
        let below = value.as_object()?.values();
        let found: Vec<_> =
            below.filter_map(|v| rest.map_or_else(|| v.as_f64(), |rest| find(v, rest))).collect();
        return (!found.is_empty()).then(|| found.iter().sum());
    }
    let below = value.get(key)?;
    rest.map_or_else(|| below.as_f64(), |rest| find(below, rest))
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
        assert_eq!(summary.group("b.c", "tx_bytes"), Some(4.0));
        assert_eq!(summary.groups().collect::<Vec<_>>(), ["a", "b.c"]);
    }

    #[test]
    fn a_list_is_a_sweep() {
        let list = Summary::list_from_json(r#"[{"repeat":0},{"repeat":1}]"#).unwrap();
        assert_eq!(list[1].repeat, 1);
        assert!(Summary::from_json("[]").is_err());
    }
}
