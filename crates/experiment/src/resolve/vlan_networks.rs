//! Resolves networks that are VLANs of another network's switch, and which nodes have addresses there.

use crate::file::{Addressing, File, Network};
use crate::limits::{NETWORK_VLANS, use_range};
use crate::mac::Mac;
use crate::nearest::advice;
use crate::plan::{Backend, PlannedLink, PlannedVlan};
use crate::problem::Problem;
use crate::read::{Named, Sink};
use crate::resolve::bridges::Bridges;
use crate::resolve::networks::{Networks, Planned, Resolved, is_advertised, services};
use crate::resolve::on_switch::{OnSwitch, is_vlan};
use crate::resolve::subnets::{self, Subnets};
use crate::resolve::taken::Taken;
use crate::source::Place;
use link::{DEFAULT_VLAN, PortVlans};

/// Adds the networks that are VLANs, behind all others.
pub(super) fn add<'f: 'n, 'n>(
    networks: &mut Networks<'f>,
    file: &'f File,
    bridges: &'n Bridges<'f>,
    taken: &mut Taken<'n>,
    sink: &mut Sink,
) {
    let switches = networks.networks.len();
    for (name, place, network) in file.networks.iter().flat_map(Named::iter) {
        if !is_vlan(network) {
            continue;
        }
        let Some(resolved) = resolve(name, place, network, file, networks, sink) else {
            networks.complete = false;
            continue;
        };
        let Some(on) = resolved.on else { continue };
        let joint = (bridges.first(networks.networks[on.switch].name), Some(on.number));
        taken.add(name, joint, network, resolved.subnets, sink);
        let position = networks.networks.len();
        let own = &mut networks.networks[on.switch].own_vlans;
        own.push((on.number, position));
        own.sort_unstable();
        networks.networks.push(resolved);
    }
    for (_, place, network) in file.networks.iter().flat_map(Named::iter) {
        check_services(&networks.networks[..switches], network, place, sink);
    }
}

fn resolve<'f>(
    name: &'f str,
    place: Place,
    network: &'f Network,
    file: &'f File,
    networks: &Networks<'f>,
    sink: &mut Sink,
) -> Option<Resolved<'f>> {
    // The reader has reported one without the other.
    let (at, vlan) = (network.switch.as_ref()?, network.vlan.as_ref()?);
    check_keys(name, network, sink);
    let number = Some(vlan.value).filter(|number| NETWORK_VLANS.contains(number));
    let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else {
        let range = use_range(&NETWORK_VLANS);
        let text = format!("{} cannot be the VLAN of a network", vlan.value);
        let label = format!("{range}; VLAN {DEFAULT_VLAN} has the subnet of `{}`", at.value);
        sink.add(Problem::new(text).at(vlan.place).label(label));
        return None;
    };
    let position = networks.networks.iter().position(|other| other.name == at.value);
    let Some(position) = position.filter(|at| networks.networks[*at].on.is_none()) else {
        let typed = file.networks.as_ref().and_then(|all| all.get(&at.value));
        let (text, label) = match typed {
            Some(other) if is_vlan(other) => (
                format!("`{}` is a VLAN, too", at.value),
                "name the network that has `attach` and `vlans`".to_owned(),
            ),
            // Its problem was reported.
            Some(_) => return None,
            None => {
                let known = file.networks.iter().flat_map(Named::names);
                let label = advice(&at.value, known.map(String::as_str));
                (format!("unknown network `{}`", at.value), label)
            }
        };
        sink.add(Problem::new(text).at(at.place).label(label));
        return None;
    };
    let switch = &networks.networks[position];
    let other = switch.own_vlans.binary_search_by_key(&number, |(own, _)| *own);
    if let Ok(other) = other {
        let other = networks.networks[switch.own_vlans[other].1].name;
        let text = format!("`{other}` and `{name}` are both the VLAN {number} of `{}`", at.value);
        sink.add(Problem::new(text).at(vlan.place).label("remove one, or change its number"));
        return None;
    }
    if !switch.vlans.values().any(|vlans| vlans.carries(number)) {
        let text = format!("no node of `{}` is in the VLAN {number}", at.value);
        let label = format!("add a group to `vlans` of `{}`, such as `GROUP: {number}`", at.value);
        sink.add(Problem::new(text).at(vlan.place).label(label));
        return None;
    }
    check_backend(switch, number, place, sink);
    let services = services(network);
    let size = switch.before + switch.members.size + u64::from(services.any());
    let subnets = Subnets::of(network, size, Some(switch.mtu), sink)?;
    Some(Resolved {
        name,
        subnets,
        timetable: Vec::new(),
        services,
        served: services,
        advertise: is_advertised(network),
        on: Some(OnSwitch { switch: position, number }),
        own_vlans: Vec::new(),
        pair_losses: Vec::new(),
        ..switch.clone()
    })
}

