//! What the tool finds round itself: programs beside it, wishes of the environment.

use medium::FramePath;
use std::path::PathBuf;

/// The way of carrying frames that the environment asks for, for tests and
/// comparisons.
pub(crate) fn frame_path() -> Result<Option<FramePath>, String> {
    let Ok(name) = std::env::var("THINGBED_FRAME_PATH") else { return Ok(None) };
    let all = FramePath::ALL.map(FramePath::name).join(", ");
    let found = FramePath::from_name(&name);
    found.map(Some).ok_or(format!("THINGBED_FRAME_PATH is `{name}`; valid values are {all}"))
}

/// The program that speaks the interaction models: beside this one, or in PATH.
pub fn workload_program() -> PathBuf {
    const NAME: &str = "thingbed-workload";
    let beside = current_exe().with_file_name(NAME);
    if beside.exists() { beside } else { PathBuf::from(NAME) }
}

pub(crate) fn current_exe() -> PathBuf {
    // An upgrade may have replaced the file since this program was started.
    let known = std::env::current_exe().ok().filter(|path| path.exists());
    known.unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}
