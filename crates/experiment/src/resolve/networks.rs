//! Resolves networks: nodes, addresses and impairments.

use crate::file::{Channel, File, Impairment, Link, Network, Profile};
use crate::plan::{
    Backend, PlannedChange, PlannedNetwork, PlannedProfile, PlannedServices, QUERY_INTERVAL,
    SourceAddresses,
};
use crate::problem::Problem;
use crate::profile::LinkProfile;
use crate::read::{At, Named, Sink};
use crate::resolve::directions::directions;
use crate::resolve::links;
use crate::resolve::lowpan;
use crate::resolve::members::Members;
use crate::resolve::mtu;
use crate::resolve::netem;
use crate::resolve::nodes::Nodes;
use crate::resolve::on_switch::{OnSwitch, without_interfaces};
use crate::resolve::reception::Radio;
use crate::resolve::subnets::Subnets;
use crate::resolve::timetable;
use crate::resolve::vlans;
use crate::source::Place;
use link::{DEFAULT_VLAN, PairLoss, PortVlans, StatesSpec};
use std::path::Path;
use std::rc::Rc;
use units::{Bytes, Rate, Span};

/// Default multicast rate of a network without a rate, bit/s.
/// PGM never sends without a limit (decision 10).
const DEFAULT_MULTICAST_RATE: u64 = 100_000_000;

/// A resolved network. What the VLANs of a switch have in common is shared.
#[derive(Clone)]
pub(super) struct Resolved<'f> {
    pub(super) name: &'f str,
    pub(super) subnets: Subnets,
    pub(super) mtu: Bytes,
    pub(super) backend: Backend,
    pub(super) offload: bool,
    pub(super) channel: Option<Channel>,
    /// Links of groups and nodes by name.
    pub(super) links: Rc<Vec<(&'f str, Planned)>>,
    pub(super) source_addresses: SourceAddresses,
    pub(super) query_interval: Span,
    pub(super) timetable: Vec<PlannedChange>,
    pub(super) members: Rc<Members<'f>>,
    /// Number of addresses that nodes of joined networks have before those of this one.
    pub(super) before: u64,
    pub(super) vlans: Rc<vlans::OfNames<'f>>,
    pub(super) services: PlannedServices,
    /// Those of the networks that bridges join with it, too.
    pub(super) served: PlannedServices,
    /// Whether all its routers send advertisements.
    pub(super) advertise: bool,
    /// The VLAN that it is.
    pub(super) on: Option<OnSwitch>,
    /// Numbers and positions of the networks that are its VLANs, in ascending order.
    pub(super) own_vlans: Vec<(u16, usize)>,
    /// Groups whose trunks have no interfaces of VLANs.
    pub(super) without_interfaces: Vec<&'f str>,
    /// Where the file has it.
    pub(super) place: Place,
    pub(super) pair_losses: Vec<PairLoss<String>>,
}

/// The planned links of a group.
#[derive(Debug, Clone, Default)]
pub(super) struct Planned {
    pub(super) up: link::Impairment,
    pub(super) down: link::Impairment,
    pub(super) states: Option<StatesSpec>,
    pub(super) profile: Option<PlannedProfile>,
}

/// The networks of a file.
pub(super) struct Networks<'f> {
    pub(super) networks: Vec<Resolved<'f>>,
    /// Whether all networks resolved; otherwise reachability is unknown.
    pub complete: bool,
}

impl<'f> Networks<'f> {
    pub fn planned(&self) -> Vec<PlannedNetwork> {
        let planned = self.networks.iter().map(|network| PlannedNetwork {
            name: network.name.to_owned(),
            backend: network.backend,
            vlan: self.vlan_of(network),
            channel: network.channel(),
            subnet: network.subnets.first,
            prefix: network.subnets.first.prefix(),
            second_subnet: network.subnets.second,
            mtu: network.mtu,
            offload: network.offload,
            source_addresses: network.source_addresses,
            query_interval: network.query_interval,
            // Resolved after the nodes.
            mqtt: None,
            advertise: network.advertise,
            timetable: network.timetable.clone(),
            pair_losses: network.pair_losses.clone(),
        });
        planned.collect()
    }

    /// Whether the network has segmentation offload.
    pub fn has_offload(&self, name: &str) -> bool {
        self.networks.iter().any(|network| network.name == name && network.offload)
    }

    /// MTU of a network.
    pub fn mtu(&self, name: &str) -> Option<u64> {
        let network = self.networks.iter().find(|network| network.name == name)?;
        Some(network.mtu.get())
    }

