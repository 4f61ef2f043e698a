//! Duplicate detection for message numbers.

/// A bit set of numbers; its size follows the largest one.
#[derive(Debug, Default)]
pub struct Seen {
    words: Vec<u64>,
}

impl Seen {
    /// Inserts `number`; false if it is already present.
    pub fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1u64 << (number % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_what_it_has_seen() {
        let mut seen = Seen::default();
        assert!(seen.insert(0) && seen.insert(64) && seen.insert(599) && seen.insert(63));
        assert!(!seen.insert(64) && !seen.insert(0));
    }
}
