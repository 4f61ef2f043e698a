//! Files of traces, and errors in reading and writing them.

use crate::Status;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

/// Exit status and message of a failed subcommand.
pub(super) type Failure = (Status, String);

pub(super) fn failed(error: impl ToString) -> Failure {
    (Status::Failed, error.to_string())
}

pub(super) fn usage_error(error: impl ToString) -> Failure {
    (Status::Wrong, error.to_string())
}

/// Opens a file for reading, or standard input for `-`.
pub(crate) fn open(file: &Path) -> Result<Box<dyn BufRead + Send>, String> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = input::open(file, input::ANY_SIZE)
        .map_err(|e| format!("cannot read {}: {e}", file.display()))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, opened)))
}

/// Opens a file for writing, or standard output for `-`.
pub(super) fn create(file: &Path) -> Result<Box<dyn Write>, Failure> {
    if file == Path::new("-") {
        return Ok(Box::new(BufWriter::new(io::stdout().lock())));
    }
    let made = File::create(file)
        .map_err(|error| failed(format_args!("cannot write {}: {error}", file.display())))?;
    Ok(Box::new(BufWriter::with_capacity(1 << 16, made)))
}

/// Checks the result of writing. A closed pipe, as with `head`, is not an error.
pub(super) fn check_write(file: &Path, result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(failed(format_args!("cannot write {}: {error}", file.display())))
        }
        _ => Ok(()),
    }
}