    /// Names of the networks that all `groups` are attached to.
    pub fn shared_by(&self, groups: &[&str]) -> Vec<&'f str> {
        let all_on = |network: &&Resolved<'_>| groups.iter().all(|group| network.has_all(group));
        self.networks.iter().filter(all_on).map(|network| network.name).collect()
    }

    /// Rate of a network, for multicast.
    pub fn rate(&self, name: &str) -> Option<Rate> {
        let network = self.networks.iter().find(|network| network.name == name);
        network.and_then(Resolved::rate).or(Rate::from_bit_s(DEFAULT_MULTICAST_RATE))
    }
}

impl Resolved<'_> {
    fn channel(&self) -> link::Channel {
        match &self.channel {
            None | Some(Channel::Switch) => link::Channel::Switch,
            Some(Channel::Shared(rate)) => link::Channel::Shared(*rate),
            Some(Channel::Csma(csma)) => {
                let subnet = self.subnets.iter().find(|subnet| subnet.is_ipv6());
                link::Channel::Csma(lowpan::with_contexts(csma, subnet))
            }
            Some(Channel::Cell(cell)) => link::Channel::Cell { up: cell.up, down: cell.down },
            Some(Channel::Wifi(wifi)) => link::Channel::Wifi(wifi.clone()),
            Some(Channel::Aloha(aloha)) => link::Channel::Aloha(aloha.clone()),
        }
    }

    /// Those of the first of `names` that has any.
    pub(super) fn impairments(&self, names: &[String]) -> Planned {
        let mut found = names.iter().filter_map(|selected| {
            self.links.iter().find(|(name, _)| name == selected).map(|(_, planned)| planned.clone())
        });
        // Without an entry in `links`, a link has no impairments.
        found.next().unwrap_or_default()
    }

    /// The VLANs of the first of `names` that has any.
    pub(super) fn vlans(&self, names: &[String]) -> Option<PortVlans> {
        if self.vlans.is_empty() {
            return None;
        }
        let found = names.iter().find_map(|name| self.vlans.get(name.as_str()));
        Some(found.cloned().unwrap_or(PortVlans::Access(DEFAULT_VLAN)))
    }

    /// The shared rate, else the rate of the slowest link.
    fn rate(&self) -> Option<Rate> {
        match self.channel() {
            link::Channel::Shared(rate) => return Some(rate),
            link::Channel::Cell { up, down } => return Some(up.min(down)),
            link::Channel::Csma(csma) => return Some(csma.rate),
            link::Channel::Wifi(wifi) => return Some(wifi.basic_rate),
            link::Channel::Switch | link::Channel::Aloha(_) => {}
        }
        let own = self.links.iter().filter(|(name, _)| self.members.has_link(name));
        let directions = own.flat_map(|(_, link)| [link.up.rate(), link.down.rate()]);
        directions.flatten().min()
    }
}

/// Resolves a network that is no VLAN of another one.
pub(super) fn resolve<'f>(
    (name, place, network): (&'f str, Place, &'f Network),
    before: u64,
    file: &'f File,
    nodes: &Nodes<'f>,
    base: &Path,
    sink: &mut Sink,
) -> Option<Resolved<'f>> {
    let placed = channel_of(network, file);
    let mtu = match lowpan::is_on(placed.map(|at| &at.value)) {
        true => lowpan::check(name, network, sink),
        false => mtu::check(network, sink),
    };
    let own = network.channel.as_ref().map(|at| &at.value);
    links::check(own, network.links.as_ref(), nodes, base, sink);
    let empty = Named::default();
    let profiles = file.profiles.as_ref().unwrap_or(&empty);
    let profile =
        network.profile.as_ref().map(|profile| profiles.find(profile, "profile", sink).is_some());
    has_nodes(name, place, network, sink).then_some(())?;
    let (members, complete) = Members::of(name, network, nodes, sink);
    let services = services(network);
    // The node of services has the last address of the subnet (decision 19).
    let size = before + members.size + u64::from(services.any());
    let subnets = Subnets::of(network, size, mtu, sink)?;
    if profile == Some(false) || !complete {
        return None;
    }
    let profile = profile_of(network, file);
    // The reader refuses these keys next to a profile, so nothing is overridden here.
    let links = profile.map_or(&network.links, |profile| &profile.links).as_ref();
    let mtu = mtu?;
    let channel = placed.map(|at| &at.value);
    for way in directions(links).map(|(_, way, _)| way) {
        way.check_mtu(mtu, sink);
    }
    let own = profile.and_then(|profile| profile.timetable.as_ref());
    let entries = own.into_iter().chain(&network.timetable).flatten();
    let backend = network.backend.as_ref().map_or(Backend::Medium, |at| at.value);
    if backend == Backend::Netem {
        netem::check((name, entries.clone()), placed, links, sink);
    }
    let offload = check_offload(network, sink);
    let timetable = timetable::of((name, entries), links, &members, nodes, (channel, mtu), sink);
    let links = planned_links(links, base);
    let pair_losses = placed.map(|at| {
        let radio = Radio { name, place: at.place, members: &members, nodes, services };
        radio.losses(&at.value, &|name| has_lora(&links, name), base, sink)
    });
    let channel = channel.cloned();
    let vlans = vlans::of(name, network, &members, nodes, sink);
    Some(Resolved {
        name,
        subnets,
        mtu,
        backend,
        offload,
        channel,
        links: Rc::new(links),
        source_addresses: network
            .source_addresses
            .as_ref()
            .map_or_else(Default::default, |at| at.value),
        query_interval: check_interval(network, sink)?,
        timetable,
        members: Rc::new(members),
        before,
        vlans: Rc::new(vlans),
        services,
        served: services,
        advertise: is_advertised(network),
        on: None,
        own_vlans: Vec::new(),
        without_interfaces: without_interfaces(network, file),
        place,
        pair_losses: pair_losses.unwrap_or_default(),
    })
}

