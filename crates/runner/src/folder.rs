//! The run folder: what is written when a run is over.

use crate::error::Error;
use crate::jobs::Job;
use crate::live::Made;
use crate::machine::Machine;
use crate::run::{Begun, Options, interactions, used};
use crate::topology::Topology;
use experiment::{InteractionPattern, Plan};
use measure::{Accounting, LinkRow, Message, Outcomes, Traffic, Usage, Verdict};
use medium::{FramePath, Interval, Priority, Stalls, Totals};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

/// A folder that one run writes to.
#[derive(Debug)]
pub struct Folder(PathBuf);

/// All that is known when a run is over.
pub(crate) struct Results<'a> {
    pub plan: &'a Plan,
    pub options: &'a Options<'a>,
    pub started: SystemTime,
    pub phases: &'a [Begun],
    pub start_ns: u64,
    pub topology: &'a Topology,
    pub jobs: &'a [Job],
    pub messages: &'a [Message],
    pub outcomes: &'a Outcomes,
    pub usage: &'a Usage,
    /// CPU time of each node's programs before measuring began.
    pub cpu_before_ns: &'a [u64],
    pub accounting: &'a Accounting,
    /// What was asked of links and got, whole and by intervals.
    pub links: &'a [LinkRow],
    pub intervals: &'a [LinkRow],
    /// What was changed by hand while it ran.
    pub made: &'a [Made],
    /// Decisions that `decisions.parquet` lacks.
    pub decisions_missed: u64,
    pub priority: Priority,
    pub frame_path: FramePath,
    /// Why it is not the fastest, or that it was asked for.
    pub why_path: Option<&'a str>,
    pub stalls: Stalls,
    pub kernel: &'a [Option<lab::Counters>],
    pub verdict: &'a Verdict,
}

/// Makes `<out>/<experiment>/<time>-<seed>` for a sweep.
///
/// # Errors
/// When it cannot be made.
pub fn sweep_folder(out: &Path, experiment: &str, seed: u64) -> Result<PathBuf, Error> {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let time: String = now.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let parent = out.join(experiment);
    fs::create_dir_all(&parent).map_err(Error::write(&parent))?;
    // Two sweeps within a second get folders of their own.
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
    /// Makes the folder of one run.
    ///
    /// # Errors
    /// When it cannot be made, or is there already.
    pub fn make(path: PathBuf) -> Result<Self, Error> {
        fs::create_dir(&path).map_err(Error::write(&path))?;
        Ok(Self(path))
    }

    /// Takes a folder that is there and empty of results.
    pub fn take(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where it is.
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
        // Programs start elsewhere: their files need whole paths.
        fs::canonicalize(&path).map_err(Error::write(&path))
    }

    pub(crate) fn write(&self, results: &Results<'_>) -> Result<Value, Error> {
        measure::write_messages(&self.0.join("messages.parquet"), results.messages)?;
        measure::write_nodes(&self.0.join("nodes.parquet"), &results.usage.nodes)?;
        measure::write_links(&self.0.join("links.parquet"), results.links)?;
        measure::write_links(&self.0.join("intervals.parquet"), results.intervals)?;
        self.events(results)?;
        self.json("run.json", &run_json(results))?;
        let summary = summary(results, results.links);
        self.json("summary.json", &summary)?;
        self.tidy(results.jobs);
        Ok(summary)
    }

    fn json(&self, name: &str, value: &Value) -> Result<(), Error> {
        let path = self.0.join(name);
        let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
        fs::write(&path, text).map_err(Error::write(&path))
    }

    fn events(&self, results: &Results<'_>) -> Result<(), Error> {
        let since = |ns: u64| (ns as f64 - results.start_ns as f64) / 1e9;
        let mut lines: Vec<Value> = results
            .phases
            .iter()
            .map(|(name, at)| json!({"at_s": since(*at), "event": "phase", "phase": name}))
            .collect();
        for network in &results.plan.networks {
            // The impairments begin where the load does.
            let begin = results.phases.iter().find(|(name, _)| *name == "load");
            for change in &network.timetable {
                let at = begin.map_or(0.0, |(_, at)| since(at + change.at.as_ns()));
                let network = &network.name;
                lines.push(json!({"at_s": at, "event": "change", "network": network, "change": change.what}));
            }
        }
        for made in results.made {
            let at = since(made.at_ns);
            lines.push(json!({"at_s": at, "event": "change by hand", "change": made.request}));
        }
        let time = |line: &Value| line["at_s"].as_f64().unwrap_or(f64::MAX);
        lines.sort_by(|a, b| time(a).total_cmp(&time(b)));
        for reason in &results.verdict.reasons {
            lines.push(json!({"event": "reason", "text": reason}));
        }
        let path = self.0.join("events.jsonl");
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&path, text).map_err(Error::write(&path))
    }

    /// Removes what is in the tables by now, and logs that are empty; the logs
    /// that hold something stay.
    fn tidy(&self, jobs: &[Job]) {
        for job in jobs {
            let empty = |path: &Path| fs::metadata(path).is_ok_and(|file| file.len() == 0);
            let files = &job.files;
            for path in [&files.spec, &files.events] {
                let _ = fs::remove_file(path);
            }
            for path in [&files.out, &files.err].into_iter().filter(|path| empty(path)) {
                let _ = fs::remove_file(path);
            }
        }
        // Fails, as it should, while a log is in it.
        let _ = fs::remove_dir(self.0.join("programs"));
    }
}

