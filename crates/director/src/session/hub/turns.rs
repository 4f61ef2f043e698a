//! Queue of invitations.

use crate::switch::MemberId;
use std::collections::BTreeMap;

/// Members to be invited to an epoch, one after another; each is queued once.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Entries by position; new first entries get a smaller position than all others.
    order: BTreeMap<i64, (MemberId, u32)>,
    places: BTreeMap<MemberId, i64>,
}

impl Turns {
    /// Puts a member first, even if it is queued.
    pub fn first(&mut self, member: MemberId, epoch: u32) {
        let before = self.order.first_key_value().map_or(0, |(place, _)| place - 1);
        self.place(member, epoch, before);
    }

    /// Puts a member last, unless it is queued.
    pub fn last(&mut self, member: MemberId, epoch: u32) {
        let after = self.order.last_key_value().map_or(0, |(place, _)| place + 1);
        let place = self.places.get(&member).copied().unwrap_or(after);
        self.place(member, epoch, place);
    }

    fn place(&mut self, member: MemberId, epoch: u32, place: i64) {
        if let Some(old) = self.places.insert(member, place) {
            self.order.remove(&old);
        }
        self.order.insert(place, (member, epoch));
    }

    /// Whether a member is queued.
    pub fn has(&self, member: MemberId) -> bool {
        self.places.contains_key(&member)
    }

    /// Removes a member's invitation to this epoch or an earlier one.
    pub fn knows(&mut self, member: MemberId, epoch: u32) {
        let place = self.places.get(&member).copied();
        let waits = place.and_then(|place| self.order.get(&place));
        if let (Some(place), Some((_, asked))) = (place, waits)
            && *asked <= epoch
        {
            self.order.remove(&place);
            self.places.remove(&member);
        }
    }

    /// Takes the next member and its epoch.
    pub fn next(&mut self) -> Option<(MemberId, u32)> {
        let (_, (member, epoch)) = self.order.pop_first()?;
        self.places.remove(&member);
        Some((member, epoch))
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_one_turn_and_none_for_what_it_knows() {
        let mut turns = Turns::default();
        (1..=4).for_each(|member| turns.last(member, 0));
        turns.last(1, 1);
        turns.first(3, 0);
        turns.first(3, 0);
        turns.knows(2, 0);
        turns.knows(1, 0);
        assert!(turns.has(1) && !turns.has(2));
        let all: Vec<_> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(all, [(3, 0), (1, 1), (4, 0)], "the third first, the first of the later epoch");
        assert!(turns.is_empty() && !turns.has(3));
    }
}
