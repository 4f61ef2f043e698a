//! Queue of invitations.

use crate::Span;
use crate::conditions::Conditions;
use crate::switch::MemberId;
use alloc::collections::BTreeMap;

/// Members to be invited to an epoch, one after another; each is queued once.
#[derive(Debug, Default)]
pub(super) struct InviteQueue {
    /// Entries by position.
    order: BTreeMap<u64, (MemberId, u32)>,
    places: BTreeMap<MemberId, u64>,
}

impl InviteQueue {
    /// Puts a member last, unless it is queued.
    pub fn push_back(&mut self, member: MemberId, epoch: u32) {
        let after = self.order.last_key_value().map_or(0, |(place, _)| place + 1);
        // A queued member keeps its place and gets the newer epoch: one invitation is enough.
        let place = self.places.get(&member).copied().unwrap_or(after);
        self.places.insert(member, place);
        self.order.insert(place, (member, epoch));
    }

    /// Removes a member's invitation to this epoch or an earlier one.
    pub fn remove(&mut self, member: MemberId, epoch: u32) {
        let place = self.places.get(&member).copied();
        let waits = place.and_then(|place| self.order.get(&place));
        // An invitation to a later epoch stays: the member does not know that one yet.
        if let (Some(place), Some((_, asked))) = (place, waits)
            && *asked <= epoch
        {
            self.order.remove(&place);
            self.places.remove(&member);
        }
    }

    /// Takes the next member and its epoch.
    pub fn pop(&mut self) -> Option<(MemberId, u32)> {
        let (_, (member, epoch)) = self.order.pop_first()?;
        self.places.remove(&member);
        Some((member, epoch))
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// An invitation on the wire, and the answer to it, in bytes: 78 and 29, with 42 of headers.
pub(super) const INVITATION: f64 = 120.0;
pub(super) const READY: f64 = 71.0;

/// Timeout of an invitation round: all members are asked and answer.
pub(super) fn asking_time(here: &Conditions, members: u16) -> Span {
    let each = 2.0 * INVITATION * 8e9 / here.rate_bit_s;
    4 * here.rtt + Span::from_ns_f64(1.5 * f64::from(members) * each) + Span::from_ms(20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_one_turn_and_none_for_what_it_knows() {
        let mut invite_queue = InviteQueue::default();
        (1..=4).for_each(|member| invite_queue.push_back(member, 0));
        invite_queue.push_back(1, 1);
        invite_queue.remove(2, 0);
        invite_queue.remove(1, 0);
        let all: Vec<_> = std::iter::from_fn(|| invite_queue.pop()).collect();
        assert_eq!(all, [(1, 1), (3, 0), (4, 0)], "the first of the later epoch");
        assert!(invite_queue.is_empty());
    }
}
