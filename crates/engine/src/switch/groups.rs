//! Multicast memberships of endpoints: the table of a snooping switch (RFC 4541).

use super::membership::{Message, is_reported};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use units::Instant;

/// Maximum groups per endpoint, and of a switch. Linux limits only a socket, to 20 groups, and
/// access switches have tables of a few thousand. An endpoint with more groups receives all of
/// them, as a port with a router does, so that it misses none.
const MAX_GROUPS: usize = 256;
const MAX_MEMBERSHIPS: usize = 65_536;

/// Multicast memberships of one switch.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    /// Expiry of each endpoint's membership. Sorted, because each frame to a group reads it
    /// in that order.
    members: HashMap<IpAddr, BTreeMap<usize, Instant>>,
    /// Number of groups per endpoint.
    joined: HashMap<usize, usize>,
    /// Number of memberships.
    count: usize,
    /// Expiry of each router port.
    routers: BTreeMap<usize, Instant>,
    /// Expiry of each port with more groups than there is room for.
    unfiltered: BTreeMap<usize, Instant>,
    /// Joins without room so far, by endpoint.
    beyond: HashMap<usize, u64>,
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
                let known = self.routers.entry(endpoint).or_insert(until);
                *known = until.max(*known);
            }
            Message::Query { .. } | Message::Other => {}
        }
    }

    /// Adds an endpoint with routers or further networks behind it, which does not expire.
    pub fn add_router(&mut self, endpoint: usize) {
        self.routers.insert(endpoint, Instant::NEVER);
    }

    /// Receivers of frames to `group`: its members, routers, and endpoints with too many groups, in
    /// order of index.
    pub fn members(&self, group: IpAddr) -> Vec<usize> {
        let members = self.members.get(&group).into_iter().flatten();
        let others = self.routers.iter().chain(&self.unfiltered);
        let mut all: Vec<usize> = members.chain(others).map(|(end, _)| *end).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Joins of `endpoint` for which there was no room.
    pub fn beyond(&self, endpoint: usize) -> u64 {
        self.beyond.get(&endpoint).copied().unwrap_or(0)
    }

    /// Endpoints with routers behind them.
    pub fn routers(&self) -> impl Iterator<Item = usize> + '_ {
        self.routers.keys().copied()
    }

    /// Removes all entries of a detached endpoint, but not its counter.
    pub fn forget(&mut self, endpoint: usize) {
        self.routers.remove(&endpoint);
        self.unfiltered.remove(&endpoint);
        self.count -= self.joined.remove(&endpoint).unwrap_or(0);
        self.members.retain(|_, members| {
            members.remove(&endpoint);
            !members.is_empty()
        });
    }

    /// Removes entries that expired by `now`.
    pub fn expire(&mut self, now: Instant) {
        self.routers.retain(|_, until| *until > now);
        self.unfiltered.retain(|_, until| *until > now);
        let (joined, count) = (&mut self.joined, &mut self.count);
        self.members.retain(|_, members| {
            members.retain(|endpoint, until| {
                if *until <= now {
                    release(joined, *endpoint);
                    *count -= 1;
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
        let own = self.joined.get(&endpoint).copied().unwrap_or(0);
        if own >= MAX_GROUPS || self.count >= MAX_MEMBERSHIPS {
            self.unfiltered.insert(endpoint, until);
            *self.beyond.entry(endpoint).or_default() += 1;
            return;
        }
        self.joined.insert(endpoint, own + 1);
        self.count += 1;
        self.members.entry(group).or_default().insert(endpoint, until);
    }

    fn leave(&mut self, group: IpAddr, endpoint: usize) {
        let Some(members) = self.members.get_mut(&group) else { return };
        if members.remove(&endpoint).is_some() {
            release(&mut self.joined, endpoint);
            self.count -= 1;
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
    use crate::test_times::instant;

    fn group(number: u32) -> IpAddr {
        IpAddr::from((0xef00_0000 + number).to_be_bytes())
    }

    fn report(number: u32, joins: bool) -> Message {
        Message::Report(vec![(group(number), joins)])
    }

    #[test]
    fn members_join_and_leave_and_are_forgotten() {
        let mut groups = Groups::default();
        groups.learn(&report(1, true), 4, instant(100));
        groups.learn(&report(1, true), 2, instant(100));
        assert_eq!(groups.members(group(1)), [2, 4]);
        groups.learn(&report(1, false), 2, instant(100));
        assert_eq!(groups.members(group(1)), [4]);
        groups.expire(instant(99));
        assert_eq!(groups.members(group(1)), [4]);
        groups.learn(&report(1, true), 4, instant(200));
        groups.expire(instant(150));
        assert_eq!(groups.members(group(1)), [4], "it said so again");
        groups.expire(instant(200));
        assert!(groups.members(group(1)).is_empty());
        assert!(groups.members.is_empty() && groups.joined.is_empty(), "nothing is kept");
    }

    #[test]
    fn routers_get_what_members_get() {
        let mut groups = Groups::default();
        groups.learn(&Message::Query { from_router: true }, 7, instant(100));
        groups.learn(&Message::Query { from_router: false }, 8, instant(100));
        groups.learn(&report(1, true), 4, instant(100));
        groups.learn(&report(1, true), 7, instant(100));
        assert_eq!(groups.members(group(1)), [4, 7]);
        assert_eq!(groups.members(group(2)), [7]);
        assert_eq!(groups.routers().collect::<Vec<_>>(), [7]);
        groups.expire(instant(100));
        assert_eq!(groups.routers().count(), 0);
    }

    #[test]
    fn an_endpoint_cannot_fill_the_table_and_misses_nothing() {
        let mut groups = Groups::default();
        for number in 0..100_000 {
            groups.learn(&report(number, true), 1, instant(100));
        }
        groups.learn(&report(5, true), 2, instant(100));
        assert_eq!(groups.members.len(), MAX_GROUPS);
        assert_eq!(groups.members(group(5)), [1, 2], "others are not shut out");
        // What failed before: it did not receive groups beyond the limit.
        assert_eq!(groups.members(group(99_999)), [1]);
        assert_eq!(groups.beyond(1), 100_000 - MAX_GROUPS as u64);
        // Until its further joins expire; then freed room can be used again.
        groups.learn(&report(0, true), 1, instant(300));
        groups.expire(instant(200));
        assert!(groups.members(group(99_999)).is_empty());
        groups.learn(&report(99_999, true), 1, instant(400));
        assert_eq!(groups.members(group(99_999)), [1]);
        assert_eq!((groups.count, groups.beyond(2)), (2, 0));
    }

    #[test]
    fn endpoints_together_cannot_fill_the_table_and_miss_nothing() {
        let mut groups = Groups::default();
        for number in 0..100_000 {
            groups.learn(&report(number, true), number as usize / 200, instant(100));
        }
        assert_eq!(groups.count, MAX_MEMBERSHIPS);
        assert!(
            [0, 65_535, 65_536, 99_999]
                .iter()
                .all(|number| groups.members(group(*number)).contains(&(*number as usize / 200)))
        );
        groups.forget(0);
        assert_eq!(groups.count, MAX_MEMBERSHIPS - 200);
        groups.expire(instant(100));
        assert_eq!(groups.count, 0);
        assert!(groups.members.is_empty() && groups.unfiltered.is_empty());
    }

    #[test]
    fn link_local_groups_take_no_room() {
        let mut groups = Groups::default();
        for last in 0..=255 {
            let group = IpAddr::from([224, 0, 0, last]);
            groups.learn(&Message::Report(vec![(group, true)]), 1, instant(100));
        }
        assert!(groups.members.is_empty());
    }
}
