//! The run folder: the files that a finished run writes.

use crate::bed::HostCpu;
use crate::bed::ManualChange;
use crate::bed::Pinning;
use crate::bed::Topology;
use crate::bed::faults::InjectedFault;
use crate::bed::jobs::Job;
use crate::error::Error;
use crate::exchange::sections;
use crate::machine::Machine;
use crate::measurement::Begun;
use crate::probe_figures::Probes;
use crate::program_metrics::ProgramMetrics;
use crate::run::Options;
use crate::summary::summary;
use crate::waits::Waits;
use engine::{FramePath, Priority, Stalls};
use experiment::{Clock, Plan};
use journal::Contents;
use measure::{Accounting, ClientRow, LinkRow, Message, SectionRow, Tolerances, Usage};
use record::event::{RunEvent, RunEventKind};
use record::{Load, Messages, Verdict};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

/// The folder of one run.
#[derive(Debug)]
pub struct Folder(PathBuf);

/// All results of a finished run.
pub(crate) struct Results<'a> {
    pub plan: &'a Plan,
    pub options: &'a Options<'a>,
    pub started: SystemTime,
    pub phases: &'a [Begun],
    pub start_ns: u64,
    pub topology: &'a Topology,
    pub jobs: &'a [Job],
    pub messages: &'a [Message],
    pub clients: &'a [ClientRow],
    /// The sections of exchanges.
    pub sections: &'a [SectionRow],
    /// The results of loads.
    pub loads: &'a Option<BTreeMap<String, Load>>,
    /// The results of probes.
    pub probes: &'a Probes,
    /// The values that programs printed.
    pub programs: &'a ProgramMetrics,
    pub outcomes: &'a Messages,
    pub usage: &'a Usage,
    /// Why resource usage does not come from control groups, if so.
    pub uncounted: Option<&'a str>,
    /// The host CPU that limits by clock or benchmark are based on, if there are any.
    pub host_cpu: Option<&'a HostCpu>,
    /// Run and wait time of each node's programs.
    pub scheduled: &'a [Waits],
    pub accounting: &'a Accounting,
    /// Configured and measured impairments of links, for the whole run and by intervals.
    pub links: &'a [LinkRow],
    pub intervals: &'a [LinkRow],
    /// The tolerances between configured and measured values.
    pub tolerances: &'a Tolerances,
    /// Changes made by hand during the run.
    pub made: &'a [ManualChange],
    /// Faults injected into programs.
    pub injected: &'a [InjectedFault],
    /// Number of decisions missing in `decisions.parquet`.
    pub decisions_missed: u64,
    pub priority: Priority,
    /// Number of threads that forwarded frames.
    pub threads: usize,
    pub frame_path: FramePath,
    /// Why the frame path is not the fastest, or that it was requested.
    pub why_path: Option<String>,
    pub stalls: Stalls,
    /// The core of each role, or why there is no pinning; `None` if it was not requested.
    pub placement: Option<&'a Result<Pinning, String>>,
    pub kernel: &'a [Option<lab::Counters>],
    pub verdict: &'a Verdict,
}

