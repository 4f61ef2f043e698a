//! `thingbed compare`: two builds, or exchanges by an axis.

use crate::arguments::{Compare, CompareMetric, Format, Run, Settings};
use crate::{Status, complain, remark, say, sweep};
use experiment::{Clock, Experiment, Overrides};
use report::{CompareFigure, Sweep};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The environment variable that names the program in an experiment of `--run`.
const PROGRAM: &str = "PROGRAM";

/// Compares two builds if there are two paths and no option of exchanges.
pub fn compare(arguments: &Compare) -> Status {
    let compared = match arguments.paths.as_slice() {
        [old, new] if arguments.by.is_none() && arguments.figure.is_none() => {
            builds(arguments, old, new)
        }
        _ if arguments.run.is_some() => {
            complain("`compare --run` takes two programs: the old build and the new one");
            return Status::Wrong;
        }
        _ => return exchanges(arguments),
    };
    compared.unwrap_or_else(|(status, error)| {
        if !error.is_empty() {
            complain(error);
        }
        status
    })
}

fn builds(arguments: &Compare, old: &Path, new: &Path) -> Result<Status, (Status, String)> {
    let failed = |error: String| (Status::Failed, error);
    let mut folders = [old.to_owned(), new.to_owned()];
    if let Some(file) = &arguments.run {
        folders = run(arguments, file, &[program(old)?, program(new)?])?;
    } else if let Some(path) = folders.iter().find(|path| path.is_file()) {
        return Err((
            Status::Wrong,
            format!(
                "{} is a file, not the folder of a run\n  to compare two programs, name the \
                 experiment: thingbed compare {} {} --run EXPERIMENT",
                path.display(),
                old.display(),
                new.display()
            ),
        ));
    }
    // Both folders are read again even if the runs were made here, so that the files on the disk
    // are what is compared.
    let sweep = |folder: &PathBuf| Sweep::read(folder).map_err(|error| failed(error.to_string()));
    let [before, after] = [sweep(&folders[0])?, sweep(&folders[1])?];
    let builds = report::compare_builds(&before, &after, arguments.all).map_err(failed)?;
    if arguments.format == Format::Json {
        say(serde_json::to_string_pretty(&builds).map_err(|error| failed(error.to_string()))?);
    } else {
        say(format_args!("old: {}\nnew: {}\n", folders[0].display(), folders[1].display()));
        say(builds.to_string().trim_end());
    }
    let mut status = Status::Fine;
    for run in &builds.newly_failed {
        remark(format_args!("error: {} is failed with the new build only", run.trim()));
        status = Status::Unexpected;
    }
    let Some(limit) = arguments.max_change else { return Ok(status) };
    for cell in &builds.cells {
        for figure in cell.figures.iter().filter(|figure| figure.main && figure.exceeds(limit)) {
            let of =
                if cell.cell.is_empty() { String::new() } else { format!(" of {}", cell.cell) };
            remark(format_args!(
                "error: {}{of} changes from {} to {}, by more than {limit} %",
                figure.figure, figure.old, figure.new
            ));
            status = Status::Unexpected;
        }
    }
    Ok(status)
}

/// The absolute path of a program.
fn program(path: &Path) -> Result<PathBuf, (Status, String)> {
    let wrong = |why: String| (Status::Wrong, format!("{}: {why}", path.display()));
    let path = fs::canonicalize(path).map_err(|error| wrong(error.to_string()))?;
    if path.is_dir() {
        return Err(wrong("a folder; `--run` compares two programs".to_owned()));
    }
    Ok(path)
}

