//! The command `run`: every cell of the matrix, every repeat.

use crate::arguments::Run;
use crate::capsule::{self, Capsule, Packed};
use crate::jobs;
use crate::origin::{Origin, Timing};
use crate::outcome::{Outcome, status_of};
use crate::outlook::Outlook;
use crate::progress::Screen;
use crate::resume::{self, REJECTED};
use crate::show;
use crate::signals::watch_signals;
use crate::slurm;
use crate::surroundings::{current_exe, frame_path};
use crate::trust::Trust;
use crate::virtual_time;
use crate::wanted::Wanted;
use crate::{Status, complain, remark};
use engine::FramePath;
use experiment::{CPU_AXIS, Cell, Clock, Cpu, Experiment, Forecast};
use indicatif::MultiProgress;
use record::Summary;
use runner::{Error, Finished, sweep_folder};
use serde_json::Value;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Runs an experiment and shows its results.
pub fn run(arguments: &Run) -> Status {
    have(arguments).0
}

/// Runs an experiment without showing its results.
pub(crate) fn again(arguments: &Run) -> (Status, Option<PathBuf>) {
    run_of(arguments, false)
}

/// Runs an experiment; also returns the folder of its runs, if there are any.
pub(crate) fn have(arguments: &Run) -> (Status, Option<PathBuf>) {
    run_of(arguments, true)
}

/// Executes the runs of an experiment or a capsule.
fn run_of(arguments: &Run, shown: bool) -> (Status, Option<PathBuf>) {
    let opened = match capsule::opened(arguments) {
        Ok(opened) => opened,
        Err(error) => {
            complain(error);
            return (Status::Wrong, None);
        }
    };
    let (arguments, capsule) = match &opened {
        Some((arguments, capsule)) => (arguments, Some(capsule)),
        None => (arguments, None),
    };
    match prepare(arguments, capsule) {
        Ok(prepared) => prepared.run(shown),
        Err(status) => (status, None),
    }
}

/// A sweep that is checked and ready to run.
pub(crate) struct Prepared<'a> {
    pub arguments: &'a Run,
    pub experiment: Experiment,
    cells: Vec<Cell>,
    pub repeats: std::ops::Range<u32>,
    folder: PathBuf,
    pub seed: u64,
    interrupted: Arc<AtomicBool>,
    frame_path: Option<FramePath>,
    capsule: Option<&'a Capsule>,
}

impl<'a> Prepared<'a> {
    /// Uses the guests of a capsule.
    pub fn with(self, capsule: &'a Capsule) -> Self {
        Self { capsule: Some(capsule), ..self }
    }

    /// Executes all runs.
    pub fn run(&self, shown: bool) -> (Status, Option<PathBuf>) {
        let status = self.sweep().run(&self.runs(), shown);
        (status, Some(self.folder.clone()))
    }

    /// The runs, with repeats outermost: drift of the machine affects all cells equally, and an
    /// interrupted sweep has results of each cell. With a capsule, only runs that have an image.
    pub fn runs(&self) -> Vec<(u32, &Cell)> {
        if let Some(capsule) = self.capsule {
            let packed = capsule.manifest.runs.iter();
            let wanted = packed.filter(|run| self.repeats.contains(&run.repeat));
            let own = |run: &Packed| self.cells.iter().find(|cell| **cell == run.cell);
            return wanted.filter_map(|run| Some((run.repeat, own(run)?))).collect();
        }
        let runs = self.repeats.clone();
        runs.flat_map(|repeat| self.cells.iter().map(move |cell| (repeat, cell))).collect()
    }

    pub fn sweep(&self) -> Sweep<'_> {
        Sweep {
            arguments: self.arguments,
            experiment: &self.experiment,
            folder: self.folder.clone(),
            seed: self.seed,
            interrupted: self.interrupted.clone(),
            frame_path: self.frame_path,
            capsule: self.capsule,
        }
    }
}

