//! What befalls nodes' programs: killed, stopped, started again, paused.

use crate::error::Error;
use crate::jobs::{Job, Role};
use experiment::{PlannedFault, PlannedFaultKind as Kind};
use lab::Lab;
use medium::monotonic_now;
use serde::Serialize;
use std::collections::VecDeque;

/// A fault that was made, for the run's record.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Befallen {
    #[serde(skip)]
    pub at_ns: u64,
    pub what: Kind,
    pub node: String,
}

/// Faults to come and faults made.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    coming: VecDeque<PlannedFault>,
    /// Nodes whose program starts again when the one that runs has ended.
    restarting: Vec<usize>,
    /// Nodes that stand still.
    paused: Vec<usize>,
    /// What was made, in order.
    pub made: Vec<Befallen>,
}

impl Faults {
    /// Those of a plan, in the order of their times.
    pub(crate) fn new(planned: &[PlannedFault]) -> Self {
        Self { coming: planned.iter().cloned().collect(), ..Self::default() }
    }

    /// Whether some are still to come.
    pub(crate) fn is_over(&self) -> bool {
        self.coming.is_empty() && self.restarting.is_empty()
    }

    /// Whether a node stands still.
    pub(crate) fn is_paused(&self, node: usize) -> bool {
        self.paused.contains(&node)
    }

    /// Makes those whose time has come, `since_ns` after the start.
    pub(crate) fn turn(
        &mut self,
        since_ns: u64,
        lab: &Lab,
        jobs: &mut Vec<Job>,
    ) -> Result<(), Error> {
        while self.coming.front().is_some_and(|fault| fault.at.as_ns() <= since_ns) {
            let Some(fault) = self.coming.pop_front() else { break };
            for name in &fault.nodes {
                let Some(node) = lab.find(name) else { continue };
                self.befall(fault.what, (node, name), lab, jobs)?;
            }
        }
        Ok(())
    }

    /// Lets something befall a node now.
    pub(crate) fn befall(
        &mut self,
        what: Kind,
        (node, name): (usize, &str),
        lab: &Lab,
        jobs: &mut Vec<Job>,
    ) -> Result<(), Error> {
        let all = |job: &&mut Job| job.node == node && job.is_alive();
        self.paused.retain(|paused| *paused != node || matches!(what, Kind::Start));
        match what {
            Kind::Kill => {
                jobs.iter_mut().filter(all).for_each(|job| job.asked_to_end = true);
                lab.signal_all(node, libc::SIGKILL);
            }
            Kind::Pause => {
                lab.signal_all(node, libc::SIGSTOP);
                self.paused.push(node);
            }
            Kind::Resume => lab.signal_all(node, libc::SIGCONT),
            Kind::Stop | Kind::Restart => {
                let mut runs = false;
                for (id, job) in jobs.iter_mut().enumerate() {
                    if job.node == node && job.role == Role::Node && job.is_alive() {
                        runs = true;
                        job.asked_to_end = true;
                        lab.signal(node, id as u64, libc::SIGTERM);
                        // What stands still hears nothing.
                        lab.signal(node, id as u64, libc::SIGCONT);
                    }
                }
                if what == Kind::Restart {
                    match runs {
                        true => self.restarting.push(node),
                        false => start(node, lab, jobs)?,
                    }
                }
            }
            Kind::Start => start(node, lab, jobs)?,
        }
        self.made.push(Befallen { at_ns: monotonic_now(), what, node: name.to_owned() });
        Ok(())
    }

    /// The program of a node has ended.
    pub(crate) fn ended(
        &mut self,
        node: usize,
        lab: &Lab,
        jobs: &mut Vec<Job>,
    ) -> Result<(), Error> {
        let Some(place) = self.restarting.iter().position(|waits| *waits == node) else {
            return Ok(());
        };
        self.restarting.swap_remove(place);
        start(node, lab, jobs)
    }
}

/// Starts the program of a node, unless it runs.
fn start(node: usize, lab: &Lab, jobs: &mut Vec<Job>) -> Result<(), Error> {
    let own = |job: &&Job| job.node == node && job.role == Role::Node;
    if jobs.iter().filter(own).any(Job::is_alive) {
        return Ok(());
    }
    let Some(mut job) = jobs.iter().rfind(own).map(Job::again) else { return Ok(()) };
    job.start(lab, jobs.len() as u64)?;
    jobs.push(job);
    Ok(())
}
