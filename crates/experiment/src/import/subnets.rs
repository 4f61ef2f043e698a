//! Subnets of the networks of an import.

use super::reader::Reader;
use super::writer::Draft;
use crate::problem::Problem;
use crate::subnet::{Subnet, base};
use crate::subnet_set::SubnetSet;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

/// The subnet in a foreign file; its address may be any inside, as for other tools.
pub(super) fn read(text: &str) -> Result<Subnet, String> {
    text.parse().or_else(|why| {
        let masked = || {
            let (address, prefix) = text.trim().split_once('/')?;
            let (address, prefix): (IpAddr, u8) = (address.parse().ok()?, prefix.parse().ok()?);
            let bits = if address.is_ipv6() { 128 } else { 32 };
            (prefix <= bits).then(|| format!("{}/{prefix}", base(address, prefix)))
        };
        masked().ok_or(why).and_then(|masked| masked.parse())
    })
}

/// Gives each network of `draft` subnets: those of the file if its nodes fit and no other network has
/// the addresses, else a free one.
pub(super) fn assign(draft: &mut Draft, reader: &mut Reader) -> Result<(), Problem> {
    let sizes: HashMap<&str, u64> =
        draft.groups.iter().map(|group| (group.name.as_str(), group.size())).collect();
    let size = |attach: &[String]| -> u64 {
        attach.iter().filter_map(|group| sizes.get(group.as_str())).sum()
    };
    let mut free = Free::default();
    for network in &mut draft.networks {
        let nodes = size(&network.attach);
        let fits = |subnet: &Subnet| {
            let why = match free.taken.overlapping(*subnet) {
                Some(other) => format!("{other} of another network has its addresses"),
                None if subnet.room() < nodes => format!("it has no room for {nodes} nodes"),
                None => return true,
            };
            let text = format!("the subnet {subnet} of the network {}: {why}", network.name);
            reader.note(network.place, text);
            false
        };
        // In the order of the file: of two networks with the same addresses, the first keeps them.
        network.subnets.retain(fits);
        network.subnets.iter().for_each(|subnet| free.taken.insert(*subnet));
    }
    // The wide ones first, which need more room in one place.
    for wide in [true, false] {
        for network in draft.networks.iter_mut().filter(|network| network.subnets.is_empty()) {
            let prefix = prefix(size(&network.attach));
            if wide == (prefix < NARROW) {
                network.subnets.extend(free.take(prefix));
            }
        }
    }
    match draft.networks.iter().find(|network| network.subnets.is_empty()) {
        None => Ok(()),
        Some(network) => {
            let text = format!("no private subnet is free for the network `{}`", network.name);
            Err(Problem::new(text).at(network.place).label("too many networks, or too large ones"))
        }
    }
}

/// Prefix length of most networks.
const NARROW: u8 = 24;

/// The longest prefix length of a subnet for `nodes`, up to `NARROW`.
fn prefix(nodes: u64) -> u8 {
    (8..=NARROW).rev().find(|prefix| (1u64 << (32 - prefix)) - 2 >= nodes).unwrap_or(8)
}

/// Private subnets that no network has.
#[derive(Debug, Default)]
struct Free {
    taken: SubnetSet,
    /// Number of the next candidate by prefix length: those before are not free and stay so.
    next: HashMap<u8, u32>,
}

impl Free {
    /// A subnet with this prefix length, which is then taken.
    fn take(&mut self, prefix: u8) -> Option<Subnet> {
        let next = self.next.entry(prefix).or_default();
        loop {
            let subnet = subnet(candidate(*next)?, prefix);
            *next += 1;
            if let Some(subnet) = subnet.filter(|own| self.taken.overlapping(*own).is_none()) {
                self.taken.insert(subnet);
                return Some(subnet);
            }
        }
    }
}

fn subnet(address: Ipv4Addr, prefix: u8) -> Option<Subnet> {
    format!("{}/{prefix}", base(address.into(), prefix)).parse().ok()
}

/// Base of the private subnet of this number: first 10.1.0.0, 10.2.0.0 and so on, then those between,
/// then those of the other private ranges (RFC 1918).
fn candidate(number: u32) -> Option<Ipv4Addr> {
    const FIRST: u32 = 255;
    const BETWEEN: u32 = 255 * 255;
    const SECOND: u32 = 16 * 256;
    let octet = |number: u32| u8::try_from(number).ok();
    if number < FIRST {
        return Some(Ipv4Addr::new(10, octet(number + 1)?, 0, 0));
    }
    let number = number - FIRST;
    if number < BETWEEN {
        return Some(Ipv4Addr::new(10, octet(number / 255 + 1)?, octet(number % 255 + 1)?, 0));
    }
    let number = number - BETWEEN;
    if number < SECOND {
        return Some(Ipv4Addr::new(172, octet(16 + number / 256)?, octet(number % 256)?, 0));
    }
    Some(Ipv4Addr::new(192, 168, octet(number - SECOND)?, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subnet_set::tests::assert_fast;
    use std::collections::HashSet;

    #[test]
    fn narrow_subnets_are_free_and_differ_until_none_is_left() {
        let mut free = Free::default();
        free.taken.insert("10.2.0.0/16".parse().unwrap());
        let first: Vec<String> =
            (0..3).filter_map(|_| free.take(NARROW)).map(|s| s.to_string()).collect();
        assert_eq!(first, ["10.1.0.0/24", "10.3.0.0/24", "10.4.0.0/24"]);
        let mut all = HashSet::new();
        while let Some(subnet) = free.take(NARROW) {
            assert!(all.insert(subnet));
        }
        assert_eq!(all.len(), 255 + 255 * 255 + 16 * 256 + 256 - 3 - 256);
    }

    #[test]
    fn thousands_of_networks_find_subnets_fast() {
        for prefix in [NARROW, NARROW - 1] {
            assert_fast(1_000, |count| {
                let mut free = Free::default();
                for _ in 0..count {
                    assert!(free.take(prefix).is_some());
                }
            });
        }
    }

    #[test]
    fn wide_subnets_have_room() {
        let mut free = Free::default();
        assert_eq!(prefix(254), 24);
        assert_eq!(free.take(prefix(255)).unwrap().to_string(), "10.1.0.0/23");
        let large = free.take(prefix(100_000)).unwrap();
        assert!(large.room() >= 100_000 && !large.contains([10, 1, 0, 1].into()));
    }

    #[test]
    fn an_address_inside_a_subnet_is_that_subnet() {
        assert_eq!(read("10.5.0.1/24").unwrap().to_string(), "10.5.0.0/24");
        assert_eq!(read("fd00::1/64").unwrap().to_string(), "fd00::/64");
        for wrong in
            ["x", "10.0.0.0", "10.0.0.0/64", "::1/200", "127.0.0.0/8", "10.9.0.0/24, nat: true"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
