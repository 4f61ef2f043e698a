//! Whether multicast gets through: seen from answers, and where it did not, asked again with
//! a probe now and then.

use crate::Nanos;
use crate::switch::MemberId;

/// The first probe goes so long after multicast was found to be blocked.
const FIRST: Nanos = 2_000_000_000;
/// From one probe to the next at most; a probe and its answer are some 150 bytes, less than
/// a hundredth of the traffic of any session that is worth multicast.
const MOST: Nanos = 30_000_000_000;
/// So many probes in a row have to be answered.
const ENOUGH: u32 = 2;

/// What is known of multicast.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    /// Since when it is blocked, as far as is known: what to wait from probe to probe.
    blocked: Option<Nanos>,
    probe_at: Nanos,
    /// Whose answer to a probe is awaited.
    asked: Option<MemberId>,
    answered: u32,
}

impl Reach {
    /// Whether multicast is held to be blocked.
    pub fn is_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    /// Multicast does not get through. `true` if that is news.
    pub fn block(&mut self, now: Nanos) -> bool {
        if self.is_blocked() {
            return false;
        }
        (self.blocked, self.probe_at) = (Some(FIRST), now + FIRST);
        (self.asked, self.answered) = (None, 0);
        true
    }

    /// When the next probe is due, if one is.
    pub fn next_at(&self) -> Option<Nanos> {
        self.blocked.map(|_| self.probe_at)
    }

    /// Takes note that a probe goes to `member`.
    pub fn probe(&mut self, member: MemberId, now: Nanos) {
        let Some(wait) = self.blocked else { return };
        if self.asked.replace(member).is_some() {
            // The one before was not answered.
            self.answered = 0;
            self.blocked = Some((wait * 3 / 2).min(MOST));
        }
        self.probe_at = now + wait;
    }

    /// A member has said something that may be the answer to a probe. `true` if multicast is
    /// held to get through from now on.
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
        // The next one soon, to be sure.
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
