//! The run controller: starts the programs, gives the start signal and waits for the end.

use crate::error::Error;
use crate::faults::Faults;
use crate::idle::{IdleTimeouts, IdleTimer};
use crate::jobs::{Job, Role, State};
use crate::live::{NodeApi, Pending, Requests, Shared};
use crate::ready::is_ready;
use engine::{Engine, monotonic_now};
use lab::Lab;
use measure::{Accounting, Failure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use record::control::{Command, Status};
use serde::{Deserialize, Serialize};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use units::Span;

/// The phase of a run, for progress output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Creates nodes and links.
    Up,
    /// Programs start and connect.
    SetUp,
    /// Runs the schedule.
    Load,
    /// The schedule is over; waits for outstanding answers.
    Drain,
    /// Stops the programs.
    Stop,
    /// Writes the results.
    Write,
}

/// Progress of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Current phase.
    pub phase: Phase,
    /// Time since the start signal; 0 before it.
    pub elapsed: Span,
    /// Upper bound of the phase's remaining time, if known.
    pub most: Option<Span>,
    /// Number of ready programs, and of all programs.
    pub ready: (usize, usize),
    /// Names of the first programs that are not ready, e.g. `meter-3, meter-4, ...`.
    pub missing: String,
    /// Messages sent so far.
    pub sent: u64,
    /// Answers received so far.
    pub replies: u64,
    /// Answers expected in all.
    pub expected: u64,
    /// Frames that the medium has forwarded.
    pub frames: u64,
}

impl Progress {
    /// The progress at the beginning of a run.
    pub(crate) fn creating() -> Self {
        Self {
            phase: Phase::Up,
            elapsed: Span::ZERO,
            most: None,
            ready: (0, 0),
            missing: String::new(),
            sent: 0,
            replies: 0,
            expected: 0,
            frames: 0,
        }
    }
}

/// Receives a run's progress.
pub trait ProgressSink {
    /// Called a few times a second.
    fn progress(&mut self, progress: &Progress);

    /// Called once, when the start signal is given: the schedule begins at `start_ns` of the
    /// monotonic clock, in the future.
    fn begun(&mut self, _start_ns: u64) {}
}

/// No-op sink.
impl ProgressSink for () {
    fn progress(&mut self, _: &Progress) {}
}

/// Polling interval for state without a file descriptor.
const TICK_MS: u16 = 100;
/// Delay between the first message of a program and the poll of all programs. A poll takes about 1
/// µs per program, so messages that arrive together are read together: polling then takes only a
/// few per cent of a CPU.
const TOGETHER: Duration = Duration::from_micros(50);
/// Time from the start signal to offset 0, so that the signal reaches hundreds of programs.
const LEAD_NS: u64 = 500_000_000;
/// Grace period for programs after the stop message, and again after SIGTERM.
const STOP_NS: u64 = 10_000_000_000;
const TERM_NS: u64 = 2_000_000_000;

/// A run in progress.
pub(crate) struct RunController<'a> {
    pub lab: &'a mut Lab,
    pub engine: &'a Engine<Accounting>,
    /// The inventory of nodes and links.
    pub inventory: Shared,
    pub jobs: Vec<Job>,
    pub interrupted: &'a AtomicBool,
    pub watch: &'a mut dyn ProgressSink,
    /// Number of answers that the schedule should produce.
    pub expected: u64,
    /// Failures since the run began.
    pub failures: Vec<Failure>,
    /// Why contention ends the run early, with `contention: abort`.
    pub contended: Option<String>,
    /// Time of offset 0 of the schedules.
    pub start_ns: Option<u64>,
    pub phase: Phase,
    /// Latest end of the phase.
    pub until_ns: Option<u64>,
    /// Faults injected into programs.
    pub faults: Faults,
    /// Requests from control clients, and the API that answers them; `None` without a control
    /// socket.
    pub clients: Option<(Requests, NodeApi<'a>)>,
}

