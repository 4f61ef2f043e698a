//! An IPv4 subnet.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// An IPv4 subnet, written `10.0.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subnet {
    base: u32,
    prefix: u8,
}

impl Subnet {
    /// Network address, which no node gets.
    pub fn base(self) -> Ipv4Addr {
        Ipv4Addr::from(self.base)
    }

    /// Prefix length in bits.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// Number of addresses for nodes: all without network and broadcast address.
    pub fn room(self) -> u64 {
        (1u64 << (32 - u32::from(self.prefix))) - 2
    }

    /// Address of the node at `index`; the first is `.1`. `None` beyond the last.
    pub fn address(self, index: u64) -> Option<Ipv4Addr> {
        let index = u32::try_from(index).ok().filter(|index| u64::from(*index) < self.room())?;
        Some(Ipv4Addr::from(self.base + index + 1))
    }

    /// Whether the subnets share an address.
    pub fn overlaps(self, other: Self) -> bool {
        let shared = mask(self.prefix.min(other.prefix));
        self.base & shared == other.base & shared
    }

    /// The smallest subnet that contains this one and has room for `nodes`.
    pub(crate) fn widen_for(self, nodes: u64) -> Option<Self> {
        (MIN_PREFIX..=self.prefix)
            .rev()
            .map(|prefix| Self { base: self.base & mask(prefix), prefix })
            .find(|subnet| subnet.room() >= nodes)
    }
}

/// Minimum prefix length, that of `10.0.0.0/8`.
const MIN_PREFIX: u8 = 8;
/// Maximum prefix length with room for two nodes.
const MAX_PREFIX: u8 = 30;

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let Some((address, prefix)) = text.split_once('/') else {
            return Err(format!("`{text}` has no prefix length; write for example `{text}/24`"));
        };
        let address: Ipv4Addr =
            address.parse().map_err(|_| format!("`{address}` is not an IPv4 address"))?;
        let prefix: u8 = prefix
            .parse()
            .ok()
            .filter(|prefix| (MIN_PREFIX..=MAX_PREFIX).contains(prefix))
            .ok_or_else(|| format!("use a prefix length between {MIN_PREFIX} and {MAX_PREFIX}"))?;
        let subnet = Self { base: u32::from(address) & mask(prefix), prefix };
        if subnet.base != u32::from(address) {
            return Err(format!("`{text}` is an address inside a subnet; write `{subnet}`"));
        }
        if address.is_loopback() || address.octets()[0] == 0 || address.octets()[0] >= 224 {
            return Err(format!("nodes cannot use addresses of `{text}`; it is a reserved range"));
        }
        Ok(subnet)
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base(), self.prefix)
    }
}

impl Serialize for Subnet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Subnet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(text: &str) -> Subnet {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_begin_at_one_and_end_before_broadcast() {
        let small = subnet("10.0.0.0/24");
        assert_eq!(small.address(0), Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(small.address(253), Some(Ipv4Addr::new(10, 0, 0, 254)));
        assert_eq!(small.address(254), None);
        assert_eq!(subnet("10.0.0.0/16").address(255), Some(Ipv4Addr::new(10, 0, 1, 0)));
    }

    #[test]
    fn overlap_is_found_both_ways() {
        let (wide, inside) = (subnet("10.0.0.0/8"), subnet("10.1.2.0/24"));
        assert!(wide.overlaps(inside) && inside.overlaps(wide));
        assert!(!subnet("10.0.0.0/24").overlaps(subnet("10.0.1.0/24")));
    }

    #[test]
    fn room_is_found_for_more_nodes() {
        let wide = subnet("10.0.1.0/24").widen_for(10_000).unwrap();
        assert_eq!(wide.to_string(), "10.0.0.0/18");
        assert_eq!(wide.room(), 16_382);
        assert_eq!(wide.widen_for(1 << 30), None);
    }

    #[test]
    fn what_is_no_subnet_is_refused_with_what_to_write() {
        let error = |text: &str| text.parse::<Subnet>().unwrap_err();
        assert!(error("10.0.0.0").contains("write for example `10.0.0.0/24`"));
        assert!(error("10.0.0.7/24").contains("write `10.0.0.0/24`"));
        assert!(error("10.0.0.0/33").contains("between 8 and 30"));
        assert!(error("10.0.0/24").contains("not an IPv4 address"));
        assert!(error("127.0.0.0/8").contains("a reserved range"));
        assert!(error("240.0.0.0/8").contains("a reserved range"));
    }
}
