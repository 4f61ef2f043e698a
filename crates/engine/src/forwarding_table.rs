//! Forwarding table of a segment: learnt addresses, group members, partitions.

use crate::Instant;
use crate::groups::Groups;
use crate::membership::{Message, group_of};
use rustc_hash::FxHashMap;
use std::collections::{HashMap, HashSet};

/// Maximum learnt addresses per endpoint besides its own, as behind a bridge in the node.
/// Frames to further addresses are flooded, as in a switch with a full table.
pub const MOST_ADDRESSES: usize = 1024;

/// Locations of addresses and groups.
#[derive(Debug, Default)]
pub(crate) struct ForwardingTable {
    endpoints: usize,
    gone: HashSet<usize>,
    /// Nodes' own addresses, which Thingbed assigns: known before their first frame, because
    /// nodes with permanent neighbours need not ask for them. Read twice per frame.
    places: FxHashMap<[u8; 6], usize>,
    /// Endpoint that owns an address.
    owners: FxHashMap<[u8; 6], usize>,
    /// Other addresses, which nodes choose; hashed so that no node can degrade lookups.
    learnt: HashMap<[u8; 6], usize>,
    /// Learnt addresses per endpoint.
    counts: HashMap<usize, usize>,
    groups: Groups,
    parts: Option<Vec<u32>>,
    /// Whether multicast is dropped.
    blocks_multicast: bool,
}

impl ForwardingTable {
    /// A table of endpoints with these own addresses, before any frame.
    pub fn new(own: impl Iterator<Item = Option<[u8; 6]>>) -> Self {
        let mut table = Self::default();
        own.for_each(|own| table.attach(own));
        table
    }

    /// Adds an endpoint. It joins partition 0, the one of endpoints not listed explicitly.
    pub fn attach(&mut self, own: Option<[u8; 6]>) {
        if let Some(own) = own {
            self.owners.insert(own, self.endpoints);
            self.places.insert(own, self.endpoints);
        }
        self.endpoints += 1;
        self.parts.iter_mut().for_each(|parts| parts.push(0));
    }

    /// Removes `endpoint`; its own address stays reserved.
    pub fn detach(&mut self, endpoint: usize) {
        self.gone.insert(endpoint);
        self.places.retain(|_, place| *place != endpoint);
        self.learnt.retain(|_, place| *place != endpoint);
        self.counts.remove(&endpoint);
        self.groups.forget(endpoint);
    }

    /// Whether `endpoint` was detached.
    pub fn is_gone(&self, endpoint: usize) -> bool {
        self.gone.contains(&endpoint)
    }

    /// Whether `source` is the own address of another endpoint.
    pub fn belongs_to_another(&self, source: [u8; 6], endpoint: usize) -> bool {
        self.owners.get(&source).is_some_and(|owner| *owner != endpoint)
    }

    /// Learns that `endpoint` has its own address `source`.
    pub fn learn_own(&mut self, source: [u8; 6], endpoint: usize) {
        self.places.insert(source, endpoint);
    }

    /// Learns that the address `source` is behind `endpoint`; it may have moved from
    /// another endpoint.
    pub fn learn(&mut self, source: [u8; 6], endpoint: usize) {
        let before = self.learnt.get(&source).copied();
        if before == Some(endpoint) {
            return;
        }
        let count = self.counts.entry(endpoint).or_default();
        if *count >= MOST_ADDRESSES {
            return;
        }
        *count += 1;
        if let Some(count) = before.and_then(|before| self.counts.get_mut(&before)) {
            *count -= 1;
        }
        self.learnt.insert(source, endpoint);
    }

    /// Learns from a membership message; the entry expires at `until`.
    pub fn learn_groups(&mut self, message: &Message, endpoint: usize, until: Instant) {
        self.groups.learn(message, endpoint, until);
    }

    /// Removes expired members and routers.
    pub fn expire(&mut self, now: Instant) {
        self.groups.expire(now);
    }

    /// Endpoints with routers behind them.
    pub fn routers(&self) -> Vec<usize> {
        self.groups.routers().collect()
    }