/// Reads an experiment and creates the folder of its runs; prints errors.
pub(crate) fn prepare<'a>(
    arguments: &'a Run,
    capsule: Option<&'a Capsule>,
) -> Result<Prepared<'a>, Status> {
    let experiment = show::read(&arguments.file)?;
    let Wanted { mut cells, repeats, seed } = match Wanted::of(arguments, &experiment) {
        Ok(wanted) => wanted,
        Err(error) => {
            complain(error);
            return Err(Status::Wrong);
        }
    };
    let interrupted = match watch_signals() {
        Ok(flag) => flag,
        Err(error) => {
            complain(format!("could not install the handler for Ctrl-C: {error}"));
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
    if let Some(capsule) = capsule {
        cells.retain(|cell| capsule.has(cell, &repeats));
        if cells.is_empty() {
            complain("the capsule has no such run\n  leave out --only to run all its cells");
            return Err(Status::Wrong);
        }
    }
    let checked = check_stop(arguments, &experiment, cells.len() * repeats.len());
    let checked = checked.and_then(|()| match capsule {
        Some(_) => Ok(()),
        None => check_plans(arguments, &experiment, &cells, seed),
    });
    if let Err(error) = checked {
        complain(&error);
        let wrong = matches!(error, Error::Plan(_) | Error::Clock(_));
        return Err(if wrong { Status::Wrong } else { Status::Failed });
    }
    if arguments.clock(&experiment) == Clock::Real {
        foretell(&experiment, &cells, seed);
    }
    let begun = match &arguments.resume {
        Some(folder) => resume::check(arguments, folder, seed, arguments.clock(&experiment))
            .map(|()| folder.clone()),
        None => begin(arguments, &experiment, seed).map_err(|error| error.to_string()),
    };
    let folder = match begun {
        Ok(folder) => folder,
        Err(error) => {
            complain(error);
            return Err(Status::Failed);
        }
    };
    let cells = by_cpu(cells, &arguments.cpus());
    Ok(Prepared {
        arguments,
        experiment,
        cells,
        repeats,
        folder,
        seed,
        interrupted,
        frame_path,
        capsule,
    })
}

/// The cells, once for each CPU if there are several.
fn by_cpu(cells: Vec<Cell>, cpus: &[Cpu]) -> Vec<Cell> {
    if cpus.len() < 2 {
        return cells;
    }
    let all =
        cells.iter().flat_map(|cell| cpus.iter().map(|cpu| cell.with(CPU_AXIS, &cpu.to_string())));
    all.collect()
}

/// Warns once, before the first run, about cells that may overload this machine.
fn foretell(experiment: &Experiment, cells: &[Cell], seed: u64) {
    let plans = cells.iter().filter_map(|cell| Some((cell, experiment.plan(cell, 0, seed).ok()?)));
    let cores = crate::show::cores();
    let mut fears =
        plans.filter_map(|(cell, plan)| Some((cell, Forecast::of(&plan).warning(cores)?)));
    if let Some((cell, why)) = fears.next() {
        remark(format_args!("warning: {}: {why}", name(cell, 0)));
    }
}

/// Refuses a sweep, before the first run, if a cell has nothing to measure or needs a feature
/// that this machine's kernel lacks.
pub(crate) fn check_plans(
    arguments: &Run,
    experiment: &Experiment,
    cells: &[Cell],
    seed: u64,
) -> Result<(), Error> {
    let tool = current_exe();
    let clock = arguments.clock(experiment);
    if clock == Clock::Real && !arguments.cpu.is_empty() {
        let text = "--cpu needs virtual time: in real time programs run on this machine's CPU\n  use \
                    --clock virtual, or leave out --cpu";
        return Err(Error::Clock(text.to_owned()));
    }
    if clock == Clock::Real && arguments.jobs.is_some_and(|jobs| jobs > 1) {
        let text = "--jobs needs virtual time: in real time parallel runs disturb each \
                    other\n  use --clock virtual, or leave out --jobs";
        return Err(Error::Clock(text.to_owned()));
    }
    if clock == Clock::Real && arguments.on.is_some() {
        let text = "--on slurm needs virtual time: a run in real time needs an idle \
                    machine\n  add --clock virtual or --cpu";
        return Err(Error::Clock(text.to_owned()));
    }
    for cell in cells {
        let plan = experiment.plan(cell, 0, seed)?;
        plan.check_run()?;
        match clock {
            Clock::Real => runner::check_backends(&plan, &tool)?,
            Clock::Virtual => {
                check_files(arguments, experiment)?;
                for cpu in arguments.cpus() {
                    virtual_time::check(&plan, cpu, &tool)?;
                }
            }
        }
    }
    Ok(())
}

/// Refuses missing files among those that the experiment's `files` names.
fn check_files(arguments: &Run, experiment: &Experiment) -> Result<(), Error> {
    if arguments.cpus().iter().all(|cpu| cpu.is_infinite()) {
        return Ok(());
    }
    let home = arguments.file.parent().unwrap_or(Path::new(""));
    let real = |name: &String| fs::canonicalize(home.join(name)).unwrap_or_default();
    let system = ["/", "/dev", "/proc", "/sys"].map(Path::new);
    if let Some(name) = experiment.files.iter().find(|name| system.contains(&&*real(name))) {
        return Err(Error::Clock(format!(
            "`files` names {name}, which is no folder to copy\n  name the files in it that programs \
             read"
        )));
    }
    let missing = experiment.files.iter().find(|name| !home.join(name).exists());
    match missing {
        Some(name) => Err(Error::Clock(format!(
            "`files` names {name}, which does not exist\n  paths are relative to the experiment \
             file: Thingbed looked for {}",
            std::path::absolute(home.join(name)).unwrap_or_else(|_| home.join(name)).display()
        ))),
        None => Ok(()),
    }
}

/// Refuses `--stop-at` for runs that cannot be paused.
fn check_stop(arguments: &Run, experiment: &Experiment, runs: usize) -> Result<(), Error> {
    if arguments.stop_at.is_none() {
        return Ok(());
    }
    let infinite = arguments.cpus().iter().all(|cpu| cpu.is_infinite());
    let text = match arguments.clock(experiment) {
        Clock::Real => "--stop-at needs virtual time: real time cannot be paused\n  add \
                        --clock virtual"
            .to_owned(),
        Clock::Virtual if !infinite || arguments.cpus().len() > 1 => {
            "--stop-at needs --cpu infinite: with a CPU of finite speed your shell would take \
             time from the nodes"
                .to_owned()
        }
        Clock::Virtual if runs > 1 => format!(
            "--stop-at stops one run, and there are {runs}\n  select one with --only, e.g. --only \
             model=udp,repeat=0"
        ),
        Clock::Virtual => return Ok(()),
    };
    Err(Error::Clock(text))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// Advice for runs in virtual time in which Thingbed itself was too slow.
const SLOW_CPU: &str = "Thingbed shares the CPU of virtual time with the nodes, and was too slow on \
                        it, so those figures may be Thingbed's and not the system's. Use a higher \
                        --cpu, or --cpu infinite.";

/// A running sweep.
pub(crate) struct Sweep<'a> {
    pub arguments: &'a Run,
    pub experiment: &'a Experiment,
    pub folder: PathBuf,
    pub seed: u64,
    pub interrupted: Arc<AtomicBool>,
    pub frame_path: Option<FramePath>,
    /// The source of guests, if not this machine.
    pub capsule: Option<&'a Capsule>,
}

impl Sweep<'_> {
    fn run(&self, runs: &[(u32, &Cell)], shown: bool) -> Status {
        let anew = self.arguments.resume.is_none() && self.arguments.retry == 0;
        let single = runs.len() == 1 && anew && self.arguments.on.is_none();
        let title = |n: usize| format!("[{}/{}] {}", n + 1, runs.len(), name(runs[n].1, runs[n].0));
        let mut outcomes: Vec<Outcome> = Vec::new();
        let mut todo = Vec::new();
        for (n, (repeat, cell)) in runs.iter().enumerate() {
            let Some(finished) = self.finished(cell, *repeat) else {
                todo.push(n);
                continue;
            };
            if !self.arguments.quiet {
                remark(format_args!("{}  finished before", title(n)));
            }
            outcomes.push(Outcome { n, interrupted: false, summary: Ok(finished) });
        }
        let jobs = self.jobs().min(todo.len());
        let is_virtual = self.arguments.clock(self.experiment) == Clock::Virtual;
        let outlook = Mutex::new(match is_virtual {
            true => Outlook::virtual_time(todo.len(), jobs),
            false => Outlook::real(todo.iter().map(|n| self.schedule(&runs[*n]))),
        });
        let outlook = || outlook.lock().unwrap_or_else(PoisonError::into_inner);
        let bars = (jobs > 1).then(MultiProgress::new);
        let screen = |title: &str, left| {
            let (title, quiet) = (title.to_owned(), self.arguments.quiet);
            let bars = bars.clone();
            move || match &bars {
                Some(bars) => Screen::among(bars, &title, quiet, left),
                None => Screen::new(&title, quiet, left),
            }
        };
        let one = |n: usize| {
            let (began, left) = (Instant::now(), outlook().left());
            let run = self.repeatedly(runs[n], single, &screen(&title(n), left));
            outlook().ended(began.elapsed());
            (run, began.elapsed())
        };
        let mut unwritten = false;
        let mut origin = is_virtual.then(|| Origin::of(self));
        let ended = |n: usize, (run, took): slurm::Ended| {
            if let (Some(origin), Ok(run)) = (&mut origin, &run) {
                let (repeat, cell) = runs[n];
                let timing = Timing::of(cell, repeat, took, &run.folder);
                timing.into_iter().for_each(|timing| origin.add(timing));
                if let Err(error) = origin.write(&self.folder) {
                    complain(error);
                    unwritten = true;
                }
            }
            let ends = run.as_ref().is_err_and(Error::ends_sweep);
            outcomes.push(Outcome::of(n, run));
            outcomes.sort_by_key(|outcome| outcome.n);
            if let Err(error) = self.keep(&self.all(&outcomes), single) {
                complain(error);
                unwritten = true;
            }
            match ends || unwritten || self.interrupted.load(Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        if self.arguments.on.is_none() {
            jobs::each(jobs, todo, one, ended);
        } else if let Err(error) =
            self.begin_elsewhere().and_then(|()| self.on_slurm(runs, &todo, ended))
        {
            complain(error);
            unwritten = true;
        }
        let mut status = status_of(&outcomes);
        // Also if the interrupt came between two runs, so that no run was interrupted.
        if self.interrupted.load(Relaxed) && outcomes.len() < runs.len() {
            status = Status::Interrupted;
        }
        let summaries = self.all(&outcomes);
        // If all runs were finished before, no file has been written yet.
        if self.arguments.resume.is_some()
            && let Err(error) = self.keep(&summaries, single)
        {
            complain(error);
            unwritten = true;
        }
        if unwritten && status != Status::Interrupted {
            status = Status::Failed;
        }
        if !shown {
            return status;
        }
        self.end(&summaries, status)
    }

    /// Writes the file that a process on another node needs to execute runs of this sweep.
    fn begin_elsewhere(&self) -> Result<(), Error> {
        Origin::of(self).write(&self.folder)
    }

    /// Number of parallel runs: one in real time, in which parallel runs disturb each other.
    fn jobs(&self) -> usize {
        match self.arguments.clock(self.experiment) {
            Clock::Real => 1,
            Clock::Virtual => self.arguments.jobs.map_or_else(cores, |jobs| jobs as usize),
        }
    }

    /// Duration of a run's schedule.
    fn schedule(&self, (repeat, cell): &(u32, &Cell)) -> Duration {
        let plan = self.plan(cell, *repeat);
        plan.map_or(Duration::ZERO, |plan| Duration::from_nanos(plan.duration.as_ns()))
    }

    /// The summary of a run that an interrupted sweep has finished; none for invalid runs with
    /// `--retry`, which are repeated.
    fn finished(&self, cell: &Cell, repeat: u32) -> Option<Value> {
        self.arguments.resume.as_ref()?;
        let summary = resume::had(&self.folder.join(name(cell, repeat)))?;
        let is_invalid = Summary::verdict_in(&summary).status == record::Status::Invalid;
        let repeated = self.arguments.retry > 0 && is_invalid;
        (!repeated).then_some(summary)
    }

    /// Repeats a cell's run while it is invalid, at most `--retry` times. Moves invalid runs to
    /// `rejected`.
    fn repeatedly(
        &self,
        (repeat, cell): (u32, &Cell),
        single: bool,
        screen: &dyn Fn() -> Screen,
    ) -> Result<Finished, Error> {
        let folder = self.folder.join(name(cell, repeat));
        if self.arguments.retry > 0 && resume::had(&folder).is_some() {
            resume::put_aside(&folder, REJECTED)?;
        }
        let mut number = 0;
        loop {
            let (mut screen, began) = (screen(), Instant::now());
            let finished = match self.one(cell, repeat, single, &mut screen) {
                Ok(finished) => finished,
                Err(error) => {
                    screen.end("failed");
                    return Err(error);
                }
            };
            // In virtual time a repeated run has the same verdict.
            let real = self.arguments.clock(self.experiment) == Clock::Real;
            let invalid = real && finished.verdict.status == record::Status::Invalid;
            let mut word = word(&finished);
            if !real
                && let Some(timing) = Timing::of(cell, repeat, began.elapsed(), &finished.folder)
            {
                word += &format!("; {}", timing.text());
            }
            if !invalid || number == self.arguments.retry || finished.interrupted {
                screen.end(&word);
                return Ok(finished);
            }
            number += 1;
            screen.end(&format!("{word}; retry {number} of {}", self.arguments.retry));
            resume::put_aside(&folder, REJECTED)?;
        }
    }

    /// The summaries of the runs so far.
    fn all(&self, outcomes: &[Outcome]) -> Vec<Value> {
        let mut all: Vec<Value> =
            outcomes.iter().filter_map(|outcome| outcome.summary.as_ref().ok().cloned()).collect();
        if self.arguments.resume.is_some() {
            all.extend(resume::others(&self.folder, &all));
        }
        all
    }

    /// The summaries for expectations: with several CPUs, those of the first CPU.
    fn expected_of(&self, summaries: &[Value]) -> Vec<Value> {
        let first = self.arguments.cpus()[0].to_string();
        let counts = |summary: &&Value| {
            let cpu = summary["cell"][CPU_AXIS].as_str();
            cpu.is_none_or(|cpu| cpu == first)
        };
        summaries.iter().filter(counts).cloned().collect()
    }

    /// Writes the results so far, so that a killed sweep keeps them.
    fn keep(&self, summaries: &[Value], single: bool) -> Result<(), Error> {
        if !single {
            write(&self.folder.join("summary.json"), summaries)?;
        }
        if !self.experiment.expect.is_empty() {
            let outcomes =
                experiment::evaluate(&self.experiment.expect, &self.expected_of(summaries));
            write(&self.folder.join("expect.json"), &outcomes)?;
        }
        Ok(())
    }

    fn end(&self, summaries: &[Value], status: Status) -> Status {
        if summaries.is_empty() {
            remark(format_args!(
                "no results; the output of the programs is in {}",
                self.folder.display()
            ));
            return status;
        }
        if let Err(error) = show::draw(&self.folder, &self.folder.join("report.html")) {
            complain(error);
            return status.max(Status::Failed);
        }
        let mut trust = Trust::default();
        summaries.iter().for_each(|summary| trust.add(summary));
        let (again, page) = (self.again(), self.folder.join("report.html").display().to_string());
        let advice = trust.advice(&again, &page);
        let advice = match self.arguments.clock(self.experiment) {
            Clock::Real => advice,
            // A repeated run would have the same verdict.
            Clock::Virtual => advice.map(|_| SLOW_CPU.to_owned()),
        };
        if let Some(advice) = advice {
            remark(format_args!("\n{advice}"));
        }
        let outcomes = experiment::evaluate(&self.experiment.expect, &self.expected_of(summaries));
        let failed = outcomes.iter().any(|o| o.status == experiment::Status::Fail);
        match status {
            Status::Fine if failed => Status::Unexpected,
            status => status,
        }
    }
}

/// Creates the folder of the sweep, with the files that the report needs.
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
    match verdict.reasons.first() {
        Some(reason) => format!("{}: {}", verdict.status, reason.headline()),
        None => verdict.status.to_string(),
    }
}

pub(crate) fn write(path: &Path, value: &(impl serde::Serialize + ?Sized)) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    fs::write(path, text).map_err(Error::write(path))
}
