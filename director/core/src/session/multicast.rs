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

/// Probes at the start of which none is answered until multicast counts as blocked. With 30 % of the frames lost
/// in both directions, that happens by chance in 2 % of sessions.
pub(crate) const CHECKS: u32 = 6;
/// Minimum time between two of them.
const CHECK_EVERY: Span = Span::from_ms(250);

/// What is known of multicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing; the number of unanswered probes.
    Unknown(u32),
    Works,
    /// The current probe interval.
    Blocked(Span),
}

/// State of multicast.
#[derive(Debug, Clone)]
pub(crate) struct MulticastHealth {
    state: State,
    probe_at: Instant,
    /// The member that has an unanswered probe.
    probed: Option<MemberId>,
    answered: u32,
}

impl Default for MulticastHealth {
    fn default() -> Self {
        Self { state: State::Unknown(0), probe_at: Instant::NEVER, probed: None, answered: 0 }
    }
}

impl MulticastHealth {
    /// Whether multicast is considered blocked.
    pub fn is_blocked(&self) -> bool {
        matches!(self.state, State::Blocked(_))
    }

    /// Whether nothing is known, and nothing was done to know it.
    pub fn is_unchecked(&self) -> bool {
        self.state == State::Unknown(0)
    }

    /// Begins to probe at this time if nothing is known, so that no message has to find multicast blocked.
    pub fn check(&mut self, at: Instant) {
        if self.is_unchecked() {
            self.probe_at = at;
        }
    }

    /// Stops that: no member could answer.
    pub fn postpone_check(&mut self) {
        if matches!(self.state, State::Unknown(_)) {
            (self.state, self.probe_at) = (State::Unknown(0), Instant::NEVER);
        }
    }

    /// Whether none of the probes at the start was answered in time.
    pub fn has_failed_check(&self, now: Instant) -> bool {
        self.state == State::Unknown(CHECKS) && self.probe_at <= now
    }

    /// Marks multicast as blocked. `true` if it was not before.
    pub fn block(&mut self, now: Instant) -> bool {
        if self.is_blocked() {
            return false;
        }
        (self.state, self.probe_at) = (State::Blocked(FIRST_DELAY), now + FIRST_DELAY);
        (self.probed, self.answered) = (None, 0);
        true
    }

    /// Time of the next probe, if any.
    pub fn next_at(&self) -> Option<Instant> {
        let probes = self.state != State::Works && self.probe_at != Instant::NEVER;
        probes.then_some(self.probe_at)
    }

    /// Records that a probe goes to `member`, whose answer takes less than `wait`.
    pub fn probe(&mut self, member: MemberId, wait: Span, now: Instant) {
        let before = self.probed.replace(member);
        match &mut self.state {
            State::Unknown(unanswered) => {
                *unanswered += 1;
                self.probe_at = now + wait.max(CHECK_EVERY);
            }
            State::Works => {}
            State::Blocked(interval) => {
                self.probe_at = now + *interval;
                if before.is_some() {
                    // The previous probe was not answered.
                    *interval = (*interval * 3 / 2).min(MAX_INTERVAL);
                }
            }
        }
    }

    /// Records the answer of a member to the last probe, or to one of the [`CHECKS`] before it if `late`. `true` if
    /// multicast is considered working again.
    pub fn probe_answered(&mut self, member: MemberId, late: bool, now: Instant) -> bool {
        match self.state {
            State::Unknown(_) => self.state = State::Works,
            State::Blocked(_) if !late && self.probed == Some(member) => {
                self.probed = None;
                self.answered += 1;
                if self.answered >= CONFIRMATIONS {
                    self.state = State::Works;
                    return true;
                }
                // Send the next probe soon, to confirm.
                self.state = State::Blocked(FIRST_DELAY);
                self.probe_at = self.probe_at.min(now + FIRST_DELAY / 4);
            }
            State::Blocked(_) | State::Works => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Span = Span::from_ms(100);

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
        health.probe(1, WAIT, at(2));
        assert!(!health.probe_answered(1, false, at(2)));
        let (first, second) = (at(3), at(5));
        health.probe(1, WAIT, first);
        health.probe(2, WAIT, second);
        assert!(health.probe_answered(2, false, second) && !health.is_blocked());
    }

    #[test]
    fn two_probes_open_it_again() {
        let mut health = MulticastHealth::default();
        assert_eq!(health.next_at(), None, "nothing is blocked");
        assert!(health.block(at(1)) && !health.block(at(1)));
        assert_eq!(health.next_at(), Some(at(3)));
        health.probe(1, WAIT, at(3));
        assert!(!health.probe_answered(2, false, at(3)), "another member");
        assert!(!health.probe_answered(1, false, at(3)), "one answer can be random");
        let next = health.next_at().unwrap();
        assert!(next < at(4));
        health.probe(2, WAIT, next);
        assert!(health.probe_answered(2, false, next) && !health.is_blocked());
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
            health.probe(1, WAIT, now);
        }
        assert!(waits.is_sorted() && waits[11] == MAX_INTERVAL, "{waits:?}");
    }

    #[test]
    fn what_is_known_of_multicast_at_the_start_is_what_probes_say() {
        let mut health = MulticastHealth::default();
        assert_eq!(health.next_at(), None, "no member has joined");
        health.check(at(1));
        for number in 0..CHECKS {
            let now = health.next_at().unwrap();
            assert!(
                now == at(1) + u64::from(number) * CHECK_EVERY && !health.has_failed_check(now)
            );
            health.probe(number, WAIT, now);
            // A message begins with multicast meanwhile.
            assert!(!health.is_blocked());
        }
        let mut answered = health.clone();
        let end = health.next_at().unwrap();
        assert!(health.has_failed_check(end) && health.block(end) && health.is_blocked());
        // Also by one that has waited in a queue.
        assert!(!answered.probe_answered(2, true, at(2)) && !answered.is_blocked());
        assert!(answered.next_at().is_none() && !answered.has_failed_check(end));
        // In the wrong state no late answer opens it.
        assert!(!health.probe_answered(CHECKS - 1, true, end) && health.is_blocked());
    }

    #[test]
    fn a_check_without_members_begins_again() {
        let mut health = MulticastHealth::default();
        health.check(at(1));
        health.probe(1, WAIT, at(1));
        health.postpone_check();
        assert!(health.is_unchecked() && health.next_at().is_none());
        // Later with each member that joins meanwhile.
        health.check(at(8));
        health.check(at(9));
        assert_eq!(health.next_at(), Some(at(9)));
    }
}
