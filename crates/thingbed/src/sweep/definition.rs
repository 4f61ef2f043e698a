//! A sweep, and names in it.

use crate::arguments::Run;
use ::capsule::Capsule;
use engine::FramePath;
use experiment::{Cell, Experiment};
use runner::{Error, Finished};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A running sweep.
pub(crate) struct Sweep<'a> {
    pub arguments: &'a Run,
    pub experiment: &'a Experiment,
    pub folder: PathBuf,
    pub seed: u64,
    pub interrupted: Arc<AtomicBool>,
    pub frame_path: Option<FramePath>,
    /// The source of guests, if not this machine.
    pub capsule: Option<&'a Capsule>,
}

pub(crate) fn name(cell: &Cell, repeat: u32) -> String {
    cell.folder(repeat.into())
}

pub(crate) fn word(finished: &Finished) -> String {
    let verdict = &finished.verdict;
    match verdict.reasons.first() {
        Some(reason) => format!("{}: {}", verdict.status, reason.headline()),
        None => verdict.status.to_string(),
    }
}

pub(crate) fn write(path: &Path, value: &(impl serde::Serialize + ?Sized)) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    journal::write(path, text).map_err(Error::write(path))
}
