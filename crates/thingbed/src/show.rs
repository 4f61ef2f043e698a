//! Commands that read and print: check, plan, report, schema.

use crate::arguments::{Format, Plan, Settings};
use crate::{Status, complain, remark, say, say_styled};
use experiment::{Experiment, Forecast, Only};
use report::Sweep;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Checks experiment files and prints all errors of each.
pub fn check(files: &[PathBuf], settings: &Settings) -> Status {
    let mut status = Status::Fine;
    for file in files {
        match read_or_complain(settings, file) {
            Ok(experiment) => {
                let cells = experiment.cells(&Only::all()).map_or(0, |cells| cells.len());
                let repeats = experiment.repeats;
                let cells = format!("{cells} cell{}", if cells == 1 { "" } else { "s" });
                let runs = match repeats {
                    1 => format!("{cells}, one run each"),
                    _ => format!("{cells}, {repeats} runs each"),
                };
                say(format_args!("{}: valid, {runs}", file.display()));
            }
            Err(wrong) => status = wrong,
        }
    }
    status
}

/// Prints the plan of each selected cell.
pub fn plan(arguments: &Plan) -> Status {
    let experiment = match read_or_complain(&arguments.settings, &arguments.file) {
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

/// Reads and checks an experiment; prints the errors, and the number of expectations that `--set`
/// makes obsolete.
pub(crate) fn read_or_complain(settings: &Settings, file: &Path) -> Result<Experiment, Status> {
    let experiment = or_complain(settings.read(file))?;
    let skipped = experiment.skipped_expectations;
    if skipped > 0 {
        let s = if skipped == 1 { "" } else { "s" };
        remark(format_args!(
            "warning: {skipped} expectation{s} not evaluated: the cell has a value that --set \
             removed"
        ));
    }
    Ok(experiment)
}

/// Number of CPUs that this process may use.
pub(crate) fn cores() -> u32 {
    // The process's own share (affinity, cgroup quota), not all of the machine.
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// Prints the results in a folder, and writes its page and the results as JUnit XML.
pub fn report(folder: &Path, html: Option<&Path>, junit: Option<&Path>, format: Format) -> Status {
    let own = folder.join("report.html");
    match draw(folder, html.unwrap_or(&own), junit, format) {
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

/// Whether output is coloured: on a terminal, unless `NO_COLOR` is set (no-color.org) or `TERM` is
/// `dumb`.
pub fn colour() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb
}

/// Prints a folder's results, and writes the page `html` and the file `junit`.
pub fn draw(
    folder: &Path,
    html: &Path,
    junit: Option<&Path>,
    format: Format,
) -> Result<Sweep, report::Error> {
    let sweep = Sweep::read(folder)?;
    if format == Format::Text {
        // Before the page: the results are visible even if the page cannot be written.
        say_styled(report::terminal(&sweep, width(), colour()).trim_end());
    }
    report::write_html(&sweep, html)?;
    if let Some(path) = junit {
        std::fs::write(path, report::junit(&sweep))
            .map_err(|source| report::Error::Write { path: path.to_owned(), source })?;
    }
    match format {
        Format::Text => say(format_args!("report: {}", html.display())),
        Format::Json => say(format_args!("{:#}", report::json(&sweep, html))),
    }
    Ok(sweep)
}

/// Adds the results to the summary of a GitHub job, if this is one.
pub fn summarize_job(sweep: &Sweep) -> std::io::Result<()> {
    let path = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty());
    let Some(path) = path else { return Ok(()) };
    // Appended, since other steps of the job write to the same file.
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path)?;
    writeln!(file, "{}\n", report::markdown(sweep).trim_end())
}

/// Prints the JSON Schema of experiment files.
pub fn schema() -> Status {
    say(serde_json::to_string_pretty(&experiment::schema()).unwrap_or_default());
    Status::Fine
}

/// Prints the errors of an experiment that could not be read.
pub fn or_complain(read: Result<Experiment, experiment::Errors>) -> Result<Experiment, Status> {
    read.map_err(|errors| {
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
