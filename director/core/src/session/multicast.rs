//! Multicast health: detects from answers whether multicast works, and probes from time to time
//! after it failed.

use crate::switch::MemberId;
use crate::{Instant, Span};

/// Delay of the first probe after multicast failed (decision 34).
const FIRST_DELAY: Span = Span::from_s(2);
/// Maximum interval of probes. A probe and its answer are some 150 bytes: less than 1 % of the
/// traffic of any session for which multicast pays off.
const MAX_INTERVAL: Span = Span::from_s(30);
/// Number of probes that must be answered. Not in a row: where multicast is blocked none is answered, and on
/// a path with losses two in a row can take minutes.
const CONFIRMATIONS: u32 = 2;

/// State of multicast.
#[derive(Debug, Clone, Default)]
pub(crate) struct MulticastHealth {
    /// The current probe interval, if multicast is blocked.
    interval: Option<Span>,
    probe_at: Instant,
    /// The member that has an unanswered probe.
    probed: Option<MemberId>,
    answered: u32,
}

impl MulticastHealth {
    /// Whether multicast is considered blocked.
    pub fn is_blocked(&self) -> bool {
        self.interval.is_some()
    }

    /// Marks multicast as blocked. `true` if it was not before.
    pub fn block(&mut self, now: Instant) -> bool {
        if self.is_blocked() {
            return false;
        }
        (self.interval, self.probe_at) = (Some(FIRST_DELAY), now + FIRST_DELAY);
        (self.probed, self.answered) = (None, 0);
        true
    }

    /// Time of the next probe, if any.
    pub fn next_at(&self) -> Option<Instant> {
        self.interval.map(|_| self.probe_at)
    }

    /// Records that a probe goes to `member`.
    pub fn probe(&mut self, member: MemberId, now: Instant) {
        let Some(wait) = self.interval else { return };
        if self.probed.replace(member).is_some() {
            // The previous probe was not answered.
            self.interval = Some((wait * 3 / 2).min(MAX_INTERVAL));
        }
        self.probe_at = now + wait;
    }

    /// Records the answer of a member to the last probe. `true` if multicast is
    /// considered working again.
    pub fn probe_answered(&mut self, member: MemberId, now: Instant) -> bool {
        if self.interval.is_none() || self.probed != Some(member) {
            return false;
        }
        self.probed = None;
        self.answered += 1;
        if self.answered >= CONFIRMATIONS {
            self.interval = None;
            return true;
        }
        // Send the next probe soon, to confirm.
        self.interval = Some(FIRST_DELAY);
        self.probe_at = self.probe_at.min(now + FIRST_DELAY / 4);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time `s` seconds after the start.
    fn at(s: u64) -> Instant {
        Instant::START + Span::from_s(s)
    }

    /// What failed before: only two answers in a row counted, which two members with a third of their frames
    /// lost did not give in four minutes.
    #[test]
    fn lost_probes_between_answers_do_not_keep_it_closed() {
        let mut health = MulticastHealth::default();
        health.block(at(0));
        health.probe(1, at(2));
        assert!(!health.probe_answered(1, at(2)));
        let (first, second) = (at(3), at(5));
        health.probe(1, first);
        health.probe(2, second);
        assert!(health.probe_answered(2, second) && !health.is_blocked());
    }

    #[test]
    fn two_probes_open_it_again() {
        let mut health = MulticastHealth::default();
        assert_eq!(health.next_at(), None, "nothing is blocked");
        assert!(health.block(at(1)) && !health.block(at(1)));
        assert_eq!(health.next_at(), Some(at(3)));
        health.probe(1, at(3));
        assert!(!health.probe_answered(2, at(3)), "another member");
        assert!(!health.probe_answered(1, at(3)), "one answer can be random");
        let next = health.next_at().unwrap();
        assert!(next < at(4));
        health.probe(2, next);
        assert!(health.probe_answered(2, next) && !health.is_blocked());
    }

    #[test]
    fn what_is_not_answered_is_asked_ever_less_often() {
        let mut health = MulticastHealth::default();
        health.block(Instant::START);
        let mut now = Instant::START;
        let mut waits = Vec::new();
        for _ in 0..12 {
            let next = health.next_at().unwrap();
            waits.push(next - now);
            now = next;
            health.probe(1, now);
        }
        assert!(waits.is_sorted() && waits[11] == MAX_INTERVAL, "{waits:?}");
    }
}
