//! Files of a sweep for Slurm.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The cost of the task that executed the run `requested`; none before its end.
pub(super) fn took(folder: &Path, requested: &str) -> Option<Duration> {
    let text = fs::read_to_string(path(folder, requested)).ok()?;
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

/// The path of the file that a task writes last.
pub(super) fn path(folder: &Path, requested: &str) -> PathBuf {
    folder.join(format!("{requested}.took"))
}
