//! The guest's side: the hidden command that executes one run.

use super::hold;
use super::wire::{INTERRUPT, Message, Request, send};
use crate::Status;
use crate::environment::{current_exe, frame_path};
use engine::FramePath;
use experiment::{Backend, Clock, Cpu, Experiment, Plan};
use runner::{Error, Folder, Options, Progress, ProgressSink};
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use units::{Instant, Span};

/// Executes the run of `request` (JSON). Writes messages to standard output, one JSON value per
/// line.
pub fn cell(request: &str) -> Status {
    let request: Request = match serde_json::from_str(request) {
        Ok(request) => request,
        Err(error) => {
            crate::complain(format!("`guest-cell` is internal to Thingbed: {error}"));
            return Status::Wrong;
        }
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    // The runner's thread waits for programs, so that another one reads the host's lines.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            // Never back to false: an interrupt counts even if other lines follow.
            flag.fetch_or(line.trim() == INTERRUPT, Relaxed);
        }
    });
    match run(&request, &interrupted) {
        Ok(interrupted) => {
            send(&Message::Finished { interrupted });
            Status::Fine
        }
        Err(error) => {
            send(&Message::failed(&error));
            Status::Failed
        }
    }
}

fn run(request: &Request, interrupted: &Arc<AtomicBool>) -> Result<bool, Error> {
    let plan = plan(request)?;
    let (tool, folder) = (current_exe(), Folder::take(request.folder.clone()));
    let requested = frame_path().map_err(|text| Error::Guest { text, ends_sweep: true })?;
    let options = Options {
        frame_path: requested.or_else(|| best_path(&plan, request.cpu)),
        tool: &tool,
        workload: &request.workload,
        home: &request.home,
        // Forwarding is never late on the guest's one CPU: the host refuses other values.
        threads: 1,
        spin: false,
        capture: request.capture,
        replay: request.replay.as_deref(),
        interrupted,
        clock: Clock::Virtual,
        cpu: request.cpu,
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("THINGBED_COMMIT"),
    };
    let mut reporter = Reporter { stop_at: request.stop_at, interrupted: interrupted.clone() };
    Ok(runner::run(&plan, &folder, &options, &mut reporter)?.interrupted)
}

/// The frame path of a guest; none selects the best that works. Not the ring in User Mode Linux:
/// its wake-ups wait for the next tick, so frames would be up to 10 ms late.
fn best_path(plan: &Plan, cpu: Cpu) -> Option<FramePath> {
    let netem = plan.networks.iter().any(|network| network.backend == Backend::Netem);
    match (cpu, netem) {
        (Cpu::Mips(_), _) => None,
        // netem needs the veth pairs of this path (decision 16).
        (Cpu::Infinite, true) => Some(FramePath::Packet),
        (Cpu::Infinite, false) => Some(FramePath::Tap),
    }
}

/// The plan of the cell, which may have values that the file's matrix lacks.
fn plan(request: &Request) -> Result<Plan, Error> {
    let mut experiment = match &request.text {
        Some(text) => Experiment::parse_stored(text, &request.file, &request.home)?,
        None => Experiment::read(&request.file)?,
    };
    for (axis, value) in request.cell.axes() {
        let known = experiment
            .axes()
            .any(|(name, values)| name == axis && values.iter().any(|known| known == value));
        // `capacity` tries values that the file does not have.
        if !known {
            experiment = experiment.with_value(axis, value)?;
        }
    }
    let plan = experiment.plan(&request.cell, request.repeat, request.seed)?;
    Ok(Plan { cell: request.name.clone(), ..plan })
}

/// Sends the progress of the run to the host.
struct Reporter {
    stop_at: Option<Span>,
    interrupted: Arc<AtomicBool>,
}

impl ProgressSink for Reporter {
    fn progress(&mut self, progress: &Progress) {
        send(&Message::Progress(progress.clone()));
    }

    fn begun(&mut self, start: Instant) {
        if let Some(at) = self.stop_at {
            hold::stop_at(start, at, self.interrupted.clone());
        }
    }
}
