//! Resolves all networks of a file.

use crate::file::File;
use crate::read::{Named, Sink};
use crate::resolve::bridges::Bridges;
use crate::resolve::networks::{Networks, resolve};
use crate::resolve::nodes::Nodes;
use crate::resolve::on_switch::is_vlan;
use crate::resolve::taken::Taken;
use crate::resolve::{joined_services, links, vlan_networks};
use std::path::Path;

impl<'f> Networks<'f> {
    /// The networks of a file.
    pub fn of(file: &'f File, nodes: &Nodes<'f>, base: &Path, sink: &mut Sink) -> Self {
        let mut networks = Self { networks: Vec::new(), complete: true };
        // Profiles that no network uses are checked, too.
        for (_, _, profile) in file.profiles.iter().flat_map(Named::iter) {
            let channel = profile.channel.as_ref().map(|at| &at.value);
            links::check(channel, profile.links.as_ref(), nodes, base, sink);
        }
        let bridges = Bridges::of(file, nodes, sink);
        let mut taken = Taken::default();
        for (name, place, network) in file.networks.iter().flat_map(Named::iter) {
            if is_vlan(network) {
                continue;
            }
            let before = bridges.addresses_before(name);
            match resolve((name, place, network), before, file, nodes, base, sink) {
                Some(resolved) => {
                    let joint = (bridges.first(name), None);
                    taken.add(name, joint, network, resolved.subnets, sink);
                    networks.networks.push(resolved);
                }
                // Later checks then report no missing network, since it may be this one.
                None => networks.complete = false,
            }
        }
        vlan_networks::add(&mut networks, file, &bridges, &mut taken, sink);
        joined_services::add(&mut networks, file, &bridges, sink);
        networks
    }
}
