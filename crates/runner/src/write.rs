//! Writes the files of a finished run into its folder.

use crate::bed::jobs::Job;
use crate::error::Error;
use crate::exchange::sections;
use crate::folder::Folder;
use crate::power::{self, OffTimes};
use crate::results::Results;
use crate::run_facts::run_facts;
use crate::summary::summary;
use measure::{Intervals, Usage};
use record::event::{RunEvent, RunEventKind};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use units::{Instant, Span};

/// Writes the files of a finished run. Returns the content of `summary.json`.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn write(folder: &Folder, results: &Results<'_>) -> Result<Value, Error> {
    measure::write_messages(&folder.path().join("messages.parquet"), results.messages)?;
    if !results.clients.is_empty() {
        measure::write_clients(&folder.path().join("clients.parquet"), results.clients)?;
    }
    if !results.sections.is_empty() {
        measure::write_sections(&folder.path().join("sections.parquet"), results.sections)?;
    }
    if !results.probes.rows.is_empty() {
        measure::write_probes(&folder.path().join("probes.parquet"), &results.probes.rows)?;
    }
    if !results.programs.rows.is_empty() {
        let path = folder.path().join("metrics.parquet");
        measure::write_program_values(&path, &results.programs.rows)?;
    }
    let off = off_in_second(results);
    measure::write_nodes(&folder.path().join("nodes.parquet"), results.usage.rows(), off)?;
    let tolerances = results.tolerances;
    let links = results.links.iter().cloned().map(Ok);
    measure::write_links(&folder.path().join("links.parquet"), links, tolerances)?;
    let intervals = results.intervals.intervals();
    measure::write_links(&folder.path().join("intervals.parquet"), intervals, tolerances)?;
    events(folder, results)?;
    let summary =
        summary(results, results.links, folder.path()).map_err(Error::io("read the rows"))?;
    let summary = json!(summary);
    folder.json("summary.json", &summary)?;
    // The programs' events are removed when the tables are on the disk, and `run.json` is last:
    // a folder without it is of a run that was cut short.
    tidy(folder, results.jobs);
    folder.json("run.json", &json!(run_facts(results, folder.contents()?)))?;
    Ok(summary)
}

/// Time of a node's second of sampling in which it was off or paused.
fn off_in_second(results: &Results<'_>) -> impl Fn(&str, u32) -> Span {
    let nodes = results.plan.nodes.iter().enumerate();
    let times = nodes.map(|(at, node)| (node.name.clone(), OffTimes::of_node(results, at)));
    let times: HashMap<String, OffTimes> =
        times.filter(|(_, off)| off.total() > Span::ZERO).collect();
    // Sampling begins with the measurement.
    let begin = power::measured(results).map(|(from, _)| from);
    move |node, second| match (times.get(node), begin) {
        (Some(off), Some(begin)) => {
            let from = begin + Span::from_s(second.into());
            off.within(from, from + Span::from_s(1))
        }
        _ => Span::ZERO,
    }
}

/// The log of events.
fn events(folder: &Folder, results: &Results<'_>) -> Result<(), Error> {
    let since = |at: Instant| at.seconds_from(results.start);
    let mut lines: Vec<(f64, RunEventKind)> = results
        .phases
        .iter()
        .map(|(name, at)| (since(*at), RunEventKind::Phase { phase: (*name).to_owned() }))
        .collect();
    for network in &results.plan.networks {
        // Impairments begin with the load phase.
        let begin = results.phases.iter().find(|(name, _)| *name == "load");
        for change in &network.timetable {
            let at = begin.map_or(0.0, |(_, at)| since(*at + change.at));
            let (network, change) = (network.name.clone(), json!(change.what));
            lines.push((at, RunEventKind::Change { network, change }));
        }
    }
    for made in results.made {
        let change = json!(made.request);
        lines.push((since(made.at), RunEventKind::ManualChange { change }));
    }
    for fault in results.injected {
        let (what, node) = (fault.what.to_string(), fault.node.clone());
        lines.push((since(fault.at), RunEventKind::Fault { what, node }));
    }
    lines.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let reasons = results.verdict.reasons.iter().map(|reason| RunEvent {
        at_s: None,
        what: RunEventKind::Reason { status: reason.status, text: reason.to_string() },
    });
    let lines = lines.into_iter().map(|(at, what)| RunEvent { at_s: Some(at), what });
    let path = folder.path().join("events.jsonl");
    let text: String = lines.chain(reasons).map(|line| format!("{}\n", json!(line))).collect();
    journal::write(&path, text).map_err(Error::write(&path))
}

/// Removes the files whose content is in the tables now, and empty logs; other logs stay.
fn tidy(folder: &Folder, jobs: &[Job]) {
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
    for name in Usage::files().into_iter().chain([Intervals::file()]) {
        let _ = fs::remove_file(folder.path().join(name));
    }
    // Fails, as intended, if a log is left in it.
    let _ = fs::remove_dir(folder.path().join("programs"));
}
