//! Handles the messages of programs, and the events of programs and nodes.

use super::Controller;
use crate::bed::environment::Environment;
use crate::bed::jobs::{Role, State};
use crate::error::Error;
use crate::progress::Phase;
use lab::{Event, Exit, OutOfMemory, Usage};
use measure::Failure;
use record::control::Status;

impl<B: Environment> Controller<'_, B> {
    /// Handles a message of a program.
    pub(super) fn on_message(&mut self, id: usize, message: Status) -> Result<(), Error> {
        let job = &mut self.jobs[id];
        match message {
            // States only go forward: no message revives a program that has ended.
            Status::Ready {} if job.state == State::Starting => job.state = State::Ready,
            Status::Done {} if job.is_alive() => job.state = State::Done,
            Status::Ready {} | Status::Done {} => {}
            Status::Progress { sent, replies } if matches!(job.role, Role::Source | Role::Mqtt) => {
                job.progress = (sent, replies);
            }
            Status::Progress { .. } => {}
            Status::Received { messages } => job.received = Some(messages),
            Status::Contended { why } => self.contended = Some(why),
            Status::Failed { error } => return self.on_failure(id, &error),
        }
        Ok(())
    }

    /// Handles a program's report that it failed.
    fn on_failure(&mut self, id: usize, error: &str) -> Result<(), Error> {
        let node = self.jobs[id].name.clone();
        // A client often fails because of its broker, whose output has the cause.
        let log = self.output_of_other(id);
        if !self.has_begun() {
            let words = format!("{error}\n{log}");
            return Err(Error::Died { node, how: "failed".to_owned(), words, cause: None });
        }
        let log = log.lines().last().map(|line| format!("; {line}")).unwrap_or_default();
        let failed = format!("the program of {node} failed: {error}{log}");
        self.failures.push(Failure::Program(failed));
        Ok(())
    }

    /// Handles an event of a program or a node.
    pub(super) fn on_event(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Started { id } => {
                self.jobs[id as usize].started = Some(self.bed.now());
                Ok(())
            }
            Event::NotStarted { id, failure } => self.on_not_started(id as usize, failure),
            Event::Ended { id, exit, usage } => self.on_end(id as usize, exit, usage),
            Event::NodeGone { node } => self.on_node_gone(node),
        }
    }

    fn on_not_started(&mut self, id: usize, failure: lab::Failure) -> Result<(), Error> {
        let has_begun = self.has_begun();
        let job = &mut self.jobs[id];
        let failed = Error::NotStarted { node: job.name.clone(), failure };
        // Only a node's own program starts again, after a fault. The others start once, and the run
        // cannot do without them.
        if !has_begun || job.role != Role::Node {
            return Err(failed);
        }
        job.state =
            // The status that a shell gives a command that it does not find (POSIX, XCU 2.8.2).
            State::Ended { exit: Exit::Status(127), usage: Usage::default(), starved: None };
        job.not_started = Some(failed.to_string());
        self.failures.push(Failure::Program(failed.to_string()));
        Ok(())
    }

    fn on_end(&mut self, id: usize, exit: Exit, usage: Usage) -> Result<(), Error> {
        let job = &mut self.jobs[id];
        let starved = match exit {
            Exit::Status(0) => None,
            // If the program was stopped by hand, the kernel killed another program, perhaps one
            // of `exec`.
            _ => self.bed.out_of_memory(job.node).filter(|_| !job.asked_to_end),
        };
        job.state = State::Ended { exit, usage, starved };
        job.ended = Some(self.bed.now());
        let (node, role) = (job.node, job.role);
        if job.is_machine && role == Role::Node {
            // A machine is its device: without it, its radio is off.
            self.bed.set_power(node, false);
        }
        // While all programs stop, none starts again.
        match role {
            _ if self.phase == Phase::Stop => {}
            Role::Node => self.faults.ended(node, &mut self.bed, &mut self.jobs)?,
            Role::Service => self.faults.service_ended(node, &mut self.bed, &mut self.jobs)?,
            _ => {}
        }
        match self.jobs[id].asked_to_end {
            true => Ok(()),
            false => self.on_unrequested_end(id, exit, starved),
        }
    }

    /// Decides whether a program that ended without a request was right to do so.
    fn on_unrequested_end(
        &mut self,
        id: usize,
        exit: Exit,
        starved: Option<OutOfMemory>,
    ) -> Result<(), Error> {
        let job = &self.jobs[id];
        let is_stopping = self.phase == Phase::Stop;
        // A node's own program must last if the experiment names it.
        let accepted = matches!(exit, Exit::Status(status) if job.check.accepts(status));
        // If it had to be killed, that is reported already.
        if accepted && (job.may_end || is_stopping) || job.is_killed {
            return Ok(());
        }
        let (mut how, words) = (exit_text(exit, starved), job.last_output());
        if !job.check.exit.is_empty() {
            let statuses: Vec<_> = job.check.exit.iter().map(i32::to_string).collect();
            how.push_str(&format!(" instead of {}", statuses.join(" or ")));
        }
        if !self.has_begun() {
            let cause = job.likely_cause();
            return Err(Error::Died { node: job.name.clone(), how, words, cause });
        }
        if !is_stopping || job.has_control() {
            let words: Vec<&str> = words.lines().filter(|line| !line.trim().is_empty()).collect();
            let words = match words.is_empty() {
                true => String::new(),
                false => format!(": {}", words[words.len().saturating_sub(3)..].join(" | ")),
            };
            let cause = job.likely_cause().map(|cause| format!("; likely cause: {cause}"));
            let cause = cause.unwrap_or_default();
            let failed = format!("the program of {} {how}{words}{cause}", job.name);
            self.failures.push(Failure::Program(failed));
        }
        Ok(())
    }

    fn on_node_gone(&mut self, node: usize) -> Result<(), Error> {
        let starved = self.bed.out_of_memory(node);
        // A pending fault of the node would keep the run from ending.
        self.faults.forget(node);
        // While all nodes are being removed, no other node needs the update.
        if self.phase != Phase::Stop {
            self.bed.release(node, &self.jobs)?;
        }
        let has_begun = self.has_begun();
        let (exit, usage) = (Exit::Signal(libc::SIGKILL), Usage::default());
        for job in self.jobs.iter_mut().filter(|job| job.node == node && job.is_alive()) {
            job.state = State::Ended { exit, usage, starved };
            if job.asked_to_end {
                continue;
            }
            let name = job.name.clone();
            self.failures.push(match (has_begun, starved) {
                (false, None) => return Err(Error::Lab(lab::Error::Gone { who: name })),
                (false, Some(why)) => {
                    let (how, words) = (format!("was killed: {why}"), String::new());
                    return Err(Error::Died { node: name, how, words, cause: None });
                }
                (true, None) => Failure::Bed(format!("node {name} was killed from outside")),
                (true, Some(why)) => Failure::Program(format!("node {name} was killed: {why}")),
            });
        }
        Ok(())
    }

    /// Whether the start signal was given.
    fn has_begun(&self) -> bool {
        self.start.is_some()
    }
}

/// A text that says how a program ended.
fn exit_text(exit: Exit, starved: Option<OutOfMemory>) -> String {
    match (exit, starved) {
        (Exit::Signal(libc::SIGKILL), Some(why)) => format!("was killed: {why}"),
        (Exit::Signal(signal), None) => format!("was killed by signal {signal}"),
        (Exit::Status(status), None) => format!("ended with status {status}"),
        // The kernel killed one of its child processes.
        (Exit::Status(status), Some(why)) => {
            format!("ended with status {status} after the kernel had killed one: {why}")
        }
        (Exit::Signal(signal), Some(why)) => {
            format!("was killed by signal {signal} after the kernel had killed one: {why}")
        }
    }
}
