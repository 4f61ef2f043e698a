//! `thingbed trace merge`.

use super::files::{Failure, check_write, create, failed, open, usage_error};
use crate::Status;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use trace::Reader;

/// Merges traces by time; at equal times, requests of earlier files come first. Buffers only one
/// line per file.
pub fn merge(files: &[PathBuf], to: &Path) -> Result<Status, Failure> {
    let mut readers = Vec::new();
    let mut next = BinaryHeap::new();
    for (place, file) in files.iter().enumerate() {
        let mut reader = Reader::new(open(file).map_err(failed)?);
        if let Some((at, line)) = line(&mut reader, file)? {
            next.push(Reverse((at, place, line)));
        }
        readers.push(reader);
    }
    let mut out = create(to)?;
    // A heap of one line per file: traces may be larger than memory.
    while let Some(Reverse((_, place, text))) = next.pop() {
        // A closed pipe ends the merge without an error, as with `head`.
        if let Err(error) = writeln!(out, "{text}") {
            check_write(to, Err(error))?;
            return Ok(Status::Fine);
        }
        if let Some((at, line)) = line(&mut readers[place], &files[place])? {
            next.push(Reverse((at, place, line)));
        }
    }
    check_write(to, out.flush())?;
    Ok(Status::Fine)
}

/// The next request of a file, and its time in ns.
fn line<R: BufRead>(reader: &mut Reader<R>, file: &Path) -> Result<Option<(u64, String)>, Failure> {
    match reader.read() {
        Ok(None) => Ok(None),
        Ok(Some(Ok(request))) => Ok(Some((request.at, request.to_string()))),
        Ok(Some(Err(error))) => Err(usage_error(format_args!("{}: {error}", file.display()))),
        Err(error) => Err(failed(format_args!("cannot read {}: {error}", file.display()))),
    }
}
