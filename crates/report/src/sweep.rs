//! The runs of an experiment, read from their folder.

use crate::cut;
use crate::run::read_text;
use crate::{Cell, Check, Error, Reference, Run, Spread, Status, Summary, format};
use record::Clock;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// The runs of an experiment, with reference and expectations.
#[derive(Debug, Clone, Default)]
pub struct Sweep {
    /// Folder of the sweep or run.
    pub folder: PathBuf,
    /// The runs, grouped by cell, in the order of their repeats.
    pub runs: Vec<Run>,
    /// Reference values to compare with.
    pub reference: Option<Reference>,
    /// Results of the experiment's expectations.
    pub checks: Vec<Check>,
    /// Missing or damaged files.
    pub notes: Vec<String>,
}

/// The repeats of one cell.
#[derive(Debug, Clone)]
pub struct CellRuns<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Its runs.
    pub runs: Vec<&'a Run>,
}

impl CellRuns<'_> {
    /// A metric over the repeats. Uses failed and invalid runs only if there are no others.
    pub fn spread(&self, figure: impl Fn(&Summary) -> Option<f64>) -> Option<Spread> {
        let usable = |run: &&&Run| run.summary.verdict.status < Status::Failed;
        let some_usable = self.runs.iter().any(|run| usable(&run));
        // If all repeats failed, their figures help to see why.
        let counted = self.runs.iter().filter(|run| !some_usable || usable(run));
        Spread::of(counted.filter_map(|run| figure(&run.summary)))
    }

    /// The worst status of the repeats.
    pub fn status(&self) -> Status {
        worst(&self.runs)
    }
}

