//! Files of two sweeps, and where they differ.

use crate::layout::{CUT_SHORT, HIDDEN, HOST, REJECTED, SLURM};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Files with the highest priority in the report of differences: results first.
const FIRST: [&str; 3] = ["summary.json", "run.json", "plan.json"];

/// Subfolders of a sweep that contain no results: Slurm files, interrupted and rejected runs.
const EXCLUDED: [&str; 3] = [SLURM, CUT_SHORT, REJECTED];

/// Creates a scratch folder next to the sweep's, on the same disk; if that is not writable, in the
/// folder for temporary files.
pub(crate) fn scratch(folder: &Path) -> std::io::Result<PathBuf> {
    create_scratch(folder).or_else(|_| {
        let name = folder.file_name().unwrap_or_default();
        create_scratch(&std::env::temp_dir().join(name))
    })
}

fn create_scratch(folder: &Path) -> std::io::Result<PathBuf> {
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
    // The numbers are endless, so the loop ends with a folder or with an error.
    unreachable!("a free number is found")
}

/// All files below a sweep folder, relative to it, without the machine's own file.
pub(crate) fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                let aside = EXCLUDED.iter().any(|name| path == folder.join(name));
                todo.extend((!aside).then_some(path));
            } else if let Ok(name) = path.strip_prefix(folder) {
                found.insert(name.to_owned());
            }
        }
    }
    // Pages contain the path of their sweep; all that they show is in other files.
    let is_hidden = |name: &Path| {
        name.file_name().is_some_and(|name| name.to_string_lossy().starts_with(HIDDEN))
    };
    found.retain(|name| {
        !name.ends_with(HOST) && name != Path::new("report.html") && !is_hidden(name)
    });
    found
}

/// The files that differ or are missing on one side; those with results first.
pub(crate) fn differing<'a>(
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
    // A run's own results are more specific than the list of all runs.
    all.sort_by_key(|name| rank(name));
    all.into_iter().map(PathBuf::as_path).collect()
}

/// Sort key of a file in the report of differences.
pub(crate) fn rank(name: &Path) -> (usize, bool) {
    let place = FIRST.iter().position(|first| name.ends_with(first)).unwrap_or(FIRST.len());
    (place, name.components().count() < 2)
}

/// The first difference between two files, as text.
pub(crate) fn first_difference(then: &Path, now: &Path) -> Vec<String> {
    let read = |path: &Path| fs::read(path).ok();
    // A file that is missing on one side is a difference too.
    let (Some(a), Some(b)) = (read(then), read(now)) else {
        let side =
            if then.exists() { "the new run does not have it" } else { "only the new run has it" };
        return vec![side.to_owned()];
    };
    let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    if let (Some(a), Some(b)) = (json(&a), json(&b)) {
        return difference("", &a, &b).into_iter().collect();
    }
    // Binary tables have no figures to name; the offset helps to see whether only a header differs.
    let at = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    vec![format!("differ from byte {at}: size {} B then, {} B now", a.len(), b.len())]
}

/// The path of the first value that differs, and both values.
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
            // Of arrays with other lengths, values at one index are not the same thing; both arrays
            // are shown.
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
        let output = difference("", &a, &b);
        assert_eq!(output.as_deref(), Some("messages.rtd.1: 2.0 then, 2.5 now"));
        let output = difference("", &a, &json!({"messages": {}})).unwrap();
        assert!(output.starts_with("messages.rtd: [1.0,2.0] then, null now"), "{output}");
    }
}
