//! Resuming an interrupted sweep.

use crate::arguments::Run;
use crate::layout::HOST;
use crate::provenance::Provenance;
use experiment::{Clock, Cpu, Experiment};
use record::RunFacts;
use report::run_facts;
use runner::Error;
use serde_json::Value;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// In experiment files that `--set` or environment variables changed.
const MARK: &[u8] = b"\n# Changed by --set ";

/// Checks that the sweep in `folder` has the given experiment, seed, clock and CPUs: runs with
/// different ones cannot share a table.
pub fn check(
    arguments: &Run,
    experiment: &Experiment,
    folder: &Path,
    seed: u64,
) -> Result<(), String> {
    let copy = folder.join("experiment.yaml");
    let then = fs::read(&copy).map_err(|error| {
        format!(
            "{} is not the folder of a sweep: could not read {}: {error}\n  give the folder that \
             contains experiment.yaml and one folder per run",
            folder.display(),
            copy.display()
        )
    })?;
    let now = experiment.source().as_bytes();
    // A power cut leaves a copy that is cut off (decision 60), which is damage and no change by the
    // user.
    if now.len() > then.len() && now.starts_with(&then) && !experiment.is_changed() {
        return Err(format!(
            "{} is damaged: it has only the first {} B of {}\n  if that file has not changed since \
             the sweep started, copy it there again: cp {} {}",
            copy.display(),
            then.len(),
            arguments.file.display(),
            arguments.file.display(),
            copy.display()
        ));
    }
    if now != then {
        let also = if experiment.is_changed() || then.windows(MARK.len()).any(|at| at == MARK) {
            ", or --set or environment variables differ,"
        } else {
            ""
        };
        return Err(format!(
            "{} has changed{also} since the sweep in {} started\n  undo the change (the original \
             is {}), or start a new sweep without --resume",
            arguments.file.display(),
            folder.display(),
            copy.display()
        ));
    }
    if folder.join("run.json").exists() {
        return Err(format!(
            "{} is the folder of a single run; --resume needs the folder of a sweep",
            folder.display()
        ));
    }
    same_clock(arguments, folder, arguments.clock(experiment))?;
    for run in runs(folder) {
        let had = json(&run.join("plan.json")).and_then(|plan| plan["seed"].as_u64());
        if let Some(had) = had.filter(|had| *had != seed) {
            return Err(format!(
                "the sweep in {} has the seed {had}, but this command uses the seed {seed}\n  add \
                 --seed {had}, or start a new sweep without --resume",
                folder.display()
            ));
        }
    }
    Ok(())
}

/// Checks that the sweep's runs used this clock and these CPUs.
fn same_clock(arguments: &Run, folder: &Path, clock: Clock) -> Result<(), String> {
    let say = |then: &str, option: &str| {
        Err(format!(
            "the sweep in {} ran {then}\n  add {option}, or start a new sweep without --resume",
            folder.display()
        ))
    };
    let words = |cpus: &[Cpu]| -> Vec<String> { cpus.iter().map(Cpu::to_string).collect() };
    match (Provenance::read(folder).ok(), clock) {
        (Some(_), Clock::Real) => say("in virtual time", "--clock virtual"),
        (Some(provenance), Clock::Virtual) => {
            let then = match provenance.cpu.is_empty() {
                true => vec![Cpu::Infinite],
                false => provenance.cpu,
            };
            if then == arguments.cpus() {
                return Ok(());
            }
            let then = words(&then).join(",");
            say(&format!("with the CPU {then}"), &format!("--cpu {then}"))
        }
        // The file is missing, as in real time, or damaged.
        (None, Clock::Real) => match folder.join(HOST).exists() {
            true => say("in virtual time", "--clock virtual"),
            false => Ok(()),
        },
        (None, Clock::Virtual) => {
            // Without `host.json`, the runs themselves say their clock.
            let all: Vec<RunFacts> =
                runs(folder).iter().filter_map(|run| run_facts(run).ok()).collect();
            if all.iter().any(|run| run.clock == Clock::Real) {
                return say("in real time", "--clock real");
            }
            let mut then = all.iter().filter_map(|run| run.virtual_cpu);
            match then.find(|then| !arguments.cpus().contains(then)) {
                Some(then) => say(&format!("with the CPU {then}"), &format!("--cpu {then}")),
                None => Ok(()),
            }
        }
    }
}

