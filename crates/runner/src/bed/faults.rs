//! Fault injection into nodes' programs: kill, stop, restart, pause.

use super::jobs::{Job, Role};
use super::nodes::Nodes;
use crate::error::Error;
use experiment::{Plan, PlannedFault, PlannedFaultKind as Kind};
use serde::Serialize;
use std::collections::{BTreeSet, VecDeque};
use units::{Instant, Span};

/// An injected fault, for the run's record.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct InjectedFault {
    #[serde(skip)]
    pub at: Instant,
    pub what: Kind,
    pub node: String,
}

/// A planned fault with its nodes by index and name.
#[derive(Debug)]
struct Due {
    /// Time since offset 0.
    at: Span,
    what: Kind,
    nodes: Vec<(usize, String)>,
}

/// Pending and injected faults.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    coming: VecDeque<Due>,
    /// Nodes whose program restarts once the running one has ended.
    restarting: Vec<usize>,
    /// Nodes whose services, which were killed, start again once they have ended.
    serving: Vec<usize>,
    /// Nodes that were killed and not started since.
    killed: BTreeSet<usize>,
    /// Injected faults, in order.
    pub made: Vec<InjectedFault>,
}

impl Faults {
    /// The faults of a plan, in the order of their times.
    pub(crate) fn of(plan: &Plan) -> Self {
        let index = |name: &str| plan.nodes.iter().position(|node| node.name == name);
        Self::new(&plan.faults, index)
    }

    /// These faults, in the order of their times; `index` finds a node by its name.
    pub(crate) fn new(planned: &[PlannedFault], index: impl Fn(&str) -> Option<usize>) -> Self {
        let target = |name: &String| Some((index(name)?, name.clone()));
        let due = |fault: &PlannedFault| Due {
            at: fault.at,
            what: fault.what,
            nodes: fault.nodes.iter().filter_map(target).collect(),
        };
        Self { coming: planned.iter().map(due).collect(), ..Self::default() }
    }

    /// Whether no fault is pending.
    pub(crate) fn is_over(&self) -> bool {
        self.coming.is_empty() && self.restarting.is_empty() && self.serving.is_empty()
    }

    /// Whether the program of a node starts again once it has ended.
    pub(crate) fn restarts(&self, node: usize) -> bool {
        self.restarting.contains(&node)
    }

    /// Whether a node was killed and not started since.
    pub(crate) fn is_killed(&self, node: usize) -> bool {
        self.killed.contains(&node)
    }

    /// The faults that are pending, in the order of their times.
    pub(crate) fn pending(&self) -> impl Iterator<Item = PlannedFault> {
        self.coming.iter().map(|due| PlannedFault {
            at: due.at,
            what: due.what,
            nodes: due.nodes.iter().map(|(_, name)| name.clone()).collect(),
        })
    }

    /// Injects the faults that are due `since` after the start.
    pub(crate) fn turn(
        &mut self,
        since: Span,
        bed: &mut impl Nodes,
        jobs: &mut Vec<Job>,
    ) -> Result<(), Error> {
        while self.coming.front().is_some_and(|fault| fault.at <= since) {
            let Some(fault) = self.coming.pop_front() else { break };
            for (node, name) in &fault.nodes {
                self.inject(fault.what, *node, name, bed, jobs)?;
            }
        }
        Ok(())
    }

    /// Injects a fault into a node now.
    pub(crate) fn inject(
        &mut self,
        what: Kind,
        node: usize,
        name: &str,
        bed: &mut impl Nodes,
        jobs: &mut Vec<Job>,
    ) -> Result<(), Error> {
        // The last fault wins: a program that is stopped during a restart stays stopped.
        if matches!(what, Kind::Kill | Kind::Stop | Kind::Restart) {
            self.restarting.retain(|waits| *waits != node);
        }
        match what {
            Kind::Kill => drop(self.killed.insert(node)),
            Kind::Start | Kind::Restart => drop(self.killed.remove(&node)),
            Kind::Stop | Kind::Pause | Kind::Resume => {}
        }
        match what {
            Kind::Kill => {
                self.serving.retain(|waits| *waits != node);
                running(jobs, node).for_each(|(_, job)| {
                    job.is_paused = false;
                    job.asked_to_end = true;
                });
                bed.signal_all(node, libc::SIGKILL);
                bed.set_power(node, false);
                // It measures programs, which may start again and need it at once.
                start(node, Role::Collector, bed, jobs)?;
            }
            Kind::Pause => {
                // All processes of the node, also those that its programs have started.
                bed.signal_all(node, libc::SIGSTOP);
                running(jobs, node).for_each(|(_, job)| job.is_paused = true);
            }
            Kind::Resume => {
                running(jobs, node).for_each(|(_, job)| job.is_paused = false);
                bed.signal_all(node, libc::SIGCONT);
            }
            Kind::Stop => drop(stop(node, bed, jobs)),
            Kind::Restart => match stop(node, bed, jobs) {
                true => self.restarting.push(node),
                false => start(node, Role::Node, bed, jobs)?,
            },
            Kind::Start => {
                bed.set_power(node, true);
                start_services(node, bed, jobs)?;
                // They were killed just before.
                if ends_service(jobs, node) && !self.serving.contains(&node) {
                    self.serving.push(node);
                }
                let own = running(jobs, node).find(|(_, job)| job.role == Role::Node);
                match own.map(|(_, job)| job.asked_to_end) {
                    // It was stopped just before; it restarts once it has ended.
                    Some(true) => {
                        self.restarting.retain(|waits| *waits != node);
                        self.restarting.push(node);
                    }
                    // A second instance would find the ports and files of the first one in use.
                    Some(false) => {}
                    None => start(node, Role::Node, bed, jobs)?,
                }
            }
        }
        self.made.push(InjectedFault { at: bed.now(), what, node: name.to_owned() });
        Ok(())
    }

