//! A switch: which of its ports get a frame. Learns addresses and group members.
//!
//! Pure: frames and times in, receivers out. A port is the number of a link.

mod address_table;
mod groups;
pub(crate) mod membership;
mod querier;
mod vlans;

use self::address_table::{AddressTable, Mac};
use self::groups::Groups;
use self::membership::{Message, group_of, is_reported};
use self::querier::Querier;
use self::vlans::Reframed;
pub(crate) use self::vlans::{PLACE as TAG_PLACE, TAG, TPID, tag};
use crate::overflow::Overflow;
use link::{Frame, PortVlans};
use units::{Instant, Span};

/// A switch with IGMP and MLD snooping (RFC 4541).
#[derive(Debug)]
pub(crate) struct Switch {
    ports: Vec<Port>,
    /// Whether a port with a configured address may use only that one.
    own_addresses_only: bool,
    /// Length of the longest accepted frame, including the link header.
    longest: usize,
    addresses: AddressTable,
    groups: Groups,
    querier: Querier,
    /// Whether a host has joined an IPv6 group, so that MLD queries make sense.
    has_ipv6_groups: bool,
    /// The partition of each port.
    partition: Option<Vec<u32>>,
    forwards_multicast: bool,
}

#[derive(Debug)]
struct Port {
    /// Address of the node; `None` for hardware with an unknown address.
    own: Option<Mac>,
    is_detached: bool,
    vlans: Option<PortVlans>,
}

/// Where a frame goes.
#[derive(Debug)]
pub(crate) struct Forwarding {
    pub receivers: Receivers,
    /// Time for the first membership query, if this frame calls for queries.
    pub first_query: Option<Instant>,
}

/// Receivers of a frame, in order of their ports, so that a seed reproduces a run; usually one,
/// which needs no allocation.
#[derive(Debug)]
pub(crate) enum Receivers {
    One(Option<usize>),
    Many(std::vec::IntoIter<usize>),
}

impl Iterator for Receivers {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Self::One(receiver) => receiver.take(),
            Self::Many(receivers) => receivers.next(),
        }
    }
}

/// Membership queries that are due.
#[derive(Debug)]
pub(crate) struct Queries {
    /// The queries, including the link header; none while a router sends them.
    pub frames: Vec<Vec<u8>>,
    /// Time of the next ones.
    pub next: Instant,
}

impl Switch {
    /// A switch without ports.
    pub fn new(own_addresses_only: bool, longest: Option<usize>, query_interval: Span) -> Self {
        Self {
            ports: Vec::new(),
            own_addresses_only,
            longest: longest.unwrap_or(usize::MAX),
            addresses: AddressTable::new(),
            groups: Groups::default(),
            querier: Querier::new(query_interval),
            has_ipv6_groups: false,
            partition: None,
            forwards_multicast: true,
        }
    }

    /// Adds a port with its own address and its VLANs. It joins partition 0, the one of ports not
    /// listed explicitly. `is_bridge`: it gets all multicast, as a router's port does.
    pub fn attach(&mut self, own: Option<Mac>, vlans: Option<PortVlans>, is_bridge: bool) {
        let port = self.ports.len();
        if let Some(own) = own {
            self.addresses.reserve(own, port);
        }
        if is_bridge {
            self.groups.add_router(port);
        }
        self.ports.push(Port { own, is_detached: false, vlans });
        self.partition.iter_mut().for_each(|partition| partition.push(0));
    }

    /// Removes `port`; its number and its own address stay reserved.
    pub fn detach(&mut self, port: usize) {
        self.ports[port].is_detached = true;
        self.addresses.forget(port);
        self.groups.forget(port);
    }

    /// Partitions the ports; `None` ends the partition. Ports attached later are in partition 0.
    pub fn set_partition(&mut self, partition: Option<Vec<u32>>) {
        self.partition = partition.map(|mut partition| {
            partition.resize(self.ports.len().max(partition.len()), 0);
            partition
        });
    }

    /// Enables or disables multicast forwarding. Broadcast and link-local multicast always
    /// pass.
    pub fn set_multicast(&mut self, forwards: bool) {
        self.forwards_multicast = forwards;
    }

    /// What `port` announced beyond the limits of the switch's tables.
    pub fn overflow(&self, port: usize) -> Overflow {
        let (addresses, groups) = (self.addresses.evicted(port), self.groups.beyond(port));
        Overflow { addresses, groups, flows: 0 }
    }

    /// Whether a partition separates the two ports.
    pub fn are_partitioned(&self, one: usize, other: usize) -> bool {
        self.partition.as_ref().is_some_and(|partition| partition[one] != partition[other])
    }

