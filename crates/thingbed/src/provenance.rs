//! Provenance and duration of a sweep in virtual time: `host.json`, the only file of a sweep folder
//! that depends on this machine and differs each time.

use crate::arguments::{Format, Forwarding, Run, Settings};
use crate::layout::HOST;
use crate::sweep::Sweep;
use ::capsule::is_capsule;
use experiment::{Cell, Clock, Cpu};
use runner::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of a sweep and the duration of each run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Provenance {
    /// Absolute path of the experiment file.
    pub file: PathBuf,
    pub only: Vec<String>,
    /// Settings of `--set`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// The environment variables that the file reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    pub repeat: Option<u32>,
    pub seed: u64,
    pub cpu: Vec<Cpu>,
    pub capture: bool,
    pub replay: Option<PathBuf>,
    /// Version of QEMU, if a CPU of finite speed was configured.
    #[serde(default)]
    pub emulator: Option<String>,
    pub runs: Vec<Timing>,
}

/// Duration of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timing {
    pub cell: Cell,
    pub repeat: u32,
    /// Wall-clock time on this machine, s.
    pub host_s: f64,
    /// Virtual time, s, from the creation of nodes to the end.
    pub virtual_s: f64,
}

impl Timing {
    /// Reads the duration of the run in `folder`; `None` if the run is incomplete.
    pub fn of(cell: &Cell, repeat: u32, took: Duration, folder: &Path) -> Option<Self> {
        let host_s = took.as_secs_f64();
        let phases = report::run_facts(folder).ok()?.phases;
        let virtual_s = phases.last()?.end_s - phases.first()?.start_s;
        Some(Self { cell: cell.clone(), repeat, host_s, virtual_s })
    }

    /// Text for the progress line.
    pub fn text(&self) -> String {
        let ratio = self.host_s / self.virtual_s.max(1e-9);
        format!("{ratio:.2} s real time per virtual second")
    }
}

/// The version of QEMU, if any of `cpus` needs it.
pub(crate) fn emulator(cpus: &[Cpu]) -> Option<String> {
    cpus.iter().any(|cpu| !cpu.is_infinite()).then(guest::emulator).flatten()
}

/// A note with both versions of QEMU, if they differ.
pub(crate) fn other_emulator(then: Option<&str>) -> Option<String> {
    let (then, now) = (then?, guest::emulator()?);
    let text = format!(
        "  the original runs used {then}; this machine has {now}, which may count instructions \
         differently"
    );
    (then != now).then_some(text)
}

impl Provenance {
    /// The provenance of a new sweep, or of one resumed in `folder`.
    pub fn of(sweep: &Sweep<'_>) -> Self {
        let run = sweep.arguments;
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        // A resumed sweep keeps the durations of the runs that it does not repeat.
        let before = Self::read(&sweep.folder).ok().map(|provenance| provenance.runs);
        Self {
            file: sweep.capsule.map_or_else(|| absolute(&run.file), |own| own.path.clone()),
            only: run.only.clone(),
            set: run.settings.set.clone(),
            environment: sweep.experiment.environment.clone(),
            repeat: run.repeat,
            seed: sweep.seed,
            cpu: run.cpu.clone(),
            capture: run.capture,
            replay: run.replay.as_deref().map(absolute),
            emulator: emulator(&run.cpu),
            runs: before.unwrap_or_default(),
        }
    }

    /// Reads the provenance of the sweep in `folder`.
    ///
    /// # Errors
    /// If the file is missing or damaged, as text for the user.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(HOST);
        let text = input::read_to_string(&path, input::MAX_TEXT).map_err(|error| {
            format!(
                "could not read {}: {error}\n  give the folder of a sweep in virtual time: runs in \
                 real time differ each time",
                path.display()
            )
        })?;
        serde_json::from_str(&text)
            .map_err(|error| format!("{} is damaged: {error}", path.display()))
    }

    /// Sets the duration of a run; replaces an earlier one.
    pub fn add(&mut self, timing: Timing) {
        // A repeated run replaces its earlier duration.
        self.runs.retain(|run| (&run.cell, run.repeat) != (&timing.cell, timing.repeat));
        self.runs.push(timing);
    }

    /// Writes the file to `folder`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        crate::sweep::write(&folder.join(HOST), self)
    }

    /// Arguments that repeat the same runs, in a new folder below `out`.
    pub fn run(&self, out: PathBuf, jobs: Option<u32>, quiet: bool) -> Run {
        let replay = self.replay.clone();
        if is_capsule(&self.file) {
            // The capsule contains all other settings.
            let (file, only) = (self.file.clone(), self.only.clone());
            return Run { file, only, out, jobs, quiet, ..Run::default() };
        }
        Run {
            file: self.file.clone(),
            only: self.only.clone(),
            settings: self.settings(),
            repeat: self.repeat,
            // A replay uses the seed of the replayed run.
            seed: replay.is_none().then_some(self.seed),
            out,
            resume: None,
            replay,
            forwarding: Forwarding::default(),
            capture: self.capture,
            retry: 0,
            clock: Some(Clock::Virtual),
            cpu: self.cpu.clone(),
            jobs,
            on: None,
            stop_at: None,
            format: Format::default(),
            junit: None,
            watch: None,
            quiet,
        }
    }

    /// The settings that give the same experiment, whatever the environment is now.
    fn settings(&self) -> Settings {
        Settings { set: self.set.clone(), environment: Some(self.environment.clone()) }
    }

    /// Checks that the experiment file has not changed since the sweep in `folder`.
    ///
    /// # Errors
    /// If it has changed or cannot be read, as text for the user.
    pub fn check(&self, folder: &Path) -> Result<(), String> {
        if is_capsule(&self.file) && self.file.exists() {
            // A capsule's digests say whether its files have changed.
            return Ok(());
        }
        // The copy in the sweep's folder, since the file itself may have changed without a trace.
        let then = fs::read(folder.join("experiment.yaml")).ok();
        let now = self.settings().read(&self.file).map_err(|error| error.to_string())?;
        match then.is_some_and(|then| then == now.source().as_bytes()) {
            true => Ok(()),
            false => Err(format!(
                "{} has changed since the sweep in {}\n  undo the change: the original is \
                 experiment.yaml in that folder",
                self.file.display(),
                folder.display()
            )),
        }
    }
}
