//! Contexts of 6LoWPAN whose prefixes are known at a capture point.

use units::{Contexts, Ipv6Prefix};

/// Those that the capture names, and those that the options do.
#[derive(Debug, Clone, Copy)]
pub struct KnownContexts<'a> {
    /// By the capture.
    pub named: &'a Contexts,
    /// By the options, which take precedence: numbers and prefixes.
    pub given: &'a [(u8, Ipv6Prefix)],
}

impl KnownContexts<'_> {
    /// None.
    #[cfg(test)]
    pub const NONE: KnownContexts<'static> = KnownContexts { named: &Contexts::NONE, given: &[] };

    /// The prefix of the context with this number.
    pub fn get(self, number: u8) -> Option<Ipv6Prefix> {
        let given = self.given.iter().find(|(given, _)| *given == number);
        given.map(|(_, prefix)| *prefix).or_else(|| self.named.get(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_take_precedence_over_the_capture() {
        let prefix = |text: &str| text.parse::<Ipv6Prefix>().unwrap();
        let named = Contexts::try_from(vec![prefix("fd00::/64"), prefix("fd01::/64")]).unwrap();
        let given = [(1, prefix("fd02::/64")), (15, prefix("fd03::/64"))];
        let known = KnownContexts { named: &named, given: &given };
        let found = [0, 1, 2, 15].map(|number| known.get(number).map(|prefix| prefix.to_string()));
        let expected = [Some("fd00::/64"), Some("fd02::/64"), None, Some("fd03::/64")];
        assert_eq!(found, expected.map(|prefix| prefix.map(str::to_owned)));
    }
}
