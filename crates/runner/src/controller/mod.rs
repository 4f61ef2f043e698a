//! The controller of a bed's programs: starts them, gives the start signal, reads their messages and
//! stops them. `up` and `run` both use it.

#[cfg(test)]
mod event_tests;
mod events;
#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod sequence_tests;
mod stop;
#[cfg(test)]
mod tests;

use crate::bed::environment::{Environment, LEAD, News};
use crate::bed::faults::Faults;
use crate::bed::jobs::{Job, Role, State};
use crate::error::Error;
use crate::progress::{Phase, Progress, ProgressSink};
use measure::Failure;
use record::control::Command;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use units::{Instant, Span};

/// Number of DHCP clients that ask at the same time. They broadcast, so each of n questions reaches n
/// nodes, and a server's socket has room for some hundred.
const CLIENTS: usize = 16;

/// A bed with its running programs.
pub(crate) struct Controller<'a, B> {
    pub bed: B,
    pub jobs: Vec<Job>,
    /// Faults injected into programs.
    pub faults: Faults,
    /// Failures since the start signal.
    pub failures: Vec<Failure>,
    /// Why contention ends the run early, with `contention: abort`.
    pub contended: Option<String>,
    /// Time of offset 0 of the schedules.
    pub start: Option<Instant>,
    pub phase: Phase,
    /// Latest end of the phase.
    pub until: Option<Instant>,
    /// Number of answers that the schedules should produce.
    pub expected: u64,
    /// Folder of the programs' logs.
    logs: PathBuf,
    interrupted: &'a AtomicBool,
    watch: &'a mut dyn ProgressSink,
}

impl<'a, B: Environment> Controller<'a, B> {
    /// The controller of the programs of `bed` and of `workloads`, none of them started.
    pub(crate) fn new(
        mut bed: B,
        workloads: Vec<Job>,
        faults: Faults,
        logs: PathBuf,
        interrupted: &'a AtomicBool,
        watch: &'a mut dyn ProgressSink,
    ) -> Self {
        let mut jobs = bed.own_jobs();
        jobs.extend(workloads);
        Self {
            bed,
            jobs,
            faults,
            failures: Vec::new(),
            contended: None,
            start: None,
            phase: Phase::Up,
            until: None,
            expected: 0,
            logs,
            interrupted,
            watch,
        }
    }

    /// Starts all programs that take part in the set-up and waits until they are ready.
    ///
    /// # Errors
    /// When one fails, or when some are not ready after `limit`.
    pub(crate) fn set_up(&mut self, limit: Span) -> Result<(), Error> {
        self.phase = Phase::SetUp;
        self.until = Some(self.bed.now() + limit);
        // Services start first, then the programs that ask for an address, then the workloads.
        self.start_all(limit, usize::MAX, Job::serves)?;
        self.start_all(limit, CLIENTS, |job| job.role == Role::Client)?;
        self.start_all(limit, usize::MAX, |job| job.role == Role::Node)?;
        self.start_all(limit, usize::MAX, |job| job.has_control() && !job.serves())
    }

    /// Starts the programs that `these` selects, `most` of them at the same time, and waits until
    /// they are ready.
    fn start_all(
        &mut self,
        limit: Span,
        most: usize,
        these: impl Fn(&Job) -> bool,
    ) -> Result<(), Error> {
        let selected = |(id, job): (usize, &Job)| these(job).then_some(id);
        let mut coming = self.jobs.iter().enumerate().filter_map(selected).collect::<Vec<_>>();
        // Taken from the end, so that programs start in the plan's order.
        coming.reverse();
        let waits = |job: &Job| these(job) && job.state == State::Starting;
        loop {
            let starting = self.jobs.iter().filter(|job| waits(job) && job.is_started).count();
            for _ in starting..most {
                let Some(at) = coming.iter().rposition(|id| !self.is_blocked(*id)) else { break };
                self.start(coming.remove(at))?;
            }
            self.look()?;
            for job in self.jobs.iter_mut().filter(|job| waits(job)) {
                let is_checked = matches!(job.role, Role::Node | Role::Service);
                // One that a user has stopped before its start is waited for no longer.
                let is_begun = job.is_started || job.asked_to_end;
                let has_settled = job.has_settled(self.bed.now());
                if is_checked && is_begun && has_settled && self.bed.is_ready(job) {
                    job.state = State::Ready;
                }
            }
            if !self.jobs.iter().any(waits) {
                return Ok(());
            }
            if self.is_interrupted() {
                return Err(Error::Interrupted);
            }
            if self.until.is_some_and(|deadline| self.bed.now() > deadline) {
                return Err(self.not_ready(limit, waits));
            }
        }
    }

    /// Whether a program waits for others that are not ready.
    fn is_blocked(&self, id: usize) -> bool {
        let after = &self.jobs[id].after;
        let awaited = |job: &Job| job.role == Role::Node && after.contains(&job.node);
        !after.is_empty()
            && self.jobs.iter().any(|job| awaited(job) && job.state == State::Starting)
    }

