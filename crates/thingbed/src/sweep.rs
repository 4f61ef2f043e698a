//! The command `run`: every cell of the matrix, every repeat.

use crate::arguments::Run;
use crate::progress::Screen;
use crate::resume;
use crate::show;
use crate::signals::watch_signals;
use crate::surroundings::{current_exe, frame_path, workload_program};
use crate::wanted::Wanted;
use crate::{Status, complain, remark};
use experiment::{Cell, Experiment, Forecast};
use medium::FramePath;
use runner::{Error, Finished, Folder, Options, sweep_folder};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Runs an experiment and shows what came of it.
pub fn run(arguments: &Run) -> Status {
    have(arguments).0
}

/// The same, and where its runs lie, if there are any.
pub(crate) fn have(arguments: &Run) -> (Status, Option<PathBuf>) {
    match prepare(arguments) {
        Ok(prepared) => prepared.run(),
        Err(status) => (status, None),
    }
}

/// What there is before anything runs.
struct Prepared<'a> {
    arguments: &'a Run,
    experiment: Experiment,
    cells: Vec<Cell>,
    repeats: std::ops::Range<u32>,
    folder: PathBuf,
    seed: u64,
    interrupted: Arc<AtomicBool>,
    frame_path: Option<FramePath>,
}

impl Prepared<'_> {
    fn run(&self) -> (Status, Option<PathBuf>) {
        let sweep = Sweep {
            arguments: self.arguments,
            experiment: &self.experiment,
            folder: self.folder.clone(),
            seed: self.seed,
            interrupted: self.interrupted.clone(),
            frame_path: self.frame_path,
        };
        // Repeats outermost: a machine that drifts touches all cells alike, and a
        // sweep cut short has something of each.
        let cells = &self.cells;
        let runs = self.repeats.clone();
        let runs = runs.flat_map(|repeat| cells.iter().map(move |cell| (repeat, cell)));
        let status = sweep.run(&runs.collect::<Vec<_>>());
        (status, Some(self.folder.clone()))
    }
}

/// Reads an experiment and makes the folder of its runs; says what is wrong.
fn prepare(arguments: &Run) -> Result<Prepared<'_>, Status> {
    let experiment = show::read(&arguments.file)?;
    let Wanted { cells, repeats, seed } = match Wanted::of(arguments, &experiment) {
        Ok(wanted) => wanted,
        Err(error) => {
            complain(error);
            return Err(Status::Wrong);
        }
    };
    let interrupted = match watch_signals() {
        Ok(flag) => flag,
        Err(error) => {
            complain(format!("could not watch for Ctrl-C: {error}"));
            return Err(Status::Failed);
        }
    };
    let frame_path = match frame_path() {
        Ok(path) => path,
        Err(error) => {
            complain(error);
            return Err(Status::Wrong);
        }
    };
    if let Err(error) = check_backends(&experiment, &cells, seed) {
        complain(error);
        return Err(Status::Failed);
    }
    foretell(&experiment, &cells, seed);
    let begun = match &arguments.resume {
        Some(folder) => resume::check(arguments, folder, seed).map(|()| folder.clone()),
        None => begin(arguments, &experiment, seed).map_err(|error| error.to_string()),
    };
    let folder = match begun {
        Ok(folder) => folder,
        Err(error) => {
            complain(error);
            return Err(Status::Failed);
        }
    };
    Ok(Prepared { arguments, experiment, cells, repeats, folder, seed, interrupted, frame_path })
}

/// Warns of what this machine will hardly manage, once, before anything starts.
fn foretell(experiment: &Experiment, cells: &[Cell], seed: u64) {
    let plans = cells.iter().filter_map(|cell| Some((cell, experiment.plan(cell, 0, seed).ok()?)));
    let cores = crate::show::cores();
    let mut fears =
        plans.filter_map(|(cell, plan)| Some((cell, Forecast::of(&plan).warning(cores)?)));
    if let Some((cell, why)) = fears.next() {
        remark(format_args!("warning: {}: {why}", name(cell, 0)));
    }
}

