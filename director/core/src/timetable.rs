//! What is due for messages, by message and by time.

use crate::Instant;
use crate::ids::MessageId;
use crate::message_map::MessageMap;
use alloc::collections::VecDeque;

/// Entries by message number, each with the time at which it is due.
#[derive(Debug)]
pub(crate) struct Timetable<V> {
    entries: MessageMap<(Instant, V)>,
    /// Times and numbers in ascending order. Those of entries that have gone, or have another time now, stay
    /// until they are first, or are more than the others.
    order: VecDeque<(Instant, MessageId)>,
}

impl<V> Default for Timetable<V> {
    fn default() -> Self {
        Self { entries: MessageMap::default(), order: VecDeque::new() }
    }
}

/// Number of times of former entries up to which they stay.
const FORMER: usize = 16;

impl<V> Timetable<V> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry of a message, and when it is due.
    pub fn get(&self, number: MessageId) -> Option<(Instant, &V)> {
        self.entries.get(number).map(|(at, value)| (*at, value))
    }

    /// Sets the entry of a message, due at this time. Later than all others is the fastest.
    pub fn insert(&mut self, number: MessageId, at: Instant, value: V) {
        let before = self.entries.insert(number, (at, value));
        if before.is_some_and(|(before, _)| before == at) {
            return;
        }
        let own = (at, number);
        match self.order.back().is_some_and(|last| *last > own) {
            true => self.order.insert(self.order.partition_point(|other| *other < own), own),
            false => self.order.push_back(own),
        }
        if self.order.len() > 2 * self.entries.len() + FORMER {
            let entries = &self.entries;
            self.order.retain(|(at, number)| is_of(entries, *number, *at));
        }
    }

    /// Removes the entry of a message.
    pub fn remove(&mut self, number: MessageId) -> Option<V> {
        self.entries.remove(number).map(|(_, value)| value)
    }

    /// The entry that is due first, and when; the one with the smallest number of several.
    pub fn first(&mut self) -> Option<(Instant, MessageId, &V)> {
        while let Some((at, number)) = self.order.front().copied() {
            if is_of(&self.entries, number, at) {
                return self.entries.get(number).map(|(_, value)| (at, number, value));
            }
            self.order.pop_front();
        }
        None
    }

    /// All entries, by number.
    pub fn iter(&self) -> impl Iterator<Item = (MessageId, Instant, &V)> + Clone {
        self.entries.iter().map(|(number, (at, value))| (number, *at, value))
    }

    /// Keeps the entries for which `keep` returns true, which gets them by number.
    pub fn retain(&mut self, mut keep: impl FnMut(MessageId, Instant, &V) -> bool) {
        self.entries.retain(|number, (at, value)| keep(number, *at, value));
    }
}

/// Whether this is the time of an entry.
fn is_of<V>(entries: &MessageMap<(Instant, V)>, number: MessageId, at: Instant) -> bool {
    entries.get(number).is_some_and(|(own, _)| *own == at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        /// Against one that keeps both orders exactly.
        #[test]
        fn it_is_in_both_orders(
            steps in prop::collection::vec((0_u8..6, 0_u64..12, 0_u64..9), 1..300)
        ) {
            let mut table = Timetable::default();
            let (mut model, mut order) = (BTreeMap::new(), BTreeSet::new());
            for (step, (kind, number, ns)) in steps.into_iter().enumerate() {
                let at = Instant::from_ns(ns);
                match kind {
                    0 => {
                        let had = model.remove(&number);
                        had.iter().for_each(|(at, _)| order.retain(|own| *own != (*at, number)));
                        prop_assert_eq!(table.remove(number), had.map(|(_, value)| value));
                    }
                    1 => {
                        let keep = |number: MessageId, at: Instant, value: u64| !(number + at.as_ns() + value).is_multiple_of(5);
                        table.retain(|number, at, value| keep(number, at, *value));
                        model.retain(|number, (at, value)| keep(*number, *at, *value));
                        order.retain(|(_, number)| model.contains_key(number));
                    }
                    _ => {
                        table.insert(number, at, step as u64);
                        let had = model.insert(number, (at, step as u64));
                        had.iter().for_each(|(at, _)| order.retain(|own| *own != (*at, number)));
                        order.insert((at, number));
                    }
                }
                let first = order.first().map(|(at, number)| (*at, *number, &model[number].1));
                prop_assert_eq!(table.first(), first);
                prop_assert_eq!(table.len(), model.len());
                let own = table.get(number);
                prop_assert_eq!(own, model.get(&number).map(|(at, value)| (*at, value)));
                let all = model.iter().map(|(number, (at, value))| (*number, *at, value));
                prop_assert!(table.iter().eq(all));
                prop_assert!(table.order.len() <= 2 * 12 + FORMER + 1);
            }
        }
    }
}
