//! A subnet of IPv4 or IPv6.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A subnet, written `10.0.0.0/16` or `fd00::/64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subnet {
    base: IpAddr,
    prefix: u8,
}

impl Subnet {
    /// Network address, which no node gets.
    pub fn base(self) -> IpAddr {
        self.base
    }

    /// Prefix length in bits.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether it is a subnet of IPv6.
    pub fn is_ipv6(self) -> bool {
        self.base.is_ipv6()
    }

    /// Number of addresses for nodes: in IPv4 all without network and broadcast address, in IPv6
    /// all without the anycast address of routers (RFC 4291, 2.6.1), and at most 2^24 - 1.
    pub fn room(self) -> u64 {
        match self.base {
            IpAddr::V4(_) => (1u64 << (32 - u32::from(self.prefix))) - 2,
            IpAddr::V6(_) => (1u64 << (128 - u32::from(self.prefix)).min(MAX_BITS)) - 1,
        }
    }

    /// Address of the node at `index`; the first is `.1` or `::1`. `None` beyond the last.
    pub fn address(self, index: u64) -> Option<IpAddr> {
        (index < self.room()).then(|| address(self.base, number(self.base) + u128::from(index) + 1))
    }

    /// Index of the node with this address; `None` if it is in another subnet.
    pub fn index(self, address: IpAddr) -> Option<u64> {
        let inside = address.is_ipv6() == self.is_ipv6() && base(address, self.prefix) == self.base;
        let above = number(address).checked_sub(number(self.base) + 1).filter(|_| inside)?;
        u64::try_from(above).ok().filter(|index| *index < self.room())
    }

    /// Whether the subnets share an address.
    pub fn overlaps(self, other: Self) -> bool {
        // Two subnets are disjoint, or the shorter prefix contains the other.
        let prefix = self.prefix.min(other.prefix);
        self.is_ipv6() == other.is_ipv6() && base(self.base, prefix) == base(other.base, prefix)
    }

    /// Numbers of its first and its last address, in its family.
    pub(crate) fn numbers(self) -> (u128, u128) {
        let bits = if self.is_ipv6() { 128 } else { 32 };
        // Prefix 0 would be a shift by all bits; no subnet has it.
        let behind = (1u128 << (bits - u32::from(self.prefix)).min(127)) - 1;
        (number(self.base), number(self.base) | behind)
    }

    /// Whether `address` belongs to it.
    pub fn contains(self, address: IpAddr) -> bool {
        address.is_ipv6() == self.is_ipv6() && base(address, self.prefix) == self.base
    }

    /// The smallest subnet that contains this one and has room for `nodes`.
    pub(crate) fn widen_for(self, nodes: u64) -> Option<Self> {
        let shortest = if self.is_ipv6() { MIN_PREFIX_V6 } else { MIN_PREFIX };
        (shortest..=self.prefix)
            .rev()
            .map(|prefix| Self { base: base(self.base, prefix), prefix })
            .find(|subnet| subnet.room() >= nodes)
    }
}

