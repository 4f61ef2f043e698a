//! Fault injection into nodes' programs: kill, stop, restart, pause.

use crate::error::Error;
use crate::jobs::{Job, Role};
use engine::monotonic_now;
use experiment::{PlannedFault, PlannedFaultKind as Kind};
use lab::Node;
use serde::Serialize;
use std::collections::VecDeque;

/// An injected fault, for the run's record.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct InjectedFault {
    #[serde(skip)]
    pub at_ns: u64,
    pub what: Kind,
    pub node: String,
}

/// Pending and injected faults.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    coming: VecDeque<PlannedFault>,
    /// Nodes whose program restarts once the running one has ended.
    restarting: Vec<usize>,
    /// Paused nodes.
    paused: Vec<usize>,
    /// Injected faults, in order.
    pub made: Vec<InjectedFault>,
}

impl Faults {
    /// The faults of a plan, in the order of their times.
    pub(crate) fn new(planned: &[PlannedFault]) -> Self {
        Self { coming: planned.iter().cloned().collect(), ..Self::default() }
    }

    /// Whether no fault is pending.
    pub(crate) fn is_over(&self) -> bool {
        self.coming.is_empty() && self.restarting.is_empty()
    }

    /// Whether a node is paused.
    pub(crate) fn is_paused(&self, node: usize) -> bool {
        self.paused.contains(&node)
    }

    /// Injects the faults that are due `since_ns` after the start.
    pub(crate) fn turn(
        &mut self,
        since_ns: u64,
        nodes: &[Node],
        jobs: &mut Vec<Job>,
    ) -> Result<(), Error> {
        while self.coming.front().is_some_and(|fault| fault.at.as_ns() <= since_ns) {
            let Some(fault) = self.coming.pop_front() else { break };
            for name in &fault.nodes {
                let Some(node) = nodes.iter().position(|node| node.name == *name) else { continue };
                self.inject(fault.what, (node, name), nodes, jobs)?;
            }
        }
        Ok(())
    }

    /// Injects a fault into a node now.
    pub(crate) fn inject(
        &mut self,
        what: Kind,
        (node, name): (usize, &str),
        nodes: &[Node],
        jobs: &mut Vec<Job>,
    ) -> Result<(), Error> {
        let all = |job: &&mut Job| job.node == node && job.is_alive();
        let own = |job: &&Job| job.node == node && job.role == Role::Node && job.is_alive();
        match what {
            Kind::Kill => {
                self.resume(node);
                self.restarting.retain(|waits| *waits != node);
                jobs.iter_mut().filter(all).for_each(|job| job.asked_to_end = true);
                nodes[node].kind.signal_all(libc::SIGKILL);
            }
            Kind::Pause => {
                nodes[node].kind.signal_all(libc::SIGSTOP);
                self.resume(node);
                self.paused.push(node);
            }
            Kind::Resume => {
                self.resume(node);
                nodes[node].kind.signal_all(libc::SIGCONT);
            }
            Kind::Stop | Kind::Restart => {
                self.resume(node);
                // The last fault wins: a program that is stopped during a restart stays stopped.
                self.restarting.retain(|waits| *waits != node);
                let mut runs = false;
                for (id, job) in jobs.iter_mut().enumerate() {
                    if job.node == node && job.role == Role::Node && job.is_alive() {
                        runs = true;
                        job.asked_to_end = true;
                        nodes[node].kind.signal(id as u64, libc::SIGTERM);
                        // A paused process does not handle signals.
                        nodes[node].kind.signal(id as u64, libc::SIGCONT);
                    }
                }
                if what == Kind::Restart {
                    match runs {
                        true => self.restarting.push(node),
                        false => self.start(node, nodes, jobs)?,
                    }
                }
            }
            Kind::Start => match jobs.iter().find(own) {
                // It was stopped just before; it restarts once it has ended.
                Some(job) if job.asked_to_end => {
                    self.restarting.retain(|waits| *waits != node);
                    self.restarting.push(node);
                }
                Some(_) => {}
                None => self.start(node, nodes, jobs)?,
            },
        }
        self.made.push(InjectedFault { at_ns: monotonic_now(), what, node: name.to_owned() });
        Ok(())
    }

    /// Handles the end of a node's program.
    pub(crate) fn ended(
        &mut self,
        node: usize,
        nodes: &[Node],
        jobs: &mut Vec<Job>,
    ) -> Result<(), Error> {
        let Some(place) = self.restarting.iter().position(|waits| *waits == node) else {
            return Ok(());
        };
        self.restarting.swap_remove(place);
        self.start(node, nodes, jobs)
    }

    /// Marks the node as no longer paused.
    fn resume(&mut self, node: usize) {
        self.paused.retain(|paused| *paused != node);
    }

    /// Starts the program of a node where none runs.
    fn start(&mut self, node: usize, nodes: &[Node], jobs: &mut Vec<Job>) -> Result<(), Error> {
        let own = |job: &&Job| job.node == node && job.role == Role::Node;
        let Some(mut job) = jobs.iter().rfind(own).map(Job::again) else { return Ok(()) };
        // A pause applied only to the programs that ran then.
        self.resume(node);
        job.start(nodes, jobs.len() as u64)?;
        jobs.push(job);
        Ok(())
    }
}