    /// Whether `port` may send `frame`. Learns the source address if so.
    pub fn accepts(&mut self, port: usize, frame: &[u8]) -> bool {
        let Some(Addresses { source, .. }) = Addresses::of(frame) else { return false };
        let Port { own, is_detached, ref vlans } = self.ports[port];
        if frame.len() > self.longest || is_detached {
            return false;
        }
        if let Some(vlans) = vlans
            && !vlans::accepts(vlans, frame, self.longest)
        {
            return false;
        }
        if own == Some(source) {
            return true;
        }
        // A group address is no valid source, and neither is another port's own address.
        let is_group = source[0] & 1 == 1;
        let is_forbidden = own.is_some() && self.own_addresses_only;
        if is_group || is_forbidden || self.addresses.is_reserved(source) {
            return false;
        }
        self.addresses.learn(source, port);
        true
    }

    /// Where an accepted frame from `port` goes at `now`. Learns group members and routers.
    pub fn forward(&mut self, port: usize, frame: &[u8], now: Instant) -> Forwarding {
        let message = membership::read(frame);
        let mut first_query = None;
        if let Some(message) = &message {
            first_query = self.on_membership(port, message, now);
        }
        // A report flooded to a thousand nodes would be a storm: only routers get it. The
        // switch knows them from their own messages (RFC 4541, 2.1.1).
        let receivers = match message {
            Some(Message::Report(_) | Message::Other) => {
                let routers = self.groups.routers().filter(|router| *router != port);
                Receivers::Many(routers.collect::<Vec<_>>().into_iter())
            }
            _ => self.receivers(port, frame),
        };
        if self.querier.sleeps() && group_of(frame).is_some() {
            first_query = self.querier.wake(now);
        }
        Forwarding { receivers, first_query }
    }

    /// Learns from a membership message. Returns the time of the first query, if it calls for
    /// queries.
    fn on_membership(&mut self, port: usize, message: &Message, now: Instant) -> Option<Instant> {
        let mut first_query = None;
        match message {
            Message::Query { from_router: true } => self.querier.router_asks(now),
            Message::Report(groups) => {
                // Each IPv6 address joins a link-local group, which all nodes receive anyway.
                let mut reported = groups.iter().map(|(group, _)| *group);
                if let Some(group) = reported.find(|group| is_reported(*group)) {
                    self.has_ipv6_groups |= group.is_ipv6();
                    first_query = self.querier.wake(now);
                }
            }
            _ => {}
        }
        self.groups.learn(message, port, self.querier.holds_until(now));
        first_query
    }

    /// The frame that `sender` sent as it leaves at other ports. `frame` has `prefix` bytes before
    /// its link header.
    pub fn reframed(&self, sender: usize, frame: &Frame, prefix: usize) -> Reframed {
        Reframed::new(self.ports[sender].vlans.as_ref(), frame.clone(), prefix)
    }

    /// VLANs of `port`.
    pub fn vlans(&self, port: usize) -> Option<&PortVlans> {
        self.ports[port].vlans.as_ref()
    }

    /// The port with the target address of `frame`, other than `port`, which sends it.
    pub fn receiver(&self, port: usize, frame: &[u8]) -> Option<usize> {
        self.known(Addresses::of(frame)?.target).filter(|known| *known != port)
    }

    /// The port of a frame's sender, if it is known.
    pub fn sender(&self, frame: &[u8]) -> Option<usize> {
        self.known(Addresses::of(frame)?.source)
    }

    /// The port with this address. A detached one counts as unknown: a frame to it is flooded.
    fn known(&self, target: Mac) -> Option<usize> {
        self.addresses.port_of(target).filter(|known| !self.ports[*known].is_detached)
    }

    /// The port with the frame's target address, the members of its group, or all others.
    fn receivers(&self, port: usize, frame: &[u8]) -> Receivers {
        let Some(Addresses { target, .. }) = Addresses::of(frame) else {
            return Receivers::One(None);
        };
        if let Some(known) = self.known(target) {
            return Receivers::One((known != port).then_some(known));
        }
        let mut receivers = match group_of(frame) {
            Some(_) if !self.forwards_multicast => Vec::new(),
            Some(group) => self.groups.members(group),
            None => (0..self.ports.len()).collect(),
        };
        receivers.retain(|receiver| *receiver != port && !self.ports[*receiver].is_detached);
        Receivers::Many(receivers.into_iter())
    }

    /// The membership queries due at `now`, for all ports.
    pub fn queries(&mut self, now: Instant) -> Queries {
        self.groups.expire(now);
        let (asks, next) = self.querier.turn(now);
        let mut frames = Vec::new();
        if asks {
            frames.push(self.querier.igmp());
            frames.extend(self.has_ipv6_groups.then(|| self.querier.mld()));
        }
        Queries { frames, next }
    }
}

/// The addresses of a frame.
struct Addresses {
    target: Mac,
    source: Mac,
}

impl Addresses {
    /// `None` if the link header is incomplete.
    fn of(frame: &[u8]) -> Option<Self> {
        let header = frame.first_chunk::<14>()?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, _, _] = *header;
        Some(Self { target: [a, b, c, d, e, f], source: [g, h, i, j, k, l] })
    }
}

#[cfg(test)]
mod tests;