    /// Partitions the segment by endpoint; `None` ends the partition. Endpoints attached
    /// later are in part 0.
    pub fn part(&mut self, parts: Option<Vec<u32>>) {
        self.parts = parts.map(|mut parts| {
            parts.resize(self.endpoints.max(parts.len()), 0);
            parts
        });
    }

    /// Enables or disables multicast forwarding. Broadcast and link-local multicast always
    /// pass.
    pub fn set_multicast(&mut self, passes: bool) {
        self.blocks_multicast = !passes;
    }

    /// Whether a partition separates the two endpoints.
    pub fn are_partitioned(&self, one: usize, other: usize) -> bool {
        self.parts.as_ref().is_some_and(|part| part[one] != part[other])
    }

    /// Receivers of `frame` from `from`: the endpoint with its address, the members of its
    /// group, or all. In order of index, so that a seed reproduces a run.
    pub fn receivers(&self, frame: &[u8], from: usize) -> Receivers {
        let Some((target, _)) = addresses(frame) else { return Receivers::One(None) };
        let place = self.places.get(&target).or_else(|| self.learnt.get(&target));
        if let Some(place) = place {
            return Receivers::One((*place != from).then_some(*place));
        }
        Receivers::Many(self.others(frame, from).into_iter())
    }

    fn others(&self, frame: &[u8], from: usize) -> Vec<usize> {
        match group_of(frame) {
            Some(_) if self.blocks_multicast => Vec::new(),
            Some(group) => {
                let mut members = self.groups.members(group);
                members.retain(|member| *member != from);
                members
            }
            None => {
                let others = (0..self.endpoints).filter(|other| *other != from);
                others.filter(|other| !self.is_gone(*other)).collect()
            }
        }
    }
}

/// Receivers of a frame; usually one, which needs no allocation.
#[derive(Debug)]
pub(crate) enum Receivers {
    One(Option<usize>),
    Many(std::vec::IntoIter<usize>),
}

impl Iterator for Receivers {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Self::One(one) => one.take(),
            Self::Many(many) => many.next(),
        }
    }
}

/// Destination and source of an Ethernet frame.
pub(crate) fn addresses(frame: &[u8]) -> Option<([u8; 6], [u8; 6])> {
    if frame.len() < 14 {
        return None;
    }
    let target = frame.first_chunk::<6>()?;
    let source = frame.get(6..)?.first_chunk::<6>()?;
    Some((*target, *source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(target: [u8; 6]) -> Vec<u8> {
        [&target[..], &[2, 0, 0, 0, 0, 0, 0, 0]].concat()
    }

    fn receivers(table: &ForwardingTable, target: [u8; 6]) -> Vec<usize> {
        table.receivers(&frame(target), 0).collect()
    }

    #[test]
    fn addresses_behind_a_bridge_are_learnt_and_move() {
        let mut table = ForwardingTable::new([None; 3].into_iter());
        let guest = [6, 0, 0, 0, 0, 9];
        assert_eq!(receivers(&table, guest), [1, 2]);
        table.learn(guest, 1);
        assert_eq!(receivers(&table, guest), [1]);
        table.learn(guest, 2);
        assert_eq!(receivers(&table, guest), [2]);
        assert_eq!(table.counts[&1], 0);
    }

    #[test]
    fn own_addresses_belong_to_one_endpoint() {
        let own = [2, 0, 0, 0, 0, 1];
        let table = ForwardingTable::new([None, Some(own)].into_iter());
        assert!(table.belongs_to_another(own, 0) && !table.belongs_to_another(own, 1));
        assert!(!table.belongs_to_another([6; 6], 0));
    }

    #[test]
    fn an_endpoint_cannot_fill_the_table() {
        let mut table = ForwardingTable::new([None; 3].into_iter());
        let address = |number: u32| {
            let [a, b, c, d] = number.to_be_bytes();
            [6, 0, a, b, c, d]
        };
        (0..100_000).for_each(|number| table.learn(address(number), 1));
        table.learn(address(7), 2);
        assert_eq!(table.learnt.len(), MOST_ADDRESSES);
        assert_eq!(receivers(&table, address(7)), [2], "it has moved");
        assert_eq!(receivers(&table, address(99_999)), [1, 2], "flooded, and not lost");
    }
}
