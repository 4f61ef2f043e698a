//! Duplicate detection for message numbers.

use std::collections::HashMap;

/// A bit set of numbers. Its size follows how many there are, not the largest one: another
/// program may send any number.
#[derive(Debug, Default)]
pub struct Seen {
    /// Words of 64 numbers, by their place.
    words: HashMap<u64, u64>,
}

impl Seen {
    /// Inserts `number`; false if it is already present.
    pub fn insert(&mut self, number: u64) -> bool {
        let word = self.words.entry(number / 64).or_default();
        let bit = 1u64 << (number % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn knows_what_it_has_seen() {
        let mut seen = Seen::default();
        assert!(seen.insert(0) && seen.insert(64) && seen.insert(599) && seen.insert(63));
        assert!(!seen.insert(64) && !seen.insert(0));
    }

    /// What failed: a foreign message with the largest number took 1.25 GB.
    #[test]
    fn a_far_number_takes_no_more_memory_than_a_near_one() {
        let mut seen = Seen::default();
        for number in [9_999_999_999, 5, u64::MAX] {
            assert!(seen.insert(number) && !seen.insert(number), "{number}");
        }
        assert_eq!(seen.words.len(), 3);
    }

    proptest! {
        #[test]
        fn each_number_is_new_once(numbers in prop::collection::vec(prop_oneof![0..200_u64, any::<u64>()], 0..80)) {
            let (mut seen, mut model) = (Seen::default(), std::collections::BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(seen.insert(number), model.insert(number), "{}", number);
            }
        }
    }
}
