//! `thingbed trace`: makes traces of requests, looks at them, joins them.

mod generate;
mod inspect;
mod merge;
mod shape;

pub(crate) use shape::{recipe, resources};

use crate::arguments::Trace;
use crate::{Status, complain};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

/// Does what was asked of traces.
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

/// How a command on traces ends when it does not go well.
type Stopped = (Status, String);

fn failed(error: impl ToString) -> Stopped {
    (Status::Failed, error.to_string())
}

fn wrong(error: impl ToString) -> Stopped {
    (Status::Wrong, error.to_string())
}

/// Opens a file to read, or the standard input for `-`.
pub(crate) fn open(file: &Path) -> Result<Box<dyn BufRead + Send>, String> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = File::open(file).map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, opened)))
}

/// Opens a file to write, or the standard output for `-`.
fn create(file: &Path) -> Result<Box<dyn Write>, Stopped> {
    if file == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout().lock())));
    }
    let made = File::create(file)
        .map_err(|error| failed(format_args!("cannot write {}: {error}", file.display())))?;
    Ok(Box::new(BufWriter::with_capacity(1 << 16, made)))
}

/// What came of writing. A reader that has gone, as `head` does, is no error.
fn written(file: &Path, result: io::Result<()>) -> Result<(), Stopped> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(failed(format_args!("cannot write {}: {error}", file.display())))
        }
        _ => Ok(()),
    }
}
