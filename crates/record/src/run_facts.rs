//! Facts about a run: `run.json`.

use crate::verdict::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a run was executed, on which machine, and its verdict. A file of another version may lack
/// some of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunFacts {
    /// Name of the experiment.
    pub experiment: String,
    /// Axes and values.
    pub cell: BTreeMap<String, String>,
    /// Seed of all random values.
    pub seed: u64,
    /// Number of the repeat, from 0.
    pub repeat: u64,
    /// Version of Thingbed.
    #[serde(alias = "version", alias = "thingbed_version", alias = "thingbed version")]
    pub thingbed: String,
    /// The commit of its build; empty if unknown.
    pub commit: String,
    /// `real` or `virtual`.
    pub clock: String,
    /// CPU of virtual time: `infinite`, or its speed in 1,000 million instructions per second;
    /// `None` in real time.
    pub virtual_cpu: Option<String>,
    /// The machine; in virtual time, the guest.
    #[serde(flatten)]
    pub machine: Machine,
    /// Scheduling of the medium's thread: `real_time`, `high` or `ordinary`.
    pub medium_priority: String,
    /// Number of threads that forwarded frames.
    pub threads: u64,
    /// Whether they busy-waited shortly before frames were due.
    pub spin: bool,
    /// The folder of the replayed run, if any.
    pub replay: Option<String>,
    /// The frames of a replay that differ from the recorded run.
    pub replay_departures: Option<Departures>,
    /// Number of decisions missing in `decisions.parquet`.
    pub decisions_missed: u64,
    /// Frame path between nodes and medium: `ring`, `tap` or `packet`.
    pub frame_path: String,
    /// Why it was not the fastest path, or that it was requested.
    pub frame_path_reason: Option<String>,
    /// Networks that used segmentation offload.
    pub offload: Vec<String>,
    /// Stalls of the medium's thread.
    pub stalls: Stalls,
    /// The host CPU, if limits depend on it.
    pub host_cpu: Option<HostCpu>,
    /// With `affinity`: the cores of each role.
    pub placement: Option<Placement>,
    /// With `affinity`: why there is no pinning.
    pub placement_reason: Option<String>,
    /// The source of `nodes.parquet`.
    pub accounting: AccountingFacts,
    /// Start time, RFC 3339, UTC.
    pub started: String,
    /// The phases, in their order.
    pub phases: Vec<Phase>,
    /// Whether the user stopped the run. A file without it is not complete.
    #[serde(default = "yes")]
    pub interrupted: bool,
    /// Whether the results can be trusted.
    pub verdict: Verdict,
}

fn yes() -> bool {
    true
}

/// The machine of a run, as far as results depend on it; in virtual time, the guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Machine {
    /// The kernel's release and build.
    pub kernel: String,
    /// The processor's name.
    pub cpu: String,
    /// Number of CPUs that Thingbed may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Default congestion control of TCP.
    pub tcp_congestion: String,
}

/// The frames of a replay that differ from the recorded run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Departures {
    /// Frames that differed in length, or that the record does not contain.
    pub count: u64,
    /// The first of them, as text.
    pub first: Option<String>,
}

/// Times in which the machine did not run the medium.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stalls {
    /// Number of stalls.
    pub count: u64,
    /// The longest stall, in ns.
    pub longest_ns: u64,
    /// All stalls together, in ns.
    pub total_ns: u64,
    /// Maximum time between a frame's arrival and the time that it counts from, in ns.
    pub behind_ns: u64,
}

/// The values of the host CPU that limits by clock or benchmark are based on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostCpu {
    /// Clock frequency, with its unit.
    pub clock: Option<String>,
    /// Source of the clock frequency.
    pub clock_from: String,
    /// CoreMark score of one core, in iterations per second, as given by the user.
    pub coremark: Option<f64>,
}

/// The cores of each role.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Placement {
    /// The core of the medium: of its first thread; each further thread has the next core.
    pub medium: u32,
    /// Cores of nodes that only send loads.
    pub senders: Vec<u32>,
    /// Cores of all other nodes.
    pub others: Vec<u32>,
}

/// Where resource usage comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AccountingFacts {
    /// `cgroup v1`, `cgroup v2` or `/proc`.
    pub source: String,
    /// Why control groups were not used, if so.
    pub reason: Option<String>,
    /// CPU time of the sampler's thread, in percent of one core.
    pub cpu_pct: Option<f64>,
}

/// A phase of a run; times in s relative to offset 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// `up`, `set-up`, `load`, `drain`, `stop` or `write`.
    pub name: String,
    /// Start.
    #[serde(default)]
    pub start_s: Option<f64>,
    /// End.
    #[serde(default)]
    pub end_s: Option<f64>,
}

impl RunFacts {
    /// Name of the file in the run folder.
    pub const FILE: &str = "run.json";

    /// Time from the start of the first phase to the end of the last, in s.
    pub fn duration_s(&self) -> Option<f64> {
        Some(self.phases.last()?.end_s? - self.phases.first()?.start_s?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_version_is_read_as_far_as_it_goes() {
        let text = r#"{"thingbed_version": "0.0.9", "kernel": "6.1", "new": 1,
            "phases": [{"name": "load", "start_s": 0.5}, {"name": "stop", "end_s": 2.0}]}"#;
        let facts: RunFacts = serde_json::from_str(text).unwrap();
        assert_eq!((&*facts.thingbed, &*facts.machine.kernel), ("0.0.9", "6.1"));
        assert_eq!((facts.duration_s(), facts.interrupted), (Some(1.5), true));
        assert_eq!(facts.verdict.status, crate::Status::Unknown);
    }

    #[test]
    fn what_is_written_is_read() {
        let facts = RunFacts {
            seed: 7,
            machine: Machine { cores: 4, ..Machine::default() },
            placement: Some(Placement { medium: 1, senders: vec![2], others: vec![3] }),
            accounting: AccountingFacts { cpu_pct: Some(0.5), ..AccountingFacts::default() },
            ..RunFacts::default()
        };
        let text = serde_json::to_string(&facts).unwrap();
        assert!(text.contains("\"cores\":4") && !text.contains("machine"), "{text}");
        assert_eq!(serde_json::from_str::<RunFacts>(&text).unwrap(), facts);
    }
}
