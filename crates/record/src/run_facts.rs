//! `run.json`: the machine, the versions and options, the phases, the verdict with its evidence, and
//! the list of a run's files.

use crate::{Cell, Clock, Cpu, Verdict};
use journal::Contents;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The format of `run.json` that this version writes. It increases when readers of an earlier
/// format would misread the file, not when keys are added.
pub const RUN_FORMAT: u32 = 1;

/// `run.json`. Files of earlier versions lack the optional keys and those with a default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunFacts {
    /// Format of the file: [`RUN_FORMAT`]; 0 in files of versions that did not write it.
    #[serde(default)]
    pub format: u32,
    /// Name of the experiment.
    #[serde(default)]
    pub experiment: String,
    /// Axes and values.
    #[serde(default)]
    pub cell: Cell,
    /// Seed of all random values.
    #[serde(default)]
    pub seed: u64,
    /// Number of the repeat, from 0.
    #[serde(default)]
    pub repeat: u32,
    /// Version of Thingbed.
    #[serde(default)]
    pub thingbed: String,
    /// Commit of its build.
    #[serde(default)]
    pub commit: String,
    /// Clock of the run.
    #[serde(default)]
    pub clock: Clock,
    /// CPU of virtual time; null in real time.
    pub virtual_cpu: Option<Cpu>,
    /// The machine: in virtual time, the guest.
    #[serde(flatten)]
    pub machine: Machine,
    /// Scheduling of the medium's thread: `real_time`, `high` or `ordinary`.
    #[serde(default)]
    pub medium_priority: String,
    /// Number of threads that forwarded frames.
    #[serde(default)]
    pub threads: usize,
    /// Whether the medium busy-waited shortly before frames were due.
    #[serde(default)]
    pub spin: bool,
    /// Folder of the replayed run; null without `--replay`.
    pub replay: Option<PathBuf>,
    /// Differences from the replayed run; null without `--replay`.
    pub replay_departures: Option<Departures>,
    /// Number of decisions missing in `decisions.parquet`.
    #[serde(default)]
    pub decisions_missed: u64,
    /// Frame path between nodes and medium: `ring`, `tap` or `packet`.
    #[serde(default)]
    pub frame_path: String,
    /// Why it was not the fastest path; null otherwise.
    pub frame_path_reason: Option<String>,
    /// Networks that used segmentation offload.
    #[serde(default)]
    pub offload: Vec<String>,
    /// Stalls of the medium's thread.
    #[serde(default)]
    pub stalls: Stalls,
    /// This host's CPU, if limits use a clock or a board.
    pub host_cpu: Option<HostCpu>,
    /// Cores by role, with `affinity`.
    pub placement: Option<Placement>,
    /// Why there is no pinning, with `affinity`.
    pub placement_reason: Option<String>,
    /// Source of resource usage.
    #[serde(default)]
    pub accounting: Accounting,
    /// Start time, RFC 3339, UTC.
    #[serde(default)]
    pub started: String,
    /// Phases, in order.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// Whether the user stopped the run. All versions wrote it, so a file without it is damaged.
    pub interrupted: bool,
    /// The verdict with its evidence.
    #[serde(default)]
    pub verdict: Verdict,
    /// All other files of the run; null in files of versions that did not list them.
    pub files: Option<Contents>,
}

/// The machine of a run, as far as results depend on it.
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

/// Frames of a replay that differ from those of the recorded run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Departures {
    /// Number of frames that differ in length or are not in it.
    pub count: u64,
    /// The first of them, as text.
    pub first: Option<String>,
}

/// Times in which the medium had work but did not run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stalls {
    /// Number of stalls.
    pub count: u64,
    /// The longest stall, in ns.
    pub longest_ns: u64,
    /// All stalls together, in ns.
    pub total_ns: u64,
    /// Maximum time in ns between a frame's arrival and the time that it counts from.
    pub behind_ns: u64,
}

/// The values of this host that limits by clock or benchmark are based on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostCpu {
    /// Clock frequency of this host, with its unit.
    #[schemars(with = "Option<String>")]
    pub clock: Option<units::Frequency>,
    /// Source of the clock frequency.
    pub clock_from: String,
    /// CoreMark score of one core, in iterations per second, as given by the user.
    pub coremark: Option<f64>,
}

/// Cores by role.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    /// The core of the medium's first thread; each further thread has the next core.
    pub medium: u32,
    /// Cores of nodes that only send loads.
    pub senders: Vec<u32>,
    /// Cores of all other nodes.
    pub others: Vec<u32>,
}

