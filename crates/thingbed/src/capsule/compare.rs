//! The command `verify` for a capsule: repeats its runs and compares the results.

use crate::arguments::{Run, Verify};
use crate::differences::{difference, scratch};
use crate::provenance::other_emulator;
use crate::{Status, complain, say, sweep};
use ::capsule::{Capsule, digest};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;

/// Repeats the runs of a capsule and compares their files with its digests.
pub fn verify(requested: &Verify) -> Status {
    let capsule = match Capsule::open(&requested.folder) {
        Ok(capsule) => capsule,
        Err(error) => {
            complain(error);
            return Status::Failed;
        }
    };
    let scratch = match scratch(&requested.folder) {
        Ok(scratch) => scratch,
        Err(error) => {
            complain(format!("could not create a folder for the runs: {error}"));
            return Status::Failed;
        }
    };
    let run = Run {
        file: requested.folder.clone(),
        out: scratch.clone(),
        jobs: requested.jobs,
        quiet: requested.quiet,
        ..Run::default()
    };
    let (status, folder) = sweep::again(&run);
    // Without complete runs, differences would be those of missing files.
    let Some(folder) = folder.filter(|_| !matches!(status, Status::Interrupted | Status::Failed))
    else {
        let _ = fs::remove_dir_all(&scratch);
        return status.max(Status::Failed);
    };
    let mut files = 0;
    // In the order of the capsule, so that the first difference is the same for everybody.
    for number in 0..capsule.manifest.runs.len() {
        files += capsule.manifest.runs[number].expected.len();
        if let Some(text) = differs(&capsule, number, &folder) {
            say(text);
            other_emulator(capsule.manifest.emulator.as_deref()).into_iter().for_each(say);
            say(format_args!("the new runs are in {}", folder.display()));
            return Status::Unexpected;
        }
    }
    let runs = capsule.manifest.runs.len();
    say(format_args!("identical: all {files} files of {runs} runs"));
    let _ = fs::remove_dir_all(&scratch);
    Status::Fine
}

/// Describes the differences of a run, figures first; none if it has no differences.
fn differs(capsule: &Capsule, number: usize, folder: &Path) -> Option<String> {
    let run = &capsule.manifest.runs[number];
    let name = sweep::name(&run.cell, run.repeat);
    // A single run has no subfolder (see `Sweep::one`).
    let alone = folder.join("run.json").exists();
    let own = if alone { folder.to_owned() } else { folder.join(&name) };
    let same = |path: &Path, sum: &String| {
        File::open(own.join(path)).and_then(digest).is_ok_and(|now| now == *sum)
    };
    let mut differing: Vec<&Path> = run
        .expected
        .iter()
        .filter(|(path, sum)| !same(path, sum))
        .map(|(path, _)| path.as_path())
        .collect();
    // A figure that differs explains more than a capture that differs.
    differing.sort_by_key(|path| crate::differences::rank(path));
    let first = differing.first()?;
    let then = capsule.figures(number, first);
    let now: Option<Value> =
        fs::read_to_string(own.join(first)).ok().and_then(|text| serde_json::from_str(&text).ok());
    let figure = then.zip(now).and_then(|(then, now)| difference("", &then, &now));
    Some(format!(
        "{} of {} files of the run {name} differ; the first is {}{}",
        differing.len(),
        run.expected.len(),
        first.display(),
        figure.map_or(String::new(), |figure| format!("\n  {figure}"))
    ))
}
