//! The environment of this process: helper programs and environment variables.

use engine::FramePath;
use std::path::PathBuf;

/// The frame path that THINGBED_FRAME_PATH selects, for tests and comparisons.
pub(crate) fn frame_path() -> Result<Option<FramePath>, String> {
    let Ok(name) = std::env::var("THINGBED_FRAME_PATH") else { return Ok(None) };
    let all = FramePath::ALL.map(FramePath::name).join(", ");
    let found = FramePath::from_name(&name);
    found.map(Some).ok_or(format!("THINGBED_FRAME_PATH is `{name}`; valid values are {all}"))
}

/// The program that implements the interaction models: next to this program, or in PATH.
pub fn workload_program() -> PathBuf {
    const NAME: &str = "thingbed-workload";
    let sibling = current_exe().with_file_name(NAME);
    // The neighbour first: it is of the same version, and PATH may have another one.
    if sibling.exists() { sibling } else { PathBuf::from(NAME) }
}

pub(crate) fn current_exe() -> PathBuf {
    // An upgrade may have replaced the file since this process started.
    let known = std::env::current_exe().ok().filter(|path| path.exists());
    known.unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}
