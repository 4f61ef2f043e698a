//! What visitors want of nodes: how they are, and what befalls them.

use super::growth::Growth;
use super::roll::{Roll, Shared};
use super::{LabShown, NodeShown, Reply, Request};
use crate::faults::Faults;
use crate::jobs::{Job, Role, State};
use lab::{Exit, Lab};
use measure::Counts;
use medium::monotonic_now;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use units::Span;

/// Answers about nodes.
pub(crate) struct Office<'a> {
    pub roll: Shared,
    /// The folder of the run or lab.
    pub folder: PathBuf,
    /// Whether a run is measured.
    pub run: bool,
    /// When the lab came up.
    pub since: u64,
    /// Set when a visitor ends the lab.
    pub interrupted: &'a AtomicBool,
    /// What nodes have sent and received.
    pub counts: Arc<Counts>,
    /// What it takes to have more nodes; a run has those of its plan.
    pub growth: Option<Growth<'a>>,
}

impl Office<'_> {
    /// Does what is wanted.
    pub(crate) fn answer(
        &self,
        request: Request,
        lab: &mut Lab,
        jobs: &mut Vec<Job>,
        faults: &mut Faults,
    ) -> Reply {
        let mut roll = self.roll.lock();
        let done = match request {
            Request::Lab {} => Ok(Reply::Lab(LabShown {
                experiment: roll.plan.experiment.clone(),
                pid: std::process::id(),
                folder: self.folder.clone(),
                run: self.run,
                nodes: roll.plan.nodes.len(),
                up_for: Span::from_ns(monotonic_now().saturating_sub(self.since)),
            })),
            Request::Nodes { nodes } => self.shown(&roll, &nodes, lab, jobs, faults),
            Request::Befall { what, nodes } => (|| {
                for node in roll.find(&nodes)? {
                    let name = &roll.plan.nodes[node].name;
                    let starts = experiment::PlannedFaultKind::starts(what);
                    if starts && roll.plan.nodes[node].program.is_none() {
                        return Err(format!(
                            "`{name}` has no program of its own to {what}; `run:` in its group \
                             says one, and `thingbed exec {name} -- COMMAND` runs any other"
                        ));
                    }
                    faults.befall(what, (node, name), lab, jobs).map_err(|e| e.to_string())?;
                }
                self.shown(&roll, &nodes, lab, jobs, faults)
            })(),
            Request::Limit { nodes, cpus, memory } => (|| {
                for node in roll.find(&nodes)? {
                    let limits = lab::Limits { cpus, memory, ..lab::Limits::default() };
                    lab.limit(node, &limits).map_err(|e| e.to_string())?;
                    // Its clones are to have them, too.
                    let own = &mut roll.plan.nodes[node].limits;
                    if cpus.is_some() {
                        (own.cpus, own.cpu) = (cpus, None);
                    }
                    own.memory = memory.map(units::Bytes::new).or(own.memory);
                }
                self.shown(&roll, &nodes, lab, jobs, faults)
            })(),
            Request::Destroy { nodes } => roll.find(&nodes).map(|nodes| {
                for node in nodes {
                    jobs.iter_mut().filter(|job| job.node == node).for_each(|job| {
                        job.asked_to_end = true;
                    });
                    lab.destroy(node);
                }
                Reply::Done {}
            }),
            Request::Clone { node, count } => (|| {
                let Some(growth) = &self.growth else {
                    return Err("a run is measured with the nodes of its plan; `thingbed up` \
                                brings up a lab that can grow"
                        .to_owned());
                };
                let names = growth.grow(&mut roll, (&node, count), lab, jobs)?;
                self.shown(&roll, &names, lab, jobs, faults)
            })(),
            Request::End {} => {
                self.interrupted.store(true, Relaxed);
                Ok(Reply::Done {})
            }
            Request::Show { .. }
            | Request::Set { .. }
            | Request::Down { .. }
            | Request::Capture { .. } => Err("not asked of the nodes".to_owned()),
        };
        done.unwrap_or_else(Reply::Refused)
    }

    fn shown(
        &self,
        roll: &Roll,
        which: &[String],
        lab: &Lab,
        jobs: &[Job],
        faults: &Faults,
    ) -> Result<Reply, String> {
        let nodes = match which.is_empty() {
            true => (0..roll.plan.nodes.len()).collect(),
            false => roll.find(which)?,
        };
        let nodes = nodes.into_iter().filter(|node| lab.is_up(*node)).map(|node| {
            let planned = &roll.plan.nodes[node];
            let own = jobs.iter().rfind(|job| job.node == node && job.role == Role::Node);
            let links = planned.links.iter();
            let carried = self.counts.at(node);
            NodeShown {
                name: planned.name.clone(),
                group: planned.group.clone(),
                pid: lab.pids()[node],
                interfaces: links
                    .map(|link| (link.interface.clone(), link.network.clone(), link.address))
                    .collect(),
                program: own.map(|job| {
                    let state = state(job, faults.is_paused(node));
                    (job.argv.join(" "), state)
                }),
                logs: self.folder.join("programs"),
                sent: carried.tx,
                received: carried.rx,
            }
        });
        Ok(Reply::Nodes(nodes.collect()))
    }
}

fn state(job: &Job, paused: bool) -> String {
    match job.state {
        State::Ended { exit: Exit::Signal(_), starved: Some(why), .. } => format!("killed: {why}"),
        State::Ended { exit: Exit::Status(status), .. } => format!("ended with status {status}"),
        State::Ended { exit: Exit::Signal(signal), .. } => format!("killed by signal {signal}"),
        _ if paused => "paused".to_owned(),
        _ => "running".to_owned(),
    }
}
