//! The node API: shows nodes and injects faults at the request of control clients.

use super::inventory::Inventory;
use super::{LabShown, NodeShown, PAUSED, Reply, Request};
use crate::bed::Bed;
use crate::bed::faults::Faults;
use crate::bed::host_cpu;
use crate::bed::jobs::{Job, Role, State};
use experiment::{NodeChange, PlannedFaultKind, PlannedNode};
use lab::{Exit, Lab};
use std::sync::atomic::Ordering::Relaxed;

impl Bed<'_> {
    /// Executes a request of a control client.
    pub(in crate::bed) fn answer(
        &mut self,
        request: Request,
        jobs: &mut Vec<Job>,
        faults: &mut Faults,
    ) -> Reply {
        let shared = self.inventory.clone();
        let mut inventory = shared.lock();
        let done = match request {
            Request::Lab {} => Ok(Reply::Lab(self.lab_shown(&inventory))),
            Request::Nodes { nodes } => self.shown(&inventory, &nodes, jobs, faults),
            Request::InjectFault { what, nodes } => self
                .inject_fault(&inventory, what, &nodes, jobs, faults)
                .and_then(|()| self.shown(&inventory, &nodes, jobs, faults)),
            Request::Change { nodes, set } => match experiment::node_change(&set) {
                Err(errors) => Ok(Reply::Wrong(errors.to_string())),
                Ok(change) => inventory.find(&nodes).and_then(|found| {
                    change_all(&change, &found, &mut inventory, &mut self.lab)?;
                    self.shown(&inventory, &nodes, jobs, faults)
                }),
            },
            Request::Destroy { nodes } => inventory
                .find(&nodes)
                .and_then(|nodes| self.destroy(&nodes, &mut inventory, jobs, faults))
                .map(|()| Reply::Done {}),
            Request::Clone { node, count } => self
                .add_clones(&mut inventory, &node, count, jobs)
                .and_then(|names| self.shown(&inventory, &names, jobs, faults)),
            Request::Timeline {} => Ok(Reply::Timeline(self.timeline(&inventory, faults))),
            Request::End {} => {
                self.options.interrupted.store(true, Relaxed);
                Ok(Reply::Done {})
            }
            Request::Show { .. }
            | Request::Set { .. }
            | Request::Down { .. }
            | Request::Capture { .. } => Err("this request is not for nodes".to_owned()),
        };
        drop(inventory);
        self.apply_power();
        done.unwrap_or_else(Reply::Refused)
    }

    /// Removes nodes and their programs; they are silent when it returns.
    fn destroy(
        &mut self,
        nodes: &[usize],
        inventory: &mut Inventory,
        jobs: &mut [Job],
        faults: &mut Faults,
    ) -> Result<(), String> {
        for node in nodes {
            // Marked as requested, so that their ends are no failures of the run.
            jobs.iter_mut().filter(|job| job.node == *node).for_each(|job| {
                job.asked_to_end = true;
            });
            self.lab.nodes_mut()[*node].destroy();
            faults.forget(*node);
            self.remove_links(inventory, *node);
        }
        // It answers after that.
        let states = self.engine.remote().states();
        states.map(drop).ok_or_else(|| "the forwarding thread does not answer".to_owned())
    }

    /// Removes the links of a node that is gone, once: its kernel would go on answering.
    pub(in crate::bed) fn remove_links(&self, inventory: &mut Inventory, node: usize) {
        if inventory.gone.insert(node) {
            let remote = self.engine.remote();
            inventory.places(node).into_iter().for_each(|place| remote.detach(place));
        }
    }

    fn lab_shown(&self, inventory: &Inventory) -> LabShown {
        LabShown {
            experiment: inventory.plan.experiment.clone(),
            pid: std::process::id(),
            folder: self.folder.clone(),
            run: self.options.is_measured,
            nodes: inventory.present().count(),
            up_for: clock::now() - self.since,
        }
    }

    /// Injects a fault into all nodes, or none if it cannot be injected into one of them.
    fn inject_fault(
        &mut self,
        inventory: &Inventory,
        what: PlannedFaultKind,
        nodes: &[String],
        jobs: &mut Vec<Job>,
        faults: &mut Faults,
    ) -> Result<(), String> {
        let found = inventory.find(nodes)?;
        let serves = |node: &&usize| inventory.plan.nodes[**node].services.is_some();
        if let Some(node) = found.iter().find(serves).filter(|_| what == PlannedFaultKind::Kill) {
            let name = &inventory.plan.nodes[*node].name;
            return Err(format!(
                "`{name}` runs the services of its network, which cannot be started again; to be \
                 without them for some time: `thingbed pause {name}`, then `thingbed resume {name}`"
            ));
        }
        let without = |node: &&usize| {
            let planned = &inventory.plan.nodes[**node];
            let broker = inventory.plan.broker();
            // Its broker or gateway can start again; it cannot be stopped without a kill. A killed node's
            // radio is off.
            let serves = broker.is_some_and(|(_, broker)| broker.runs_on(&planned.name));
            let is_back = what == PlannedFaultKind::Start && (serves || faults.is_killed(**node));
            planned.program.is_none() && !is_back
        };
        if let Some(node) = found.iter().find(without).filter(|_| what.starts()) {
            let name = &inventory.plan.nodes[*node].name;
            return Err(format!(
                "`{name}` has no program to {what}; add `run:` to its group, or run one with \
                 `thingbed exec {name} -- COMMAND`"
            ));
        }
        for node in found {
            let name = &inventory.plan.nodes[node].name;
            faults.inject(what, node, name, self, jobs).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn shown(
        &self,
        inventory: &Inventory,
        which: &[String],
        jobs: &[Job],
        faults: &Faults,
    ) -> Result<Reply, String> {
        let nodes = match which.is_empty() {
            true => inventory.present().collect(),
            false => inventory.find(which)?,
        };
        let nodes = nodes.into_iter().filter(|node| !self.lab.nodes()[*node].is_gone);
        let nodes = nodes.map(|node| {
            let planned = &inventory.plan.nodes[node];
            // The last one: a restart adds a job and keeps the ended one.
            let own = jobs.iter().rfind(|job| job.node == node && job.role == Role::Node);
            let links = planned.links.iter();
            let carried = self.counts.at(node);
            let machine = inventory.plan.console(planned).map(|console| console.argv.join(" "));
            NodeShown {
                name: planned.name.clone(),
                group: planned.group.clone(),
                pid: self.lab.nodes()[node].kind.pid(),
                interfaces: links
                    .flat_map(|link| {
                        let entry =
                            |address| (link.interface.clone(), link.network.clone(), address);
                        link.addresses().map(entry)
                    })
                    .collect(),
                forwards: planned.forward,
                program: own.map(|job| (machine.unwrap_or_else(|| job.argv.join(" ")), state(job))),
                has_own_stack: planned.has_own_stack(),
                is_killed: faults.is_killed(node),
                boundary: lab::Boundary {
                    rooted: planned.root.is_some(),
                    capabilities: planned.capabilities.clone(),
                    privileged: planned.privileged,
                },
                env: self.variables(planned),
                logs: self.folder.join("programs"),
                sent: carried.tx,
                received: carried.rx,
            }
        });
        Ok(Reply::Nodes(nodes.collect()))
    }
}

impl Bed<'_> {
    /// Variables of a node's programs: the image's, then those of its `env`.
    fn variables(&self, planned: &PlannedNode) -> Vec<(String, String)> {
        let image = self.design.roots.root(planned).map(|root| root.env);
        let own = planned.program.iter().flat_map(|program| &program.env);
        let own = own.map(|(name, value)| (name.clone(), value.clone()));
        image.into_iter().flatten().chain(own).collect()
    }
}

