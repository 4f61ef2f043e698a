//! The subnets of the networks so far: two must not overlap, because a node on both would have ambiguous
//! routes, and joined networks have the same.

use crate::file::Network;
use crate::problem::Problem;
use crate::read::Sink;
use crate::resolve::subnets::Subnets;
use crate::subnet::Subnet;
use std::collections::{BTreeMap, HashMap};

/// What networks that bridges join have in common: the first of their switches, and the VLAN.
pub(super) type Joint<'n> = (&'n str, Option<u16>);

/// The subnets of the networks so far.
#[derive(Default)]
pub(super) struct Taken<'n> {
    /// Subnets by family and first address, none of which overlap: so an overlapping one is a neighbour.
    subnets: BTreeMap<(bool, u128), (Subnet, &'n str, Joint<'n>)>,
    /// The first of the networks that bridges join.
    first: HashMap<Joint<'n>, (&'n str, Subnets)>,
}

impl<'n> Taken<'n> {
    /// Adds the subnets `own` of a network with this name. Reports those that overlap others, and those
    /// that differ from the ones of a network that bridges join it with.
    pub fn add(
        &mut self,
        name: &'n str,
        joint: Joint<'n>,
        network: &Network,
        own: Subnets,
        sink: &mut Sink,
    ) {
        let (first, theirs) = *self.first.entry(joint).or_insert((name, own));
        if theirs != own {
            report_different(network, first, theirs, sink);
        }
        for at in network.subnet.iter().flat_map(|subnets| &subnets.value.0) {
            let subnet = at.value;
            let (start, _) = subnet.numbers();
            let mut overlapping = self.overlapping(subnet).peekable();
            let is_free = overlapping.peek().is_none();
            if let Some((other, of, _)) = overlapping.find(|(.., other)| *other != joint) {
                let text = format!("{subnet} overlaps {other} of network `{of}`");
                sink.add(Problem::new(text).at(at.place).label("use another subnet"));
            }
            drop(overlapping);
            if is_free {
                self.subnets.insert((subnet.is_ipv6(), start), (subnet, name, joint));
            }
        }
    }

    /// The subnets that overlap `subnet`: the one before it, and those that begin in it.
    fn overlapping(
        &self,
        subnet: Subnet,
    ) -> impl Iterator<Item = (Subnet, &'n str, Joint<'n>)> + '_ {
        let (is_ipv6, (start, end)) = (subnet.is_ipv6(), subnet.numbers());
        let before = self.subnets.range(..(is_ipv6, start)).next_back();
        let within = self.subnets.range((is_ipv6, start)..=(is_ipv6, end));
        let all = before.into_iter().chain(within).map(|(_, taken)| *taken);
        all.filter(move |(other, ..)| other.overlaps(subnet))
    }
}

fn report_different(network: &Network, other: &str, theirs: Subnets, sink: &mut Sink) {
    let Some(at) = &network.subnet else { return };
    let all = theirs.iter().map(|subnet| subnet.to_string()).collect::<Vec<_>>().join(", ");
    let text = format!("a bridge joins the network with `{other}`, whose subnet is {all}");
    let label = match theirs.second {
        Some(_) => format!("use the same: `subnet: [{all}]`"),
        None => format!("use the same: `subnet: {all}`"),
    };
    sink.add(Problem::new(text).at(at.place).label(label));
}

#[cfg(test)]
mod tests {
    use crate::test_plan::plan;

    #[test]
    fn an_overlap_is_found_wherever_the_other_subnet_begins() {
        let file = |last: &str| {
            format!(
                "experiment: e\nnodes: {{a: {{}}, b: {{}}}}\nduration: 1 s\nnetworks:\n  \
                 one: {{attach: [a, b], subnet: [10.1.0.0/24, 'fd00:1::/64']}}\n  \
                 two: {{attach: [a, b], subnet: 10.3.0.0/16}}\n  \
                 last: {{attach: [a, b], subnet: {last}}}\n"
            )
        };
        for (last, message) in [
            ("10.1.0.0/24", "10.1.0.0/24 overlaps 10.1.0.0/24 of network `one`"),
            ("10.1.0.128/25", "10.1.0.128/25 overlaps 10.1.0.0/24 of network `one`"),
            ("10.0.0.0/15", "10.0.0.0/15 overlaps 10.1.0.0/24 of network `one`"),
            ("10.3.255.252/30", "overlaps 10.3.0.0/16 of network `two`"),
            ("10.0.0.0/8", "10.0.0.0/8 overlaps 10.1.0.0/24 of network `one`"),
            ("'fd00::/16'", "fd00::/16 overlaps fd00:1::/64 of network `one`"),
        ] {
            let error = plan(&file(last)).unwrap_err();
            assert!(error.contains(message) && error.contains("1 error"), "{last}: {error}");
        }
        for free in ["10.2.0.0/16", "10.1.1.0/24", "10.0.255.0/24", "'fd00:2::/64'", "10.4.0.0/16"]
        {
            plan(&file(free)).unwrap_or_else(|error| panic!("{free}: {error}"));
        }
    }
}
