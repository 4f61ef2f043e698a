//! Services of networks that bridges join: one of them has the services, for all.

use crate::file::{File, Network};
use crate::plan::PlannedServices;
use crate::problem::Problem;
use crate::read::Sink;
use crate::resolve::bridges::Bridges;
use crate::resolve::networks::{Networks, Resolved};
use crate::source::Place;
use std::collections::HashMap;

/// Sets the services that the nodes of each network have.
pub(super) fn add(
    networks: &mut Networks<'_>,
    file: &File,
    bridges: &Bridges<'_>,
    sink: &mut Sink,
) {
    // Joined networks, by the first of their switches and the VLAN.
    let mut sets: HashMap<(&str, Option<u16>), Vec<usize>> = HashMap::new();
    for (at, network) in networks.networks.iter().enumerate() {
        let switch = networks.switch_of(network).name;
        let key = (bridges.first(switch), network.on.map(|on| on.number));
        sets.entry(key).or_default().push(at);
    }
    let mut sets: Vec<Vec<usize>> = sets.into_values().filter(|set| set.len() > 1).collect();
    // A hash map has no order, and errors should be the same each time.
    sets.sort_unstable();
    for set in sets {
        let advertise = set.iter().any(|at| networks.networks[*at].advertise);
        set.iter().for_each(|at| networks.networks[*at].advertise = advertise);
        let with = set.iter().filter(|at| networks.networks[**at].services.any());
        let with: Vec<usize> = with.copied().collect();
        let [first, others @ ..] = &with[..] else { continue };
        let first = networks.networks[*first].clone();
        let Some((_, place)) = first_key(file, first.name) else { continue };
        if let Some(second) = others.first() {
            let second = networks.networks[*second].name;
            let Some((key, place)) = first_key(file, second) else { continue };
            let text =
                format!("a bridge joins `{second}` with `{}`, and both have services", first.name);
            let label = format!("remove `{key}`: the services of `{}` serve both", first.name);
            sink.add(Problem::new(text).at(place).label(label));
        }
        check_room(&set, &first, networks, place, sink);
        // Also after that mistake, so that no group lacks a server in addition.
        let all = with.iter().map(|at| networks.networks[*at].services);
        let served = all.fold(first.services, |all, own| PlannedServices {
            nat: all.nat || own.nat,
            dhcp: all.dhcp || own.dhcp,
            dns: all.dns || own.dns,
        });
        for at in set {
            networks.networks[at].served = served;
        }
    }
}

/// The first key of a service that a network has.
fn first_key(file: &File, name: &str) -> Option<(&'static str, Place)> {
    let Network { nat, dhcp, dns, .. } = file.networks.as_ref()?.get(name)?;
    let keys = [("nat", nat), ("dhcp", dhcp), ("dns", dns)];
    let given = keys.into_iter().filter_map(|(key, at)| Some((key, at.as_ref()?)));
    given.filter(|(_, at)| at.value).map(|(key, at)| (key, at.place)).next()
}

/// Reports a node of joined networks at the last address, which is that of the services.
fn check_room(
    set: &[usize],
    first: &Resolved<'_>,
    networks: &Networks<'_>,
    place: Place,
    sink: &mut Sink,
) {
    let sizes =
        set.iter().map(|at| &networks.networks[*at]).map(|own| own.before + own.members.size);
    let nodes = sizes.max().unwrap_or_default();
    if nodes > first.subnets.last() {
        let (name, subnet) = (first.name, first.subnets.first);
        let text = format!(
            "{nodes} nodes of the networks that bridges join with `{name}`, and its services, do not fit \
             into {subnet}"
        );
        sink.add(
            Problem::new(text).at(place).label("use a subnet with a shorter prefix on all of them"),
        );
    }
}
