//! Events from the lab: programs and nodes that started or ended.

use crate::controller::{Phase, RunController};
use crate::error::Error;
use crate::jobs::{Role, State};
use crate::live::publish_names;
use lab::{Event, Exit, OutOfMemory};
use measure::Failure;

impl RunController<'_> {
    /// Handles an event of a program or a node.
    pub(crate) fn on_event(&mut self, event: Event) -> Result<(), Error> {
        let begun = self.start_ns.is_some();
        match event {
            Event::Started { .. } => {}
            Event::NotStarted { id, failure } => {
                let job = &mut self.jobs[id as usize];
                let failed = Error::NotStarted { node: job.name.clone(), failure };
                if !begun || job.role != Role::Node {
                    return Err(failed);
                }
                let (exit, usage) = (Exit::Status(127), lab::Usage::default());
                job.state = State::Ended { exit, usage, starved: None };
                self.failures.push(Failure::Program(failed.to_string()));
            }
            Event::Ended { id, exit, usage } => {
                let job = &mut self.jobs[id as usize];
                // Messages that it sent before it ended may still be unread.
                let messages = job
                    .connection
                    .as_mut()
                    .map(|connection| connection.receive())
                    .unwrap_or_default();
                for message in messages {
                    self.on_message(id as usize, message)?;
                }
                let job = &mut self.jobs[id as usize];
                let starved = match exit {
                    Exit::Status(0) => None,
                    // If the program was stopped by hand, the kernel killed another program,
                    // perhaps one of `exec`.
                    _ => self.lab.out_of_memory(job.node).filter(|_| !job.asked_to_end),
                };
                job.state = State::Ended { exit, usage, starved };
                let (node, own, asked) = (job.node, job.role == Role::Node, job.asked_to_end);
                let how = exit_text(exit, starved);
                let words = job.files.last_output();
                if own && self.phase != Phase::Stop {
                    self.faults.ended(node, self.lab.nodes(), &mut self.jobs)?;
                }
                if asked {
                    return Ok(());
                }
                let job = &self.jobs[id as usize];
                // A node's own program must last if the experiment names it.
                let fine = exit == Exit::Status(0);
                let content = fine && (job.may_end || self.phase == Phase::Stop);
                if !begun && !content {
                    return Err(Error::Died { node: job.name.clone(), how, words });
                }
                let stopped = self.phase == Phase::Stop && job.is_foreign();
                if !content && !stopped {
                    let words = words.lines().last().map(|l| format!(": {l}")).unwrap_or_default();
                    let failed = format!("the program of {} {how}{words}", job.name);
                    self.failures.push(Failure::Program(failed));
                }
            }
            Event::NodeGone { node } => {
                let starved = self.lab.out_of_memory(node);
                self.release(node)?;
                let jobs = self.jobs.iter_mut().filter(|job| job.node == node && job.is_alive());
                for job in jobs {
                    let name = job.name.clone();
                    job.state = State::Ended {
                        exit: Exit::Signal(libc::SIGKILL),
                        usage: lab::Usage::default(),
                        starved,
                    };
                    if job.asked_to_end {
                        continue;
                    }
                    match (begun, starved) {
                        (false, None) => {
                            return Err(Error::Lab(lab::Error::Gone { who: name }));
                        }
                        (false, Some(why)) => {
                            let (how, words) = (format!("was killed: {why}"), String::new());
                            return Err(Error::Died { node: name, how, words });
                        }
                        (true, None) => {
                            let gone = format!("node {name} was killed from outside");
                            self.failures.push(Failure::Bed(gone));
                        }
                        (true, Some(why)) => {
                            let gone = format!("node {name} was killed: {why}");
                            self.failures.push(Failure::Program(gone));
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl RunController<'_> {
    /// Releases the resources of a lost node: its links, because its kernel would go on answering,
    /// and its name.
    fn release(&mut self, node: usize) -> Result<(), Error> {
        self.lab.nodes_mut()[node].is_gone = true;
        // While all nodes are being removed, no other node needs the update.
        if self.phase == Phase::Stop {
            return Ok(());
        }
        let mut inventory = self.inventory.lock();
        inventory.gone.insert(node);
        let remote = self.engine.remote();
        inventory.places(node).into_iter().for_each(|place| remote.detach(place));
        publish_names(&inventory.plan, self.lab, &self.jobs)?;
        Ok(())
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