impl Sweep {
    /// Reads a sweep's folder, or that of a single run.
    ///
    /// # Errors
    /// If the folder cannot be read, or has no run with a summary.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let mut sweep = Self { folder: folder.to_owned(), ..Self::default() };
        let own = read_text(&folder.join("summary.json")).ok();
        // A run's summary is an object, a sweep's a list of them.
        if own.as_ref().is_some_and(|text| text.trim_start().starts_with('{')) {
            sweep.runs = vec![Run::read(folder)?];
        } else {
            let list = own.map(|text| Summary::list_from_json(&text)).transpose();
            let list = list.unwrap_or_else(|error| {
                sweep.notes.push(format!("the sweep's summary.json is damaged: {error}"));
                None
            });
            sweep.read_runs(&list.unwrap_or_default())?;
        }
        // Repeating until a run is valid selects runs; the reader must know.
        let rejected = std::fs::read_dir(folder.join("rejected")).map_or(0, Iterator::count);
        if rejected > 0 {
            let (runs, were) = if rejected == 1 { ("run", "was") } else { ("runs", "were") };
            sweep.notes.push(format!(
                "{rejected} invalid {runs} {were} rejected and repeated; see the folder `rejected`"
            ));
        }
        sweep.reference = sweep.optional_file("reference.json");
        sweep.checks = sweep.optional_file("expect.json").unwrap_or_default();
        Ok(sweep)
    }

    /// Reads the runs below the folder; takes missing ones from the list.
    fn read_runs(&mut self, list: &[Summary]) -> Result<(), Error> {
        let entries = std::fs::read_dir(&self.folder)
            .map_err(|source| Error::Read { path: self.folder.clone(), source })?;
        let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        folders.sort();
        let own = std::iter::once(&self.folder);
        // The folder itself too: a single run that was killed.
        let left = own.chain(&folders).filter(|folder| cut::is_cut(folder));
        self.notes.extend(left.map(|folder| cut::what_is_left(folder)));
        folders.retain(|f| f.join("summary.json").exists() || f.join("run.json").exists());
        folders.retain(|f| !cut::is_cut(f));
        for folder in folders {
            match Run::read(&folder) {
                Ok(run) => self.runs.push(run),
                Err(error) => self.notes.push(error.to_string()),
            }
        }
        // A run's folder may be removed or damaged; its figures are still in the list.
        for summary in list {
            let same = |run: &Run| {
                run.summary.cell == summary.cell && run.summary.repeat == summary.repeat
            };
            if !self.runs.iter().any(same) {
                let folder = self.folder.join(summary.cell.folder(summary.repeat));
                let mut run = Run::with_summary(&folder, summary.clone());
                run.notes.insert(0, "results come from the sweep's list only".to_owned());
                self.runs.push(run);
            }
        }
        if self.runs.is_empty() {
            return Err(Error::NoRuns {
                path: self.folder.clone(),
                notes: std::mem::take(&mut self.notes),
            });
        }
        self.sort(list);
        Ok(())
    }

    /// Sorts by the list, which has the order of the matrix; without a list, by the start of the
    /// first run of each cell.
    fn sort(&mut self, list: &[Summary]) {
        let started =
            |run: &Run| run.facts.as_ref().map(|facts| facts.started.clone()).unwrap_or_default();
        // By start first, to know in which order the cells began.
        self.runs.sort_by_cached_key(started);
        let started: Vec<Cell> = self.runs.iter().map(|run| run.summary.cell.clone()).collect();
        self.runs.sort_by_key(|run| {
            let cell = &run.summary.cell;
            let listed = list.iter().position(|summary| summary.cell == *cell);
            let started = started.iter().position(|other| other == cell);
            (listed.unwrap_or(usize::MAX), started, run.summary.repeat)
        });
    }

    fn optional_file<T: DeserializeOwned>(&mut self, name: &str) -> Option<T> {
        let path = self.folder.join(name);
        if !path.exists() {
            return None;
        }
        let read = read_text(&path).and_then(|text| {
            serde_json::from_str(&text).map_err(|source| Error::Json { path, source })
        });
        read.map_err(|error| self.notes.push(error.to_string())).ok()
    }

    /// The experiment's name.
    pub fn experiment(&self) -> &str {
        let mut names = self.runs.iter().map(|run| run.summary.experiment.as_str());
        names.find(|name| !name.is_empty()).unwrap_or("experiment")
    }

    /// The cells in order.
    pub fn cells(&self) -> Vec<CellRuns<'_>> {
        let mut cells: Vec<CellRuns<'_>> = Vec::new();
        for run in &self.runs {
            let cell = &run.summary.cell;
            match cells.iter_mut().find(|known| known.cell == cell) {
                Some(known) => known.runs.push(run),
                None => cells.push(CellRuns { cell, runs: vec![run] }),
            }
        }
        cells
    }

    /// The runs of all cells that match the values in `part`.
    pub fn matching<'a>(&'a self, part: &'a Cell) -> CellRuns<'a> {
        let runs = self.runs.iter().filter(|run| run.summary.cell.matches(part)).collect();
        CellRuns { cell: part, runs }
    }

    /// The names of all axes, in order.
    pub fn axes(&self) -> Vec<&str> {
        let mut axes = Vec::new();
        for (axis, _) in self.runs.iter().flat_map(|run| run.summary.cell.axes()) {
            if !axes.contains(&axis) {
                axes.push(axis);
            }
        }
        axes
    }

    /// The names of all groups, the smallest first: single nodes are usually the ones that the
    /// others talk to.
    pub fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for name in self.runs.iter().flat_map(|run| run.summary.groups()) {
            if !groups.contains(&name) {
                groups.push(name);
            }
        }
        let nodes = |name: &str| {
            let found =
                self.runs.iter().filter_map(|run| run.summary.group(name, record::Group::nodes));
            found.fold(0.0, f64::max) as u64
        };
        groups.sort_by_cached_key(|name| nodes(name));
        groups
    }

    /// The worst status of all runs.
    pub fn status(&self) -> Status {
        worst(&self.runs.iter().collect::<Vec<_>>())
    }

    /// Number of runs per status, as text.
    pub(crate) fn tally(&self) -> String {
        let all =
            [Status::Valid, Status::Suspect, Status::Unknown, Status::Failed, Status::Invalid];
        let count =
            |status| self.runs.iter().filter(|run| run.summary.verdict.status == status).count();
        let counts = all.iter().map(|&status| (count(status), status)).filter(|(n, _)| *n > 0);
        let counts: Vec<_> = counts.map(|(n, status)| format!("{n} {status}")).collect();
        let (runs, cells) = (self.runs.len(), self.cells().len());
        let (runs, cells) = (format::things(runs, "run"), format::things(cells, "cell"));
        let clock =
            |run: &Run| run.facts.as_ref().is_some_and(|facts| facts.clock == Clock::Virtual);
        let all_virtual = !self.runs.is_empty() && self.runs.iter().all(clock);
        let clock = if all_virtual { ", in virtual time" } else { "" };
        format!("{runs} in {cells}{clock}: {}", counts.join(", "))
    }

    /// All notes, with the name of their run.
    pub(crate) fn all_notes(&self) -> Vec<String> {
        let runs = self
            .runs
            .iter()
            .flat_map(|run| run.notes.iter().map(move |note| format!("{}: {note}", run.name())));
        self.notes.iter().cloned().chain(runs).collect()
    }
}

fn worst(runs: &[&Run]) -> Status {
    runs.iter().map(|run| run.summary.verdict.status).max().unwrap_or_default()
}

/// The first `most` names, and the number of the others.
pub(crate) fn first_names(names: &[String], most: usize) -> String {
    let more = names.len().saturating_sub(most);
    let text = names.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    if more == 0 { text } else { format!("{text} and {more} more") }
}
