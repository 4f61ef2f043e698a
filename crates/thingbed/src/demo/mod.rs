//! `thingbed demo`: runs a built-in experiment, so that a new user has a result within a minute.

use crate::arguments::{Demo, Run};
use crate::environment::current_exe;
use crate::{Status, complain, remark, say, sweep, virtual_time};
use experiment::{Clock, Cpu, Experiment, Only};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The experiment. It uses only programs that are part of Thingbed.
const FILE: &str = include_str!("demo.yaml");
const NAME: &str = "demo.yaml";
/// The folder for the experiment and its results; a number follows if it exists.
const FOLDER: &str = "thingbed-demo";
/// The speed of QEMU's CPU, if there is only a kernel for QEMU.
const CPU: Cpu = Cpu::Mips(1_000);

/// A way to run the demo.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Virtual(Cpu),
    Real,
}

pub fn demo(arguments: &Demo) -> Status {
    let folder = match folder(arguments.folder.as_deref()) {
        Ok(folder) => folder,
        Err(error) => {
            complain(error);
            return Status::Failed;
        }
    };
    let ways = match ways(arguments.clock) {
        Ok(ways) => ways,
        Err(error) => {
            complain(error);
            return Status::Failed;
        }
    };
    // A kernel that exists may still fail, for example without ptrace in a container; then the next
    // way is tried.
    for (number, way) in ways.iter().enumerate() {
        introduce(*way, &folder);
        let (status, results) = sweep::have(&options(*way, &folder, arguments.quiet));
        match results {
            Some(results) if status != Status::Failed => {
                conclude(status, &folder, &results);
                return status;
            }
            // Interrupts and invalid runs are results; another way would hide them.
            _ if status != Status::Failed || number + 1 == ways.len() => {
                advise(status);
                return status;
            }
            _ => {
                remark("virtual time does not work on this machine, see above; trying another way")
            }
        }
    }
    Status::Failed
}

/// Creates the folder with the experiment; never uses one that exists.
fn folder(given: Option<&Path>) -> Result<PathBuf, String> {
    let mut numbers = 1..1000;
    loop {
        let folder = match (given, numbers.next()) {
            (Some(folder), _) => folder.to_owned(),
            (None, Some(1)) => PathBuf::from(FOLDER),
            (None, Some(number)) => PathBuf::from(format!("{FOLDER}-{number}")),
            (None, None) => return Err(format!("there are 999 folders {FOLDER}-N here")),
        };
        // `create_dir` fails if there is something, so no check before it can be out of date.
        match fs::create_dir(&folder) {
            Ok(()) => {
                let file = folder.join(NAME);
                let failed = |error| format!("could not write {}: {error}", file.display());
                fs::write(&file, FILE).map_err(failed)?;
                return Ok(folder);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists && given.is_none() => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(format!(
                    "{} exists, and the demo overwrites nothing\n  name another folder, or none",
                    folder.display()
                ));
            }
            Err(error) => {
                return Err(format!(
                    "could not create the folder {}: {error}\n  run the demo in a folder that you \
                     may write, or name one: thingbed demo /tmp/thingbed-demo",
                    folder.display()
                ));
            }
        }
    }
}

/// The ways to run on this machine, the best first.
fn ways(clock: Option<Clock>) -> Result<Vec<Way>, String> {
    let tool = current_exe();
    let experiment = Experiment::parse(FILE, NAME, "").map_err(|error| error.to_string())?;
    let cells = experiment.cells(&Only::all()).map_err(|error| error.to_string())?;
    let plan = cells.first().ok_or("the demo has no cells")?;
    let plan = experiment.plan(plan, 0, experiment.seed).map_err(|error| error.to_string())?;
    let mut ways = Vec::new();
    let mut why = String::new();
    if clock != Some(Clock::Real) {
        // User Mode Linux first: it needs no emulator, and starts in under a second (decision 42).
        for cpu in [Cpu::Infinite, CPU] {
            match virtual_time::check(&plan, cpu, &tool) {
                Ok(()) if cpu.is_infinite() || guest::emulator().is_some() => {
                    ways.push(Way::Virtual(cpu));
                }
                Ok(()) => {}
                Err(error) if why.is_empty() => why = error.to_string(),
                Err(_) => {}
            }
        }
    }
    match clock {
        Some(Clock::Virtual) if ways.is_empty() => return Err(why),
        Some(Clock::Virtual) => {}
        _ => ways.push(Way::Real),
    }
    Ok(ways)
}

