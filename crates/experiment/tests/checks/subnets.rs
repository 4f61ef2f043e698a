//! Subnets and destinations of routes against arithmetic on their numbers.

use experiment::{Destination, Experiment, Only, Subnet};
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network by its first number and the number of its host bits, and whether it is of IPv6.
#[derive(Debug, Clone, Copy)]
struct Range {
    first: u128,
    bits: u32,
    is_ipv6: bool,
}

impl Range {
    fn address(self, number: u128) -> IpAddr {
        match self.is_ipv6 {
            true => Ipv6Addr::from(number).into(),
            false => Ipv4Addr::from(number as u32).into(),
        }
    }

    fn text(self) -> String {
        let prefix = if self.is_ipv6 { 128 } else { 32 } - self.bits;
        format!("{}/{prefix}", self.address(self.first))
    }

    fn last(self) -> u128 {
        self.first + (1 << self.bits) - 1
    }
}

/// Small networks next to each other in 10.0.0.0/8 and fd00::/16, so that many overlap.
fn range() -> impl Strategy<Value = Range> {
    (any::<bool>(), 2u32..8, 0u128..64).prop_map(|(is_ipv6, bits, number)| {
        let base = match is_ipv6 {
            true => u128::from(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0)),
            false => u32::from(Ipv4Addr::new(10, 0, 0, 0)).into(),
        };
        Range { first: base + ((number * 4) >> bits << bits), bits, is_ipv6 }
    })
}

proptest! {
    #[test]
    fn nodes_have_the_addresses_between_the_first_and_the_last(range in range()) {
        let subnet: Subnet = range.text().parse().unwrap();
        // IPv4 has a broadcast address, IPv6 none.
        let most = range.last() - u128::from(!range.is_ipv6);
        let expected: Vec<IpAddr> = (range.first + 1..=most).map(|n| range.address(n)).collect();
        prop_assert_eq!(subnet.room(), expected.len() as u64);
        for (index, address) in expected.iter().enumerate() {
            prop_assert_eq!(subnet.address(index as u64), Some(*address));
            prop_assert_eq!(subnet.index(*address), Some(index as u64));
            prop_assert!(subnet.contains(*address));
        }
        prop_assert_eq!(subnet.address(expected.len() as u64), None);
        for other in [range.first, range.last() + 1, range.first - 1] {
            prop_assert_eq!(subnet.index(range.address(other)), None);
        }
        prop_assert_eq!(subnet.to_string().parse::<Subnet>().unwrap(), subnet);
    }

    #[test]
    fn subnets_overlap_if_they_share_a_number(one in range(), two in range()) {
        let shares = one.is_ipv6 == two.is_ipv6 && one.first <= two.last() && two.first <= one.last();
        let [a, b] = [one, two].map(|range| range.text().parse::<Subnet>().unwrap());
        prop_assert_eq!([a.overlaps(b), b.overlaps(a)], [shares; 2]);
        let to: Destination = one.text().parse().unwrap();
        let inside = |number| one.is_ipv6 == two.is_ipv6 && (one.first..=one.last()).contains(&number);
        for number in [two.first, two.last(), two.first + 1] {
            prop_assert_eq!(to.contains(two.address(number)), inside(number));
        }
    }

    /// What a file says about networks is what nodes get, also for clones and when the plan is stored.
    #[test]
    fn nodes_services_and_clones_share_a_subnet(
        range in range(), count in 1u32..6, clones in 0usize..8,
        services in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let (nat, dhcp, dns) = services;
        let text = format!(
            "experiment: e\nduration: 1 s\nnodes: {{a: {{count: {count}}}, b: {{}}}}\n\
             networks: {{n: {{attach: [a, b], subnet: '{}', nat: {nat}, dhcp: {dhcp}, dns: {dns}}}}}\n",
            range.text()
        );
        let subnet: Subnet = range.text().parse().unwrap();
        let needed = u64::from(count) + 1 + u64::from(nat || dhcp || dns);
        let experiment = match Experiment::parse(&text, "e.yaml", "") {
            Ok(experiment) => experiment,
            Err(errors) => {
                prop_assert!(needed > subnet.room(), "{errors}\n{text}");
                return Ok(());
            }
        };
        prop_assert!(needed <= subnet.room(), "accepted:\n{text}");
        let plan = experiment.plan(&experiment.cells(&Only::all()).unwrap()[0], 0, 1).unwrap();
        let json = serde_json::to_string(&plan).unwrap();
        prop_assert_eq!(&serde_json::from_str::<experiment::Plan>(&json).unwrap(), &plan);
        let planned = plan.nodes.len();
        prop_assert_eq!(planned as u64, needed);
        let more = match plan.clones(0, clones, planned) {
            Ok(more) => more,
            Err(text) => {
                prop_assert!(text.contains("no free address"), "{text}");
                // A pool of DHCP takes addresses, too.
                prop_assert!(dhcp || needed + clones as u64 > subnet.room(), "{text}");
                return Ok(());
            }
        };
        let all = plan.nodes.iter().chain(&more).map(|node| node.links[0].address);
        let addresses: HashSet<IpAddr> = all.collect();
        prop_assert_eq!(addresses.len(), planned + clones);
        prop_assert!(addresses.iter().all(|address| subnet.index(*address).is_some()));
    }
}