/// Whether the links of a group or node have `lora`; `None` if `links` has no entry of it.
fn has_lora(links: &[(&str, Planned)], name: &str) -> Option<bool> {
    let link = links.iter().find(|(own, _)| *own == name);
    link.map(|(_, link)| link.up.transmission.lora().is_some())
}

/// Whether any group is attached.
fn has_nodes(name: &str, place: Place, network: &Network, sink: &mut Sink) -> bool {
    let has = network.attach.as_ref().is_some_and(|attach| !attach.value.0.is_empty());
    if !has {
        let problem = Problem::new(format!("the network `{name}` has no nodes"));
        let label = "attach groups, `attach: [...]`, or remove it";
        sink.add(problem.at(place).label(label));
    }
    has
}

pub(super) fn is_advertised(network: &Network) -> bool {
    network.advertise.as_ref().is_some_and(|advertise| advertise.value)
}

pub(super) fn services(network: &Network) -> PlannedServices {
    let given = |at: &Option<At<bool>>| at.as_ref().is_some_and(|at| at.value);
    PlannedServices {
        nat: given(&network.nat),
        dhcp: given(&network.dhcp),
        dns: given(&network.dns),
    }
}

/// The links of groups and nodes by name. Problems with files were reported at the links before.
fn planned_links<'f>(links: Option<&'f Named<Link>>, base: &Path) -> Vec<(&'f str, Planned)> {
    let discard = &mut Sink::default();
    let mut way = |way: Option<&Impairment>| {
        way.map(|impairment| impairment.resolve(base, discard)).unwrap_or_default()
    };
    let links = links.into_iter().flat_map(Named::iter);
    let links = links.map(|(group, _, link)| {
        let states = link.states.as_ref().map(|at| at.value.0.clone());
        let profile = link.profile.as_ref().and_then(|at| LinkProfile::find(&at.value, base).ok());
        let profile = profile.map(|profile| PlannedProfile::of(&profile));
        let (up, down) = (way(link.up.as_ref()), way(link.down.as_ref()));
        (group, Planned { up, down, states, profile })
    });
    links.collect()
}

/// The profile of the file that a network has.
fn profile_of<'f>(network: &Network, file: &'f File) -> Option<&'f Profile> {
    let name = network.profile.as_ref()?;
    file.profiles.as_ref()?.get(&name.value)
}

/// The network's channel, or that of its profile in the file.
fn channel_of<'f>(network: &'f Network, file: &'f File) -> Option<&'f At<Channel>> {
    profile_of(network, file).map_or(&network.channel, |profile| &profile.channel).as_ref()
}

/// Minimum query interval; hosts need not answer faster than one query per second.
const MIN_QUERY_INTERVAL: Span = Span::from_ns(1_000_000_000);

fn check_interval(network: &Network, sink: &mut Sink) -> Option<Span> {
    let Some(interval) = &network.query_interval else { return Some(QUERY_INTERVAL) };
    if (Span::from_ns(1)..MIN_QUERY_INTERVAL).contains(&interval.value) {
        let text = format!("a query interval of {}", interval.value);
        sink.add(
            Problem::new(text)
                .at(interval.place)
                .label("use 1 s or more, or `0 s` to turn queries off"),
        );
        return None;
    }
    Some(interval.value)
}

/// Checks `offload`, which only netem supports: its effect on large segments may be what a test
/// measures.
fn check_offload(network: &Network, sink: &mut Sink) -> bool {
    let Some(offload) = network.offload.as_ref().filter(|offload| offload.value) else {
        return false;
    };
    let by_netem = network.backend.as_ref().is_some_and(|at| at.value == Backend::Netem);
    if !by_netem {
        let problem = Problem::new("`offload` needs `backend: netem`").at(offload.place);
        sink.add(problem.label(
            "Thingbed's own emulator only carries frames of the MTU: remove `offload`; for bulk TCP, \
             set a larger `mtu`",
        ));
    }
    by_netem
}
