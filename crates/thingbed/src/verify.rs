//! The command `verify`: has the runs of a sweep in virtual time again, and names the first
//! figure that differs.

use crate::arguments::Verify;
use crate::origin::{HOST, Origin, other_emulator};
use crate::resume::{CUT_SHORT, REJECTED};
use crate::{Status, capsule, complain, say, slurm, sweep};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files of a run in the order in which differences in them are told: figures first.
const FIRST: [&str; 3] = ["summary.json", "run.json", "plan.json"];

/// Folders of a sweep with what is no result of it: what Slurm needs and says, runs that were cut
/// short or rejected.
const ASIDE: [&str; 3] = [slurm::FOLDER, CUT_SHORT, REJECTED];

/// Runs a sweep again and compares.
pub fn verify(wanted: &Verify) -> Status {
    // `.` has no name, and what is made beside it would be in it.
    let folder = fs::canonicalize(&wanted.folder).unwrap_or_else(|_| wanted.folder.clone());
    let wanted = &Verify { folder, ..wanted.clone() };
    if capsule::is_capsule(&wanted.folder) {
        return capsule::verify(wanted);
    }
    let origin = Origin::read(&wanted.folder)
        .and_then(|origin| origin.check(&wanted.folder).map(|()| origin));
    let origin = match origin {
        Ok(origin) => origin,
        Err(error) => {
            complain(error);
            return Status::Failed;
        }
    };
    let scratch = match scratch(&wanted.folder) {
        Ok(scratch) => scratch,
        Err(error) => {
            complain(format!("could not make a folder for the runs: {error}"));
            return Status::Failed;
        }
    };
    let mut again = origin.run(scratch.clone(), wanted.jobs, wanted.quiet);
    // A single run is its sweep's folder, unless it could have been repeated.
    again.retry = u32::from(!wanted.folder.join("run.json").exists());
    let (status, folder) = sweep::again(&again);
    let Some(folder) = folder.filter(|_| !matches!(status, Status::Interrupted | Status::Failed))
    else {
        let _ = fs::remove_dir_all(&scratch);
        return status.max(Status::Failed);
    };
    let (then, now) = (files(&wanted.folder), files(&folder));
    let differing = differing(&wanted.folder, &then, &folder, &now);
    let Some(first) = differing.first() else {
        say(format_args!("the same: all {} files of {} runs", then.len(), origin.runs.len()));
        let _ = fs::remove_dir_all(&scratch);
        return Status::Fine;
    };
    let (count, all) = (differing.len(), then.len());
    say(format_args!("{count} of {all} files differ; the first is {}", first.display()));
    for line in told(&wanted.folder.join(first), &folder.join(first)) {
        say(format_args!("  {line}"));
    }
    other_emulator(origin.emulator.as_deref()).into_iter().for_each(say);
    say(format_args!("the new runs are in {}", folder.display()));
    Status::Unexpected
}

/// A folder beside the sweep's, on the same disk; where that cannot be written, one for temporary
/// files.
pub(crate) fn scratch(folder: &Path) -> std::io::Result<PathBuf> {
    beside(folder).or_else(|_| {
        let name = folder.file_name().unwrap_or_default();
        beside(&std::env::temp_dir().join(name))
    })
}

fn beside(folder: &Path) -> std::io::Result<PathBuf> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = folder.with_file_name(format!("{name}.verify"));
    let free = (0..).map(|n| match n {
        0 => path.clone(),
        n => path.with_extension(format!("verify-{n}")),
    });
    for path in free {
        match fs::create_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    unreachable!("a free number is found")
}

/// All files below a sweep's folder but those of the machine, relative to it.
pub(crate) fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                let aside = ASIDE.iter().any(|name| path == folder.join(name));
                todo.extend((!aside).then_some(path));
            } else if let Ok(name) = path.strip_prefix(folder) {
                found.insert(name.to_owned());
            }
        }
    }
    // Pages say where their sweep is; all that they show is in the other files.
    found.retain(|name| !name.ends_with(HOST) && name != Path::new("report.html"));
    found
}

/// The files that differ or are missing on one side; those with figures first.
fn differing<'a>(
    then_in: &Path,
    then: &'a BTreeSet<PathBuf>,
    now_in: &Path,
    now: &'a BTreeSet<PathBuf>,
) -> Vec<&'a Path> {
    let same = |name: &Path| {
        let read = |folder: &Path| fs::read(folder.join(name)).ok();
        read(then_in).is_some_and(|then| read(now_in) == Some(then))
    };
    let mut all: Vec<&PathBuf> = then.union(now).filter(|name| !same(name)).collect();
    // A run's own figures say more than the list of all runs'.
    all.sort_by_key(|name| rank(name));
    all.into_iter().map(PathBuf::as_path).collect()
}

/// The place of a file in the order in which differences are told.
pub(crate) fn rank(name: &Path) -> (usize, bool) {
    let place = FIRST.iter().position(|first| name.ends_with(first)).unwrap_or(FIRST.len());
    (place, name.components().count() < 2)
}

/// The first difference between two files, in words.
fn told(then: &Path, now: &Path) -> Vec<String> {
    let read = |path: &Path| fs::read(path).ok();
    let (Some(a), Some(b)) = (read(then), read(now)) else {
        let side = if then.exists() { "the new run lacks it" } else { "only the new run has it" };
        return vec![side.to_owned()];
    };
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    if let (Some(a), Some(b)) = (json(&a), json(&b)) {
        return difference("", &a, &b).into_iter().collect();
    }
    let at = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    vec![format!("from byte {at} on: {} B then, {} B now", a.len(), b.len())]
}

/// The first value that differs, with its path.
pub(crate) fn difference(path: &str, a: &Value, b: &Value) -> Option<String> {
    let below = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let value = |of: &serde_json::Map<String, Value>, key: &str| {
                of.get(key).cloned().unwrap_or(Value::Null)
            };
            keys.iter().find_map(|key| difference(&below(key), &value(a, key), &value(b, key)))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(n, (a, b))| difference(&below(&n.to_string()), a, b))
        }
        (a, b) => (a != b).then(|| format!("{path}: {a} then, {b} now")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_figure_that_differs_is_named() {
        let a = json!({"messages": {"sent": 60, "rtd": [1.0, 2.0]}, "seed": 1});
        let mut b = a.clone();
        assert_eq!(difference("", &a, &b), None);
        b["messages"]["rtd"][1] = json!(2.5);
        b["seed"] = json!(2);
        let said = difference("", &a, &b);
        assert_eq!(said.as_deref(), Some("messages.rtd.1: 2.0 then, 2.5 now"));
        let said = difference("", &a, &json!({"messages": {}})).unwrap();
        assert!(said.starts_with("messages.rtd: [1.0,2.0] then, null now"), "{said}");
    }
}