/// Reports keys that only the switch can have.
fn check_keys(name: &str, network: &Network, sink: &mut Sink) {
    let keys = [
        ("attach", network.attach.is_some()),
        ("mtu", network.mtu.is_some()),
        ("offload", network.offload.is_some()),
        ("profile", network.profile.is_some()),
        ("backend", network.backend.is_some()),
        ("channel", network.channel.is_some()),
        ("links", network.links.is_some()),
        ("timetable", network.timetable.is_some()),
        ("vlans", network.vlans.is_some()),
        ("mqtt", network.mqtt.is_some()),
        ("source_addresses", network.source_addresses.is_some()),
        ("query_interval", network.query_interval.is_some()),
    ];
    let Some(at) = &network.switch else { return };
    if let Some((key, _)) = keys.into_iter().find(|(_, has)| *has) {
        let text = format!("`{name}` is a VLAN of `{}` and has `{key}`", at.value);
        let label =
            format!("move `{key}` to `{}`: its nodes and links are those of the VLAN", at.value);
        sink.add(Problem::new(text).at(at.place).label(label));
    }
}

/// Reports trunks to nodes under netem, which impairs each interface alone.
fn check_backend(switch: &Resolved<'_>, number: u16, place: Place, sink: &mut Sink) {
    let trunk = switch
        .vlans
        .iter()
        .find(|(group, vlans)| vlans.tags(number) && !switch.without_interfaces.contains(*group));
    if let Some((trunk, _)) = trunk.filter(|_| switch.backend == Backend::Netem) {
        let text =
            format!("`{trunk}` has a trunk on `{}`, which has `backend: netem`", switch.name);
        let label = "netem would impair each VLAN alone: use `backend: medium`";
        sink.add(Problem::new(text).at(place).label(label));
    }
}

/// Reports services that VLANs without a subnet do not reach.
fn check_services(switches: &[Resolved<'_>], network: &Network, place: Place, sink: &mut Sink) {
    let Some(vlans) = &network.vlans else { return };
    let own = switches.iter().find(|own| own.place == place && own.services.any());
    let Some(own) = own else { return };
    let without = own.vlans.values().map(PortVlans::untagged).find(|vlan| {
        *vlan != DEFAULT_VLAN && !own.own_vlans.iter().any(|(number, _)| number == vlan)
    });
    let Some(vlan) = without else { return };
    let name = own.name;
    let text = format!("VLAN {vlan} of `{name}` does not reach its services");
    let label = format!(
        "make a network of the VLAN, `NAME: {{switch: {name}, vlan: {vlan}, subnet: ...}}`, with services \
         if it needs any, or remove `nat`, `dhcp` and `dns`"
    );
    sink.add(Problem::new(text).at(vlans.place).label(label));
}

impl Resolved<'_> {
    /// Index of the address of the node at `index` of `group`, if it has an address of this network,
    /// and the names of its link in the file.
    pub(super) fn find(&self, group: &str, index: u64) -> Option<(u64, [String; 2])> {
        let (address, names) = self.members.find(group, index)?;
        self.has_address(group, &names).then_some((address, names))
    }

    fn has_address(&self, group: &str, names: &[String; 2]) -> bool {
        let Some(vlans) = self.vlans(names) else { return true };
        match self.on {
            // Others have the subnet of their VLAN.
            None => self.own_vlan(vlans.untagged()).is_none(),
            Some(OnSwitch { number, .. }) => {
                let has_interface = || !self.without_interfaces.contains(&group);
                vlans.untagged() == number || (vlans.tags(number) && has_interface())
            }
        }
    }

    /// Position of the network that is the VLAN `number` of this one.
    fn own_vlan(&self, number: u16) -> Option<usize> {
        let at = self.own_vlans.binary_search_by_key(&number, |(own, _)| *own).ok()?;
        Some(self.own_vlans[at].1)
    }

    /// Whether all nodes that are attached have an address.
    fn is_whole(&self) -> bool {
        self.on.is_none() && self.own_vlans.is_empty()
    }

    /// Whether the node at `index` of `group` has an address of this network.
    pub(super) fn has_node(&self, group: &str, index: u64) -> bool {
        self.find(group, index).is_some()
    }

    /// Number of nodes of `group` to look at: one, if all are in the same VLANs.
    fn kinds(&self, group: &str) -> u64 {
        let is_single =
            |name: &&str| name.strip_prefix(group).is_some_and(|number| number.starts_with('-'));
        let are_alike = self.members.has_all(group) && !self.vlans.keys().any(is_single);
        if are_alike { 1 } else { self.members.count(group) }
    }

    /// Whether any node of `group` has an address of this network.
    pub(super) fn has(&self, group: &str) -> bool {
        let any = || (0..self.kinds(group)).any(|index| self.has_node(group, index));
        self.members.has(group) && (self.is_whole() || any())
    }

    /// Whether all nodes of `group` have an address of this network.
    pub(super) fn has_all(&self, group: &str) -> bool {
        let all = || (0..self.kinds(group)).all(|index| self.has_node(group, index));
        self.members.has_all(group) && (self.is_whole() || all())
    }
}

