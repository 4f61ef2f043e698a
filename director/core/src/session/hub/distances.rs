//! How much farther away some members are than others: their longer round trips are no queue.

use crate::switch::MemberId;
use crate::{Instant, Span};
use alloc::collections::BTreeMap;

/// Time after which a member's shortest round trip is measured anew: paths change.
const MAX_AGE: Span = Span::from_s(30);

/// Samples of a member whose shortest round trip is measured anew after which others without any for `SILENT`
/// no longer count.
const MANY: u32 = 8;
const SILENT: Span = Span::from_s(15);

/// What is known of a member.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Its shortest recent round trip, when that was, and the number of samples since.
    least: Span,
    at: Instant,
    samples: u32,
    /// Time of its last sample.
    sampled_at: Instant,
}

/// The shortest recent round trips of members.
#[derive(Debug, Default)]
pub(super) struct Distances {
    members: BTreeMap<MemberId, Known>,
    /// The smallest value, and whose it is: samples are more frequent than its changes.
    nearest: Option<(Span, MemberId)>,
}

impl Distances {
    /// Records a round trip to a member; returns it as if all members were as near as the
    /// nearest: its queueing delay stays, the longer way goes.
    pub fn record(&mut self, member: MemberId, trip: Span, now: Instant) -> Span {
        let fresh = Known { least: trip, at: now, samples: 0, sampled_at: now };
        let known = self.members.entry(member).or_insert(fresh);
        (known.samples, known.sampled_at) = (known.samples.saturating_add(1), now);
        let samples = known.samples;
        let is_old = known.at + MAX_AGE < now;
        if trip <= known.least || is_old {
            *known = fresh;
        }
        let least = known.least;
        if is_old && samples >= MANY {
            // Otherwise its new distance counts from where silent members were before their path changed, too.
            self.members.retain(|_, known| now < known.sampled_at + SILENT);
            self.find_nearest();
        }
        // All are searched only if the nearest one itself has become more distant.
        match self.nearest {
            Some((nearest, _)) if least <= nearest => self.nearest = Some((least, member)),
            Some((_, known)) if known != member => {}
            _ => self.find_nearest(),
        }
        self.nearest.map_or(trip, |(nearest, _)| nearest + (trip - least))
    }

    fn find_nearest(&mut self) {
        self.nearest = self.members.iter().map(|(member, known)| (known.least, *member)).min();
    }

    /// How much longer the round trip to the average member is than that to the nearest.
    pub fn mean_excess(&self) -> Span {
        let Some((nearest, _)) = self.nearest else { return Span::ZERO };
        let sum: Span = self.members.values().map(|known| known.least - nearest).sum();
        sum / self.members.len() as u64
    }

    /// How much longer the mean round trip to these members is than that to the nearest.
    pub fn excess<'a>(&self, members: impl Iterator<Item = &'a MemberId>) -> Span {
        let Some((nearest, _)) = self.nearest else { return Span::ZERO };
        let trips = members.filter_map(|m| self.members.get(m)).map(|known| known.least - nearest);
        let (sum, count) =
            trips.fold((Span::ZERO, 0), |(sum, count), trip| (sum + trip, count + 1));
        sum / u64::max(count, 1)
    }

    /// A member has left.
    pub fn remove(&mut self, member: MemberId) {
        self.members.remove(&member);
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
        let known = distances.members[&1];
        assert_eq!((known.at, known.least), (later, 80 * MS));
    }

    /// What failed before: members that had joined over a wire, and only send since, stayed the nearest. Half a
    /// minute later each round trip of the others over a radio counted as that of the wire.
    #[test]
    fn members_without_samples_are_no_longer_the_nearest() {
        for every in [1, 20] {
            let mut distances = Distances::default();
            for member in 0..4 {
                distances.record(member, Span::from_us(8), Instant::START);
            }
            let mut trips = Vec::new();
            for message in 1..100 {
                trips.push(distances.record(
                    3,
                    300 * MS,
                    Instant::START + message * every * 1_000 * MS,
                ));
            }
            let wire = trips.iter().filter(|trip| **trip < 250 * MS).count();
            // With rare samples those of others are as old.
            assert_eq!(wire == 0, every == 1, "{wire} of 99, one each {every} s");
        }
    }
}