fn run_json(results: &Results<'_>) -> Value {
    let since = |ns: u64| (ns as f64 - results.start_ns as f64) / 1e9;
    let ends = results.phases.iter().skip(1).map(|(_, at)| *at);
    let ends = ends.chain([medium::monotonic_now()]);
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
        "kernel": machine.kernel,
        "cpu": machine.cpu,
        "cores": machine.cores,
        "memory_bytes": machine.memory_bytes,
        "tcp_congestion": machine.tcp_congestion,
        "medium_priority": results.priority,
        "replay": results.options.replay,
        "decisions_missed": results.decisions_missed,
        "frame_path": results.frame_path,
        "frame_path_reason": results.why_path,
        "stalls": results.stalls,
        "started": humantime::format_rfc3339_millis(results.started).to_string(),
        "phases": phases,
        "interrupted": results.options.interrupted.load(Relaxed),
        "verdict": results.verdict,
    })
}

/// What was asked of each direction and got, over the whole run and by
/// intervals.
pub(crate) fn links(
    plan: &Plan,
    topology: &Topology,
    totals: &[Vec<[Totals; 2]>],
    intervals: &[Vec<[Vec<Interval>; 2]>],
    start_ns: u64,
) -> (Vec<LinkRow>, Vec<LinkRow>) {
    let (mut whole, mut cut) = (Vec::new(), Vec::new());
    let since = |ns: u64| (ns as f64 - start_ns as f64) / 1e9;
    for (segment, spec) in topology.segments.iter().enumerate() {
        for (endpoint, link) in spec.endpoints.iter().enumerate() {
            let name = &topology.names[segment][endpoint];
            let (node, interface) = name.split_once(':').unwrap_or((name, ""));
            for (way, asked, direction) in [(0, &link.up, "up"), (1, &link.down, "down")] {
                let parts = &intervals[segment][endpoint][way];
                let row = LinkRow {
                    node: node.to_owned(),
                    interface: interface.to_owned(),
                    network: plan.networks[segment].name.clone(),
                    direction,
                    start_s: parts.first().map_or(0.0, |part| since(part.from)),
                    end_s: parts.last().map_or(0.0, |part| since(part.to)),
                    asked: asked.clone().into(),
                    changing: parts.iter().any(|part| part.changing || *part.asked != *asked),
                    got: totals[segment][endpoint][way],
                };
                cut.extend(parts.iter().map(|part| LinkRow {
                    start_s: since(part.from),
                    end_s: since(part.to),
                    asked: part.asked.clone(),
                    changing: part.changing,
                    got: part.got,
                    ..row.clone()
                }));
                whole.push(row);
            }
        }
    }
    (whole, cut)
}

/// The payload that applications in each node handed to their transports: a
/// message to all over multicast is handed over once, over connections once
/// for each.
fn payload_sent(results: &Results<'_>, group: &str) -> u64 {
    let plan = results.plan;
    let in_group = |name: &str| plan.nodes.iter().any(|n| n.name == name && n.group == group);
    let mut bytes = 0;
    let mut row = 0;
    for (_, interaction) in interactions(plan) {
        let count = interaction.replies() as usize;
        let rows = &results.messages[row..(row + count).min(results.messages.len())];
        row += count;
        if in_group(&interaction.source) {
            let mut sent: Vec<u64> =
                rows.iter().filter(|m| m.sent_ns.is_some()).map(|m| m.message).collect();
            if interaction.down == InteractionPattern::PgmPublishSubscribe {
                sent.dedup();
            }
            bytes += sent.len() as u64 * interaction.payload_bytes;
        }
        let answers = rows.iter().filter(|m| m.reply_sent_ns.is_some() && in_group(&m.peer));
        bytes += answers.count() as u64 * interaction.reply_payload_bytes;
    }
    bytes
}

