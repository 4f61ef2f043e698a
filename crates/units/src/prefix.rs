//! Prefixes of IPv6 addresses, and the contexts of 6LoWPAN, which are a list of them.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// A prefix of IPv6 addresses, written `fd00::/64`. No prefix of multicast addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ipv6Prefix {
    bits: u128,
    length: u8,
}

impl Ipv6Prefix {
    /// The first `length` bits of an address, up to 128; `None` for more bits, and for a multicast address.
    pub fn new(address: Ipv6Addr, length: u8) -> Option<Self> {
        let bits = u128::from(address) & mask(length);
        (length <= 128 && !address.is_multicast()).then_some(Self { bits, length })
    }

    /// Number of bits.
    pub fn length(self) -> u8 {
        self.length
    }

    /// The prefix, followed by bits that are 0.
    pub fn bits(self) -> u128 {
        self.bits
    }

    /// The address with this interface identifier. Bits of the prefix take precedence; those between the
    /// prefix and the last 64 bits are 0 (RFC 6282, section 3.1.1).
    pub fn with_identifier(self, identifier: u64) -> u128 {
        self.bits | u128::from(identifier) & !mask(self.length)
    }
}

/// The first `length` bits.
fn mask(length: u8) -> u128 {
    // A shift by all 128 bits overflows.
    u128::MAX.checked_shl(128_u32.saturating_sub(length.into())).unwrap_or(0)
}

impl FromStr for Ipv6Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write for example `fd00::/64`";
        let (address, length) = text
            .split_once('/')
            .ok_or_else(|| format!("`{text}` has no prefix length; {example}"))?;
        let address: Ipv6Addr =
            address.parse().map_err(|_| format!("`{address}` is no IPv6 address; {example}"))?;
        let digits = length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|length: &u8| digits && *length <= 128);
        let length = length.ok_or_else(|| {
            format!("the prefix length of `{text}` is not between 0 and 128; {example}")
        })?;
        let prefix = Self::new(address, length)
            .ok_or_else(|| format!("`{text}` is a prefix of multicast addresses; {example}"))?;
        match prefix.bits == u128::from(address) {
            true => Ok(prefix),
            // Likely a mistake: the length or the address is not the intended one.
            false => Err(format!("`{text}` is an address behind a prefix; write `{prefix}`")),
        }
    }
}

impl fmt::Display for Ipv6Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv6Addr::from(self.bits), self.length)
    }
}

impl Serialize for Ipv6Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ipv6Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Contexts of 6LoWPAN: prefixes that all nodes of a network know by number, so that addresses need not
/// repeat them (RFC 6282, section 3.1.2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "OneOrMore")]
pub struct Contexts(Vec<Ipv6Prefix>);

impl Contexts {
    /// No contexts.
    pub const NONE: Self = Self(Vec::new());
    /// Largest number of contexts: a number has 4 bits (RFC 6282, section 3.1.2).
    pub const MAX: usize = 16;
    /// How the description of a capture's interface with contexts begins.
    const DESCRIPTION: &str = "6LoWPAN contexts: ";

    /// Prefix of the context with this number.
    pub fn get(&self, number: u8) -> Option<Ipv6Prefix> {
        self.0.get(usize::from(number)).copied()
    }

    /// Numbers and prefixes.
    pub fn iter(&self) -> impl Iterator<Item = (u8, Ipv6Prefix)> {
        (0..).zip(self.0.iter().copied())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The description of a capture's interface whose packets use these contexts.
    pub fn description(&self) -> String {
        format!("{}{self}", Self::DESCRIPTION)
    }

    /// The contexts in such a description; `None` in another one.
    pub fn from_description(text: &str) -> Option<Self> {
        let list = text.strip_prefix(Self::DESCRIPTION)?;
        let prefixes = list.split(", ").map(|prefix| prefix.parse().ok());
        prefixes.collect::<Option<Vec<_>>>()?.try_into().ok()
    }
}

/// A prefix, or a list of them.
struct OneOrMore(Vec<Ipv6Prefix>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Prefixes).map(Self)
    }
}

/// Reads them. An untagged enumeration would not say what is wrong.
struct Prefixes;