impl<'f> Networks<'f> {
    /// The network whose switch a network uses: itself, or that of its VLAN.
    pub(super) fn switch_of<'n>(&'n self, network: &'n Resolved<'f>) -> &'n Resolved<'f> {
        network.on.map_or(network, |on| &self.networks[on.switch])
    }

    /// VLANs of the port of a network's services.
    pub(super) fn port_of_services(&self, network: &Resolved<'_>) -> Option<PortVlans> {
        let vlan = network.on.map_or(DEFAULT_VLAN, |on| on.number);
        (!network.vlans.is_empty()).then_some(PortVlans::Access(vlan))
    }

    /// The VLAN that a network is.
    pub(super) fn vlan_of(&self, network: &Resolved<'_>) -> Option<PlannedVlan> {
        let OnSwitch { switch, number } = network.on?;
        Some(PlannedVlan { switch: self.networks[switch].name.to_owned(), number })
    }

    /// Links of the node at `index` of `group`, each followed by those of the VLANs of its trunk. Its
    /// addresses come from `source` where a network has it.
    pub fn links(&self, group: &str, index: u64, source: Addressing) -> Vec<PlannedLink> {
        let mut links = Vec::new();
        let on = self.networks.iter().filter(|network| network.on.is_none());
        let on = on.filter_map(|switch| Some((switch, switch.members.find(group, index)?)));
        for (number, (switch, (address, names))) in on.enumerate() {
            let vlans = switch.vlans(&names);
            let impaired = switch.impairments(&names);
            let interface = format!("eth{number}");
            let untagged = vlans.as_ref().and_then(|own| switch.own_vlan(own.untagged()));
            let network = untagged.map_or(switch, |at| &self.networks[at]);
            let made = link(network, address, source, interface, vlans, impaired.clone());
            let Some(own) = made else { continue };
            let Some(PortVlans::Trunk(_)) = own.vlans else {
                links.push(own);
                continue;
            };
            let (mac, trunk) = (own.mac, own.interface.clone());
            links.push(own);
            for (vlan, at) in &switch.own_vlans {
                let network = &self.networks[*at];
                if !network.has_node(group, index) {
                    continue;
                }
                let (interface, vlans) = (format!("{trunk}.{vlan}"), PortVlans::Access(*vlan));
                let made = link(network, address, source, interface, Some(vlans), impaired.clone());
                links.extend(made.map(|own| PlannedLink {
                    mac,
                    trunk: Some(trunk.clone()),
                    ..own
                }));
            }
        }
        links
    }
}

/// A link with the address at `index` of `network`.
fn link(
    network: &Resolved<'_>,
    index: u64,
    source: Addressing,
    interface: String,
    vlans: Option<PortVlans>,
    Planned { up, down, states, profile }: Planned,
) -> Option<PlannedLink> {
    let (address, second_address) = network.subnets.addresses(network.before + index)?;
    Some(PlannedLink {
        network: network.name.to_owned(),
        interface,
        address,
        second_address,
        by_dhcp: source == Addressing::Dhcp && network.served.dhcp,
        by_slaac: source == Addressing::Slaac && network.advertise,
        mac: Mac::from(subnets::of_mac(address, second_address)),
        profile,
        up,
        down,
        states,
        vlans,
        trunk: None,
    })
}

#[cfg(test)]
#[path = "vlan_networks_tests.rs"]
mod tests;