/// Runs the experiment with each program; returns the folders of the results. In real time the
/// programs take turns in each repeat, so that a change of the machine's load affects both.
fn run(
    arguments: &Compare,
    file: &Path,
    programs: &[PathBuf; 2],
) -> Result<[PathBuf; 2], (Status, String)> {
    let [old, new] = programs;
    let experiments = [read(file, old)?, read(file, new)?];
    let experiment = &experiments[0].0;
    let clock = arguments.clock.unwrap_or(Clock::Virtual);
    let mut folders = [None, None];
    let repeats = match clock {
        // In virtual time the machine's load does not matter, so each program runs all repeats at
        // once, in parallel.
        Clock::Virtual => vec![None],
        Clock::Real => (0..arguments.repeat.unwrap_or(experiment.repeats)).map(Some).collect(),
    };
    for repeat in repeats {
        // The other one first in every second repeat: neither has the quieter half of each.
        let first = usize::from(repeat.is_some_and(|n| n % 2 == 1));
        for side in [first, 1 - first] {
            let environment = experiments[side].1.clone();
            let title = repeat.map(|n| format!(", repeat {n}")).unwrap_or_default();
            remark(format_args!(
                "running {} with {}{title}",
                file.display(),
                programs[side].display()
            ));
            let (status, folder) = sweep::again(&Run {
                file: file.to_owned(),
                settings: Settings { environment: Some(environment), ..Settings::default() },
                out: PathBuf::from("runs"),
                only: repeat.map(|n| format!("repeat={n}")).into_iter().collect(),
                // Each further repeat joins the sweep of its program.
                resume: folders[side].take(),
                clock: Some(clock),
                cpu: arguments.cpu.into_iter().collect(),
                repeat: arguments.repeat,
                // Also makes the folder one of a sweep, even if it begins with one run.
                retry: u32::from(repeat.is_some()),
                ..Run::default()
            });
            folders[side] = folder;
            if status == Status::Interrupted || folders[side].is_none() {
                return Err((status.max(Status::Failed), String::new()));
            }
        }
    }
    match folders {
        [Some(old), Some(new)] => Ok([old, new]),
        _ => Err((Status::Wrong, "no repeats".to_owned())),
    }
}

/// Reads the experiment with a program; also returns the environment that names the program.
fn read(
    file: &Path,
    program: &Path,
) -> Result<(Experiment, BTreeMap<String, String>), (Status, String)> {
    let wrong = |error: String| (Status::Wrong, error);
    let Some(path) = program.to_str() else {
        return Err(wrong(format!("{}: the path is not UTF-8", program.display())));
    };
    let mut environment: BTreeMap<String, String> = std::env::vars_os()
        // A variable that is not UTF-8 cannot occur in the experiment file.
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    environment.insert(PROGRAM.to_owned(), path.to_owned());
    let of = |name: &str| environment.get(name).cloned();
    let experiment = Experiment::read_with(file, Overrides { set: &[], environment: &of });
    let experiment = experiment.map_err(|errors| wrong(errors.to_string()))?;
    // Without it, both sweeps would run the same program and differ in nothing.
    if !experiment.environment.contains_key(PROGRAM) {
        return Err(wrong(format!(
            "{} does not use the program\n  write `${{env:{PROGRAM}}}` where it names the program, \
             such as `run: ['${{env:{PROGRAM}}}', --port, '7']`",
            file.display()
        )));
    }
    Ok((experiment, environment))
}

/// Prints the best value of each folder, as Markdown.
fn exchanges(arguments: &Compare) -> Status {
    let figure = match arguments.figure.unwrap_or(CompareMetric::Time) {
        CompareMetric::Time => CompareFigure::Time,
        CompareMetric::Received => CompareFigure::Received,
        CompareMetric::Bytes => CompareFigure::Bytes,
    };
    let by = arguments.by.as_deref().unwrap_or("protocol");
    let mut first = true;
    for folder in &arguments.paths {
        let sweep = Sweep::read(folder).map_err(|error| error.to_string());
        match sweep.and_then(|sweep| report::compare(&sweep, by, figure)) {
            Ok(text) => say(format_args!("{}{}", if first { "" } else { "\n" }, text.trim_end())),
            Err(error) => {
                complain(format_args!("{}: {error}", folder.display()));
                return Status::Failed;
            }
        }
        first = false;
    }
    Status::Fine
}