fn introduce(way: Way, folder: &Path) {
    remark(format_args!("the experiment is {}", folder.join(NAME).display()));
    match way {
        Way::Virtual(cpu) if cpu.is_infinite() => {
            remark("4 runs of 30 s in virtual time (User Mode Linux): valid on every machine");
        }
        Way::Virtual(_) => remark("4 runs of 30 s in virtual time (QEMU): valid on every machine"),
        Way::Real => remark(
            "4 runs of 30 s in real time, because there is no guest kernel for virtual time: this \
             takes three minutes, and on a busy machine the verdict may be `suspect` or \
             `invalid`",
        ),
    }
}

/// The options of the runs.
fn options(way: Way, folder: &Path, quiet: bool) -> Run {
    let (clock, cpu, retry) = match way {
        Way::Virtual(cpu) if cpu.is_infinite() => (Clock::Virtual, Vec::new(), 0),
        Way::Virtual(cpu) => (Clock::Virtual, vec![cpu], 0),
        Way::Real => (Clock::Real, Vec::new(), 1),
    };
    Run {
        file: folder.join(NAME),
        out: folder.join("runs"),
        clock: Some(clock),
        cpu,
        retry,
        quiet,
        ..Run::default()
    }
}

/// What the results are, and what to do next.
fn conclude(status: Status, folder: &Path, results: &Path) {
    let file = folder.join(NAME);
    let file = file.display();
    say("");
    match status {
        Status::Fine => say("The results are valid, and all expectations of the experiment hold."),
        Status::Invalid => say(
            "The verdict says that this machine was too busy for these figures. In virtual time, \
             results are valid on every machine: see `thingbed doctor`.",
        ),
        _ => say("The results differ from what the experiment expects: the lines above say how."),
    }
    say(format_args!("Charts of delays, losses and bytes: {}/report.html", results.display()));
    say("\nWhat next:");
    for (command, purpose) in [
        (format!("thingbed run {file} --set loss='20 %'"), "another loss"),
        (format!("thingbed up {file} --detach"), "the same nodes and links, to work in by hand"),
        ("thingbed exec gateway -- ping -c 3 sensor-1".to_owned(), "a program of yours in a node"),
        ("thingbed link set sensor-1 delay=200ms".to_owned(), "another link, at once"),
        ("thingbed down".to_owned(), "the end of the live lab"),
        ("thingbed doctor".to_owned(), "what this machine lacks, and how to get it"),
    ] {
        say(format_args!("  {command:<52}  {purpose}"));
    }
    say(format_args!("\nFor your own experiment, copy {file} and change it."));
}

/// What to do when no way worked.
fn advise(status: Status) {
    if status == Status::Failed {
        remark(
            "`thingbed doctor` lists what this machine lacks. Virtual time needs no privilege: \
             install the package with the guest kernel, or run `make kernel` in the sources",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_experiment_is_valid_and_needs_no_other_files() {
        let experiment = Experiment::parse(FILE, NAME, "/nonexistent").unwrap();
        assert_eq!(experiment.cells(&Only::all()).unwrap().len(), 4);
        assert!(experiment.files.is_empty() && experiment.expect.len() == 4);
    }

    #[test]
    fn nothing_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        assert_eq!(folder(Some(&own)).unwrap(), own);
        assert!(folder(Some(&own)).unwrap_err().contains("overwrites nothing"));
        let missing = folder(Some(&own.join("a/b"))).unwrap_err();
        assert!(missing.contains("could not create the folder"), "{missing}");
    }
}
