//! One run, read from its folder.

use crate::{
    ClientRow, Error, IntervalRow, LinkRow, MessageTimes, Status, Summary, Topology, UsageRow,
};
use crate::{clients, intervals, links, messages, usage};
use record::RunFacts;
use serde_json::Value;
use std::path::{Path, PathBuf};

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
    pub facts: RunFacts,
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
        run.facts = run.facts();
        run.topology = Topology::of(&run.json("plan.json"));
        // Both files have the verdict, but the summary of an earlier version may lack parts of it.
        let verdict = &mut run.summary.verdict;
        if verdict.status == Status::Unknown {
            *verdict = run.facts.verdict.clone();
        } else if verdict.evidence.is_empty() {
            verdict.evidence.clone_from(&run.facts.verdict.evidence);
        }
        run
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

    /// The content of `run.json`; the default if it is missing or damaged.
    fn facts(&mut self) -> RunFacts {
        match self.json(RunFacts::FILE) {
            Value::Null => RunFacts::default(),
            value => serde_json::from_value(value).unwrap_or_else(|source| {
                let path = self.folder.join(RunFacts::FILE);
                self.notes.push(Error::Json { path, source }.to_string());
                RunFacts::default()
            }),
        }
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
