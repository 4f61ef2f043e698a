//! Sets of members.

use crate::ids::MemberId;
use alloc::collections::VecDeque;

/// Members per word.
const WORD: u32 = u64::BITS;

/// Members that still have to answer a message: most messages are to all of a group, and lose one member after
/// the other. One bit each, from the lowest member to the highest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MemberSet {
    /// Number of the first word, and the words; none if it is empty from the start.
    first: u32,
    words: VecDeque<u64>,
    count: usize,
}

impl MemberSet {
    /// Number of members.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a member is in it.
    pub fn contains(&self, member: MemberId) -> bool {
        let word = self.place(member).and_then(|place| self.words.get(place));
        word.is_some_and(|word| word & bit(member) != 0)
    }

    /// Adds a member.
    pub fn insert(&mut self, member: MemberId) {
        let at = member / WORD;
        if self.words.is_empty() {
            self.first = at;
        }
        while at < self.first {
            self.words.push_front(0);
            self.first -= 1;
        }
        let place = (at - self.first) as usize;
        if place >= self.words.len() {
            self.words.resize(place + 1, 0);
        }
        let word = &mut self.words[place];
        self.count += usize::from(*word & bit(member) == 0);
        *word |= bit(member);
    }

    /// Removes a member; returns whether it was in it.
    pub fn remove(&mut self, member: MemberId) -> bool {
        let Some(place) = self.place(member) else { return false };
        let Some(word) = self.words.get_mut(place) else { return false };
        let was = *word & bit(member) != 0;
        *word &= !bit(member);
        self.count -= usize::from(was);
        was
    }

    /// Its members, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = MemberId> + '_ {
        let words = (self.first..).zip(&self.words);
        words.flat_map(|(at, word)| Bits(*word).map(move |bit| at * WORD + bit))
    }

    fn place(&self, member: MemberId) -> Option<usize> {
        (member / WORD).checked_sub(self.first).map(|place| place as usize)
    }
}

impl FromIterator<MemberId> for MemberSet {
    fn from_iter<I: IntoIterator<Item = MemberId>>(members: I) -> Self {
        let mut set = Self::default();
        members.into_iter().for_each(|member| set.insert(member));
        set
    }
}

fn bit(member: MemberId) -> u64 {
    1 << (member % WORD)
}

/// The bits of a word that are set, lowest first.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let lowest = Some(self.0.trailing_zeros()).filter(|bit| *bit < WORD)?;
        self.0 &= self.0 - 1;
        Some(lowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn they_are_an_ordered_set(
            steps in prop::collection::vec((0_u8..3, 0_u32..300, any::<u16>()), 0..200)
        ) {
            let (mut set, mut model) = (MemberSet::default(), BTreeSet::new());
            for (kind, near, far) in steps {
                let member = if far % 16 == 0 { u32::from(far) } else { near };
                match kind {
                    0 => prop_assert_eq!(set.remove(member), model.remove(&member)),
                    _ => {
                        set.insert(member);
                        model.insert(member);
                    }
                }
                prop_assert_eq!(set.contains(member), model.contains(&member));
                prop_assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
                let all: Vec<MemberId> = model.iter().copied().collect();
                prop_assert_eq!(set.iter().collect::<Vec<_>>(), all);
            }
            let again: MemberSet = model.iter().copied().collect();
            prop_assert!(again.iter().eq(model.iter().copied()));
        }
    }
}
