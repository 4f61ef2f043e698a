//! Commands for capsules.

mod compare;
mod pack;

pub use compare::verify;
pub use pack::pack;

use crate::arguments::Run;
use ::capsule::{Capsule, HOME, is_capsule};
use experiment::{Clock, Experiment};
use std::fs;
use std::path::Path;

/// Opens the capsule that `run` names and returns it with the options for its runs; none if
/// `run` names an experiment file.
///
/// # Errors
/// When the capsule is invalid, or when an option contradicts a setting that the capsule fixes.
pub(crate) fn opened(run: &Run) -> Result<Option<(Run, Capsule)>, String> {
    if !is_capsule(&run.file) {
        return Ok(None);
    }
    // These would change runs whose results the capsule has digests of.
    let given = [
        ("--seed", run.seed.is_some()),
        ("--cpu", !run.cpu.is_empty()),
        ("--clock real", run.clock == Some(Clock::Real)),
        ("--repeat", run.repeat.is_some()),
        ("--replay", run.replay.is_some()),
        ("--capture", run.capture),
    ];
    let given = given.iter().find(|(_, given)| *given).map(|(option, _)| *option);
    if let Some(option) = given.or_else(|| run.forwarding.given()) {
        return Err(format!(
            "{option} cannot be used with a capsule: a capsule fixes its runs\n  to change the \
             experiment, unpack it: tar xzf {} {HOME}",
            run.file.display()
        ));
    }
    let capsule = Capsule::open(&run.file)?;
    // An invalid experiment is reported later, with all its errors.
    if let Ok(experiment) = Experiment::read(&capsule.file())
        && let Some(reference) = &experiment.reference
    {
        // Thingbed copies it into the results, which users publish.
        let inside = |path: &Path| Some(fs::canonicalize(path).ok()?.starts_with(capsule.home()?));
        if inside(reference) != Some(true) {
            return Err(format!(
                "its experiment has the reference {}, which is not a file of the capsule",
                reference.display()
            ));
        }
    }
    let manifest = &capsule.manifest;
    let mut run = run.clone();
    run.file = capsule.file();
    run.seed = Some(manifest.seed);
    run.repeat = Some(manifest.repeats);
    run.clock = Some(Clock::Virtual);
    run.cpu = manifest.cpu.clone();
    Ok(Some((run, capsule)))
}
