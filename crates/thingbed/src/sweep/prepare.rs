//! Checks before the first run.

use super::definition::{Sweep, name};
use super::disk;
use crate::arguments::Run;
use crate::environment::{current_exe, frame_path};
use crate::resume;
use crate::selection::Selection;
use crate::show;
use crate::signals::watch_signals;
use crate::virtual_time;
use crate::{Status, complain, remark};
use ::capsule::{Capsule, Packed};
use engine::FramePath;
use experiment::{Cell, Clock, Cpu, Experiment, Forecast};
use runner::{Error, sweep_folder};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A sweep that is checked and ready to run.
pub(crate) struct Prepared<'a> {
    pub arguments: &'a Run,
    pub experiment: Experiment,
    cells: Vec<Cell>,
    pub repeats: std::ops::Range<u32>,
    pub folder: PathBuf,
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

    /// The runs, with repeats outermost: drift of the machine affects all cells equally, and an
    /// interrupted sweep has results of each cell. With a capsule, only runs that have an image.
    pub fn runs(&self) -> Vec<(u32, &Cell)> {
        if let Some(capsule) = self.capsule {
            let packed = capsule.manifest.runs.iter();
            let selected = packed.filter(|run| self.repeats.contains(&run.repeat));
            let own = |run: &Packed| self.cells.iter().find(|cell| **cell == run.cell);
            return selected.filter_map(|run| Some((run.repeat, own(run)?))).collect();
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

/// Reads an experiment with the settings of the command; those of a capsule are resolved.
fn read(arguments: &Run, capsule: Option<&Capsule>) -> Result<Experiment, Status> {
    match capsule {
        Some(_) => show::or_complain(Experiment::read(&arguments.file)),
        None => show::read_or_complain(&arguments.settings, &arguments.file),
    }
}

/// Reads an experiment and creates the folder of its runs; prints errors.
pub(crate) fn prepare<'a>(
    arguments: &'a Run,
    capsule: Option<&'a Capsule>,
) -> Result<Prepared<'a>, Status> {
    let experiment = read(arguments, capsule)?;
    let Selection { mut cells, repeats, seed } = match Selection::of(arguments, &experiment) {
        Ok(selected) => selected,
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
        // Packed cells may be fewer than the file's matrix: `pack --only`.
        cells.retain(|cell| capsule.has(cell, &repeats));
        if cells.is_empty() {
            complain("the capsule has no such run\n  leave out --only to run all its cells");
            return Err(Status::Wrong);
        }
    }
    let checked = check_options(arguments, &experiment, cells.len() * repeats.len());
    let checked = checked.and_then(|()| match capsule {
        // The machine that packed it has checked the plans, for its own kernel; this one only boots
        // the images.
        Some(_) => Ok(()),
        None => check_plans(arguments, &experiment, &cells, seed),
    });
    if let Err(error) = checked {
        complain(&error);
        let wrong = matches!(error, Error::Plan(_) | Error::Clock(_));
        return Err(if wrong { Status::Wrong } else { Status::Failed });
    }
    // In virtual time a machine cannot be overloaded, only slow.
    if arguments.clock(&experiment) == Clock::Real {
        foretell(arguments, &experiment, &cells, seed);
    }
    let out = arguments.resume.as_deref().unwrap_or(&arguments.out);
    match disk::preflight(arguments, &experiment, &cells, repeats.len(), seed) {
        Ok(None) => {}
        Ok(Some(warning)) => remark(format_args!("warning: {}: {warning}", out.display())),
        Err(error) => {
            complain(format_args!("{}: {error}", out.display()));
            return Err(Status::Failed);
        }
    }
    // The last step, so that a refused sweep creates no folder.
    let begun = match &arguments.resume {
        Some(folder) => {
            resume::check(arguments, &experiment, folder, seed).map(|()| folder.clone())
        }
        None => begin(arguments, &experiment, seed).map_err(|error| error.to_string()),
    };
    let folder = begun.map_err(|error| {
        complain(error);
        Status::Failed
    })?;
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
    let all = cells.iter().flat_map(|cell| cpus.iter().map(|cpu| cell.with_cpu(*cpu)));
    all.collect()
}

/// Warns once, before the first run, about cells that may overload this machine, about too many
/// threads, and about gateways that lead nowhere.
fn foretell(arguments: &Run, experiment: &Experiment, cells: &[Cell], seed: u64) {
    let plans = cells.iter().filter_map(|cell| Some((cell, experiment.plan(cell, 0, seed).ok()?)));
    let mut nowhere = plans.clone().filter_map(|(_, plan)| crate::outside::warning(&plan));
    if let Some(why) = nowhere.next() {
        remark(format_args!("warning: {why}"));
    }
    let cores = crate::show::cores();
    let networks = plans.clone().map(|(_, plan)| plan.networks.len()).max();
    if let Some(why) = arguments.forwarding.warning(networks.unwrap_or(0), cores) {
        remark(format_args!("warning: {why}"));
    }
    // One warning is enough: cells of a matrix differ in size, and each of them would repeat the
    // text.
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
    if clock == Clock::Virtual
        && let Some(option) = arguments.forwarding.given()
    {
        return Err(Error::Clock(format!(
            "{option} needs real time: in virtual time frames are released exactly, on the one CPU \
             of a guest\n  leave out {option}, or use --clock real; --jobs executes runs in parallel"
        )));
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

/// Refuses folders of the system among what the experiment's `files` names; the check of the file has
/// reported what is missing.
fn check_files(arguments: &Run, experiment: &Experiment) -> Result<(), Error> {
    // An infinite CPU is User Mode Linux, which sees the host's files.
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
    Ok(())
}

/// Refuses options that these runs do not support.
fn check_options(arguments: &Run, experiment: &Experiment, runs: usize) -> Result<(), Error> {
    check_watch(arguments, experiment).and_then(|()| check_stop(arguments, experiment, runs))
}

/// Refuses `--watch` for runs that no page can reach.
fn check_watch(arguments: &Run, experiment: &Experiment) -> Result<(), Error> {
    match (&arguments.watch, arguments.clock(experiment)) {
        (Some(_), Clock::Virtual) => Err(Error::Clock(
            "--watch needs the real clock: in virtual time the nodes are in a guest kernel, which a \
             page does not reach, and their time passes faster or slower than yours\n  add --clock \
             real; to look into a run in virtual time, use --stop-at TIME"
                .to_owned(),
        )),
        _ => Ok(()),
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

/// Creates the folder of the sweep, with the files that the report needs.
pub(crate) fn begin(arguments: &Run, experiment: &Experiment, seed: u64) -> Result<PathBuf, Error> {
    let folder = sweep_folder(&arguments.out, &experiment.name, seed)?;
    let to = folder.join("experiment.yaml");
    journal::write(&to, experiment.source()).map_err(Error::write(&to))?;
    if let Some(reference) = &experiment.reference {
        let to = folder.join("reference.json");
        journal::copy(reference, &to).map_err(Error::write(&to))?;
    }
    Ok(folder)
}
