//! The node API: shows nodes and injects faults at the request of control clients.

use super::inventory::{Inventory, Shared};
use super::scale_up::ScaleUp;
use super::{LabShown, NodeShown, Reply, Request};
use crate::faults::Faults;
use crate::host_cpu::HostCpu;
use crate::jobs::{Job, Role, State};
use engine::monotonic_now;
use experiment::NodeChange;
use lab::{Exit, Lab};
use measure::Counts;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use units::Span;

/// Answers node requests of control clients.
pub(crate) struct NodeApi<'a> {
    pub inventory: Shared,
    /// The folder of the run or lab.
    pub folder: PathBuf,
    /// Whether it is a measured run.
    pub run: bool,
    /// Time at which the lab came up.
    pub since: u64,
    /// Set when a client stops the lab.
    pub interrupted: &'a AtomicBool,
    /// Frames and bytes that nodes sent and received.
    pub counts: Arc<Counts>,
    /// Adds nodes; `None` in a run, which keeps the nodes of its plan.
    pub scale_up: Option<ScaleUp<'a>>,
}

impl NodeApi<'_> {
    /// Executes a request.
    pub(crate) fn answer(
        &self,
        request: Request,
        lab: &mut Lab,
        jobs: &mut Vec<Job>,
        faults: &mut Faults,
    ) -> Reply {
        let mut inventory = self.inventory.lock();
        let done = match request {
            Request::Lab {} => Ok(Reply::Lab(LabShown {
                experiment: inventory.plan.experiment.clone(),
                pid: std::process::id(),
                folder: self.folder.clone(),
                run: self.run,
                nodes: inventory.present().count(),
                up_for: Span::from_ns(monotonic_now().saturating_sub(self.since)),
            })),
            Request::Nodes { nodes } => self.shown(&inventory, &nodes, lab, jobs, faults),
            Request::InjectFault { what, nodes } => (|| {
                let found = inventory.find(&nodes)?;
                // All nodes or none.
                let without = |node: &&usize| inventory.plan.nodes[**node].program.is_none();
                if let Some(node) = found.iter().find(without).filter(|_| what.starts()) {
                    let name = &inventory.plan.nodes[*node].name;
                    return Err(format!(
                        "`{name}` has no program to {what}; add `run:` to its group, or run one \
                         with `thingbed exec {name} -- COMMAND`"
                    ));
                }
                for node in found {
                    let name = &inventory.plan.nodes[node].name;
                    faults
                        .inject(what, (node, name), lab.nodes(), jobs)
                        .map_err(|e| e.to_string())?;
                }
                self.shown(&inventory, &nodes, lab, jobs, faults)
            })(),
            Request::Change { nodes, set } => match experiment::node_change(&set) {
                Err(errors) => Ok(Reply::Wrong(errors.to_string())),
                Ok(change) => inventory.find(&nodes).and_then(|found| {
                    change_all(&change, &found, &mut inventory, lab)?;
                    self.shown(&inventory, &nodes, lab, jobs, faults)
                }),
            },
            Request::Destroy { nodes } => inventory.find(&nodes).map(|nodes| {
                for node in nodes {
                    jobs.iter_mut().filter(|job| job.node == node).for_each(|job| {
                        job.asked_to_end = true;
                    });
                    lab.nodes_mut()[node].destroy();
                    inventory.gone.insert(node);
                }
                Reply::Done {}
            }),
            Request::Clone { node, count } => (|| {
                let Some(scale_up) = &self.scale_up else {
                    return Err(
                        "a measured run keeps the nodes of its plan; to add nodes, start a \
                                lab with `thingbed up`"
                            .to_owned(),
                    );
                };
                let names = scale_up.add_clones(&mut inventory, (&node, count), lab, jobs)?;
                self.shown(&inventory, &names, lab, jobs, faults)
            })(),
            Request::End {} => {
                self.interrupted.store(true, Relaxed);
                Ok(Reply::Done {})
            }
            Request::Show { .. }
            | Request::Set { .. }
            | Request::Down { .. }
            | Request::Capture { .. } => Err("this request is not for nodes".to_owned()),
        };
        done.unwrap_or_else(Reply::Refused)
    }

    fn shown(
        &self,
        inventory: &Inventory,
        which: &[String],
        lab: &Lab,
        jobs: &[Job],
        faults: &Faults,
    ) -> Result<Reply, String> {
        let nodes = match which.is_empty() {
            true => inventory.present().collect(),
            false => inventory.find(which)?,
        };
        let nodes = nodes.into_iter().filter(|node| !lab.nodes()[*node].is_gone).map(|node| {
            let planned = &inventory.plan.nodes[node];
            let own = jobs.iter().rfind(|job| job.node == node && job.role == Role::Node);
            let links = planned.links.iter();
            let carried = self.counts.at(node);
            NodeShown {
                name: planned.name.clone(),
                group: planned.group.clone(),
                pid: lab.nodes()[node].kind.pid(),
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

/// Changes limits and settings of nodes.
fn change_all(
    change: &NodeChange,
    nodes: &[usize],
    inventory: &mut Inventory,
    lab: &mut Lab,
) -> Result<(), String> {
    let cpus = match change.cpu {
        Some(cpu) => Some(HostCpu::here().cpus(cpu).map_err(|why| format!("{cpu}: {why}"))?),
        None => change.cpus,
    };
    let memory = change.memory.map(units::Bytes::get);
    for &node in nodes {
        if lab.nodes()[node].is_gone {
            continue;
        }
        if cpus.is_some() || memory.is_some() {
            let limits = lab::Limits { cpus, memory, ..lab::Limits::default() };
            lab.limit(node, &limits).map_err(|e| e.to_string())?;
        }
        let (pid, planned) = (lab.nodes()[node].kind.pid(), &mut inventory.plan.nodes[node]);
        if let Some(name) = &change.hostname {
            lab::set_host_name(pid, name).map_err(|e| e.to_string())?;
        }
        for link in planned.links.iter().filter(|_| change.mtu.is_some()) {
            let mtu = change.mtu.unwrap_or_default();
            lab::set_mtu(pid, &link.interface, mtu).map_err(|e| e.to_string())?;
        }
        // Clones of it get them, too.
        let own = &mut planned.limits;
        if cpus.is_some() {
            (own.cpus, own.cpu) = (change.cpus, change.cpu);
        }
        own.memory = change.memory.or(own.memory);
    }
    Ok(())
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