    /// Starts a program, unless its node was destroyed before.
    fn start(&mut self, id: usize) -> Result<(), Error> {
        let job = &mut self.jobs[id];
        if job.is_alive() && !job.asked_to_end {
            self.bed.start(id, job)?;
            job.is_started = true;
        }
        Ok(())
    }

    /// The error that names the programs which still wait.
    fn not_ready(&self, limit: Span, waits: impl Fn(&Job) -> bool) -> Error {
        let missing = || self.jobs.iter().filter(|job| waits(job));
        // Those that wait for others are not the reason.
        let reasons = || missing().filter(|job| job.is_started);
        let names: Vec<_> = reasons().take(3).map(|job| job.name.as_str()).collect();
        let more = if missing().count() > names.len() { ", ..." } else { "" };
        let first = self.jobs.iter().position(|job| waits(job) && job.is_started);
        let first = first.unwrap_or_default();
        Error::NotReady {
            missing: missing().count(),
            all: self.jobs.len(),
            limit,
            names: names.join(", ") + more + &awaited(&self.jobs[first]),
            words: self.output_of(first),
            logs: self.logs.clone(),
        }
    }

    /// Gives the start signal; returns the time of offset 0.
    ///
    /// # Errors
    /// When an impairment or a program cannot be started.
    pub(crate) fn begin(&mut self) -> Result<Instant, Error> {
        // Impairments begin after the set-up, which they must not slow down or let fail, and before
        // the first message.
        self.bed.begin()?;
        self.phase = Phase::Load;
        let start = self.bed.now() + LEAD;
        self.start = Some(start);
        self.watch.begun(start);
        for id in 0..self.jobs.len() {
            match self.jobs[id].role {
                Role::Source | Role::Sink | Role::Mqtt => {
                    self.bed.send(id, Command::Start { at_ns: start.as_ns() });
                }
                Role::Command | Role::Background => self.start(id)?,
                Role::Node | Role::Service | Role::Client | Role::Collector => {}
            }
        }
        Ok(start)
    }

    /// Waits briefly, then handles all pending requests, messages and events.
    ///
    /// # Errors
    /// When a program fails before the start signal.
    pub(crate) fn look(&mut self) -> Result<(), Error> {
        let news = self.bed.wait();
        self.bed.serve(&mut self.jobs, &mut self.faults);
        for news in news {
            match news {
                News::Message { id, status } => self.on_message(id, status)?,
                News::Event(event) => self.on_event(event)?,
            }
        }
        self.report();
        Ok(())
    }

    /// Injects the faults that are due now.
    ///
    /// # Errors
    /// When a program cannot be started again.
    pub(crate) fn inject_due_faults(&mut self) -> Result<(), Error> {
        // The start signal is given before offset 0, from which faults count.
        let since = self.start.and_then(|start| self.bed.now().checked_since(start));
        let Some(since) = since else { return Ok(()) };
        self.faults.turn(since, &mut self.bed, &mut self.jobs)
    }

    /// Whether the user stopped it.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }

    /// Messages that the programs sent and received so far.
    pub(crate) fn messages(&self) -> u64 {
        self.jobs.iter().map(|job| job.progress.0 + job.progress.1).sum()
    }

    fn report(&mut self) {
        let now = self.bed.now();
        let ready = self.jobs.iter().filter(|job| job.state != State::Starting).count();
        self.watch.progress(&Progress {
            phase: self.phase,
            // Differences saturate (decision 106): 0 before the start signal.
            elapsed: now - self.start.unwrap_or(Instant::NEVER),
            most: self.until.map(|until| until - now),
            missing: self.missing(),
            ready: (ready, self.jobs.len()),
            sent: self.jobs.iter().map(|job| job.progress.0).sum(),
            replies: self.jobs.iter().map(|job| job.progress.1).sum(),
            expected: self.expected,
            frames: self.bed.frames().sent,
        });
    }

    /// The names of the first two programs that are not ready.
    fn missing(&self) -> String {
        if self.phase != Phase::SetUp {
            return String::new();
        }
        // Commands start with the schedule.
        let starting = |job: &&Job| job.state == State::Starting && job.role != Role::Command;
        let mut names = self.jobs.iter().filter(starting);
        let first: Vec<_> = names.by_ref().take(2).map(|job| job.name.as_str()).collect();
        first.join(", ") + if names.next().is_some() { ", ..." } else { "" }
    }

    /// The last output of a job and of the job that it relies on.
    fn output_of(&self, id: usize) -> String {
        let words = [self.jobs[id].last_output(), self.output_of_other(id)];
        words.join("\n").trim().to_owned()
    }

    /// The last output of the program on the node that job `id` relies on.
    fn output_of_other(&self, id: usize) -> String {
        let other = self.jobs[id].relies_on;
        let jobs = self.jobs.iter().filter(|job| Some(job.node) == other);
        let lines = jobs.flat_map(|job| {
            let words = job.last_output();
            let lines: Vec<_> =
                words.lines().map(|line| format!("{} said: {line}", job.name)).collect();
            lines
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// The condition that a program waits for.
fn awaited(job: &Job) -> String {
    job.ready.as_ref().map_or(String::new(), |ready| format!(" (ready when {ready})"))
}
