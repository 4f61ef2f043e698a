//! A set of subnets that answers fast whether one of them overlaps another subnet.

use crate::subnet::Subnet;
use std::collections::BTreeMap;

/// Subnets of both families. Of subnets inside each other, the widest is kept.
#[derive(Debug, Default)]
pub(crate) struct SubnetSet {
    /// By family (whether IPv6) and first address. No two of them overlap.
    all: BTreeMap<(bool, u128), Subnet>,
}

impl SubnetSet {
    /// Adds a subnet.
    pub fn insert(&mut self, subnet: Subnet) {
        while let Some(other) = self.overlapping(subnet) {
            // Two subnets are disjoint, or the one with the shorter prefix contains the other.
            if other.prefix() <= subnet.prefix() {
                return;
            }
            self.all.remove(&key(other));
        }
        self.all.insert(key(subnet), subnet);
    }

    /// A subnet of the set that has addresses of this one.
    pub fn overlapping(&self, subnet: Subnet) -> Option<Subnet> {
        let (family, last) = (subnet.is_ipv6(), subnet.numbers().1);
        // Of those that begin before the end of `subnet`, the last one ends last: they are disjoint.
        let (_, before) = self.all.range((family, 0)..=(family, last)).next_back()?;
        before.overlaps(subnet).then_some(*before)
    }
}

fn key(subnet: Subnet) -> (bool, u128) {
    (subnet.is_ipv6(), subnet.numbers().0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn subnet(text: &str) -> Subnet {
        text.parse().unwrap()
    }

    #[test]
    fn it_says_what_a_comparison_with_each_subnet_says() {
        let of = |random: u64| {
            let prefix = 9 + (random >> 40) % 20;
            let number = (10 << 24 | random as u32 & 0x00ff_ffff) & !(u32::MAX >> prefix);
            let v4 = format!("{}/{prefix}", std::net::Ipv4Addr::from(number));
            let v6 = format!("fd00:{:x}::/32", random & 7);
            subnet(if random >> 60 == 0 { &v6 } else { &v4 })
        };
        let (mut set, mut all) = (SubnetSet::default(), Vec::new());
        let mut found = [0, 0];
        for number in 0..400 {
            let asked = of(units::mix(number));
            let expected = all.iter().any(|other: &Subnet| other.overlaps(asked));
            let got = set.overlapping(asked);
            assert_eq!(got.is_some(), expected, "{asked}");
            assert!(got.is_none_or(|other| other.overlaps(asked)));
            found[usize::from(expected)] += 1;
            if number % 3 == 0 {
                set.insert(asked);
                all.push(asked);
            }
        }
        assert!(found.iter().all(|count| *count > 50), "{found:?}");
    }

    #[test]
    fn the_widest_of_nested_subnets_stays() {
        let mut set = SubnetSet::default();
        for text in ["10.1.0.0/24", "10.1.3.0/24", "10.0.0.0/8", "10.1.0.0/16"] {
            set.insert(subnet(text));
        }
        assert_eq!(set.all.len(), 1);
        assert_eq!(set.overlapping(subnet("10.200.0.0/24")), Some(subnet("10.0.0.0/8")));
        assert_eq!(set.overlapping(subnet("11.0.0.0/8")), None);
        assert_eq!(set.overlapping(subnet("fd00::/16")), None);
    }

    /// Asserts that `work` on 32 times as many things takes less than 200 times as long: 50 times by
    /// n log n, 1,024 times by comparisons of each with each. CPU time counts, and the shortest of several
    /// tries: other programs can only lengthen one.
    pub(crate) fn assert_fast(few: u32, work: impl Fn(u32)) {
        let once = |count| {
            let start = clock::thread_time();
            work(count);
            clock::thread_time() - start
        };
        let time = |count| (0..5).map(|_| once(count)).min().unwrap_or_default();
        let [few, many] = [few, 32 * few].map(time);
        assert!(many < few * 200, "{few:?} {many:?}");
    }

    #[test]
    fn thousands_of_subnets_take_little_more_time_each_than_hundreds() {
        assert_fast(1_000, |count| {
            let mut set = SubnetSet::default();
            for number in 0..count {
                let subnet = subnet(&format!("10.{}.{}.0/24", number >> 8, number & 255));
                assert_eq!(set.overlapping(subnet), None);
                set.insert(subnet);
            }
        });
    }
}