/// Refuses a sweep of which this machine's kernel cannot have some cell, before
/// anything starts.
pub(crate) fn check_backends(
    experiment: &Experiment,
    cells: &[Cell],
    seed: u64,
) -> Result<(), Error> {
    let tool = current_exe();
    for cell in cells {
        let plan = experiment.plan(cell, 0, seed)?;
        runner::check_backends(&plan, &tool)?;
    }
    Ok(())
}

/// A sweep that is being run.
pub(crate) struct Sweep<'a> {
    pub arguments: &'a Run,
    pub experiment: &'a Experiment,
    pub folder: PathBuf,
    pub seed: u64,
    pub interrupted: Arc<AtomicBool>,
    pub frame_path: Option<FramePath>,
}

impl Sweep<'_> {
    fn run(&self, runs: &[(u32, &Cell)]) -> Status {
        let single = runs.len() == 1 && self.arguments.resume.is_none();
        let mut summaries: Vec<Value> = Vec::new();
        let (mut status, mut failed) = (Status::Fine, false);
        for (n, (repeat, cell)) in runs.iter().enumerate() {
            let (repeat, cell) = (*repeat, *cell);
            let title = format!("[{}/{}] {}", n + 1, runs.len(), name(cell, repeat));
            let mut screen = Screen::new(&title, self.arguments.quiet);
            if let Some(had) = self.had(cell, repeat) {
                screen.end("had before");
                if had["verdict"]["status"] == "invalid" {
                    status = status.max(Status::Invalid);
                }
                summaries.push(had);
                continue;
            }
            match self.one(cell, repeat, single, &mut screen) {
                Ok(finished) => {
                    screen.end(&word(&finished));
                    if finished.verdict.status == measure::Status::Invalid {
                        status = status.max(Status::Invalid);
                    }
                    summaries.push(finished.summary);
                    if finished.interrupted {
                        status = Status::Interrupted;
                    }
                }
                Err(error) => {
                    screen.end("failed");
                    complain(&error);
                    status = match (&error, status) {
                        (Error::Interrupted, _) => Status::Interrupted,
                        (_, Status::Interrupted) => Status::Interrupted,
                        _ => Status::Failed,
                    };
                    failed = true;
                    // What stood in the way of this cell may not stand in
                    // that of the next; without nodes or a disk it does.
                    if matches!(error, Error::Lab(_) | Error::Write { .. } | Error::Table(_)) {
                        break;
                    }
                }
            }
            let summaries = self.all(&summaries);
            if let Err(error) = self.keep(&summaries, single) {
                complain(error);
                status = Status::Failed;
                break;
            }
            if self.interrupted.load(Relaxed) {
                break;
            }
        }
        // A run that could not be had says more than one that is invalid.
        if failed && status != Status::Interrupted {
            status = Status::Failed;
        }
        let summaries = self.all(&summaries);
        // When all were had before, nothing was written yet.
        if self.arguments.resume.is_some()
            && let Err(error) = self.keep(&summaries, single)
        {
            complain(error);
            status = status.max(Status::Failed);
        }
        self.end(&summaries, status)
    }

    /// The summary of a run that the sweep has from before.
    fn had(&self, cell: &Cell, repeat: u32) -> Option<Value> {
        self.arguments.resume.as_ref()?;
        resume::had(&self.folder.join(name(cell, repeat)))
    }

    /// What the sweep has by now.
    fn all(&self, summaries: &[Value]) -> Vec<Value> {
        let mut all = summaries.to_vec();
        if self.arguments.resume.is_some() {
            all.extend(resume::others(&self.folder, summaries));
        }
        all
    }

    /// Has one run.
    pub fn one(
        &self,
        cell: &Cell,
        repeat: u32,
        single: bool,
        screen: &mut Screen,
    ) -> Result<Finished, Error> {
        let path = match single {
            true => self.folder.clone(),
            false => self.folder.join(name(cell, repeat)),
        };
        if self.arguments.resume.is_some() {
            resume::put_aside(&path)?;
        }
        let folder = if single { Folder::take(path) } else { Folder::make(path)? };
        let plan = self.experiment.plan(cell, repeat, self.seed)?;
        let (tool, workload) = (current_exe(), workload_program());
        let home = fs::canonicalize(&self.arguments.file).unwrap_or_default();
        let options = Options {
            frame_path: self.frame_path,
            tool: &tool,
            workload: &workload,
            home: home.parent().unwrap_or(Path::new("/")),
            spin: self.arguments.spin,
            capture: self.arguments.capture,
            replay: self.arguments.replay.as_deref(),
            interrupted: &self.interrupted,
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("THINGBED_COMMIT"),
        };
        let finished = runner::run(&plan, &folder, &options, screen)?;
        if !single {
            let to = finished.folder.join("experiment.yaml");
            fs::copy(&self.arguments.file, &to).map_err(Error::write(&to))?;
            // Each run can be looked at by itself, and moved elsewhere.
            let page = finished.folder.join("report.html");
            let drawn = report::Sweep::read(&finished.folder);
            if let Err(error) = drawn.and_then(|run| report::write_html(&run, &page)) {
                complain(error);
            }
        }
        Ok(finished)
    }

    /// Writes what there is so far: a sweep that is killed keeps it.
    fn keep(&self, summaries: &[Value], single: bool) -> Result<(), Error> {
        if !single {
            write(&self.folder.join("summary.json"), summaries)?;
        }
        if !self.experiment.expect.is_empty() {
            let outcomes = experiment::evaluate(&self.experiment.expect, summaries);
            write(&self.folder.join("expect.json"), &outcomes)?;
        }
        Ok(())
    }

    fn end(&self, summaries: &[Value], status: Status) -> Status {
        if summaries.is_empty() {
            remark(format_args!(
                "no results; what programs said may lie in {}",
                self.folder.display()
            ));
            return status;
        }
        if let Err(error) = show::draw(&self.folder, &self.folder.join("report.html")) {
            complain(error);
            return status.max(Status::Failed);
        }
        let outcomes = experiment::evaluate(&self.experiment.expect, summaries);
        let failed = outcomes.iter().any(|o| o.status == experiment::Status::Fail);
        match status {
            Status::Fine if failed => Status::Unexpected,
            status => status,
        }
    }
}

