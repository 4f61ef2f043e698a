//! Resolves VLANs of networks.

use crate::file::{File, Network, Vlans};
use crate::limits::use_range;
use crate::plan::Workload;
use crate::problem::Problem;
use crate::read::{At, Named, Sink};
use crate::resolve::context::{End, Route, Topology};
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

/// Reports workloads between nodes that VLANs keep apart: on their network, or on the way to it.
pub(super) fn check_workloads(
    file: &File,
    topology: &Topology<'_>,
    workloads: &[Workload],
    sink: &mut Sink,
) {
    if file.networks.iter().flat_map(Named::iter).all(|(.., network)| network.vlans.is_none()) {
        return;
    }
    for workload in workloads {
        let Some(network) = workload.network().and_then(|name| topology.network(name)) else {
            continue;
        };
        let ends = workload.ends();
        let ends = topology.nodes.iter().filter(|node| ends.contains(node.name.as_str()));
        let paths: Vec<Route<'_>> = ends.map(|node| topology.path(node, network)).collect();
        let arrivals = paths.iter().filter_map(|path| path.arrival);
        let mut arrivals = arrivals.filter(|(_, link)| link.network == network.name);
        let on_network: Vec<[End<'_>; 2]> = match arrivals.next() {
            Some(first) => arrivals.map(|other| [first, other]).collect(),
            None => Vec::new(),
        };
        let pairs = paths.iter().flat_map(|path| path.hops.iter().copied()).chain(on_network);
        let mut apart = pairs.filter_map(|[one, other]| Some((one, other, vlans_of(one, other)?)));
        let Some((one, other, [own, vlan])) = apart.next() else { continue };
        let on = &one.1.network;
        let typed = file.networks.as_ref().and_then(|all| all.get(on));
        let text = format!(
            "`{}` needs `{}` and `{}` on `{on}`, which are in the VLANs {own} and {vlan}: no message arrives",
            workload.name(),
            one.0.name,
            other.0.name
        );
        let label = "give both the same VLAN without a tag, or use another network";
        let problem = Problem::new(text).label(label);
        sink.add(match typed.and_then(|typed| typed.vlans.as_ref()) {
            Some(vlans) => problem.at(vlans.place),
            None => problem,
        });
    }
}

/// The VLANs of two nodes on a network, if they differ.
fn vlans_of(one: End<'_>, other: End<'_>) -> Option<[u16; 2]> {
    // Between networks that a bridge joins, other links have other VLANs.
    (one.1.network == other.1.network).then_some(())?;
    let untagged = |(_, link): End<'_>| link.vlans.as_ref().map(PortVlans::untagged);
    let vlans = [untagged(one)?, untagged(other)?];
    (vlans[0] != vlans[1]).then_some(vlans)
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
    fn workloads_that_vlans_keep_apart_are_refused() {
        for sinks in ["a-3", "b", "t"] {
            let error = plan(&FILE.replace("sinks: a-2", &format!("sinks: {sinks}"))).unwrap_err();
            assert!(error.contains("which are in the VLANs 10 and"), "{error}");
        }
        let native = FILE.replace("sources: a-1, sinks: a-2", "sources: b, sinks: t");
        assert!(plan(&native).is_ok(), "a trunk has VLAN 1 without a tag");
    }

    #[test]
    fn workloads_that_vlans_stop_on_the_way_are_refused() {
        let file = "experiment: e
nodes: {a: {}, b: {}, r: {forward: true}}
networks:
  x: {attach: [a, r], subnet: 10.0.1.0/24, vlans: {a: 10, r: 10}}
  y: {attach: [b, r], subnet: 10.0.2.0/24, vlans: {b: 11, r: 12}}
workloads:
  - exchange: {sources: a, sinks: b, protocol: udp, payload: [10 B], repetitions: 1, every: 1 s}
";
        let error = plan(file).unwrap_err();
        let message = "needs `b` and `r` on `y`, which are in the VLANs 11 and 12";
        assert!(error.contains(message) && error.contains("1 error in"), "{error}");
        assert!(plan(&file.replace("r: 12", "r: 11")).is_ok());
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
