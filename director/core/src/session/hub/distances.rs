//! How much farther away some members are than others: their longer round trips are no queue.

use crate::switch::MemberId;
use crate::{Instant, Span};
use alloc::collections::BTreeMap;

/// Time after which a member's shortest round trip is measured anew: paths change.
const MAX_AGE: Span = Span::from_s(30);

/// The shortest recent round trips of members.
#[derive(Debug, Default)]
pub(super) struct Distances {
    /// Their time, and the value.
    least: BTreeMap<MemberId, (Instant, Span)>,
    /// The smallest value, and whose it is: samples are more frequent than its changes.
    nearest: Option<(Span, MemberId)>,
}

impl Distances {
    /// Records a round trip to a member; returns it as if all members were as near as the
    /// nearest: its queueing delay stays, the longer way goes.
    pub fn record(&mut self, member: MemberId, trip: Span, now: Instant) -> Span {
        let (at, least) = self.least.entry(member).or_insert((now, trip));
        if trip <= *least || *at + MAX_AGE < now {
            (*at, *least) = (now, trip);
        }
        let least = *least;
        // All are searched only if the nearest one itself has become more distant.
        match self.nearest {
            Some((nearest, _)) if least <= nearest => self.nearest = Some((least, member)),
            Some((_, known)) if known != member => {}
            _ => self.find_nearest(),
        }
        self.nearest.map_or(trip, |(nearest, _)| nearest + (trip - least))
    }

    fn find_nearest(&mut self) {
        self.nearest = self.least.iter().map(|(member, (_, least))| (*least, *member)).min();
    }

    /// How much longer the round trip to the average member is than that to the nearest.
    pub fn mean_excess(&self) -> Span {
        let Some((nearest, _)) = self.nearest else { return Span::ZERO };
        let sum: Span = self.least.values().map(|(_, least)| *least - nearest).sum();
        sum / self.least.len() as u64
    }

    /// How much longer the mean round trip to these members is than that to the nearest.
    pub fn excess<'a>(&self, members: impl Iterator<Item = &'a MemberId>) -> Span {
        let Some((nearest, _)) = self.nearest else { return Span::ZERO };
        let trips = members.filter_map(|m| self.least.get(m)).map(|(_, trip)| *trip - nearest);
        let (sum, count) =
            trips.fold((Span::ZERO, 0), |(sum, count), trip| (sum + trip, count + 1));
        sum / u64::max(count, 1)
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

    const MS: Span = Span::from_ms(1);

    #[test]
    fn a_distant_member_is_no_queue_and_its_queue_is_one() {
        let mut distances = Distances::default();
        assert_eq!(distances.record(1, 10 * MS, Instant::START), 10 * MS);
        assert_eq!(distances.record(2, 90 * MS, Instant::START), 10 * MS);
        assert_eq!(distances.record(2, 130 * MS, Instant::START + MS), 50 * MS);
        assert_eq!(distances.record(1, 50 * MS, Instant::START + MS), 50 * MS);
        assert_eq!(distances.mean_excess(), 40 * MS);
        distances.remove(2);
        assert_eq!(distances.mean_excess(), Span::ZERO);
        distances.record(3, 70 * MS, Instant::START + MS);
        distances.remove(1);
        assert_eq!(
            distances.record(3, 80 * MS, Instant::START + MS),
            80 * MS,
            "the nearest has left"
        );
    }

    #[test]
    fn a_longer_way_is_accepted_after_a_while() {
        let mut distances = Distances::default();
        distances.record(1, 10 * MS, Instant::START);
        assert_eq!(distances.record(1, 80 * MS, Instant::START + MAX_AGE), 80 * MS);
        let later = Instant::from_ns(1) + MAX_AGE;
        distances.record(1, 80 * MS, later);
        assert_eq!(distances.least[&1], (later, 80 * MS));
    }
}
