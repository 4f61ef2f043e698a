//! Sets of chunks of a message.

use super::frame::MAX_CHUNKS;

/// Indices of chunks, in ascending order. It takes no memory elsewhere: most messages have one chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Chunks([u64; MAX_CHUNKS / 64]);

impl Chunks {
    /// Those up to `last`, for which `is_in` returns true.
    pub fn up_to(last: u8, is_in: impl Fn(u8) -> bool) -> Self {
        let mut chunks = Self::default();
        (0..=last).filter(|index| is_in(*index)).for_each(|index| chunks.insert(index));
        chunks
    }

    /// Adds a chunk.
    pub fn insert(&mut self, index: u8) {
        self.0[usize::from(index / 64)] |= 1 << (index % 64);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; MAX_CHUNKS / 64]
    }

    /// Number of chunks.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The first one.
    pub fn first(&self) -> Option<u8> {
        let (place, word) = self.0.iter().enumerate().find(|(_, word)| **word != 0)?;
        Some((place * 64) as u8 + word.trailing_zeros() as u8)
    }

    /// The last one.
    pub fn last(&self) -> Option<u8> {
        let (place, word) = self.0.iter().enumerate().rfind(|(_, word)| **word != 0)?;
        Some((place * 64) as u8 + 63 - word.leading_zeros() as u8)
    }

    /// Takes the first one.
    pub fn pop_first(&mut self) -> Option<u8> {
        let word = self.0.iter_mut().enumerate().find(|(_, word)| **word != 0);
        let (place, word) = word?;
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some((place * 64) as u8 + bit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn they_are_an_ordered_set(model in prop::collection::btree_set(any::<u8>(), 0..40)) {
            let mut chunks = Chunks::up_to(u8::MAX, |index| model.contains(&index));
            prop_assert_eq!((chunks.len(), chunks.is_empty()), (model.len(), model.is_empty()));
            prop_assert_eq!(chunks.last(), model.last().copied());
            let mut taken = BTreeSet::new();
            while let Some(first) = chunks.first() {
                prop_assert_eq!(chunks.pop_first(), Some(first));
                prop_assert!(taken.last().is_none_or(|last| *last < first));
                taken.insert(first);
            }
            prop_assert_eq!((taken, chunks.pop_first()), (model, None));
        }
    }
}