/// Source of resource usage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Accounting {
    /// `cgroup v1`, `cgroup v2` or `/proc`.
    pub source: String,
    /// Why control groups were not used; null if they were.
    pub reason: Option<String>,
    /// CPU time of the sampler's thread, in percent of one core.
    pub cpu_pct: Option<f64>,
}

/// A phase of a run, in seconds relative to offset 0.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Phase {
    /// `up`, `set-up`, `load`, `drain`, `stop` or `write`.
    pub name: String,
    /// Start, s.
    pub start_s: f64,
    /// End, s.
    pub end_s: f64,
}

impl RunFacts {
    /// Reads the text of `run.json`.
    ///
    /// # Errors
    /// When it is damaged, or of a newer format.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        // Words of other crates are text here, so that files of versions with other words stay
        // readable (decision 69).
        let facts: Self = serde_json::from_str(text)?;
        // Only newer formats: all earlier ones are read with defaults.
        if facts.format > RUN_FORMAT {
            return Err(serde::de::Error::custom(format!(
                "it has format {}, and this version of Thingbed reads up to {RUN_FORMAT}; use the \
                 version that wrote it, {}",
                facts.format, facts.thingbed
            )));
        }
        Ok(facts)
    }

    /// The phase with this name.
    pub fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_first_version_is_read() {
        let text = r#"{"experiment": "e", "cell": {"m": "a"}, "seed": 7, "repeat": 1,
            "thingbed": "0.1.0", "kernel": "6.1", "cores": 2, "interrupted": false,
            "phases": [{"name": "up", "start_s": -2.5, "end_s": -1}], "verdict": {"status": "valid"}}"#;
        let facts = RunFacts::from_json(text).unwrap();
        assert_eq!((facts.format, facts.clock, facts.virtual_cpu), (0, Clock::Real, None));
        assert_eq!((&*facts.machine.kernel, facts.machine.cores), ("6.1", 2));
        assert_eq!(facts.phase("up").unwrap().start_s, -2.5);
        assert_eq!((facts.files, facts.phases.len()), (None, 1));
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        assert!(RunFacts::from_json("{}").unwrap_err().to_string().contains("interrupted"));
        assert!(RunFacts::from_json(r#"{"interrupted": false, "files": 3}"#).is_err());
    }

    #[test]
    fn a_newer_format_names_the_version_to_use() {
        let text = r#"{"format": 2, "thingbed": "9.0", "interrupted": false, "more": 1}"#;
        let error = RunFacts::from_json(text).unwrap_err().to_string();
        assert!(error.contains("format 2") && error.contains("9.0"), "{error}");
        assert!(RunFacts::from_json(&text.replace('2', "1")).is_ok(), "keys may be added");
    }

    #[test]
    fn what_is_written_is_read_again() {
        let facts = RunFacts {
            format: RUN_FORMAT,
            clock: Clock::Virtual,
            virtual_cpu: Some(Cpu::Mips(500)),
            machine: Machine { cores: 4, ..Machine::default() },
            files: Some(Contents::default()),
            ..RunFacts::default()
        };
        let json = serde_json::to_value(&facts).unwrap();
        assert_eq!((&json["virtual_cpu"], &json["cores"]), (&"0.5".into(), &4.into()));
        assert_eq!(RunFacts::from_json(&json.to_string()).unwrap(), facts);
    }

    /// The repository has results of earlier versions.
    #[test]
    fn results_of_earlier_versions_are_read() {
        let mut folders =
            vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results"))];
        let mut read = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.ends_with("run.json") {
                    let facts = RunFacts::from_json(&std::fs::read_to_string(&path).unwrap());
                    let facts = facts.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                    assert!(!facts.thingbed.is_empty() && facts.phase("load").is_some());
                    assert!(!facts.verdict.evidence.is_empty(), "{}", path.display());
                    read += 1;
                }
            }
        }
        assert!(read > 10, "{read} files");
    }

    /// Users find each key in the documentation.
    #[test]
    fn each_key_is_documented() {
        let page = include_str!("../../../docs/run-folder.md");
        let section = page.split("### run.json").nth(1).unwrap().split("###").next().unwrap();
        let json = serde_json::to_value(RunFacts::default()).unwrap();
        for key in json.as_object().unwrap().keys() {
            let known = [format!("`{key}`"), format!("`{key}[]`"), format!("`{key}.")];
            assert!(known.iter().any(|name| section.contains(name)), "{key} is not documented");
        }
    }
}