/// State of a run's folder.
#[derive(Debug, PartialEq)]
pub enum RunState {
    /// There is none.
    Absent,
    /// The user stopped the run, or it was killed.
    CutShort,
    /// The run ended, and a file has changed since: which, and how.
    Damaged(String),
    /// All files are as at the end of the run; with the summary.
    Complete(Value),
}

/// Checks the files of the run in `folder`.
pub fn state(folder: &Path) -> RunState {
    if !folder.exists() {
        return RunState::Absent;
    }
    // Written last, so that a run without it was cut short.
    let run = match run_facts(folder) {
        Ok(run) => run,
        Err(report::Error::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return RunState::CutShort;
        }
        Err(report::Error::Json { source, .. }) => {
            return RunState::Damaged(format!("run.json is damaged: {source}"));
        }
        Err(_) => return RunState::Damaged("run.json is damaged".to_owned()),
    };
    if run.interrupted {
        return RunState::CutShort;
    }
    // Lengths and CRC-32 of all files (decision 60).
    let damage = match run.files {
        // Of an earlier version, which kept no list.
        None => report::damaged_tables(folder).into_iter().next(),
        Some(files) => files.damage(folder).first().map(ToString::to_string),
    };
    let damaged = |name: &str| RunState::Damaged(format!("{name} is damaged"));
    match (damage, json(&folder.join("summary.json"))) {
        (Some(text), _) => RunState::Damaged(text),
        (None, Some(summary)) => RunState::Complete(summary),
        (None, None) => damaged("summary.json"),
    }
}

/// The summary of the run in `folder`, if the run is complete.
pub fn had(folder: &Path) -> Option<Value> {
    match state(folder) {
        RunState::Complete(summary) => Some(summary),
        _ => None,
    }
}

/// The summaries of the sweep's complete runs that are not among `those`: runs of other cells.
pub fn others(folder: &Path, those: &[Value]) -> Vec<Value> {
    let same = |a: &Value, b: &Value| a["cell"] == b["cell"] && a["repeat"] == b["repeat"];
    let mut folders = runs(folder);
    folders.sort();
    let all = folders.iter().filter_map(|run| had(run));
    all.filter(|one| !those.iter().any(|other| same(one, other))).collect()
}

/// Moves a run that is not part of the sweep into the subfolder `aside`, where users can inspect
/// it.
///
/// # Errors
/// The subfolder cannot be created, or the run cannot be moved.
pub fn put_aside(folder: &Path, aside: &str) -> Result<(), Error> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    if !folder.exists() {
        return Ok(());
    }
    let aside = parent.join(aside);
    fs::create_dir_all(&aside).map_err(Error::write(&aside))?;
    // An aside folder may have the same run several times, one for each resumption.
    let free = (0..).map(|n| aside.join(format!("{}.{n}", name.display()))).find(|p| !p.exists());
    let to = free.unwrap_or_else(|| aside.join(name));
    fs::rename(folder, &to).map_err(Error::write(&to))
}

fn runs(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::CUT_SHORT;

    #[test]
    fn only_a_run_that_came_to_its_end_was_had() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("a-0");
        assert_eq!(had(&run), None);
        fs::create_dir(&run).unwrap();
        fs::write(run.join("summary.json"), "{\"repeat\": 0}").unwrap();
        assert_eq!(had(&run), None);
        fs::write(run.join("run.json"), "{\"interrupted\": true}").unwrap();
        assert_eq!(had(&run), None);
        fs::write(run.join("run.json"), "{\"interrupted\": false, \"files\": {}}").unwrap();
        assert_eq!(had(&run).unwrap()["repeat"], 0);
    }

    #[test]
    fn a_run_of_an_earlier_version_needs_whole_tables() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        fs::write(run.join("run.json"), "{\"interrupted\": false}").unwrap();
        fs::write(run.join("summary.json"), "{}").unwrap();
        fs::write(run.join("messages.parquet"), "").unwrap();
        let RunState::Damaged(text) = state(run) else { panic!("{:?}", state(run)) };
        assert!(text.contains("messages.parquet"), "{text}");
    }

    #[test]
    fn what_was_cut_short_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("a-0");
        put_aside(&run, CUT_SHORT).unwrap();
        for n in 0..2 {
            fs::create_dir(&run).unwrap();
            fs::write(run.join("plan.json"), n.to_string()).unwrap();
            put_aside(&run, CUT_SHORT).unwrap();
        }
        let kept = |n| fs::read_to_string(dir.path().join(format!("cut-short/a-0.{n}/plan.json")));
        assert_eq!((kept(0).unwrap(), kept(1).unwrap()), ("0".into(), "1".into()));
        assert!(!run.exists());
    }
}
