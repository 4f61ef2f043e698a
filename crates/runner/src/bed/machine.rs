//! The programs of nodes that are machines: a console for each.

use crate::error::Error;
use experiment::{Plan, PlannedNode};
use record::spec::{ConsoleSpec, Spec};
use std::fs;
use std::path::Path;

/// The command line of the console of `node`, if it is a machine; `workload` implements it. Writes
/// its spec to the file `spec`.
///
/// # Errors
/// When the spec cannot be written.
pub(crate) fn console(
    plan: &Plan,
    node: &PlannedNode,
    workload: &Path,
    spec: &Path,
) -> Result<Option<Vec<String>>, Error> {
    let Some(console) = plan.console(node) else { return Ok(None) };
    let text = serde_json::to_vec(&console).unwrap_or_default();
    fs::write(spec, text).map_err(Error::write(spec))?;
    let argv = [workload, Path::new(ConsoleSpec::PROGRAM), spec];
    Ok(Some(argv.map(|word| word.display().to_string()).into()))
}