impl<'de> Visitor<'de> for Prefixes {
    type Value = Vec<Ipv6Prefix>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an IPv6 prefix such as `fd00::/64`, or a list of these")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match text.contains(',') {
            true => Err(E::custom(format!("`{text}` are several prefixes; write `[{text}]`"))),
            false => Ok(vec![text.parse().map_err(E::custom)?]),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut prefixes = Vec::new();
        while let Some(prefix) = list.next_element()? {
            prefixes.push(prefix);
        }
        Ok(prefixes)
    }
}

impl TryFrom<OneOrMore> for Contexts {
    type Error = String;

    fn try_from(prefixes: OneOrMore) -> Result<Self, String> {
        prefixes.0.try_into()
    }
}

impl TryFrom<Vec<Ipv6Prefix>> for Contexts {
    type Error = String;

    fn try_from(prefixes: Vec<Ipv6Prefix>) -> Result<Self, String> {
        match prefixes.len() {
            0..=Self::MAX => Ok(Self(prefixes)),
            more => Err(format!(
                "{more} contexts, but 6LoWPAN has numbers for {}; remove some",
                Self::MAX
            )),
        }
    }
}

/// The prefixes in the order of their numbers: `fd00::/64, 2001:db8::/32`.
impl fmt::Display for Contexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, prefix) in self.iter() {
            write!(f, "{}{prefix}", if number == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Ipv6Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_are_read_and_written() {
        for text in ["fd00::/64", "::/0", "2001:db8::/32", "fd00::1/128", "fd00::/120"] {
            assert_eq!(prefix(text).to_string(), text);
        }
        for (text, part) in [
            ("fd00::", "no prefix length"),
            ("10.0.0.0/8", "no IPv6 address"),
            ("fd00::/129", "not between 0 and 128"),
            ("fd00::/+4", "not between 0 and 128"),
            ("fd00::/", "not between 0 and 128"),
            ("ff02::/16", "multicast"),
            ("fd00::1/64", "write `fd00::/64`"),
        ] {
            let error = text.parse::<Ipv6Prefix>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert_eq!(Ipv6Prefix::new(Ipv6Addr::LOCALHOST, 129), None);
    }

    #[test]
    fn bits_of_a_prefix_take_precedence_over_the_identifier() {
        let address = |text: &str| u128::from(text.parse::<Ipv6Addr>().unwrap());
        for (text, expected) in [
            ("::/0", "::1:2:3:4"),
            ("fd00::/32", "fd00::1:2:3:4"),
            ("fd00::/64", "fd00::1:2:3:4"),
            ("fd00::/112", "fd00::4"),
            ("fd00::7/128", "fd00::7"),
        ] {
            let identifier = 0x0001_0002_0003_0004;
            assert_eq!(prefix(text).with_identifier(identifier), address(expected), "{text}");
        }
    }

    #[test]
    fn contexts_survive_the_description_of_an_interface() {
        let read = |text: &str| serde_json::from_str::<Contexts>(text);
        let contexts = read(r#"["fd00::/64", "2001:db8::/32"]"#).unwrap();
        assert_eq!(contexts.description(), "6LoWPAN contexts: fd00::/64, 2001:db8::/32");
        assert_eq!(Contexts::from_description(&contexts.description()), Some(contexts.clone()));
        assert_eq!((contexts.get(1), contexts.get(2)), (Some(prefix("2001:db8::/32")), None));
        for foreign in ["", "eth0", "6LoWPAN contexts: ", "6LoWPAN contexts: fd00::1/64"] {
            assert_eq!(Contexts::from_description(foreign), None, "{foreign}");
        }
        let many = |count| serde_json::to_string(&vec!["fd00::/64"; count]).unwrap();
        assert!(read(&many(16)).is_ok());
        assert!(read(&many(17)).unwrap_err().to_string().contains("numbers for 16"));
        assert!(read("[]").unwrap().is_empty());
        assert_eq!(read("\"fd00::/64\"").unwrap(), read("[\"fd00::/64\"]").unwrap());
        assert!(read("\"fd00::\"").unwrap_err().to_string().contains("no prefix length"));
        let list = read("\"fd00::/64, fd01::/64\"").unwrap_err().to_string();
        assert!(list.contains("write `[fd00::/64, fd01::/64]`"), "{list}");
        assert!(read("7").unwrap_err().to_string().contains("an IPv6 prefix such as"));
    }
}
