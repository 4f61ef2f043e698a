//! `thingbed trace`: generates, inspects and merges request traces.

mod generate;
mod inspect;
mod merge;
mod shape;

pub(crate) use shape::{resources, trace_spec};

use crate::arguments::Trace;
use crate::{Status, complain};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

/// Executes a subcommand of `trace`.
pub fn trace(what: &Trace) -> Status {
    let ended = match what {
        Trace::Generate(wanted) => generate::generate(wanted),
        Trace::Inspect(wanted) => inspect::inspect(wanted),
        Trace::Merge { files, out } => merge::merge(files, out),
    };
    ended.unwrap_or_else(|(status, error)| {
        complain(error);
        status
    })
}

/// Exit status and message of a failed subcommand.
type Failure = (Status, String);

fn failed(error: impl ToString) -> Failure {
    (Status::Failed, error.to_string())
}

fn usage_error(error: impl ToString) -> Failure {
    (Status::Wrong, error.to_string())
}

/// Opens a file for reading, or standard input for `-`.
pub(crate) fn open(file: &Path) -> Result<Box<dyn BufRead + Send>, String> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = File::open(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, opened)))
}

/// Opens a file for writing, or standard output for `-`.
fn create(file: &Path) -> Result<Box<dyn Write>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout().lock())));
    }
    let made = File::create(file)
        .map_err(|error| failed(format_args!("cannot write {}: {error}", file.display())))?;
    Ok(Box::new(BufWriter::with_capacity(1 << 16, made)))
}

/// Checks the result of writing. A closed pipe, as with `head`, is not an error.
fn check_write(file: &Path, result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(failed(format_args!("cannot write {}: {error}", file.display())))
        }
        _ => Ok(()),
    }
}
