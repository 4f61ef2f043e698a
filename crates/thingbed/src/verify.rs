//! `thingbed verify`: repeats the runs of a sweep in virtual time and reports the first metric that
//! differs.

use crate::arguments::Verify;
use crate::differences::{differing, files, first_difference, scratch};
use crate::provenance::{Provenance, other_emulator};
use crate::{Status, capsule, complain, say, sweep};
use std::fs;

/// Runs a sweep again and compares the files.
pub fn verify(arguments: &Verify) -> Status {
    // Without this, `.` would have no name, and the scratch folder would be created inside it.
    let folder = fs::canonicalize(&arguments.folder).unwrap_or_else(|_| arguments.folder.clone());
    let arguments = &Verify { folder, ..arguments.clone() };
    if ::capsule::is_capsule(&arguments.folder) {
        return capsule::verify(arguments);
    }
    let provenance = Provenance::read(&arguments.folder)
        .and_then(|provenance| provenance.check(&arguments.folder).map(|()| provenance));
    let provenance = match provenance {
        Ok(provenance) => provenance,
        Err(error) => {
            complain(error);
            return Status::Failed;
        }
    };
    let scratch = match scratch(&arguments.folder) {
        Ok(scratch) => scratch,
        Err(error) => {
            complain(format!("could not create a folder for the runs: {error}"));
            return Status::Failed;
        }
    };
    let mut again = provenance.run(scratch.clone(), arguments.jobs, arguments.quiet);
    // A single run's folder is the sweep folder, unless the run could have been retried.
    // `retry` keeps the layout of the recorded folder; in virtual time no run is repeated for it.
    again.retry = u32::from(!arguments.folder.join("run.json").exists());
    let (status, folder) = sweep::again(&again);
    // Also `Failed`: without the new runs there is nothing to compare, and the folder would pass
    // for a result.
    let Some(folder) = folder.filter(|_| !matches!(status, Status::Interrupted | Status::Failed))
    else {
        let _ = fs::remove_dir_all(&scratch);
        return status.max(Status::Failed);
    };
    let (then, now) = (files(&arguments.folder), files(&folder));
    let differing = differing(&arguments.folder, &then, &folder, &now);
    let Some(first) = differing.first() else {
        say(format_args!("identical: all {} files of {} runs", then.len(), provenance.runs.len()));
        let _ = fs::remove_dir_all(&scratch);
        return Status::Fine;
    };
    let (count, all) = (differing.len(), then.len());
    say(format_args!("{count} of {all} files differ; the first is {}", first.display()));
    for line in first_difference(&arguments.folder.join(first), &folder.join(first)) {
        say(format_args!("  {line}"));
    }
    other_emulator(provenance.emulator.as_deref()).into_iter().for_each(say);
    say(format_args!("the new runs are in {}", folder.display()));
    Status::Unexpected
}