/// The folder of the sweep, with the files that the report needs.
pub(crate) fn begin(arguments: &Run, experiment: &Experiment, seed: u64) -> Result<PathBuf, Error> {
    let folder = sweep_folder(&arguments.out, &experiment.name, seed)?;
    let copy = |from: &Path, name: &str| {
        let to = folder.join(name);
        fs::copy(from, &to).map(drop).map_err(Error::write(&to))
    };
    copy(&arguments.file, "experiment.yaml")?;
    if let Some(reference) = &experiment.reference {
        copy(reference, "reference.json")?;
    }
    Ok(folder)
}

pub(crate) fn name(cell: &Cell, repeat: u32) -> String {
    match cell.is_empty() {
        true => repeat.to_string(),
        false => format!("{}-{repeat}", cell.folder()),
    }
}

pub(crate) fn word(finished: &Finished) -> String {
    let verdict = &finished.verdict;
    let status = match verdict.status {
        measure::Status::Valid => "valid",
        measure::Status::Suspect => "suspect",
        measure::Status::Invalid => "invalid",
    };
    match verdict.reasons.first() {
        Some(reason) => format!("{status}: {reason}"),
        None => status.to_owned(),
    }
}

pub(crate) fn write(path: &Path, value: &(impl serde::Serialize + ?Sized)) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    fs::write(path, text).map_err(Error::write(path))
}
