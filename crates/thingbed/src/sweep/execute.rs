//! Execution of a sweep's runs.

use super::definition::{Sweep, name, word, write};
use super::prepare::{Prepared, prepare};
use crate::arguments::Run;
use crate::capsule;
use crate::jobs;
use crate::layout::{REJECTED, SLURM};
use crate::live::PageProcess;
use crate::lock;
use crate::outcome::{Outcome, status_of};
use crate::progress::Screen;
use crate::provenance::{Provenance, Timing};
use crate::remaining_time::RemainingTime;
use crate::resume::{self, RunState};
use crate::show;
use crate::slurm;
use crate::trust::Trust;
use crate::{Status, complain, remark};
use experiment::{Cell, Clock};
use indicatif::MultiProgress;
use record::Summary;
use runner::{Error, Finished};
use serde::Deserialize;
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Runs an experiment and shows its results.
pub fn run(arguments: &Run) -> Status {
    have(arguments).0
}

/// Runs an experiment without showing its results.
pub(crate) fn again(arguments: &Run) -> (Status, Option<PathBuf>) {
    run_of(arguments, false)
}

/// Runs an experiment; also returns the folder of its runs, if there are any.
pub(crate) fn have(arguments: &Run) -> (Status, Option<PathBuf>) {
    run_of(arguments, true)
}

/// Executes the runs of an experiment or a capsule.
fn run_of(arguments: &Run, shown: bool) -> (Status, Option<PathBuf>) {
    let opened = match capsule::opened(arguments) {
        Ok(opened) => opened,
        Err(error) => {
            complain(error);
            return (Status::Wrong, None);
        }
    };
    let (arguments, capsule) = match &opened {
        Some((arguments, capsule)) => (arguments, Some(capsule)),
        None => (arguments, None),
    };
    match prepare(arguments, capsule) {
        Ok(prepared) => prepared.run(shown),
        Err(status) => (status, None),
    }
}

