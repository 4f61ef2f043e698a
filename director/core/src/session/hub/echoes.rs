//! Invitations in flight. Members answer them at once, so they give round-trip times with the queues
//! of the path, also while a model's own messages give none.

use super::Hub;
use crate::Nanos;
use crate::capacity::UNKNOWN_TRIP;
use crate::envelope::Echo;
use crate::switch::MemberId;
use std::collections::VecDeque;

/// Chance at which losses do not explain that nothing is answered, and the loss of a round trip that
/// is always possible.
const UNLIKELY: f64 = 0.05;
const MIN_LOSS: f64 = 0.1;
/// Maximum number of invitations that are remembered.
const MAX_ASKED: usize = 256;
/// Least time between two echoes, in ns.
const MIN_INTERVAL: Nanos = 100_000_000;
/// Maximum number of times that it is doubled while no answer arrives.
const MAX_DOUBLED: u32 = 6;

/// Invitations without an answer, and when the next one is sent for its round-trip time alone.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    /// Oldest first.
    asked: VecDeque<(MemberId, Echo, Nanos)>,
    next_at: Nanos,
    /// Consecutive ones without any answer.
    unanswered: u32,
}

impl Echoes {
    /// Records an invitation that was sent to a member.
    pub fn sent(&mut self, member: MemberId, echo: Echo, now: Nanos) {
        if self.asked.len() >= MAX_ASKED {
            self.asked.pop_front();
        }
        self.asked.push_back((member, echo, now));
    }

    /// A member has answered; returns the round-trip time in ns if it was an invitation.
    pub fn answered(&mut self, member: MemberId, echo: Echo, now: Nanos) -> Option<Nanos> {
        let known = |(to, asked, _): &(MemberId, Echo, Nanos)| (*to, *asked) == (member, echo);
        let place = self.asked.iter().position(known)?;
        self.unanswered = 0;
        self.asked.remove(place).map(|(.., at)| now.saturating_sub(at))
    }
}

impl Hub {
    /// An invitation to the current epoch for its round-trip time, to a member with an outstanding
    /// message, if there was no sample for some time. With a configured rate none is needed.
    pub(super) fn next_echo(&mut self, now: Nanos) -> Option<(MemberId, Vec<u8>)> {
        let (number, message) = self.messages.first_key_value()?;
        let trip = self.capacity.smoothed_trip().unwrap_or(UNKNOWN_TRIP);
        let seen = self.capacity.sampled_at().unwrap_or(0).max(message.sent_at);
        if !self.capacity.is_estimated() || now < self.echoes.next_at || now < seen + 2 * trip {
            return None;
        }
        let lacking = self.switch.unacknowledged(*number);
        let lacking: Vec<MemberId> = lacking.filter(|m| !self.absent.contains(m)).collect();
        let any = (self.rng.uniform() * lacking.len() as f64) as usize;
        let member = *lacking.get(any)?;
        let wait = (4 * trip).max(MIN_INTERVAL) << self.echoes.unanswered.min(MAX_DOUBLED);
        self.echoes.next_at = now + wait;
        let loss = 1.0 - (1.0 - self.conditions().loss).powi(2);
        let by_chance = loss.max(MIN_LOSS).powi(self.echoes.unanswered.min(99) as i32);
        self.capacity.set_silent(by_chance < UNLIKELY);
        self.echoes.unanswered += 1;
        let (_, epoch) = self.switch.current();
        let invitation = self.parameters(epoch)?;
        let (root, count) = self.pairings.get_mut(&member)?.control()?;
        Some((member, invitation.seal(root, count, 0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_belongs_to_one_invitation() {
        let mut echoes = Echoes::default();
        let [first, second] = [1, 2].map(Echo::of_invitation);
        assert_eq!(echoes.answered(1, first, 5), None, "nothing was asked");
        echoes.sent(1, first, 10);
        echoes.sent(1, second, 50);
        echoes.sent(2, first, 60);
        assert_eq!(echoes.answered(1, second, 70), Some(20));
        assert_eq!(echoes.answered(1, second, 71), None, "a second answer");
        assert_eq!(echoes.answered(1, Echo::of_probe(1), 72), None);
        assert_eq!(echoes.answered(1, first, 90), Some(80));
        (0..1_000).for_each(|n| echoes.sent(3, Echo::of_invitation(n), 100));
        assert_eq!(echoes.asked.len(), MAX_ASKED);
    }
}
