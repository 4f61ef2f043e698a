//! Error texts with their number.

use std::collections::BTreeMap;

/// The maximum number of different texts; further ones are counted together.
const MAX_REASONS: usize = 20;

/// Error texts with their number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reasons(BTreeMap<String, u64>);

impl Reasons {
    /// Counts one error.
    pub fn count(&mut self, why: &str) {
        if let Some(count) = self.0.get_mut(why) {
            *count += 1;
        } else if self.0.len() < MAX_REASONS {
            self.0.insert(why.to_owned(), 1);
        } else {
            *self.0.entry("other reasons".to_owned()).or_default() += 1;
        }
    }

    /// Adds the counts of another; drops no text.
    pub fn add(&mut self, other: &Self) {
        for (reason, count) in &other.0 {
            *self.0.entry(reason.clone()).or_default() += count;
        }
    }

    /// The number of different texts.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The first text in alphabetical order.
    pub fn first(&self) -> Option<&str> {
        self.0.keys().next().map(String::as_str)
    }

    /// All texts in alphabetical order.
    pub fn into_inner(self) -> BTreeMap<String, u64> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_reasons_is_bounded() {
        let mut reasons = Reasons::default();
        (0..100).for_each(|i| reasons.count(&format!("{i:02}")));
        reasons.count("00");
        let mut both = Reasons::default();
        both.add(&reasons);
        both.add(&reasons);
        assert_eq!((both.len(), both.first()), (MAX_REASONS + 1, Some("00")));
        let all = both.into_inner();
        assert_eq!((all["00"], all["other reasons"]), (4, 160));
    }
}
