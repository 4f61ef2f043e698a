//! Resolves VLANs of networks.

use crate::file::{Network, Vlans};
use crate::limits::use_range;
use crate::problem::Problem;
use crate::read::{At, Sink};
use crate::resolve::members::Members;
use crate::resolve::nodes::Nodes;
use indexmap::IndexMap;
use link::{PortVlans, VLANS};
use std::collections::HashSet;

/// The VLANs of a network's nodes, by group or node.
pub(super) type OfNames<'f> = IndexMap<&'f str, PortVlans>;

/// The VLANs of `network`, which is `name`; empty if it has none.
pub(super) fn of<'f>(
    name: &str,
    network: &'f Network,
    members: &Members<'_>,
    nodes: &Nodes<'_>,
    sink: &mut Sink,
) -> OfNames<'f> {
    let Some(vlans) = &network.vlans else { return OfNames::new() };
    let mut found = OfNames::new();
    for (on, place, ports) in vlans.value.iter() {
        let is_attached = match nodes.place(on) {
            Some((group, index)) if !nodes.has_group(on) => members.find(group, index).is_some(),
            _ => members.has(on),
        };
        if !nodes.has(on) {
            nodes.report_unknown(&At { value: on.to_owned(), place }, sink);
        } else if !is_attached {
            let text = format!("VLANs of `{on}`, which is not on the network `{name}`");
            sink.add(Problem::new(text).at(place).label("add it to `attach`, or remove its VLANs"));
        }
        let vlans = match &ports.value {
            Vlans::Access(vlan) => number(vlan, sink).map(PortVlans::Access),
            Vlans::Trunk(all) => {
                let read = all.iter().filter_map(|vlan| number(vlan, sink)).collect::<Vec<_>>();
                if all.is_empty() && sink.is_clean() {
                    let problem = Problem::new(format!("`{on}` is a trunk without VLANs"));
                    sink.add(problem.at(place).label("write for example `[10, 20]`"));
                }
                let mut before = HashSet::new();
                if let Some(again) = all.iter().find(|vlan| !before.insert(vlan.value)) {
                    let text = format!("the trunk of `{on}` has the VLAN {} twice", again.value);
                    sink.add(Problem::new(text).at(again.place).label("remove one of them"));
                }
                Some(PortVlans::Trunk(read))
            }
        };
        found.extend(vlans.map(|vlans| (on, vlans)));
    }
    found
}

fn number(at: &At<u32>, sink: &mut Sink) -> Option<u16> {
    let found = u16::try_from(at.value).ok().filter(|vlan| VLANS.contains(vlan));
    if found.is_none() {
        let problem = Problem::new(format!("{} is not the number of a VLAN", at.value));
        let range = u32::from(*VLANS.start())..=u32::from(*VLANS.end());
        sink.add(problem.at(at.place).label(use_range(&range)));
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::test_plan::plan;
    use link::PortVlans;

    const FILE: &str = "\
experiment: e
nodes: {a: {count: 3}, b: {}, t: {}}
networks: {lan: {attach: [a, b, t], subnet: 10.0.0.0/24, vlans: {a: 10, a-3: 20, t: [10, 20]}}}
workloads:
  - exchange: {sources: a-1, sinks: a-2, protocol: udp, payload: [10 B], repetitions: 1, every: 1 s}
duration: 1 s
";

    #[test]
    fn nodes_have_their_vlans_or_those_of_their_group_or_the_first() {
        let plan = plan(FILE).unwrap();
        let links = plan.nodes.iter().map(|node| node.links[0].vlans.clone().unwrap());
        let [ten, twenty] = [10, 20].map(PortVlans::Access);
        let trunk = PortVlans::Trunk(vec![10, 20]);
        let expected = [ten.clone(), ten, twenty, PortVlans::Access(1), trunk];
        assert_eq!(links.collect::<Vec<_>>(), expected);
        let text = plan.to_string();
        assert!(text.contains("a-1 .. a-2: eth0 10.0.0.1 .. 10.0.0.2, VLAN 10"), "{text}");
        assert!(text.contains("t: eth0 10.0.0.5, trunk of the VLANs 10, 20"), "{text}");
    }

    #[test]
    fn mistakes_are_said_once() {
        for (to, message) in [
            ("{a: 0}", "0 is not the number of a VLAN"),
            ("{a: [1, 4095]}", "4095 is not the number of a VLAN"),
            ("{a: []}", "a trunk without VLANs"),
            ("{a: [5, 5]}", "the trunk of `a` has the VLAN 5 twice"),
            ("{a: {}}", "expected a VLAN such as `10`"),
            ("{x: 10}", "unknown group `x`"),
            ("{a: 10}, dhcp: true", "VLAN 10 of `lan` does not reach its services"),
        ] {
            let text = FILE.replace("{a: 10, a-3: 20, t: [10, 20]}", to);
            let error = plan(&text).unwrap_err();
            assert!(error.contains(message) && error.contains("1 error in"), "{to}: {error}");
        }
        let other = FILE.replace("attach: [a, b, t]", "attach: [a, b]");
        assert!(plan(&other).unwrap_err().contains("VLANs of `t`, which is not on"));
    }
}
