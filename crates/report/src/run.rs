//! One run, read from its folder.

use crate::{
    ClientRow, Error, IntervalRow, LinkRow, MessageTimes, ProgramValueRow, Status, Summary,
    Topology, UsageRow,
};
use crate::{clients, intervals, links, messages, program_values, usage};
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
    /// Facts about the machine, the version and the course of the run; `None` if `run.json` is
    /// missing or damaged.
    pub facts: Option<RunFacts>,
    /// Topology.
    pub topology: Topology,
    /// Missing or damaged files.
    pub notes: Vec<String>,
}

impl Run {
    /// Reads a run folder. Only the summary is required; other missing files leave a note.
    ///
    /// # Errors
    /// If the summary is missing, damaged or of another format.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join("summary.json");
        let summary = Summary::from_json(&read_text(&path)?)
            .map_err(|source| Error::Json { path, source })?;
        Ok(Self::with_summary(folder, summary))
    }

    /// A run with a given summary.
    pub(crate) fn with_summary(folder: &Path, summary: Summary) -> Self {
        let mut run = Self { folder: folder.to_owned(), summary, ..Self::default() };
        match run_facts(folder) {
            Ok(facts) => run.facts = Some(facts),
            Err(error) => run.notes.push(error.to_string()),
        }
        run.check_files();
        run.topology = Topology::of(&run.json("plan.json"));
        // Both files have the verdict, but the summary of an earlier version may lack parts of it.
        if let Some(facts) = &run.facts {
            let (verdict, measured) = (&facts.verdict, &mut run.summary.verdict);
            if measured.status == Status::Unknown {
                measured.clone_from(verdict);
            } else if measured.evidence.is_empty() {
                measured.evidence.clone_from(&verdict.evidence);
            }
        }
        run
    }

    /// Notes which files are not those of the end of the run.
    fn check_files(&mut self) {
        // Earlier versions kept no list.
        let Some(files) = self.facts.as_ref().and_then(|facts| facts.files.as_ref()) else {
            return;
        };
        let damage = files.damage(&self.folder).into_iter();
        self.notes.extend(damage.map(|damage| format!("damaged: {damage}")));
    }

    /// The cell and the repeat, as text.
    pub fn name(&self) -> String {
        format!("{} #{}", self.summary.cell.label(), self.summary.repeat)
    }

    /// Times of all messages, from `messages.parquet`.
    ///
    /// # Errors
    /// If the table is missing or damaged.
    pub fn messages(&self) -> Result<Vec<MessageTimes>, Error> {
        messages::read(&self.folder.join("messages.parquet"))
    }

    /// Usage by node and second, from `nodes.parquet`.
    ///
    /// # Errors
    /// If the table is missing or damaged.
    pub fn usage(&self) -> Result<Vec<UsageRow>, Error> {
        usage::read(&self.folder.join("nodes.parquet"))
    }

    /// Clients of brokers, from `clients.parquet`.
    ///
    /// # Errors
    /// If the table is missing, as in runs without clients, or damaged.
    pub fn clients(&self) -> Result<Vec<ClientRow>, Error> {
        clients::read(&self.folder.join("clients.parquet"))
    }

    /// Link measurements, from `links.parquet`.
    ///
    /// # Errors
    /// If the table is missing or damaged.
    pub fn links(&self) -> Result<Vec<LinkRow>, Error> {
        links::read(&self.folder.join("links.parquet"))
    }

    /// Link measurements by interval, from `intervals.parquet`.
    ///
    /// # Errors
    /// If the table is missing, as in runs of earlier versions, or damaged.
    pub fn intervals(&self) -> Result<Vec<IntervalRow>, Error> {
        intervals::read(&self.folder.join("intervals.parquet"))
    }

    /// Values of programs' metrics, from `metrics.parquet`.
    ///
    /// # Errors
    /// If the table is missing, as in runs without metrics, or damaged.
    pub fn program_values(&self) -> Result<Vec<ProgramValueRow>, Error> {
        program_values::read(&self.folder.join("metrics.parquet"))
    }

    /// Whether programs of this run have metrics.
    pub(crate) fn has_program_values(&self) -> bool {
        !self.summary.programs().is_empty() && self.folder.join("metrics.parquet").exists()
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

/// Reads the `run.json` of a run.
///
/// # Errors
/// When it is missing, damaged, or of a newer version.
pub fn run_facts(folder: &Path) -> Result<RunFacts, Error> {
    let path = folder.join("run.json");
    RunFacts::from_json(&read_text(&path)?).map_err(|source| Error::Json { path, source })
}

pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    input::read_to_string(path, input::MAX_DATA)
        .map_err(|source| Error::Read { path: path.to_owned(), source })
}
