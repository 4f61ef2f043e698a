//! Reads a program's spec, written by the runner.

use crate::error::Error;
use record::spec::Spec;
use std::path::Path;

/// Reads and checks a spec.
///
/// # Errors
/// The file is unreadable or invalid.
pub fn read<S: Spec>(path: &Path) -> Result<S, Error> {
    let error = |why: String| Error::Spec { path: path.into(), why };
    let text = std::fs::read_to_string(path).map_err(|source| error(source.to_string()))?;
    S::parse(&text).map_err(error)
}
