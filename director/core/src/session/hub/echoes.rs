//! Invitations in flight. Members answer them at once, so they give round-trip times with the queues
//! of the path, also while a model's own messages give none.

use crate::envelope::Echo;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MemberId;
use crate::{Instant, Span};
use alloc::collections::VecDeque;

/// Chance at which losses do not explain that nothing is answered, and the loss of a round trip that
/// is always possible.
const UNLIKELY: f64 = 0.05;
const MIN_LOSS: f64 = 0.1;
/// Maximum number of invitations that are remembered.
const MAX_ASKED: usize = 256;
/// Least time between two echoes.
const MIN_INTERVAL: Span = Span::from_ms(100);
/// Maximum number of times that it is doubled while no answer arrives.
const MAX_DOUBLED: u32 = 6;

/// Invitations without an answer, and when the next one is sent for its round-trip time alone.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    /// Oldest first.
    asked: VecDeque<(MemberId, Echo, Instant)>,
    next_at: Instant,
    /// Consecutive ones without any answer.
    unanswered: u32,
}

impl Echoes {
    /// Records an invitation that was sent to a member.
    pub fn sent(&mut self, member: MemberId, echo: Echo, now: Instant) {
        if self.asked.len() >= MAX_ASKED {
            self.asked.pop_front();
        }
        self.asked.push_back((member, echo, now));
    }

    /// Whether an invitation may be sent for its round-trip time alone.
    pub fn may_ask(&self, now: Instant) -> bool {
        now >= self.next_at
    }

    /// Such an invitation is sent over a path with a mean round trip of `trip` that loses this
    /// share of frames in each direction. Returns whether losses do not explain that those before it
    /// have no answer.
    pub fn ask(&mut self, trip: Span, loss: f64, now: Instant) -> bool {
        // At most once in four round trips, and less often while nothing is answered: in a queue
        // each request makes the queue longer (decision 101).
        let wait = (4 * trip).max(MIN_INTERVAL) * (1 << self.unanswered.min(MAX_DOUBLED));
        self.next_at = now + wait;
        // The invitation or its answer can be lost.
        let loss = (1.0 - (1.0 - loss).powi(2)).max(MIN_LOSS);
        let by_chance = loss.powi(i32::try_from(self.unanswered).unwrap_or(i32::MAX));
        self.unanswered += 1;
        by_chance < UNLIKELY
    }

    /// A member has answered; returns the round-trip time if it was an invitation.
    pub fn answered(&mut self, member: MemberId, echo: Echo, now: Instant) -> Option<Span> {
        let known = |(to, asked, _): &(MemberId, Echo, Instant)| (*to, *asked) == (member, echo);
        // Counts begin again with each handshake: the newest.
        let place = self.asked.iter().rposition(known)?;
        self.unanswered = 0;
        self.asked.remove(place).map(|(.., at)| now - at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time `ns` nanoseconds after the start.
    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn each_answer_belongs_to_one_invitation() {
        let mut echoes = Echoes::default();
        let [first, second] = [1, 2].map(Echo::of_invitation);
        assert_eq!(echoes.answered(1, first, at(5)), None, "nothing was asked");
        echoes.sent(1, first, at(10));
        echoes.sent(1, second, at(50));
        echoes.sent(2, first, at(60));
        assert_eq!(echoes.answered(1, second, at(70)), Some(Span::from_ns(20)));
        assert_eq!(echoes.answered(1, second, at(71)), None, "a second answer");
        assert_eq!(echoes.answered(1, Echo::of_probe(1), at(72)), None);
        assert_eq!(echoes.answered(1, first, at(90)), Some(Span::from_ns(80)));
        // The member has restarted since an invitation that it never answered.
        echoes.sent(1, first, at(1_000));
        echoes.sent(1, first, at(90_000));
        assert_eq!(echoes.answered(1, first, at(90_020)), Some(Span::from_ns(20)));
        (0..1_000).for_each(|n| echoes.sent(3, Echo::of_invitation(n), at(100)));
        assert_eq!(echoes.asked.len(), MAX_ASKED);
    }

    #[test]
    fn silence_is_a_queue_if_losses_do_not_explain_it() {
        let ask = |loss| {
            let mut echoes = Echoes::default();
            (0..20).take_while(|n| !echoes.ask(Span::from_ms(100), loss, at(*n))).count()
        };
        // Without loss at 10 % by chance, the second silence is a sign; at 30 % each way, the fifth.
        assert_eq!([ask(0.0), ask(0.3)], [2, 5]);
        let mut echoes = Echoes::default();
        echoes.ask(Span::from_ms(100), 0.0, at(0));
        assert!(!echoes.may_ask(at(399_999_999)) && echoes.may_ask(at(400_000_000)));
        echoes.ask(Span::from_ms(100), 0.0, at(400_000_000));
        assert!(!echoes.may_ask(at(1_199_999_999)), "twice as long");
    }
}