impl RunController<'_> {
    /// Starts all programs that take part in the set-up and waits until they are ready.
    pub(crate) fn set_up(&mut self, limit: Span, logs: &Path) -> Result<(), Error> {
        self.phase = Phase::SetUp;
        let deadline = monotonic_now() + limit.as_ns();
        self.until_ns = Some(deadline);
        // Services start first, then the programs that ask for an address, then the workloads.
        self.start_all((deadline, limit), logs, |job| job.role == Role::Service)?;
        self.start_all((deadline, limit), logs, |job| job.role == Role::Client)?;
        self.start_all((deadline, limit), logs, |job| job.role == Role::Node)?;
        self.start_all((deadline, limit), logs, |job| !job.is_foreign())
    }

    /// Starts the programs that `these` selects and waits until they are ready.
    fn start_all(
        &mut self,
        (deadline, limit): (u64, Span),
        logs: &Path,
        these: impl Fn(&Job) -> bool,
    ) -> Result<(), Error> {
        for id in 0..self.jobs.len() {
            if these(&self.jobs[id]) {
                self.jobs[id].start(self.lab.nodes(), id as u64)?;
            }
        }
        loop {
            self.look()?;
            for job in self.jobs.iter_mut().filter(|job| these(job)) {
                if let (State::Starting, Role::Node | Role::Service) = (&job.state, job.role) {
                    let pid = self.lab.nodes()[job.node].kind.pid();
                    if job.ready.as_ref().is_none_or(|when| is_ready(when, pid, &job.files)) {
                        job.state = State::Ready;
                    }
                }
            }
            let waits = |job: &&Job| these(job) && job.state == State::Starting;
            let missing: Vec<&Job> = self.jobs.iter().filter(waits).collect();
            if missing.is_empty() {
                return Ok(());
            }
            if self.interrupted.load(Relaxed) {
                return Err(Error::Interrupted);
            }
            if monotonic_now() > deadline {
                let first = self.jobs.iter().position(|job| waits(&job)).unwrap_or_default();
                let names: Vec<_> = missing.iter().take(3).map(|job| job.name.as_str()).collect();
                let more = if missing.len() > names.len() { ", ..." } else { "" };
                return Err(Error::NotReady {
                    missing: missing.len(),
                    all: self.jobs.len(),
                    limit,
                    names: names.join(", ") + more + &awaited(missing[0]),
                    words: self.output_of(first),
                    logs: logs.to_owned(),
                });
            }
        }
    }

    /// Gives the start signal.
    pub(crate) fn begin(&mut self) -> Result<u64, Error> {
        self.phase = Phase::Load;
        self.engine.begin();
        let at_ns = monotonic_now() + LEAD_NS;
        self.start_ns = Some(at_ns);
        self.watch.begun(at_ns);
        for (id, job) in self.jobs.iter_mut().enumerate() {
            let runs_already = job.is_of_the_lab();
            match &mut job.connection {
                Some(connection) => connection.send(Command::Start { at_ns }),
                None if runs_already => {}
                None => job.start(self.lab.nodes(), id as u64)?,
            }
        }
        Ok(at_ns)
    }

    /// Waits until the schedule is done, no more answers can arrive, or the time limit passes.
    pub(crate) fn last(
        &mut self,
        duration: Span,
        drain: Span,
        timeouts: IdleTimeouts,
    ) -> Result<(), Error> {
        let start = self.start_ns.unwrap_or_else(monotonic_now);
        let over = start + duration.as_ns();
        self.until_ns = Some(over);
        let mut idle_timer = IdleTimer::new(over);
        loop {
            self.look()?;
            let now = monotonic_now();
            self.faults.turn(now.saturating_sub(start), self.lab.nodes(), &mut self.jobs)?;
            if now >= over {
                self.phase = Phase::Drain;
                self.until_ns = Some(over + drain.as_ns());
            }
            if self.interrupted.load(Relaxed) {
                let at = now.saturating_sub(start) as f64 / 1e9;
                self.failures.push(Failure::Bed(format!(
                    "the user stopped it after {at:.1} s; the figures cover the time until then"
                )));
                return Ok(());
            }
            if let Some(why) = self.contended.take() {
                self.failures.push(Failure::Bed(format!(
                    "Thingbed stopped it because of contention (`contention: abort`): {why}; use \
                     fewer nodes, a lower rate or a machine with more cores"
                )));
                return Ok(());
            }
            if self.engine.has_failed() {
                let failed = "the forwarding thread failed; no frames were forwarded after that";
                self.failures.push(Failure::Bed(failed.to_owned()));
                return Ok(());
            }
            if (self.is_done(now >= over) && self.faults.is_over()) || now > over + drain.as_ns() {
                return Ok(());
            }
            let messages: u64 = self.jobs.iter().map(|job| job.progress.0 + job.progress.1).sum();
            idle_timer.saw(now, self.engine.frames(), self.engine.waiting(), messages);
            // A user's program may compute for long without sending a frame.
            let thinks = self.jobs.iter().any(|j| j.role == Role::Command && j.is_alive());
            if now >= over && !thinks && self.faults.is_over() && idle_timer.is_over(now, timeouts)
            {
                return Ok(());
            }
        }
    }

    /// Whether no program has work left. With background programs only, the schedule decides.
    fn is_done(&self, schedule_over: bool) -> bool {
        let awaited = |job: &&Job| matches!(job.role, Role::Source | Role::Mqtt | Role::Command);
        let mut awaited = self.jobs.iter().filter(awaited).peekable();
        match awaited.peek() {
            Some(_) => awaited.all(|job| job.state == State::Done || !job.is_alive()),
            None => schedule_over,
        }
    }

    /// Stops all programs: with a stop message, then SIGTERM, then SIGKILL.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        self.record_unfinished();
        self.phase = Phase::Stop;
        self.until_ns = None;
        // Services stop after the workloads.
        self.stop_all(|job| !job.is_of_the_lab())?;
        self.stop_all(|job| job.role != Role::Service)?;
        self.stop_all(|_| true)
    }

    /// Records the commands that still run at the end of the run. A run that ended early records
    /// that instead.
    fn record_unfinished(&mut self) {
        if !self.failures.iter().any(|failure| matches!(failure, Failure::Bed(_))) {
            let after = monotonic_now().saturating_sub(self.start_ns.unwrap_or(u64::MAX));
            let after = after as f64 / 1e9;
            let cut = |job: &&Job| job.role == Role::Command && job.is_alive() && !job.asked_to_end;
            let cut = self.jobs.iter().filter(cut).map(|job| {
                Failure::Program(format!(
                    "`{}` on {} was still running when the run ended after {after:.1} s, and was \
                     stopped: its results are incomplete. Make `duration` longer, or write \
                     `background: true` if it is meant to run until the end",
                    job.argv.join(" "),
                    job.name
                ))
            });
            self.failures.extend(cut.collect::<Vec<_>>());
        }
    }

    /// Stops the programs that `these` selects.
    fn stop_all(&mut self, these: impl Fn(&Job) -> bool) -> Result<(), Error> {
        let meant = |job: &Job| these(job) && job.is_alive();
        for (id, job) in self.jobs.iter_mut().enumerate().filter(|(_, job)| meant(job)) {
            match &mut job.connection {
                Some(connection) => connection.send(Command::Stop {}),
                None => self.lab.nodes()[job.node].kind.signal(id as u64, libc::SIGTERM),
            }
        }
        for (limit, signal) in [(STOP_NS, libc::SIGTERM), (TERM_NS, libc::SIGKILL), (TERM_NS, 0)] {
            let deadline = monotonic_now() + limit;
            while self.jobs.iter().any(meant) && monotonic_now() < deadline {
                self.look()?;
            }
            let remaining: Vec<usize> =
                (0..self.jobs.len()).filter(|id| meant(&self.jobs[*id])).collect();
            if remaining.is_empty() {
                break;
            }
            if signal == libc::SIGKILL {
                let name = &self.jobs[remaining[0]].name;
                let more = match remaining.len() - 1 {
                    0 => String::new(),
                    more => format!(" (and {more} more)"),
                };
                self.failures.push(Failure::Program(format!(
                    "the program of {name}{more} ignored SIGTERM and was killed; what it had not \
                     yet written is missing"
                )));
            }
            for id in remaining {
                self.lab.nodes()[self.jobs[id].node].kind.signal(id as u64, signal);
            }
        }
        Ok(())
    }

    /// Waits briefly, then handles all pending messages and events.
    pub(crate) fn look(&mut self) -> Result<(), Error> {
        let clients = self.clients.as_ref();
        let clients = clients.map(|(requests, _)| PollFd::new(requests.as_fd(), PollFlags::POLLIN));
        let connections = self.jobs.iter().enumerate();
        let connections = connections.filter_map(|(id, job)| Some((id, job.connection.as_ref()?)));
        let (ids, mut fds): (Vec<_>, Vec<_>) = connections
            .filter(|(_, connection)| connection.is_open())
            .map(|(id, connection)| (id, PollFd::new(connection.as_fd(), PollFlags::POLLIN)))
            .unzip();
        fds.extend(clients);
        // An interrupted wait counts as a finished one.
        let _ = poll(&mut fds, PollTimeout::from(TICK_MS));
        std::thread::sleep(TOGETHER * ids.len() as u32);
        let _ = poll(&mut fds, PollTimeout::ZERO);
        let speaks = |fd: &PollFd<'_>| fd.revents().is_none_or(|events| !events.is_empty());
        let speaking: Vec<_> =
            ids.into_iter().zip(&fds).filter(|(_, fd)| speaks(fd)).map(|(id, _)| id).collect();
        drop(fds);
        self.receive();
        for id in speaking {
            let Some(connection) = &mut self.jobs[id].connection else { continue };
            for message in connection.receive() {
                self.on_message(id, message)?;
            }
        }
        while let Ok(event) = self.lab.events().try_recv() {
            self.on_event(event)?;
        }
        let now = monotonic_now();
        self.watch.progress(&Progress {
            phase: self.phase,
            elapsed: Span::from_ns(now.saturating_sub(self.start_ns.unwrap_or(u64::MAX))),
            most: self.until_ns.map(|until| Span::from_ns(until.saturating_sub(now))),
            missing: self.missing(),
            ready: (
                self.jobs.iter().filter(|job| job.state != State::Starting).count(),
                self.jobs.len(),
            ),
            sent: self.jobs.iter().map(|job| job.progress.0).sum(),
            replies: self.jobs.iter().map(|job| job.progress.1).sum(),
            expected: self.expected,
            frames: self.engine.frames(),
        });
        Ok(())
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

    /// Executes the requests of control clients.
    fn receive(&mut self) {
        let Some((requests, node_api)) = &self.clients else { return };
        while let Some(Pending { request, answer }) = requests.next() {
            let reply = node_api.answer(request, self.lab, &mut self.jobs, &mut self.faults);
            // The client may have disconnected.
            let _ = answer.send(reply);
        }
    }

    pub(crate) fn on_message(&mut self, id: usize, message: Status) -> Result<(), Error> {
        let begun = self.start_ns.is_some();
        let job = &mut self.jobs[id];
        match message {
            Status::Ready {} if job.state == State::Starting => job.state = State::Ready,
            Status::Done {} if job.is_alive() => job.state = State::Done,
            Status::Ready {} | Status::Done {} => {}
            Status::Progress { sent, replies } if matches!(job.role, Role::Source | Role::Mqtt) => {
                job.progress = (sent, replies);
            }
            Status::Progress { .. } => {}
            Status::Contended { why } => self.contended = Some(why),
            Status::Failed { error } if begun => {
                let name = job.name.clone();
                let log = self.output_of_other(id).lines().last().map(|line| format!("; {line}"));
                let log = log.unwrap_or_default();
                let failed = format!("the program of {name} failed: {error}{log}");
                self.failures.push(Failure::Program(failed));
            }
            Status::Failed { error } => {
                let node = job.name.clone();
                let error = format!("{error}\n{}", self.output_of_other(id));
                return Err(Error::Died { node, how: "failed".to_owned(), words: error });
            }
        }
        Ok(())
    }

    /// The last output of a job and of the job that it relies on.
    fn output_of(&self, id: usize) -> String {
        let words = [self.jobs[id].files.last_output(), self.output_of_other(id)];
        words.join("\n").trim().to_owned()
    }

    /// The last output of the program on the node that job `id` relies on.
    fn output_of_other(&self, id: usize) -> String {
        let other = self.jobs[id].relies_on;
        let jobs = self.jobs.iter().filter(|job| Some(job.node) == other);
        let lines = jobs.flat_map(|job| {
            let words = job.files.last_output();
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
