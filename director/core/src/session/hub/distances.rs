//! How much farther away some members are than others: their longer round trips are no queue.

use crate::Nanos;
use crate::switch::MemberId;
use alloc::collections::BTreeMap;

/// Time in ns after which a member's shortest round trip is measured anew: paths change.
const MAX_AGE: Nanos = 30_000_000_000;

/// The shortest recent round trips of members.
#[derive(Debug, Default)]
pub(super) struct Distances {
    /// Their time, and the value in ns.
    least: BTreeMap<MemberId, (Nanos, Nanos)>,
    /// The smallest value, and whose it is: samples are more frequent than its changes.
    nearest: Option<(Nanos, MemberId)>,
}

impl Distances {
    /// Records a round trip of `ns` to a member; returns it as if all members were as near as the
    /// nearest: its queueing delay stays, the longer way goes.
    pub fn record(&mut self, member: MemberId, ns: Nanos, now: Nanos) -> Nanos {
        let (at, least) = self.least.entry(member).or_insert((now, ns));
        if ns <= *least || *at + MAX_AGE < now {
            (*at, *least) = (now, ns);
        }
        let least = *least;
        match self.nearest {
            Some((nearest, _)) if least <= nearest => self.nearest = Some((least, member)),
            Some((_, known)) if known != member => {}
            _ => self.find_nearest(),
        }
        self.nearest.map_or(ns, |(nearest, _)| nearest + (ns - least.min(ns)))
    }

    fn find_nearest(&mut self) {
        self.nearest = self.least.iter().map(|(member, (_, least))| (*least, *member)).min();
    }

    /// How much longer the round trip to the average member is than that to the nearest, in ns.
    pub fn mean_excess(&self) -> Nanos {
        let Some((nearest, _)) = self.nearest else { return 0 };
        let sum: Nanos = self.least.values().map(|(_, least)| least - nearest).sum();
        sum / self.least.len() as Nanos
    }

    /// A member has left.
    pub fn remove(&mut self, member: MemberId) {
        self.least.remove(&member);
        self.find_nearest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn a_distant_member_is_no_queue_and_its_queue_is_one() {
        let mut distances = Distances::default();
        assert_eq!(distances.record(1, 10 * MS, 0), 10 * MS);
        assert_eq!(distances.record(2, 90 * MS, 0), 10 * MS);
        assert_eq!(distances.record(2, 130 * MS, MS), 50 * MS);
        assert_eq!(distances.record(1, 50 * MS, MS), 50 * MS);
        assert_eq!(distances.mean_excess(), 40 * MS);
        distances.remove(2);
        assert_eq!(distances.mean_excess(), 0);
        distances.record(3, 70 * MS, MS);
        distances.remove(1);
        assert_eq!(distances.record(3, 80 * MS, MS), 80 * MS, "the nearest has left");
    }

    #[test]
    fn a_longer_way_is_accepted_after_a_while() {
        let mut distances = Distances::default();
        distances.record(1, 10 * MS, 0);
        assert_eq!(distances.record(1, 80 * MS, MAX_AGE), 80 * MS);
        distances.record(1, 80 * MS, MAX_AGE + 1);
        assert_eq!(distances.least[&1], (MAX_AGE + 1, 80 * MS));
    }
}
