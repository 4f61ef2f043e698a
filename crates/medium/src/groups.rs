//! Which endpoints want which multicast groups: the table of a switch that snoops
//! (RFC 4541).

use crate::Instant;
use crate::membership::{Message, is_reported};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Groups that one endpoint can be in. Linux lets a socket join 20 and limits nothing
/// else; more than these come from an attacker, or are flooded in real switches.
pub const MOST_GROUPS: usize = 256;

/// Multicast membership of one segment.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    /// Until when an endpoint is a member, unless it reports again; in order, because for
    /// each frame to a group asks for it so.
    members: HashMap<IpAddr, BTreeMap<usize, Instant>>,
    /// How many groups an endpoint is in.
    joined: HashMap<usize, usize>,
    /// Until when an endpoint is taken for a router's.
    routers: BTreeMap<usize, Instant>,
    /// Reports that found the table of their endpoint full.
    refused: u64,
}

impl Groups {
    /// Takes note of a message from `endpoint`; what it says holds until `until`, unless
    /// it is said again.
    pub(crate) fn learn(&mut self, message: &Message, endpoint: usize, until: Instant) {
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

    /// Who gets frames to `group`: its members, and routers. In order of index.
    pub fn members(&self, group: IpAddr) -> Vec<usize> {
        let members = self.members.get(&group).into_iter().flatten();
        let mut all: Vec<usize> = members.chain(&self.routers).map(|(end, _)| *end).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The endpoints behind which there are routers.
    pub fn routers(&self) -> impl Iterator<Item = usize> + '_ {
        self.routers.keys().copied()
    }

    /// Forgets all that was said by an endpoint that is gone.
    pub(crate) fn forget(&mut self, endpoint: usize) {
        self.routers.remove(&endpoint);
        self.joined.remove(&endpoint);
        self.members.retain(|_, members| {
            members.remove(&endpoint);
            !members.is_empty()
        });
    }

    /// Reports that were left out because their endpoint is in [`MOST_GROUPS`] groups.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Forgets what has not been said again until `now`.
    pub(crate) fn expire(&mut self, now: Instant) {
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
        if *joined >= MOST_GROUPS {
            self.refused += 1;
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
        assert_eq!((groups.members.len(), groups.refused()), (MOST_GROUPS, 100_000 - 256));
        assert_eq!(groups.members(group(5)), [1, 2], "others are not shut out");
        // Room that is given back can be had again.
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