/// Minimum prefix length, that of `10.0.0.0/8`.
const MIN_PREFIX: u8 = 8;
/// Maximum prefix length with room for two nodes.
const MAX_PREFIX: u8 = 30;
/// Prefix lengths of IPv6: a registry's block, and room for two nodes.
const MIN_PREFIX_V6: u8 = 16;
const MAX_PREFIX_V6: u8 = 126;
/// Host bits of an IPv6 subnet that are used: link addresses have room for this many.
const MAX_BITS: u32 = 24;

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// The address with this number in the family of `family`.
fn address(family: IpAddr, number: u128) -> IpAddr {
    match family {
        IpAddr::V4(_) => Ipv4Addr::from(number as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from(number).into(),
    }
}

/// The address with all bits after the prefix cleared.
pub(crate) fn base(of: IpAddr, prefix: u8) -> IpAddr {
    let bits = if of.is_ipv6() { 128 } else { 32 };
    // Prefix 0 of IPv6 is a shift by all 128 bits, which overflows.
    let mask = u128::MAX.checked_shl(bits - u32::from(prefix)).unwrap_or(0);
    address(of, number(of) & mask)
}

/// A prefix length in digits; a sign, which the parser of numbers accepts, is none.
pub(crate) fn prefix_length(text: &str) -> Option<u8> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

/// Why nodes cannot have addresses of this network; `None` if they can.
fn reserved(base: IpAddr) -> Option<&'static str> {
    match base {
        IpAddr::V4(v4) => {
            // 0.0.0.0/8 is "this network" (RFC 1122, 3.2.1.3); from 224 on are groups (RFC 5771)
            // and class E.
            let first = v4.octets()[0];
            (v4.is_loopback() || first == 0 || first >= 224).then_some("it is a reserved range")
        }
        IpAddr::V6(v6) => match v6.segments() {
            [0, 0, 0, 0, 0, 0xffff, ..] => Some(
                "these are IPv4 addresses written as IPv6; write the IPv4 subnet, such as \
                 `10.0.0.0/24`",
            ),
            // ff00::/8 (RFC 4291, 2.7), fe80::/10 (2.5.6), and ::/8 with unspecified and loopback
            // address (2.5.2, 2.5.3).
            [first, ..] if first >> 8 == 0xff => {
                Some("it is for multicast groups; write for example `fd00::/64`")
            }
            [first, ..] if first & 0xffc0 == 0xfe80 => Some(
                "each interface has a link-local address already; write for example `fd00::/64`",
            ),
            [first, ..] if first >> 8 == 0 => {
                Some("it is a reserved range; write for example `fd00::/64`")
            }
            _ => None,
        },
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let Some((written, prefix)) = text.split_once('/') else {
            let usual = if text.contains(':') { 64 } else { 24 };
            return Err(format!(
                "`{text}` has no prefix length; write for example `{text}/{usual}`"
            ));
        };
        let address: IpAddr = written
            .parse()
            .map_err(|_| format!("`{written}` is neither an IPv4 nor an IPv6 address"))?;
        let prefix = prefix_length(prefix);
        let (shortest, longest) = match address {
            IpAddr::V4(_) => (MIN_PREFIX, MAX_PREFIX),
            IpAddr::V6(_) => (MIN_PREFIX_V6, MAX_PREFIX_V6),
        };
        if let Some(why) = reserved(address) {
            return Err(format!("nodes cannot use addresses of `{text}`: {why}"));
        }
        let prefix = prefix
            .filter(|prefix| (shortest..=longest).contains(prefix))
            .ok_or_else(|| format!("use a prefix length between {shortest} and {longest}"))?;
        let subnet = Self { base: base(address, prefix), prefix };
        // Likely a mistake: the prefix length or the address is not the intended one.
        if subnet.base != address {
            return Err(format!("`{text}` is an address inside a subnet; write `{subnet}`"));
        }
        Ok(subnet)
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
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
        assert_eq!(small.address(0), Some([10, 0, 0, 1].into()));
        assert_eq!(small.address(253), Some([10, 0, 0, 254].into()));
        assert_eq!(small.address(254), None);
        assert_eq!(subnet("10.0.0.0/16").address(255), Some([10, 0, 1, 0].into()));
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
        assert!(error("10.0.0/24").contains("neither an IPv4 nor an IPv6 address"));
        assert!(error("127.0.0.0/8").contains("a reserved range"));
        assert!(error("240.0.0.0/8").contains("a reserved range"));
    }

    #[test]
    fn addresses_of_ipv6() {
        let wide = subnet("fd00:0:0:1::/64");
        assert_eq!(wide.address(0).unwrap().to_string(), "fd00:0:0:1::1");
        assert_eq!(wide.address(0xffff).unwrap().to_string(), "fd00::1:0:0:1:0");
        assert_eq!(wide.room(), (1 << 24) - 1);
        let small = subnet("fd00::8/126");
        assert_eq!((small.room(), small.address(3)), (3, None));
        assert_eq!(small.widen_for(4).unwrap().to_string(), "fd00::8/125");
        assert!(subnet("fd00::/16").overlaps(wide) && !subnet("fd01::/64").overlaps(wide));
        assert!(!subnet("10.0.0.0/8").overlaps(subnet("a00::/16")), "of different families");
        assert!(wide.contains("fd00:0:0:1::7".parse().unwrap()));
        assert!(!wide.contains("fd00:0:0:2::7".parse().unwrap()));
        assert!(!wide.contains("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn ipv6_that_is_no_subnet_of_nodes_is_refused() {
        for (text, words) in [
            ("fd00::", "write for example `fd00::/64`"),
            ("fd00::7/64", "write `fd00::/64`"),
            ("fd00::/127", "between 16 and 126"),
            ("fd00::/8", "between 16 and 126"),
            ("::/0", "a reserved range; write for example `fd00::/64`"),
            ("::ffff:10.0.0.0/120", "write the IPv4 subnet"),
            ("ff05::/64", "multicast"),
            ("fe80::/64", "link-local"),
            ("::1/128", "reserved"),
            ("fd00:::/64", "neither"),
            ("fd00::%eth0/64", "neither"),
            ("fd00::/-1", "between 16 and 126"),
        ] {
            let error = text.parse::<Subnet>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