/// Minimum MTU of IPv6, B (RFC 8200, section 5). Below it, the kernel removes the addresses.
const MIN_MTU_V6: u32 = 1280;

/// Refuses an MTU that would end IPv6 on a node.
fn check_mtu(change: &NodeChange, nodes: &[usize], inventory: &Inventory) -> Result<(), String> {
    let Some(mtu) = change.mtu.filter(|mtu| *mtu < MIN_MTU_V6) else { return Ok(()) };
    let planned = nodes.iter().map(|node| &inventory.plan.nodes[*node]);
    let mut links = planned.flat_map(|node| node.links.iter().map(move |link| (node, link)));
    match links.find(|(_, link)| link.addresses().any(|address| address.is_ipv6())) {
        Some((node, link)) => Err(format!(
            "an MTU of {mtu} B on `{}`, which has IPv6 on {}: IPv6 needs {MIN_MTU_V6} B or more; \
             use `mtu={MIN_MTU_V6} B`",
            node.name, link.interface
        )),
        None => Ok(()),
    }
}

/// Changes limits and settings of nodes.
fn change_all(
    change: &NodeChange,
    nodes: &[usize],
    inventory: &mut Inventory,
    lab: &mut Lab,
) -> Result<(), String> {
    check_mtu(change, nodes, inventory)?;
    let cpus = match change.cpu {
        Some(cpu) => Some(
            host_cpu::cpus(&host_cpu::read_host_cpu(), cpu)
                .map_err(|why| format!("{cpu}: {why}"))?,
        ),
        None => change.cpus,
    };
    // Everything that can be refused without the kernel is refused before the first node changes.
    let memory = change.memory.map(units::Bytes::get);
    for &node in nodes {
        if lab.nodes()[node].is_gone {
            continue;
        }
        if cpus.is_some() || memory.is_some() {
            let limits = lab::Limits { cpus, memory, ..lab::Limits::default() };
            lab.limit(node, &limits).map_err(|e| e.to_string())?;
        }
        let (kind, planned) = (&lab.nodes()[node].kind, &mut inventory.plan.nodes[node]);
        if let Some(name) = &change.hostname {
            kind.set_host_name(name).map_err(|e| e.to_string())?;
        }
        for link in planned.links.iter().filter(|_| change.mtu.is_some()) {
            let mtu = change.mtu.unwrap_or_default();
            kind.set_mtu(&link.interface, mtu).map_err(|e| e.to_string())?;
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

/// State of a program.
fn state(job: &Job) -> String {
    match job.state {
        State::Ended { exit: Exit::Signal(_), starved: Some(why), .. } => format!("killed: {why}"),
        State::Ended { exit: Exit::Status(status), .. } => format!("ended with status {status}"),
        State::Ended { exit: Exit::Signal(signal), .. } => format!("killed by signal {signal}"),
        _ if job.is_paused => PAUSED.to_owned(),
        // For the nodes of `after`, or for the services of the networks.
        _ if !job.is_started && job.asked_to_end => "stopped before its start".to_owned(),
        _ if !job.is_started => "waiting".to_owned(),
        _ => "running".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fake::job;

    /// What failed: a program that waited for those of `after` was shown as running.
    #[test]
    fn a_program_that_was_not_started_waits() {
        let waiting = Job { is_started: false, state: State::Starting, ..job(0, Role::Node) };
        assert_eq!(state(&waiting), "waiting");
        assert_eq!(state(&Job { is_started: true, ..waiting }), "running");
        let stopped = Job { is_started: false, asked_to_end: true, ..job(0, Role::Node) };
        assert_eq!(state(&stopped), "stopped before its start");
    }
}