fn summary(results: &Results<'_>, links: &[LinkRow]) -> Value {
    let plan = results.plan;
    let mut groups = Map::new();
    let mut all = Map::new();
    let mut names: Vec<&str> = Vec::new();
    for node in &plan.nodes {
        if !names.contains(&node.group.as_str()) {
            names.push(&node.group);
        }
    }
    for name in names {
        let nodes: Vec<usize> =
            (0..plan.nodes.len()).filter(|i| plan.nodes[*i].group == name).collect();
        let figures = group(results, name, &nodes);
        for (key, value) in figures.as_object().into_iter().flatten() {
            let sum = all.entry(key.clone()).or_insert(json!(0));
            *sum = match (sum.as_u64(), value.as_u64()) {
                (Some(a), Some(b)) if key == "rss_max_bytes" => json!(a.max(b)),
                (Some(a), Some(b)) => json!(a + b),
                _ => json!(sum.as_f64().unwrap_or(0.0) + value.as_f64().unwrap_or(0.0)),
            };
        }
        groups.insert(name.to_owned(), figures);
    }
    let lateness = results.accounting.lateness().summary(1e3).unwrap_or_default();
    let offered: u64 = links.iter().map(|l| l.got.at_risk()).sum();
    let lossy = links.iter().filter(|l| l.loss_asked_pct() > 0.0 && !l.changing);
    let (mut frames, mut asked, mut lost) = (0, 0.0, 0);
    for link in lossy {
        frames += link.got.at_risk();
        asked += link.loss_asked_pct() * link.got.at_risk() as f64;
        lost += link.got.lost;
    }
    json!({
        "experiment": plan.experiment,
        "cell": plan.cell,
        "seed": plan.seed,
        "repeat": plan.repeat,
        "verdict": {"status": results.verdict.status, "reasons": results.verdict.reasons},
        "messages": results.outcomes,
        "groups": groups,
        "all": all,
        "links": {
            "delay_error_us": {"p50": lateness.p50, "p99": lateness.p99, "max": lateness.max},
            "frames": offered,
            // Over the links that were asked to lose, weighted by their frames.
            "loss_asked_pct": asked / (frames.max(1)) as f64,
            "loss_got_pct": 100.0 * lost as f64 / frames.max(1) as f64,
            "overflow_frames": links.iter().map(|l| l.got.overflow).sum::<u64>(),
            "outage_frames": links.iter().map(|l| l.got.outage).sum::<u64>(),
            "rejected_frames": links.iter().map(|l| l.got.rejected).sum::<u64>(),
            "not_as_asked": results.intervals.iter().filter(|l| !l.is_kept()).count(),
        },
    })
}

fn group(results: &Results<'_>, name: &str, nodes: &[usize]) -> Value {
    let (mut tx, mut rx) = (Traffic::default(), Traffic::default());
    let (mut kernel_tx, mut kernel_rx, mut medium_tx, mut medium_rx) = (0, 0, 0, 0);
    for node in nodes {
        let Some(traffic) = results.accounting.nodes().get(*node) else { continue };
        tx += traffic.tx;
        rx += traffic.rx;
        medium_tx += traffic.all_tx[0];
        medium_rx += traffic.all_rx[0];
    }
    for (port, place) in results.topology.places.iter().enumerate() {
        if nodes.contains(&results.topology.owners[place.segment][place.endpoint])
            && let Some(counters) = results.kernel[port]
        {
            kernel_tx += counters.tx_frames;
            kernel_rx += counters.rx_frames;
        }
    }
    let jobs = results.jobs.iter().filter(|job| nodes.contains(&job.node));
    let usage: Vec<_> = jobs.map(|job| (job.is_foreign(), used(job))).collect();
    let cpu_us: u64 = usage.iter().map(|(_, u)| u.user_us + u.system_us).sum();
    let before_us = nodes.iter().map(|node| results.cpu_before_ns[*node]).sum::<u64>() / 1000;
    let payload = payload_sent(results, name);
    let own = usage.iter().any(|(foreign, _)| *foreign);
    json!({
        "nodes": nodes.len(),
        "tx_bytes": tx.bytes,
        "rx_bytes": rx.bytes,
        "tx_frames": tx.frames,
        "rx_frames": rx.frames,
        "payload_bytes": payload,
        // What foreign programs mean as payload nobody knows.
        "overhead_bytes": if own { 0 } else { tx.bytes - payload.min(tx.carried) },
        "lower_bytes": tx.lower,
        "transport_bytes": tx.transport,
        "carried_bytes": tx.carried,
        "control_frames": tx.control_frames,
        "control_bytes": tx.control_bytes,
        "retransmitted_frames": tx.retransmitted_frames,
        "retransmitted_bytes": tx.retransmitted_bytes,
        "rx_lower_bytes": rx.lower,
        "rx_transport_bytes": rx.transport,
        "rx_carried_bytes": rx.carried,
        "rx_control_frames": rx.control_frames,
        "rx_control_bytes": rx.control_bytes,
        "cpu_ms": cpu_us.saturating_sub(before_us) as f64 / 1e3,
        "rss_max_bytes": usage.iter().map(|(_, u)| u.peak_bytes).max().unwrap_or(0),
        // Since the nodes came up, to be held against each other.
        "medium_tx_frames": medium_tx,
        "medium_rx_frames": medium_rx,
        "kernel_tx_frames": kernel_tx,
        "kernel_rx_frames": kernel_rx,
    })
}
