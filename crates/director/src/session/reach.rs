//! Multicast health: detects from answers whether multicast works, and probes from time to time
//! after it failed.

use crate::Nanos;
use crate::switch::MemberId;

/// Delay of the first probe after multicast failed.
const FIRST: Nanos = 2_000_000_000;
/// Maximum interval of probes. A probe and its answer are some 150 bytes: less than 1 % of the
/// traffic of any session for which multicast pays off.
const MOST: Nanos = 30_000_000_000;
/// Number of consecutive probes that must be answered.
const ENOUGH: u32 = 2;

/// State of multicast.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    /// The current probe interval, if multicast is blocked.
    blocked: Option<Nanos>,
    probe_at: Nanos,
    /// The member that has an unanswered probe.
    asked: Option<MemberId>,
    answered: u32,
}

impl Reach {
    /// Whether multicast is considered blocked.
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Marks multicast as blocked. `true` if it was not before.
    pub fn block(&mut self, now: Nanos) -> bool {
        if self.is_blocked() {
            return false;
        }
        (self.blocked, self.probe_at) = (Some(FIRST), now + FIRST);
        (self.asked, self.answered) = (None, 0);
        true
    }

    /// Time of the next probe, if any.
    pub fn next_at(&self) -> Option<Nanos> {
        self.blocked.map(|_| self.probe_at)
    }

    /// Records that a probe goes to `member`.
    pub fn probe(&mut self, member: MemberId, now: Nanos) {
        let Some(wait) = self.blocked else { return };
        if self.asked.replace(member).is_some() {
            // The previous probe was not answered.
            self.answered = 0;
            self.blocked = Some((wait * 3 / 2).min(MOST));
        }
        self.probe_at = now + wait;
    }

    /// Records a message from a member that can be the answer to a probe. `true` if multicast is
    /// considered working again.
    pub fn heard(&mut self, member: MemberId, now: Nanos) -> bool {
        if self.blocked.is_none() || self.asked != Some(member) {
            return false;
        }
        self.asked = None;
        self.answered += 1;
        if self.answered >= ENOUGH {
            self.blocked = None;
            return true;
        }
        // Send the next probe soon, to confirm.
        self.probe_at = self.probe_at.min(now + FIRST / 4);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn two_probes_in_a_row_open_it_again() {
        let mut reach = Reach::default();
        assert_eq!(reach.next_at(), None, "nothing is blocked");
        assert!(reach.block(SECOND) && !reach.block(SECOND));
        assert_eq!(reach.next_at(), Some(3 * SECOND));
        reach.probe(1, 3 * SECOND);
        assert!(!reach.heard(2, 3 * SECOND), "somebody else");
        assert!(!reach.heard(1, 3 * SECOND), "once may be chance");
        let next = reach.next_at().unwrap();
        assert!(next < 4 * SECOND);
        reach.probe(2, next);
        assert!(reach.heard(2, next) && !reach.is_blocked());
    }

    #[test]
    fn what_is_not_answered_is_asked_ever_less_often() {
        let mut reach = Reach::default();
        reach.block(0);
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..12 {
            let next = reach.next_at().unwrap();
            waits.push(next - now);
            now = next;
            reach.probe(1, now);
        }
        assert!(waits.is_sorted() && waits[11] == MOST, "{waits:?}");
    }
}
