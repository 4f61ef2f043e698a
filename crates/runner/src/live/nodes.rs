//! What visitors want of nodes: how they are, and what befalls them.

use super::{LabShown, NodeShown, Reply, Request};
use crate::faults::Faults;
use crate::jobs::{Job, Role, State};
use experiment::Plan;
use lab::{Exit, Lab};
use medium::monotonic_now;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use units::Span;

/// Answers about nodes.
pub(crate) struct Office<'a> {
    pub plan: &'a Plan,
    /// The folder of the run or lab.
    pub folder: PathBuf,
    /// Whether a run is measured.
    pub run: bool,
    /// When the lab came up.
    pub since: u64,
    /// Set when a visitor ends the lab.
    pub interrupted: &'a AtomicBool,
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
        let done = match request {
            Request::Lab {} => Ok(Reply::Lab(LabShown {
                experiment: self.plan.experiment.clone(),
                pid: std::process::id(),
                folder: self.folder.clone(),
                run: self.run,
                nodes: self.plan.nodes.len(),
                up_for: Span::from_ns(monotonic_now().saturating_sub(self.since)),
            })),
            Request::Nodes { nodes } => self.shown(&nodes, lab, jobs, faults),
            Request::Befall { what, nodes } => (|| {
                for node in self.find(&nodes)? {
                    let name = &self.plan.nodes[node].name;
                    let starts = experiment::PlannedFaultKind::starts(what);
                    if starts && self.plan.nodes[node].program.is_none() {
                        return Err(format!(
                            "`{name}` has no program of its own to {what}; `run:` in its group \
                             says one, and `thingbed exec {name} -- COMMAND` runs any other"
                        ));
                    }
                    faults.befall(what, (node, name), lab, jobs).map_err(|e| e.to_string())?;
                }
                self.shown(&nodes, lab, jobs, faults)
            })(),
            Request::Limit { nodes, cpus, memory } => (|| {
                for node in self.find(&nodes)? {
                    lab.limit(node, &lab::Limits { cpus, memory }).map_err(|e| e.to_string())?;
                }
                self.shown(&nodes, lab, jobs, faults)
            })(),
            Request::Destroy { nodes } => self.find(&nodes).map(|nodes| {
                for node in nodes {
                    jobs.iter_mut().filter(|job| job.node == node).for_each(|job| {
                        job.asked_to_end = true;
                    });
                    lab.destroy(node);
                }
                Reply::Done {}
            }),
            Request::End {} => {
                self.interrupted.store(true, Relaxed);
                Ok(Reply::Done {})
            }
            Request::Show { .. } | Request::Set { .. } | Request::Down { .. } => {
                Err("not asked of the nodes".to_owned())
            }
        };
        done.unwrap_or_else(Reply::Refused)
    }

    fn shown(
        &self,
        which: &[String],
        lab: &Lab,
        jobs: &[Job],
        faults: &Faults,
    ) -> Result<Reply, String> {
        let nodes = match which.is_empty() {
            true => (0..self.plan.nodes.len()).collect(),
            false => self.find(which)?,
        };
        let nodes = nodes.into_iter().filter(|node| lab.is_up(*node)).map(|node| {
            let planned = &self.plan.nodes[node];
            let own = jobs.iter().rfind(|job| job.node == node && job.role == Role::Node);
            let links = planned.links.iter();
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
            }
        });
        Ok(Reply::Nodes(nodes.collect()))
    }

    fn find(&self, which: &[String]) -> Result<Vec<usize>, String> {
        find(self.plan, which)
    }
}

/// The nodes that names, groups and patterns stand for, each once.
pub(super) fn find(plan: &Plan, which: &[String]) -> Result<Vec<usize>, String> {
    let mut found = Vec::new();
    for text in which {
        let pattern =
            glob::Pattern::new(text).map_err(|error| format!("`{text}` is no pattern: {error}"))?;
        let before = found.len();
        let mut known = false;
        for (index, node) in plan.nodes.iter().enumerate() {
            if node.group == *text || pattern.matches(&node.name) {
                known = true;
                if !found.contains(&index) {
                    found.push(index);
                }
            }
        }
        if !known && found.len() == before {
            return Err(unknown(plan, text));
        }
    }
    Ok(found)
}

fn unknown(plan: &Plan, text: &str) -> String {
    let mut groups: Vec<&str> = plan.nodes.iter().map(|node| node.group.as_str()).collect();
    groups.dedup();
    let some: Vec<_> = groups.iter().take(8).copied().collect();
    let more = if groups.len() > some.len() { ", ..." } else { "" };
    format!("there is no node and no group `{text}`; the groups are {}{more}", some.join(", "))
}

fn state(job: &Job, paused: bool) -> String {
    match job.state {
        State::Ended { exit: Exit::Status(status), .. } => format!("ended with status {status}"),
        State::Ended { exit: Exit::Signal(signal), .. } => format!("killed by signal {signal}"),
        _ if paused => "paused".to_owned(),
        _ => "running".to_owned(),
    }
}
