//! Checks workloads of nodes in VLANs.

use crate::file::File;
use crate::plan::Workload;
use crate::problem::Problem;
use crate::read::{Named, Sink};
use crate::resolve::context::{End, Route, Topology};
use link::PortVlans;

/// Reports workloads between nodes that VLANs keep apart: on their network, or on the way to it.
pub(super) fn check(file: &File, topology: &Topology<'_>, workloads: &[Workload], sink: &mut Sink) {
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

    const FILE: &str = "\
experiment: e
nodes: {a: {count: 3}, b: {}, t: {}}
networks: {lan: {attach: [a, b, t], subnet: 10.0.0.0/24, vlans: {a: 10, a-3: 20, t: [10, 20]}}}
workloads:
  - exchange: {sources: a-1, sinks: a-2, protocol: udp, payload: [10 B], repetitions: 1, every: 1 s}
duration: 1 s
";

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
}
