//! Commands that read and print: check, plan, report, schema.

use crate::arguments::{CompareMetric, Plan};
use crate::{Status, complain, remark, say};
use experiment::{Experiment, Forecast, Only};
use report::{CompareFigure, Sweep};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Checks experiment files and prints all errors of each.
pub fn check(files: &[PathBuf]) -> Status {
    let mut status = Status::Fine;
    for file in files {
        match read(file) {
            Ok(experiment) => {
                let cells = experiment.cells(&Only::all()).map_or(0, |cells| cells.len());
                let repeats = experiment.repeats;
                say(format_args!("{}: valid, {cells} cells x {repeats} repeats", file.display()));
            }
            Err(wrong) => status = wrong,
        }
    }
    status
}

/// Prints the plan of each selected cell.
pub fn plan(arguments: &Plan) -> Status {
    let experiment = match read(&arguments.file) {
        Ok(experiment) => experiment,
        Err(status) => return status,
    };
    let planned = cells(&experiment, &arguments.only).and_then(|cells| {
        let plan = |cell| experiment.plan(cell, 0, experiment.seed);
        cells.iter().map(plan).collect::<Result<Vec<_>, _>>()
    });
    match planned {
        Ok(plans) if arguments.json => {
            say(serde_json::to_string_pretty(&plans).unwrap_or_default());
        }
        Ok(plans) => {
            for (n, plan) in plans.iter().enumerate() {
                say(format_args!("{}{plan}", if n > 0 { "\n" } else { "" }));
                let forecast = Forecast::of(plan);
                say(forecast);
                if let Some(why) = forecast.warning(cores()) {
                    remark(format_args!("warning: {why}"));
                }
            }
        }
        Err(errors) => {
            complain(errors);
            return Status::Wrong;
        }
    }
    Status::Fine
}

/// Number of CPUs that this process may use.
pub(crate) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// Prints the results in a folder, and writes its page and the results as JUnit XML.
pub fn report(folder: &Path, html: Option<&Path>, junit: Option<&Path>) -> Status {
    let own = folder.join("report.html");
    match draw(folder, html.unwrap_or(&own), junit) {
        Ok(_) => Status::Fine,
        Err(error) => {
            complain(error);
            Status::Failed
        }
    }
}

/// Prints the results in a folder as Markdown.
pub fn markdown(folder: &Path) -> Status {
    match Sweep::read(folder) {
        Ok(sweep) => {
            say(report::markdown(&sweep).trim_end());
            Status::Fine
        }
        Err(error) => {
            complain(error);
            Status::Failed
        }
    }
}

/// Prints the best value of each folder, as Markdown.
pub fn compare(folders: &[PathBuf], by: &str, figure: CompareMetric) -> Status {
    let figure = match figure {
        CompareMetric::Time => CompareFigure::Time,
        CompareMetric::Received => CompareFigure::Received,
        CompareMetric::Bytes => CompareFigure::Bytes,
    };
    let mut first = true;
    for folder in folders {
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

/// Whether output is coloured: on a terminal, unless `NO_COLOR` is set (no-color.org) or `TERM` is
/// `dumb`.
pub fn colour() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb
}

/// Prints the table of a folder's results, and writes the page `html` and the file `junit`.
pub fn draw(folder: &Path, html: &Path, junit: Option<&Path>) -> Result<Sweep, report::Error> {
    let sweep = Sweep::read(folder)?;
    say(report::terminal(&sweep, width(), colour()).trim_end());
    report::write_html(&sweep, html)?;
    if let Some(path) = junit {
        std::fs::write(path, report::junit(&sweep))
            .map_err(|source| report::Error::Write { path: path.to_owned(), source })?;
    }
    say(format_args!("report: {}", html.display()));
    Ok(sweep)
}

/// Adds the results to the summary of a GitHub job, if this is one.
pub fn summarize_job(sweep: &Sweep) -> std::io::Result<()> {
    let path = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty());
    let Some(path) = path else { return Ok(()) };
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    writeln!(file, "{}\n", report::markdown(sweep).trim_end())
}

/// Prints the JSON Schema of experiment files.
pub fn schema() -> Status {
    say(serde_json::to_string_pretty(&experiment::schema()).unwrap_or_default());
    Status::Fine
}

/// Reads an experiment; prints its errors if that fails.
pub fn read(file: &Path) -> Result<Experiment, Status> {
    Experiment::read(file).map_err(|errors| {
        complain(errors);
        Status::Wrong
    })
}

/// The cells that `only` selects, in the syntax of the command line.
pub fn cells(
    experiment: &Experiment,
    only: &[String],
) -> Result<Vec<experiment::Cell>, experiment::Errors> {
    let mut picked = Only::all();
    for text in only {
        picked.merge(Only::parse(text)?);
    }
    experiment.cells(&picked)
}

/// Terminal width in columns; 160 without a terminal, as in a log.
pub fn width() -> u16 {
    // SAFETY: an all-zero window size is valid and outlives the call.
    let columns = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size);
        size.ws_col
    };
    if columns == 0 { 160 } else { columns }
}
