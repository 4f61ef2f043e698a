//! Multicast memberships of endpoints: the table of a snooping switch (RFC 4541).

use super::membership::{Message, is_reported};
use link::Instant;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Maximum groups per endpoint. Linux limits only a socket, to 20 groups. More than this
/// comes from an attacker, or is flooded in real switches.
const MAX_GROUPS: usize = 256;

/// Multicast memberships of one switch.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    /// Expiry of each endpoint's membership. Sorted, because each frame to a group reads it
    /// in that order.
    members: HashMap<IpAddr, BTreeMap<usize, Instant>>,
    /// Number of groups per endpoint.
    joined: HashMap<usize, usize>,
    /// Expiry of each router port.
    routers: BTreeMap<usize, Instant>,
}

impl Groups {
    /// Learns from a message of `endpoint`; the entries expire at `until` unless renewed.
    pub fn learn(&mut self, message: &Message, endpoint: usize, until: Instant) {
        match message {
            Message::Report(groups) => {
                for (group, joins) in groups.iter().filter(|(group, _)| is_reported(*group)) {
                    match joins {
                        true => self.join(*group, endpoint, until),
                        false => self.leave(*group, endpoint),
                    }
                }
            }
            Message::Query { from_router: true } | Message::Router => {
                self.routers.insert(endpoint, until);
            }
            Message::Query { .. } | Message::Other => {}
        }
    }

    /// Receivers of frames to `group`: its members and routers, in order of index.
    pub fn members(&self, group: IpAddr) -> Vec<usize> {
        let members = self.members.get(&group).into_iter().flatten();
        let mut all: Vec<usize> = members.chain(&self.routers).map(|(end, _)| *end).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Endpoints with routers behind them.
    pub fn routers(&self) -> impl Iterator<Item = usize> + '_ {
        self.routers.keys().copied()
    }

    /// Removes all entries of a detached endpoint.
    pub fn forget(&mut self, endpoint: usize) {
        self.routers.remove(&endpoint);
        self.joined.remove(&endpoint);
        self.members.retain(|_, members| {
            members.remove(&endpoint);
            !members.is_empty()
        });
    }

    /// Removes entries that expired by `now`.
    pub fn expire(&mut self, now: Instant) {
        self.routers.retain(|_, until| *until > now);
        let joined = &mut self.joined;
        self.members.retain(|_, members| {
            members.retain(|endpoint, until| {
                if *until <= now {
                    release(joined, *endpoint);
                }
                *until > now
            });
            !members.is_empty()
        });
    }

    fn join(&mut self, group: IpAddr, endpoint: usize, until: Instant) {
        if let Some(known) = self.members.get_mut(&group).and_then(|all| all.get_mut(&endpoint)) {
            *known = until;
            return;
        }
        let joined = self.joined.entry(endpoint).or_default();
        if *joined >= MAX_GROUPS {
            return;
        }
        *joined += 1;
        self.members.entry(group).or_default().insert(endpoint, until);
    }

    fn leave(&mut self, group: IpAddr, endpoint: usize) {
        let Some(members) = self.members.get_mut(&group) else { return };
        if members.remove(&endpoint).is_some() {
            release(&mut self.joined, endpoint);
        }
        if members.is_empty() {
            self.members.remove(&group);
        }
    }
}

fn release(joined: &mut HashMap<usize, usize>, endpoint: usize) {
    if let Some(count) = joined.get_mut(&endpoint) {
        *count -= 1;
        if *count == 0 {
            joined.remove(&endpoint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(number: u32) -> IpAddr {
        IpAddr::from((0xef00_0000 + number).to_be_bytes())
    }

    fn report(number: u32, joins: bool) -> Message {
        Message::Report(vec![(group(number), joins)])
    }

    #[test]
    fn members_join_and_leave_and_are_forgotten() {
        let mut groups = Groups::default();
        groups.learn(&report(1, true), 4, 100);
        groups.learn(&report(1, true), 2, 100);
        assert_eq!(groups.members(group(1)), [2, 4]);
        groups.learn(&report(1, false), 2, 100);
        assert_eq!(groups.members(group(1)), [4]);
        groups.expire(99);
        assert_eq!(groups.members(group(1)), [4]);
        groups.learn(&report(1, true), 4, 200);
        groups.expire(150);
        assert_eq!(groups.members(group(1)), [4], "it said so again");
        groups.expire(200);
        assert!(groups.members(group(1)).is_empty());
        assert!(groups.members.is_empty() && groups.joined.is_empty(), "nothing is kept");
    }

    #[test]
    fn routers_get_what_members_get() {
        let mut groups = Groups::default();
        groups.learn(&Message::Query { from_router: true }, 7, 100);
        groups.learn(&Message::Query { from_router: false }, 8, 100);
        groups.learn(&report(1, true), 4, 100);
        groups.learn(&report(1, true), 7, 100);
        assert_eq!(groups.members(group(1)), [4, 7]);
        assert_eq!(groups.members(group(2)), [7]);
        assert_eq!(groups.routers().collect::<Vec<_>>(), [7]);
        groups.expire(100);
        assert_eq!(groups.routers().count(), 0);
    }

    #[test]
    fn an_endpoint_cannot_fill_the_table() {
        let mut groups = Groups::default();
        for number in 0..100_000 {
            groups.learn(&report(number, true), 1, 100);
        }
        groups.learn(&report(5, true), 2, 100);
        assert_eq!(groups.members.len(), MAX_GROUPS);
        assert_eq!(groups.members(group(5)), [1, 2], "others are not shut out");
        // Freed room can be used again.
        groups.learn(&report(0, false), 1, 100);
        groups.learn(&report(99_999, true), 1, 100);
        assert_eq!(groups.members(group(99_999)), [1]);
    }

    #[test]
    fn link_local_groups_take_no_room() {
        let mut groups = Groups::default();
        for last in 0..=255 {
            let group = IpAddr::from([224, 0, 0, last]);
            groups.learn(&Message::Report(vec![(group, true)]), 1, 100);
        }
        assert!(groups.members.is_empty());
    }
}
