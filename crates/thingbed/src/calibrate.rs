//! `thingbed calibrate`: measures links with probe programs: configured against measured.
//!
//! The probes do not use the medium's records, so this is an independent check of the medium.

mod page;
mod probe;

use crate::progress::Screen;
use crate::signals::watch_signals;
use crate::surroundings::{current_exe, frame_path, workload_program};
use crate::{Status, complain, remark, say};
use experiment::{Experiment, Only};
use probe::{Impairment, Probe, Row};
use runner::{Error, Folder, Options, sweep_folder};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Fixed seed of all draws, so that calibrations on different days are comparable.
const SEED: u64 = 1;

/// Runs all probes, prints the results and writes the page.
pub fn calibrate(out: &Path, seconds: u32) -> Status {
    let interrupted = match watch_signals() {
        Ok(flag) => flag,
        Err(error) => {
            complain(format!("could not install the handler for Ctrl-C: {error}"));
            return Status::Failed;
        }
    };
    let folder = match sweep_folder(out, "calibrate", SEED) {
        Ok(folder) => folder,
        Err(error) => {
            complain(error);
            return Status::Failed;
        }
    };
    let probes = probe::all(seconds);
    let mut rows: Vec<Row> = Vec::new();
    // Baseline: what the machine adds to a link without impairments.
    let mut baseline = None;
    for (n, probe) in probes.iter().enumerate() {
        let title = format!("[{}/{}] {}", n + 1, probes.len(), probe.name);
        match one(probe, &folder, &title, &interrupted) {
            Ok((results, verdict)) => {
                if let Impairment::Nothing = probe.configured {
                    baseline = results.median_ns();
                }
                rows.push(Row::of(probe, &results, baseline.unwrap_or(0.0), verdict));
            }
            Err(error) => {
                complain(error);
                return if interrupted.load(Relaxed) {
                    Status::Interrupted
                } else {
                    Status::Failed
                };
            }
        }
    }
    let html = folder.join("calibration.html");
    let json = folder.join("calibration.json");
    let written = std::fs::write(&html, page::html(&rows)).and_then(|()| {
        std::fs::write(&json, serde_json::to_string_pretty(&rows).unwrap_or_default())
    });
    if let Err(error) = written {
        complain(Error::write(&html)(error));
        return Status::Failed;
    }
    say(page::text(&rows));
    remark(format_args!("page: {}", html.display()));
    match rows.iter().all(Row::is_within_tolerance) {
        true => Status::Fine,
        false => Status::Unexpected,
    }
}

/// Runs one probe as an experiment and returns its results.
fn one(
    probe: &Probe,
    folder: &Path,
    title: &str,
    interrupted: &AtomicBool,
) -> Result<(probe::ProbeResults, record::Status), String> {
    let (tool, workload) = (current_exe(), workload_program());
    let path = folder.join(&probe.name);
    let text = probe.experiment(&workload);
    let experiment =
        Experiment::parse(&text, "calibrate.yaml", folder).map_err(|e| e.to_string())?;
    let cells = experiment.cells(&Only::all()).map_err(|e| e.to_string())?;
    let plan = experiment.plan(&cells[0], 0, SEED).map_err(|e| e.to_string())?;
    let run = Folder::make(path.clone()).map_err(|e| e.to_string())?;
    let options = Options {
        threads: 1,
        spin: false,
        tool: &tool,
        workload: &workload,
        home: folder,
        frame_path: frame_path()?,
        capture: false,
        replay: None,
        interrupted,
        clock: experiment::Clock::Real,
        cpu: experiment::Cpu::Infinite,
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("THINGBED_COMMIT"),
    };
    let mut screen = Screen::new(title, false, None);
    let finished = runner::run(&plan, &run, &options, &mut screen).map_err(|e| e.to_string())?;
    screen.end("done");
    if finished.interrupted {
        return Err("interrupted by the user".to_owned());
    }
    let yaml = path.join("experiment.yaml");
    std::fs::write(&yaml, text).map_err(|error| Error::write(&yaml)(error).to_string())?;
    let output = path.join("programs").join("near.1.out");
    let text = std::fs::read_to_string(&output).map_err(|error| {
        format!("could not read the results of the probes in {}: {error}", output.display())
    })?;
    let results = serde_json::from_str(&text)
        .map_err(|error| format!("could not read {}: {error}", output.display()))?;
    Ok((results, finished.verdict.status))
}
