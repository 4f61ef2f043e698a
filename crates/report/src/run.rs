//! One run, read from its folder.

use crate::{
    ClientRow, Error, IntervalRow, LinkRow, MessageTimes, Status, Summary, Topology, UsageRow,
    Verdict,
};
use crate::{clients, intervals, links, messages, usage};
use journal::Contents;
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Facts about the machine and the version of a run, from `run.json`.
#[derive(Debug, Clone, Default)]
pub struct Facts(Value);

/// A phase of a run, in seconds from its start.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Start, s.
    #[serde(default)]
    pub start_s: Option<f64>,
    /// End, s.
    #[serde(default)]
    pub end_s: Option<f64>,
}

impl Facts {
    /// A fact as text; `None` if it is missing.
    pub fn text(&self, key: &str) -> Option<String> {
        match self.0.get(key)? {
            Value::Null => None,
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            value => Some(value.to_string()),
        }
    }

    /// The phases; empty if they are missing.
    pub fn phases(&self) -> Vec<Phase> {
        let phases = self.0.get("phases").and_then(Value::as_array);
        let phases = phases.into_iter().flatten();
        phases.filter_map(|phase| Phase::deserialize(phase).ok()).collect()
    }

    fn verdict(&self) -> Option<Verdict> {
        Verdict::deserialize(self.0.get("verdict")?).ok()
    }
}

/// One execution of a plan.
///
/// Tables are read on demand: those of a sweep would not fit in memory.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Folder of the run.
    pub folder: PathBuf,
    /// Metrics.
    pub summary: Summary,
    /// Facts about the machine and the version.
    pub facts: Facts,
    /// Topology.
    pub topology: Topology,
    /// Missing or damaged files.
    pub notes: Vec<String>,
}

impl Run {
    /// Reads a run folder. Only the summary is required; other missing files leave a note.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("summary.json");
        let summary = Summary::from_json(&read_text(&path)?)
            .map_err(|source| Error::Json { path, source })?;
        Ok(Self::with_summary(folder, summary))
    }

    /// A run with a given summary.
    pub(crate) fn with_summary(folder: &Path, summary: Summary) -> Self {
        let mut run = Self { folder: folder.to_owned(), summary, ..Self::default() };
        run.facts = Facts(run.json("run.json"));
        run.check_files();
        run.topology = Topology::of(&run.json("plan.json"));
        // Both files have the verdict, but the summary of an earlier version may lack parts of it.
        if let Some(verdict) = run.facts.verdict() {
            let measured = &mut run.summary.verdict;
            if measured.status == Status::Unknown {
                *measured = verdict;
            } else if measured.evidence.is_empty() {
                measured.evidence = verdict.evidence;
            }
        }
        run
    }

    /// Notes which files are not those of the end of the run.
    fn check_files(&mut self) {
        // Earlier versions kept no list.
        let Some(files) = self.facts.0.get("files").filter(|files| !files.is_null()) else {
            return;
        };
        match Contents::deserialize(files) {
            Ok(files) => {
                let damage = files.damage(&self.folder).into_iter();
                self.notes.extend(damage.map(|damage| format!("damaged: {damage}")));
            }
            Err(error) => {
                self.notes.push(format!("damaged: the list of files in run.json: {error}"))
            }
        }
    }

    /// The cell and the repeat, as text.
    pub fn name(&self) -> String {
        format!("{} #{}", self.summary.cell, self.summary.repeat)
    }

    /// Times of all messages, from `messages.parquet`.
    pub fn messages(&self) -> Result<Vec<MessageTimes>, Error> {
        messages::read(&self.folder.join("messages.parquet"))
    }

    /// Usage by node and second, from `nodes.parquet`.
    pub fn usage(&self) -> Result<Vec<UsageRow>, Error> {
        usage::read(&self.folder.join("nodes.parquet"))
    }

    /// Clients of brokers, from `clients.parquet`.
    pub fn clients(&self) -> Result<Vec<ClientRow>, Error> {
        clients::read(&self.folder.join("clients.parquet"))
    }

    /// Link measurements, from `links.parquet`.
    pub fn links(&self) -> Result<Vec<LinkRow>, Error> {
        links::read(&self.folder.join("links.parquet"))
    }

    /// Link measurements by interval, from `intervals.parquet`.
    pub fn intervals(&self) -> Result<Vec<IntervalRow>, Error> {
        intervals::read(&self.folder.join("intervals.parquet"))
    }

    fn json(&mut self, name: &str) -> Value {
        let path = self.folder.join(name);
        let read = read_text(&path).and_then(|text| {
            serde_json::from_str(&text).map_err(|source| Error::Json { path, source })
        });
        read.unwrap_or_else(|error| {
            self.notes.push(error.to_string());
            Value::Null
        })
    }
}

pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}