/// Creates `<out>/<experiment>/<time>-<seed>` for a sweep.
///
/// # Errors
/// When it cannot be created.
pub fn sweep_folder(out: &Path, experiment: &str, seed: u64) -> Result<PathBuf, Error> {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let time: String = now.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let parent = out.join(experiment);
    fs::create_dir_all(&parent).map_err(Error::write(&parent))?;
    // Two sweeps within a second get separate folders.
    for n in 0.. {
        let again = if n == 0 { String::new() } else { format!("-{n}") };
        let path = parent.join(format!("{time}-{seed}{again}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::write(&path)(error)),
        }
    }
    unreachable!("a free number is found")
}

impl Folder {
    /// Creates the folder of one run.
    ///
    /// # Errors
    /// When it cannot be created or exists already.
    pub fn make(path: PathBuf) -> Result<Self, Error> {
        fs::create_dir(&path).map_err(Error::write(&path))?;
        Ok(Self(path))
    }

    /// Uses an existing folder without results.
    pub fn take(path: PathBuf) -> Self {
        Self(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write_plan(&self, plan: &Plan) -> Result<(), Error> {
        self.json("plan.json", &json!(plan))
    }

    /// The folder of the programs' own files.
    pub(crate) fn programs(&self) -> Result<PathBuf, Error> {
        let path = self.0.join("programs");
        fs::create_dir(&path).map_err(Error::write(&path))?;
        // Programs start elsewhere, so their files need absolute paths.
        fs::canonicalize(&path).map_err(Error::write(&path))
    }

    pub(crate) fn write(&self, results: &Results<'_>) -> Result<Value, Error> {
        measure::write_messages(&self.0.join("messages.parquet"), results.messages)?;
        if !results.clients.is_empty() {
            measure::write_clients(&self.0.join("clients.parquet"), results.clients)?;
        }
        if !results.sections.is_empty() {
            measure::write_sections(&self.0.join("sections.parquet"), results.sections)?;
        }
        if !results.probes.rows.is_empty() {
            measure::write_probes(&self.0.join("probes.parquet"), &results.probes.rows)?;
        }
        if !results.programs.rows.is_empty() {
            let path = self.0.join("metrics.parquet");
            measure::write_program_values(&path, &results.programs.rows)?;
        }
        measure::write_nodes(&self.0.join("nodes.parquet"), &results.usage.nodes)?;
        let tolerances = results.tolerances;
        measure::write_links(&self.0.join("links.parquet"), results.links, tolerances)?;
        measure::write_links(&self.0.join("intervals.parquet"), results.intervals, tolerances)?;
        self.events(results)?;
        let summary = json!(summary(results, results.links));
        self.json("summary.json", &summary)?;
        // The programs' events are removed when the tables are on the disk, and `run.json` is last:
        // a folder without it is of a run that was cut short.
        self.tidy(results.jobs);
        self.json("run.json", &run_json(results, &self.contents()?))?;
        Ok(summary)
    }

    /// All files of the run so far.
    fn contents(&self) -> Result<Contents, Error> {
        let mut contents = Contents::default();
        for path in files_below(&self.0)? {
            let Some(name) = path.strip_prefix(&self.0).ok().and_then(Path::to_str) else {
                continue;
            };
            if is_of_sweep(name) {
                continue;
            }
            let added = match is_auxiliary(name) {
                true => contents.add_auxiliary(&self.0, name),
                false => contents.add(&self.0, name),
            };
            added.map_err(Error::write(&path))?;
        }
        Ok(contents)
    }

    fn json(&self, name: &str, value: &Value) -> Result<(), Error> {
        let path = self.0.join(name);
        let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
        journal::write(&path, text).map_err(Error::write(&path))
    }

    fn events(&self, results: &Results<'_>) -> Result<(), Error> {
        let since = |ns: u64| (ns as f64 - results.start_ns as f64) / 1e9;
        let mut lines: Vec<(f64, RunEventKind)> = results
            .phases
            .iter()
            .map(|(name, at)| (since(*at), RunEventKind::Phase { phase: (*name).to_owned() }))
            .collect();
        for network in &results.plan.networks {
            // Impairments begin with the load phase.
            let begin = results.phases.iter().find(|(name, _)| *name == "load");
            for change in &network.timetable {
                let at = begin.map_or(0.0, |(_, at)| since(at + change.at.as_ns()));
                let (network, change) = (network.name.clone(), json!(change.what));
                lines.push((at, RunEventKind::Change { network, change }));
            }
        }
        for made in results.made {
            let change = json!(made.request);
            lines.push((since(made.at_ns), RunEventKind::ManualChange { change }));
        }
        for fault in results.injected {
            let (what, node) = (fault.what.to_string(), fault.node.clone());
            lines.push((since(fault.at_ns), RunEventKind::Fault { what, node }));
        }
        lines.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let reasons = results.verdict.reasons.iter().map(|reason| RunEvent {
            at_s: None,
            what: RunEventKind::Reason { status: reason.status, text: reason.to_string() },
        });
        let lines = lines.into_iter().map(|(at, what)| RunEvent { at_s: Some(at), what });
        let path = self.0.join("events.jsonl");
        let text: String = lines.chain(reasons).map(|line| format!("{}\n", json!(line))).collect();
        journal::write(&path, text).map_err(Error::write(&path))
    }

    /// Removes the files whose content is in the tables now, and empty logs; other logs stay.
    fn tidy(&self, jobs: &[Job]) {
        for job in jobs {
            let empty = |path: &Path| fs::metadata(path).is_ok_and(|file| file.len() == 0);
            let files = &job.files;
            for path in [&files.spec, &files.events, &sections(files)] {
                let _ = fs::remove_file(path);
            }
            for path in [&files.out, &files.err].into_iter().filter(|path| empty(path)) {
                let _ = fs::remove_file(path);
            }
        }
        // Fails, as intended, if a log is left in it.
        let _ = fs::remove_dir(self.0.join("programs"));
    }
}

/// Files of a sweep, whose folder is also that of its only run.
fn is_of_sweep(name: &str) -> bool {
    // Drafts and locks of the sweep begin with a dot.
    let own = ["experiment.yaml", "reference.json", "expect.json", "report.html", "host.json"];
    name.starts_with('.') || name.starts_with("slurm/") || own.contains(&name)
}

/// Files that no figure depends on: captures, decisions, programs' output.
fn is_auxiliary(name: &str) -> bool {
    let own = ["capture.pcapng", "decisions.parquet"];
    name.starts_with("programs/") || own.contains(&name)
}

/// The regular files below a folder, in order.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let (mut found, mut todo) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).map_err(Error::write(&next))? {
            let entry = entry.map_err(Error::write(&next))?;
            let kind = entry.file_type().map_err(Error::write(&next))?;
            let path = entry.path();
            match (kind.is_dir(), kind.is_file()) {
                (true, _) => todo.push(path),
                (_, true) => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

fn run_json(results: &Results<'_>, files: &Contents) -> Value {
    let since = |ns: u64| (ns as f64 - results.start_ns as f64) / 1e9;
    let ends = results.phases.iter().skip(1).map(|(_, at)| *at);
    let ends = ends.chain([clock::now_ns()]);
    let phases: Vec<Value> = results
        .phases
        .iter()
        .zip(ends)
        .map(|((name, begin), end)| json!({"name": name, "start_s": since(*begin), "end_s": since(end)}))
        .collect();
    let machine = Machine::read();
    json!({
        "experiment": results.plan.experiment,
        "cell": results.plan.cell,
        "seed": results.plan.seed,
        "repeat": results.plan.repeat,
        "thingbed": results.options.version,
        "commit": results.options.commit,
        "clock": results.options.clock,
        "virtual_cpu": (results.options.clock == Clock::Virtual).then_some(results.options.cpu),
        "kernel": machine.kernel,
        "cpu": machine.cpu,
        "cores": machine.cores,
        "memory_bytes": machine.memory_bytes,
        "tcp_congestion": machine.tcp_congestion,
        "medium_priority": results.priority,
        "threads": results.threads,
        "spin": results.options.spin,
        "replay": results.options.replay,
        "replay_departures": results.options.replay.map(|_| departures(results)),
        "decisions_missed": results.decisions_missed,
        "frame_path": results.frame_path,
        "frame_path_reason": results.why_path,
        "offload": offload(results),
        "stalls": results.stalls,
        "host_cpu": results.host_cpu,
        "placement": results.placement.and_then(|placement| placement.as_ref().ok()),
        "placement_reason": results.placement.and_then(|placement| placement.as_ref().err()),
        "accounting": {
            "source": results.usage.cost.source.name(),
            "reason": results.uncounted,
            "cpu_pct": results.usage.cost.cpu_pct(),
        },
        "started": humantime::format_rfc3339_millis(results.started).to_string(),
        "phases": phases,
        "interrupted": results.options.interrupted.load(Relaxed),
        "verdict": results.verdict,
        "files": files,
    })
}

/// Where the frames of a replay differed from the recorded ones.
fn departures(results: &Results<'_>) -> Value {
    let found = results.accounting.departures();
    let first = found.first.as_ref().map(|first| {
        let node = results.topology.owners[first.segment][first.endpoint];
        let node = results.plan.nodes.get(node).map_or("host", |node| node.name.as_str());
        let network = &results.plan.networks[first.segment].name;
        let way = if first.way == link::Direction::Up { "up" } else { "down" };
        format!("{node}, network {network}, {way}: {}", first.text)
    });
    json!({"count": found.count, "first": first})
}

/// The networks whose nodes sent unsegmented TCP.
fn offload<'a>(results: &'a Results<'_>) -> Vec<&'a str> {
    let networks = results.plan.networks.iter().filter(|network| network.offload);
    networks.map(|network| network.name.as_str()).collect()
}
