//! One run, from a plan to its run folder.

use crate::bed::jobs::{Job, State};
use crate::error::Error;
use crate::evaluation::Evaluation;
use crate::folder::Folder;
use crate::measurement::Measurement;
use crate::progress::{Progress, ProgressSink};
use engine::FramePath;
use experiment::{Clock, Cpu, Interaction, Plan, Workload};
use record::Verdict;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of a run.
#[derive(Debug)]
pub struct Options<'a> {
    /// A program whose `main` serves as the fork server: the tool itself.
    pub tool: &'a Path,
    /// The program that implements the interaction models.
    pub workload: &'a Path,
    /// Working directory of user programs: the experiment file's folder.
    pub home: &'a Path,
    /// The requested frame path; `None` for the best that works.
    pub frame_path: Option<FramePath>,
    /// Whether the medium busy-waits shortly before frames are due.
    pub spin: bool,
    /// Whether to write `capture.pcapng` in any case: the frames that the plan selects, or all.
    pub capture: bool,
    /// The folder of the run whose impairment decisions are replayed.
    pub replay: Option<&'a Path>,
    /// Set when the user stops the run; partial results are reported.
    pub interrupted: &'a AtomicBool,
    /// The clock of the run.
    pub clock: Clock,
    /// The CPU model of programs in virtual time.
    pub cpu: Cpu,
    /// The version of the tool.
    pub version: &'a str,
    /// The commit that it was built from; empty if unknown.
    pub commit: &'a str,
}

impl Options<'_> {
    /// Whether programs take no CPU time.
    pub(crate) fn is_costless(&self) -> bool {
        self.clock == Clock::Virtual && self.cpu.is_infinite()
    }
}

/// A finished run with its results.
#[derive(Debug)]
pub struct Finished {
    /// Its folder.
    pub folder: PathBuf,
    /// The content of `summary.json`.
    pub summary: serde_json::Value,
    /// Whether its results can be trusted.
    pub verdict: Verdict,
    /// Whether the user stopped it.
    pub interrupted: bool,
}

/// Runs `plan` and writes its results into `folder`, which must be empty.
///
/// # Errors
/// The failed step; nothing of the bed is left then.
pub fn run(
    plan: &Plan,
    folder: &Folder,
    options: &Options<'_>,
    watch: &mut dyn ProgressSink,
) -> Result<Finished, Error> {
    watch.progress(&Progress::creating());
    let begun = std::time::SystemTime::now();
    let mut started = Measurement::prepare(plan, folder, options, watch)?.start()?;
    started.wait()?;
    let measured = started.stop()?.collect(options)?;
    let evaluation = Evaluation::of(plan, &measured)?;
    let verdict = measure::judge(&evaluation.facts(plan, options, &measured));
    let results = evaluation.results(plan, options, &measured, begun, &verdict);
    let summary = folder.write(&results)?;
    let interrupted = options.interrupted.load(Ordering::Relaxed);
    Ok(Finished { folder: folder.path().to_owned(), summary, verdict, interrupted })
}

/// The interactions of a plan with their workload numbers.
pub(crate) fn interactions(plan: &Plan) -> impl Iterator<Item = (usize, &Interaction)> {
    plan.workloads.iter().enumerate().filter_map(|(number, workload)| match workload {
        Workload::Interaction(interaction) => Some((number, interaction)),
        _ => None,
    })
}

/// Resource usage of an ended job.
pub(crate) fn used(job: &Job) -> lab::Usage {
    match job.state {
        State::Ended { usage, .. } => usage,
        _ => lab::Usage::default(),
    }
}