    /// Forgets the faults of a node that is gone.
    pub(crate) fn forget(&mut self, node: usize) {
        self.restarting.retain(|waits| *waits != node);
        self.serving.retain(|waits| *waits != node);
        self.coming.iter_mut().for_each(|due| due.nodes.retain(|(own, _)| *own != node));
        self.coming.retain(|due| !due.nodes.is_empty());
        self.killed.remove(&node);
    }

    /// Handles the end of a node's program.
    pub(crate) fn ended(
        &mut self,
        node: usize,
        bed: &mut impl Nodes,
        jobs: &mut Vec<Job>,
    ) -> Result<(), Error> {
        let Some(place) = self.restarting.iter().position(|waits| *waits == node) else {
            return Ok(());
        };
        self.restarting.swap_remove(place);
        start(node, Role::Node, bed, jobs)
    }

    /// Handles the end of a node's service.
    pub(crate) fn service_ended(
        &mut self,
        node: usize,
        bed: &mut impl Nodes,
        jobs: &mut Vec<Job>,
    ) -> Result<(), Error> {
        if !self.serving.contains(&node) {
            return Ok(());
        }
        start_services(node, bed, jobs)?;
        self.serving.retain(|waits| *waits != node || ends_service(jobs, node));
        Ok(())
    }
}

/// Whether a service of a node was killed and has not ended yet.
fn ends_service(jobs: &mut [Job], node: usize) -> bool {
    running(jobs, node).any(|(_, job)| job.role == Role::Service && job.asked_to_end)
}

/// The running programs of a node, with their numbers. Users can inject faults before all programs
/// have started; those that have not start later.
fn running(jobs: &mut [Job], node: usize) -> impl Iterator<Item = (usize, &mut Job)> {
    let runs = move |job: &Job| job.node == node && job.is_started && job.is_alive();
    jobs.iter_mut().enumerate().filter(move |(_, job)| runs(job))
}

/// Asks the node's own program to end; returns whether one runs.
fn stop(node: usize, bed: &mut impl Nodes, jobs: &mut [Job]) -> bool {
    let mut runs = false;
    for (id, job) in running(jobs, node) {
        if job.role == Role::Node {
            runs = true;
            job.asked_to_end = true;
            // Only this program continues: others of a paused node stay paused.
            job.is_paused = false;
            bed.signal(node, id, libc::SIGTERM);
            // A paused process does not handle signals.
            bed.signal(node, id, libc::SIGCONT);
        }
    }
    runs
}

/// Starts the services of a node again that a fault has killed, such as its gateway of MQTT.
fn start_services(node: usize, bed: &mut impl Nodes, jobs: &mut Vec<Job>) -> Result<(), Error> {
    let own = |job: &&Job| job.node == node && job.role == Role::Service;
    let is_last = |job: &&Job| {
        let same = jobs.iter().rfind(|other| own(other) && other.files.err == job.files.err);
        same.is_some_and(|last| std::ptr::eq(last, *job))
    };
    let killed = |job: &&Job| job.is_started && job.asked_to_end && !job.is_alive();
    let again: Vec<Job> =
        jobs.iter().filter(own).filter(is_last).filter(killed).map(Job::again).collect();
    for mut job in again {
        bed.start(jobs.len(), &job)?;
        job.is_started = true;
        jobs.push(job);
    }
    Ok(())
}

/// Starts the node's program of a role again, if it had one. One that has never started still will.
fn start(node: usize, role: Role, bed: &mut impl Nodes, jobs: &mut Vec<Job>) -> Result<(), Error> {
    let own = |job: &&Job| job.node == node && job.role == role;
    let Some(last) = jobs.iter().rfind(own).filter(|job| job.is_started) else { return Ok(()) };
    let mut job = last.again();
    if role == Role::Node {
        bed.set_power(node, true);
    }
    bed.start(jobs.len(), &job)?;
    job.is_started = true;
    jobs.push(job);
    Ok(())
}
