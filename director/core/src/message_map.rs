//! Entries by message number. Numbers of open messages follow one another, new ones come last, and old
//! ones go first: a sorted ring needs no nodes, and finds most entries without a search.

use crate::ids::MessageId;
use alloc::collections::VecDeque;

/// A map by message number, in their order. An entry in the middle moves up to half of the others when
/// it comes or goes, so large values should be boxed.
#[derive(Debug, Clone)]
pub(crate) struct MessageMap<V> {
    entries: VecDeque<(MessageId, V)>,
}

impl<V> Default for MessageMap<V> {
    fn default() -> Self {
        Self { entries: VecDeque::new() }
    }
}

impl<V> MessageMap<V> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The place of a number, or the one at which it would be inserted.
    fn place(&self, number: MessageId) -> Result<usize, usize> {
        let known = |place: usize| self.entries.get(place).map(|(known, _)| *known);
        let Some(first) = known(0) else { return Err(0) };
        let dense = number.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        if let Some(place) = dense.filter(|place| known(*place) == Some(number)) {
            return Ok(place);
        }
        if self.entries.back().is_some_and(|(last, _)| *last < number) {
            return Err(self.entries.len());
        }
        self.entries.binary_search_by_key(&number, |(known, _)| *known)
    }

    /// Whether a number has an entry.
    pub fn contains(&self, number: MessageId) -> bool {
        self.place(number).is_ok()
    }

    /// The entry of a number.
    pub fn get(&self, number: MessageId) -> Option<&V> {
        let place = self.place(number).ok()?;
        self.entries.get(place).map(|(_, value)| value)
    }

    /// The entry of a number, to be changed.
    pub fn get_mut(&mut self, number: MessageId) -> Option<&mut V> {
        let place = self.place(number).ok()?;
        self.entries.get_mut(place).map(|(_, value)| value)
    }

    /// Sets the entry of a number; returns the one before.
    pub fn insert(&mut self, number: MessageId, value: V) -> Option<V> {
        // Most are new.
        if self.entries.back().is_none_or(|(last, _)| *last < number) {
            self.entries.push_back((number, value));
            return None;
        }
        match self.place(number) {
            Ok(place) => Some(core::mem::replace(&mut self.entries[place].1, value)),
            Err(place) => {
                self.entries.insert(place, (number, value));
                None
            }
        }
    }

    /// The entry of a number, which is made if there is none.
    pub fn get_or_insert_with(&mut self, number: MessageId, value: impl FnOnce() -> V) -> &mut V {
        let place = self.place(number).unwrap_or_else(|place| {
            self.entries.insert(place, (number, value()));
            place
        });
        &mut self.entries[place].1
    }

    /// Removes the entry of a number.
    pub fn remove(&mut self, number: MessageId) -> Option<V> {
        let place = self.place(number).ok()?;
        self.entries.remove(place).map(|(_, value)| value)
    }

    /// The entry with the smallest number.
    pub fn first(&self) -> Option<(MessageId, &V)> {
        self.entries.front().map(|(number, value)| (*number, value))
    }

    /// Removes the entry with the smallest number.
    pub fn pop_first(&mut self) -> Option<(MessageId, V)> {
        self.entries.pop_front()
    }

    /// All entries.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (MessageId, &V)> + Clone {
        self.entries.iter().map(|(number, value)| (*number, value))
    }

    /// All entries, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (MessageId, &mut V)> {
        self.entries.iter_mut().map(|(number, value)| (*number, value))
    }

    /// All values.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + Clone {
        self.entries.iter().map(|(_, value)| value)
    }

    /// All values, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    /// Keeps the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(MessageId, &mut V) -> bool) {
        self.entries.retain_mut(|(number, value)| keep(*number, value));
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Numbers in a row and far apart, in any order, as a network or an attacker sends them.
        #[test]
        fn it_is_an_ordered_map(
            steps in prop::collection::vec((0_u8..6, 0_u64..40, any::<u64>()), 1..300)
        ) {
            let (mut map, mut model) = (MessageMap::default(), BTreeMap::new());
            for (step, (kind, near, far)) in steps.into_iter().enumerate() {
                let number = if kind == 5 { far } else { near };
                match kind {
                    0 => prop_assert_eq!(map.remove(number), model.remove(&number)),
                    1 => prop_assert_eq!(map.pop_first(), model.pop_first()),
                    2 => {
                        let own = *map.get_or_insert_with(number, || step);
                        prop_assert_eq!(own, *model.entry(number).or_insert(step));
                    }
                    3 => {
                        map.retain(|number, value| number % 7 != *value as u64 % 7);
                        model.retain(|number, value| number % 7 != *value as u64 % 7);
                    }
                    _ => prop_assert_eq!(map.insert(number, step), model.insert(number, step)),
                }
                prop_assert_eq!(map.get(number), model.get(&number));
                prop_assert_eq!(map.contains(number), model.contains_key(&number));
                prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
                let all: Vec<(u64, usize)> = map.iter().map(|(at, own)| (at, *own)).collect();
                prop_assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
                let first = model.first_key_value().map(|(at, own)| (*at, own));
                prop_assert_eq!(map.first(), first);
            }
        }
    }
}
