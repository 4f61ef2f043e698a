//! Scale-up: adds nodes to a running lab.

use super::inventory::Inventory;
use super::names::publish_names;
use crate::bed::Bed;
use crate::bed::host_cpu;
use crate::bed::jobs::{Job, State, own_programs};
use crate::bed::leases;
use crate::bed::neighbours::{self, Neighbours};
use crate::bed::nodes::Nodes;
use crate::bed::topology::{BRIDGE, Topology};
use crate::error::Error;
use engine::{Endpoint, Place};
use experiment::{PlannedLink, PlannedNode};
use measure::Accounting;
use std::os::fd::OwnedFd;

/// Maximum number of clones per request.
/// The frame path `ring` has room for 16,384 ports in all (decision 27).
const MOST: usize = 10_000;

impl Bed<'_> {
    /// Adds `count` clones of `node`; returns their names.
    pub(super) fn add_clones(
        &mut self,
        inventory: &mut Inventory,
        node: &str,
        count: usize,
        jobs: &mut Vec<Job>,
    ) -> Result<Vec<String>, String> {
        if self.options.is_measured {
            return Err("a measured run keeps the nodes of its plan; to add nodes, start a lab \
                        with `thingbed up`"
                .to_owned());
        }
        if self.is_broken {
            return Err(
                "an earlier clone failed half way; stop the lab and start it again".to_owned()
            );
        }
        if !(1..=MOST).contains(&count) {
            return Err(format!("{count} clones; use 1 to {MOST} at once"));
        }
        let original = match inventory.find(&[node.to_owned()])?[..] {
            [one] => one,
            _ => return Err(format!("`{node}` matches several nodes; name the one to clone")),
        };
        // A plan of the new nodes only, which numbers them from 0.
        let mut plan = inventory.plan.clone();
        plan.nodes = inventory.plan.clones(original, count, self.design.topology.members.len())?;
        // Before the topology is made of them: a clone has the settings of now, not of the file.
        self.copy_settings(inventory, original, &mut plan.nodes)?;
        let first = inventory.plan.nodes.len();
        let mut all = inventory.plan.clone();
        all.nodes.extend(plan.nodes.iter().cloned());
        let (own, of_others) = neighbours::added(&all, first);
        let mut topology = Topology::with(&plan, &self.design.roots, own);
        host_cpu::limit(&self.design.host_cpu, &plan, &mut topology.members)
            .map_err(|error| error.to_string())?;
        let ends = self.lab.add(&topology.members).map_err(|error| error.to_string())?;
        let names: Vec<String> = plan.nodes.iter().map(|node| node.name.clone()).collect();
        // The lab has them now, so the plan must number them alike, even if a later step fails.
        inventory.plan.nodes.append(&mut plan.nodes.clone());
        self.attach(inventory, &topology, original, first, ends)?;
        // Without them, others resolve the addresses of the new nodes: their programs start all the same.
        let are_known = self.add_neighbours(inventory, &of_others);
        self.lease(inventory)?;
        // The servers of names and leases read their files again, too.
        publish_names(&inventory.plan, &mut self.lab, jobs).map_err(|error| error.to_string())?;
        let design = &self.design;
        let added = own_programs(
            &inventory.plan,
            &plan.nodes,
            &design.roots,
            self.options.home,
            self.options.workload,
            &design.programs,
        )
        .map_err(|error| error.to_string())?;
        for mut job in added {
            job.node += first;
            // Nothing waits for the readiness of a clone's program.
            job.state = State::Ready;
            self.start(jobs.len(), &job).map_err(|error| error.to_string())?;
            job.is_started = true;
            jobs.push(job);
        }
        are_known.map(|()| names)
    }

    /// Applies the original's current link settings to the clones' links.
    fn copy_settings(
        &self,
        inventory: &Inventory,
        original: usize,
        clones: &mut [PlannedNode],
    ) -> Result<(), String> {
        let states =
            self.engine.remote().states().ok_or("the forwarding thread does not answer")?;
        for (_, segment, endpoint) in inventory.links().filter(|(node, ..)| *node == original) {
            let network = &inventory.plan.networks[segment].name;
            let [up, down] = states[segment][endpoint].each_ref().map(|state| state.settled());
            let links = clones.iter_mut().flat_map(|clone| &mut clone.links);
            let switch = |link: &&mut PlannedLink| {
                let own = inventory.plan.network(&link.network);
                own.is_some_and(|own| own.switch() == network)
            };
            for link in links.filter(switch) {
                (link.up, link.down) = (up.clone(), down.clone());
            }
        }
        Ok(())
    }

    /// Writes the leases of all clones for the servers of their networks.
    fn lease(&self, inventory: &Inventory) -> Result<(), String> {
        let (plan, planned) = (&inventory.plan, self.design.topology.members.len());
        let serves = |node: &&PlannedNode| node.services.is_some_and(|own| own.dhcp);
        for server in plan.nodes.iter().filter(serves) {
            let file = leases::file_of_clones(&self.design.programs, &server.name);
            std::fs::write(&file, leases::lines_of_clones(plan, planned, server))
                .map_err(|error| Error::write(&file)(error).to_string())?;
        }
        Ok(())
    }

    /// Adds new nodes to the permanent neighbours of those before.
    fn add_neighbours(&self, inventory: &Inventory, neighbours: &Neighbours) -> Result<(), String> {
        for ((node, network), entries) in neighbours {
            let planned = &inventory.plan.nodes[*node];
            let network = &inventory.plan.networks[*network].name;
            let mut links = planned.links.iter().enumerate();
            let Some((number, link)) = links.find(|(_, link)| link.network == *network) else {
                continue;
            };
            // A machine has its own kernel.
            let is_own = planned.external.is_some() || planned.tap(number).is_some();
            let node = &self.lab.nodes()[*node];
            if is_own || node.is_gone {
                continue;
            }
            let interface = if planned.is_port(link) { BRIDGE } else { &link.interface };
            let added = node.kind.add_neighbours(interface, entries);
            added.map_err(|error| {
                format!("the new nodes run, but `{}` does not know them: {error}", planned.name)
            })?;
        }
        Ok(())
    }

    /// Attaches the interfaces of clones of a node to the medium.
    fn attach(
        &mut self,
        inventory: &mut Inventory,
        topology: &Topology,
        original: usize,
        first: usize,
        ends: Vec<Vec<OwnedFd>>,
    ) -> Result<(), String> {
        let remote = self.engine.remote();
        let places = inventory.places(original);
        let ends = ends.into_iter().flatten().zip(&topology.places);
        // Place in the engine of the last link, which is the trunk of the interfaces of VLANs behind it.
        let mut last = None;
        for (port, (end, &Place { segment, endpoint })) in ends.enumerate() {
            let node = first + topology.owners[segment][endpoint];
            let mut link: Endpoint = topology.segments[segment].endpoints[endpoint].clone();
            let place = places.iter().find(|place| place.segment == segment);
            link.place = place.map(|place| place.endpoint);
            let name = &topology.names[segment][endpoint];
            let vlan = link.vlan_ports.iter().find(|own| own.port == port).map(|own| own.vlan);
            let attached = match (vlan, last) {
                (Some(vlan), Some(trunk)) => remote.attach_vlan(trunk, vlan, end).map(|()| trunk),
                _ => {
                    let met =
                        move |accounting: &mut Accounting, place| accounting.attach(place, node);
                    remote.attach(segment, link, end, met)
                }
            };
            let place = attached.map_err(|error| {
                self.is_broken = true;
                format!("forwarding could not start for {name}: {error}")
            })?;
            last = Some(place);
            // The engine numbers endpoints in the order of these calls, as the two lists do.
            if vlan.is_none() {
                inventory.owners[segment].push(node);
                inventory.names[segment].push(name.clone());
            }
        }
        Ok(())
    }
}
