//! The destination of a route: a prefix of IPv4 or IPv6 of any length.

use crate::subnet::{Subnet, base, prefix_length};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A destination, written `10.0.0.0/16`, `fd00::/48`, or `10.0.0.7` for a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Destination {
    base: IpAddr,
    prefix: u8,
}

impl Destination {
    /// All addresses of IPv4, or of IPv6.
    pub fn all(is_ipv6: bool) -> Self {
        let base =
            if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        Self { base, prefix: 0 }
    }

    /// Its first address.
    pub fn base(self) -> IpAddr {
        self.base
    }

    /// Prefix length in bits; 0 for all addresses.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether it is of IPv6.
    pub fn is_ipv6(self) -> bool {
        self.base.is_ipv6()
    }

    /// Whether `address` belongs to it.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv6() == self.is_ipv6() && base(address, self.prefix) == self.base
    }
}

impl From<Subnet> for Destination {
    fn from(subnet: Subnet) -> Self {
        Self { base: subnet.base(), prefix: subnet.prefix() }
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (written, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = written.parse().map_err(|_| {
            format!("`{text}` is neither `default`, an address, nor a prefix such as `10.1.0.0/16`")
        })?;
        let longest = if address.is_ipv6() { 128 } else { 32 };
        let prefix = match prefix {
            None => longest,
            Some(bits) => prefix_length(bits)
                .filter(|bits| *bits <= longest)
                .ok_or_else(|| format!("use a prefix length between 0 and {longest}"))?,
        };
        let found = Self { base: base(address, prefix), prefix };
        // Likely a mistake in one of the two.
        if found.base != address {
            return Err(format!("`{text}` has bits after its prefix; write `{found}`"));
        }
        Ok(found)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

impl Serialize for Destination {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Destination {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_prefixes_or_addresses() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.7", "10.0.0.7/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("fd00::7", "fd00::7/128"),
        ] {
            assert_eq!(text.parse::<Destination>().unwrap().to_string(), shown);
        }
        assert_eq!(Destination::all(true).to_string(), "::/0");
        assert!(Destination::all(false).contains([10, 0, 0, 1].into()));
        assert!(!Destination::all(false).contains("fd00::1".parse().unwrap()));
        let narrow: Destination = "fd00:1::/32".parse().unwrap();
        assert!(narrow.contains("fd00:1::9".parse().unwrap()));
        assert!(!narrow.contains("fd00:2::9".parse().unwrap()));
    }

    #[test]
    fn what_is_no_destination_is_refused() {
        for (text, words) in [
            ("10.0.0.7/8", "write `10.0.0.0/8`"),
            ("fd00::7/64", "write `fd00::/64`"),
            ("10.0.0.0/33", "between 0 and 32"),
            ("fd00::/129", "between 0 and 128"),
            ("router", "neither `default`, an address"),
        ] {
            let error = text.parse::<Destination>().unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