impl Prepared<'_> {
    /// Executes all runs, while no other process writes to the folder.
    pub fn run(&self, shown: bool) -> (Status, Option<PathBuf>) {
        // Until the end: two processes with one sweep moved each other's runs away (decision 60).
        let _lock = match lock::take(&self.folder) {
            Ok(lock) => lock,
            Err(error) => {
                complain(error);
                return (Status::Failed, None);
            }
        };
        // After the lock, so that a second process does not open a page for a sweep that it must
        // not run.
        let page = match self.arguments.watch.as_ref().map(PageProcess::start).transpose() {
            Ok(page) => page,
            Err(error) => {
                complain(error);
                return (Status::Failed, None);
            }
        };
        if let Some(page) = &page {
            remark(format_args!("page: {}", page.url));
        }
        let status = self.sweep().run(&self.runs(), shown);
        (status, Some(self.folder.clone()))
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// Advice for runs in virtual time in which Thingbed itself was too slow.
const SLOW_CPU: &str = "Thingbed shares the CPU of virtual time with the nodes, and was too slow on \
                        it, so those figures may be Thingbed's and not the system's. Use a higher \
                        --cpu, or --cpu infinite.";

impl Sweep<'_> {
    fn run(&self, runs: &[(u32, &Cell)], shown: bool) -> Status {
        // A sweep that may get further runs needs a folder for each, also if it begins with one.
        let anew = self.arguments.resume.is_none() && self.arguments.retry == 0;
        let single = runs.len() == 1 && anew && self.arguments.on.is_none();
        let title = |n: usize| format!("[{}/{}] {}", n + 1, runs.len(), name(runs[n].1, runs[n].0));
        let mut outcomes = self.finished_before(runs, &title);
        let is_missing = |n: &usize| outcomes.iter().all(|outcome| outcome.n != *n);
        let todo: Vec<usize> = (0..runs.len()).filter(is_missing).collect();
        let jobs = self.jobs().min(todo.len());
        let is_virtual = self.arguments.clock(self.experiment) == Clock::Virtual;
        let remaining = Mutex::new(match is_virtual {
            true => RemainingTime::virtual_time(todo.len(), jobs),
            false => RemainingTime::real(todo.iter().map(|n| self.schedule(&runs[*n]))),
        });
        let remaining = || remaining.lock().unwrap_or_else(PoisonError::into_inner);
        let bars = (jobs > 1).then(MultiProgress::new);
        let screen = |title: &str, left| {
            let (title, quiet) = (title.to_owned(), self.arguments.quiet);
            let bars = bars.clone();
            move || match &bars {
                Some(bars) => Screen::among(bars, &title, quiet, left),
                None => Screen::new(&title, quiet, left),
            }
        };
        let one = |n: usize| {
            let (began, left) = (Instant::now(), remaining().left());
            let run = self.repeatedly(runs[n], single, &screen(&title(n), left));
            remaining().ended(began.elapsed());
            (run, began.elapsed())
        };
        let mut unwritten = false;
        let mut provenance = is_virtual.then(|| Provenance::of(self));
        let ended = |n: usize, (run, took): slurm::Ended| {
            if let (Some(provenance), Ok(run)) = (&mut provenance, &run) {
                let (repeat, cell) = runs[n];
                let timing = Timing::of(cell, repeat, took, &run.folder);
                timing.into_iter().for_each(|timing| provenance.add(timing));
                if let Err(error) = provenance.write(&self.folder) {
                    complain(error);
                    unwritten = true;
                }
            }
            // An error that all further runs would meet, such as a full disk.
            let ends = run.as_ref().is_err_and(Error::ends_sweep);
            outcomes.push(Outcome::of(n, run));
            outcomes.sort_by_key(|outcome| outcome.n);
            // After each run: a killed sweep keeps its results, and the report can be drawn
            // meanwhile.
            if let Err(error) = self.keep(&self.all(&outcomes), single) {
                complain(error);
                unwritten = true;
            }
            match ends || unwritten || self.interrupted.load(Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        if self.arguments.on.is_none() {
            jobs::each(jobs, todo, one, ended);
        } else if let Err(error) =
            // Tasks read the sweep's options from this file, so it exists before the first is
            // submitted.
            self.begin_elsewhere().and_then(|()| self.on_slurm(runs, &todo, ended))
        {
            complain(error);
            unwritten = true;
        }
        let mut status = status_of(&outcomes);
        // Also if the interrupt came between two runs, so that no run was interrupted.
        if self.interrupted.load(Relaxed) && outcomes.len() < runs.len() {
            status = Status::Interrupted;
        }
        let summaries = self.all(&outcomes);
        // If all runs were finished before, no file has been written yet.
        if self.arguments.resume.is_some()
            && let Err(error) = self.keep(&summaries, single)
        {
            complain(error);
            unwritten = true;
        }
        if unwritten && status != Status::Interrupted {
            status = Status::Failed;
        }
        // Callers of `again` draw something else from the same folder.
        if !shown {
            return status;
        }
        self.end(&summaries, status)
    }

    /// The complete runs of a resumed sweep; says which ones are damaged.
    fn finished_before(
        &self,
        runs: &[(u32, &Cell)],
        title: &dyn Fn(usize) -> String,
    ) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for (n, (repeat, cell)) in runs.iter().enumerate() {
            match self.finished(cell, *repeat) {
                RunState::Complete(finished) => {
                    if !self.arguments.quiet {
                        remark(format_args!("{}  finished before", title(n)));
                    }
                    outcomes.push(Outcome { n, interrupted: false, summary: Ok(finished) });
                }
                RunState::Damaged(text) => {
                    remark(format_args!("{}  runs again: {text}", title(n)));
                }
                RunState::Absent | RunState::CutShort => {}
            }
        }
        outcomes
    }

    /// Writes the file that a process on another node needs to execute runs of this sweep.
    fn begin_elsewhere(&self) -> Result<(), Error> {
        Provenance::of(self).write(&self.folder)
    }

    /// Number of parallel runs: one in real time, in which parallel runs disturb each other.
    fn jobs(&self) -> usize {
        match self.arguments.clock(self.experiment) {
            Clock::Real => 1,
            Clock::Virtual => self.arguments.jobs.map_or_else(cores, |jobs| jobs as usize),
        }
    }

    /// Duration of a run's schedule.
    fn schedule(&self, (repeat, cell): &(u32, &Cell)) -> Duration {
        let plan = self.plan(cell, *repeat);
        plan.map_or(Duration::ZERO, |plan| Duration::from_nanos(plan.duration.as_ns()))
    }

    /// State of a run of the resumed sweep; none for a new sweep, and for invalid runs with
    /// `--retry`, which are repeated.
    fn finished(&self, cell: &Cell, repeat: u32) -> RunState {
        if self.arguments.resume.is_none() {
            return RunState::Absent;
        }
        let is_invalid =
            |summary: &Value| Summary::verdict_in(summary).status == record::Status::Invalid;
        match resume::state(&self.folder.join(name(cell, repeat))) {
            RunState::Complete(summary) if self.arguments.retry > 0 && is_invalid(&summary) => {
                RunState::Absent
            }
            state => state,
        }
    }

    /// Repeats a cell's run while it is invalid, at most `--retry` times. Moves invalid runs to
    /// `rejected`.
    fn repeatedly(
        &self,
        (repeat, cell): (u32, &Cell),
        single: bool,
        screen: &dyn Fn() -> Screen,
    ) -> Result<Finished, Error> {
        let folder = self.folder.join(name(cell, repeat));
        let slurm = self.folder.join(SLURM);
        // A task of a cluster may still execute this run of a sweep that was killed.
        let _lock = match slurm.exists() {
            true => lock::of_run(&slurm, &name(cell, repeat))
                .map_err(|text| Error::Guest { text, ends_sweep: false })?,
            false => None,
        };
        // A complete run that is repeated is an invalid one (see `finished`).
        if self.arguments.retry > 0 && resume::had(&folder).is_some() {
            resume::put_aside(&folder, REJECTED)?;
        }
        let mut number = 0;
        loop {
            let (mut screen, began) = (screen(), Instant::now());
            let finished = match self.one(cell, repeat, single, &mut screen) {
                Ok(finished) => finished,
                Err(error) => {
                    screen.end("failed");
                    return Err(error);
                }
            };
            // In virtual time a repeated run has the same verdict.
            let real = self.arguments.clock(self.experiment) == Clock::Real;
            let invalid = real && finished.verdict.status == record::Status::Invalid;
            let mut word = word(&finished);
            if !real
                && let Some(timing) = Timing::of(cell, repeat, began.elapsed(), &finished.folder)
            {
                word += &format!("; {}", timing.text());
            }
            // The last attempt stays in place, so that the sweep has a run for the cell, with its
            // verdict.
            if !invalid || number == self.arguments.retry || finished.interrupted {
                screen.end(&word);
                return Ok(finished);
            }
            number += 1;
            screen.end(&format!("{word}; retry {number} of {}", self.arguments.retry));
            resume::put_aside(&folder, REJECTED)?;
        }
    }

    /// The summaries of the runs so far.
    fn all(&self, outcomes: &[Outcome]) -> Vec<Value> {
        let mut all: Vec<Value> =
            outcomes.iter().filter_map(|outcome| outcome.summary.as_ref().ok().cloned()).collect();
        if self.arguments.resume.is_some() {
            // With `--only` a resumed sweep executes some cells; the report shows all that are in
            // the folder.
            all.extend(resume::others(&self.folder, &all));
        }
        all
    }

    /// The summaries for expectations: with several CPUs, those of the first CPU.
    fn expected_of(&self, summaries: &[Value]) -> Vec<Value> {
        let first = self.arguments.cpus()[0];
        let counts = |summary: &&Value| {
            let cell = Cell::deserialize(&summary["cell"]).unwrap_or_default();
            cell.cpu().is_none_or(|cpu| cpu == first)
        };
        summaries.iter().filter(counts).cloned().collect()
    }

    /// Writes the results so far, so that a killed sweep keeps them.
    fn keep(&self, summaries: &[Value], single: bool) -> Result<(), Error> {
        if !single {
            write(&self.folder.join("summary.json"), summaries)?;
        }
        if !self.experiment.expect.is_empty() {
            let outcomes =
                experiment::evaluate(&self.experiment.expect, &self.expected_of(summaries));
            write(&self.folder.join("expect.json"), &outcomes)?;
        }
        Ok(())
    }

    fn end(&self, summaries: &[Value], status: Status) -> Status {
        if summaries.is_empty() {
            remark(format_args!(
                "no results; the output of the programs is in {}",
                self.folder.display()
            ));
            return status;
        }
        let junit = self.arguments.junit.as_deref();
        let page = self.folder.join("report.html");
        match show::draw(&self.folder, &page, junit, self.arguments.format) {
            Ok(sweep) => {
                if let Err(error) = show::summarize_job(&sweep) {
                    remark(format_args!("warning: no summary for the GitHub job: {error}"));
                }
            }
            Err(error) => {
                complain(error);
                return status.max(Status::Failed);
            }
        }
        let mut trust = Trust::default();
        summaries.iter().for_each(|summary| trust.add(summary));
        let (again, page) = (self.again(), page.display().to_string());
        let advice = trust.advice(&again, || self.in_virtual_time(), &page);
        let advice = match self.arguments.clock(self.experiment) {
            Clock::Real => advice,
            // A repeated run would have the same verdict.
            Clock::Virtual => advice.map(|_| SLOW_CPU.to_owned()),
        };
        if let Some(advice) = advice {
            remark(format_args!("\n{advice}"));
        }
        let outcomes = experiment::evaluate(&self.experiment.expect, &self.expected_of(summaries));
        let failed = outcomes.iter().any(|o| o.status == experiment::Status::Fail);
        match status {
            Status::Fine if failed => Status::Unexpected,
            status => status,
        }
    }
}
