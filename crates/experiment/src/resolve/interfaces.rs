//! Checks the number of interfaces of nodes.

use crate::plan::PlannedNode;
use crate::problem::Problem;
use crate::read::{Named, Sink};
use crate::resolve::networks::Networks;
use crate::resolve::nodes::Nodes;
use std::collections::HashMap;

/// Maximum number of interfaces of a node. It passes a descriptor for each in one message, which
/// can have 253 (SCM_MAX_FD, unix(7)).
const MAX: usize = 240;

/// Whether no node is on more networks than it can have interfaces, without those of VLANs; reports the
/// first that is.
pub(super) fn check_networks(nodes: &Nodes<'_>, networks: &Networks<'_>, sink: &mut Sink) -> bool {
    // Attachments of whole groups, and of single nodes by their index.
    let mut counts: HashMap<(&str, Option<u64>), usize> = HashMap::new();
    let switches = networks.networks.iter().filter(|network| network.on.is_none());
    for attached in switches.flat_map(|network| network.members.attached()) {
        *counts.entry(attached).or_default() += 1;
    }
    let whole = |group: &str| counts.get(&(group, None)).copied().unwrap_or_default();
    let largest = counts.iter().map(|(&(group, node), count)| match node {
        None => (*count, group, None),
        Some(_) => (count + whole(group), group, node),
    });
    // By name, of equal ones: the order of a hash map is random.
    let most =
        largest.max_by_key(|(count, group, node)| (*count, std::cmp::Reverse((*group, *node))));
    let Some((count, group, node)) = most.filter(|(count, ..)| *count > MAX) else { return true };
    let names = nodes.names(group);
    let name = node.and_then(|node| names.into_iter().nth(usize::try_from(node).ok()?));
    report(nodes, group, &name.unwrap_or_else(|| group.to_owned()), count, sink);
    false
}

/// The same for planned nodes, which have the interfaces of VLANs, too.
pub(super) fn check_vlans(nodes: &Nodes<'_>, planned: &[PlannedNode], sink: &mut Sink) -> bool {
    let node = planned.iter().find(|node| node.links.len() > MAX);
    if let Some(node) = node {
        report(nodes, &node.group, &node.name, node.links.len(), sink);
    }
    node.is_none()
}

fn report(nodes: &Nodes<'_>, group: &str, name: &str, count: usize, sink: &mut Sink) {
    let problem = Problem::new(format!("`{name}` is on {count} networks"));
    let mut groups = nodes.groups.into_iter().flat_map(Named::iter);
    let place = groups.find(|(name, ..)| *name == group).map(|(_, place, _)| place);
    let problem = match place {
        Some(place) => problem.at(place),
        None => problem,
    };
    sink.add(problem.label(format!(
        "a node can have {MAX} interfaces; put routers between the networks, or share a network"
    )));
}

#[cfg(test)]
mod tests {
    use crate::test_plan::plan;
    use std::fmt::Write;

    /// Routers on this many networks, with a host on each.
    fn star(count: usize, router: &str) -> String {
        let mut text = format!(
            "experiment: e\nduration: 1 s\nnodes:\n  r: {{forward: true, count: 2}}\n  \
             h: {{count: {count}}}\nnetworks:\n"
        );
        for number in 1..=count {
            let (high, low) = (number >> 8, number & 255);
            let _ = writeln!(
                text,
                "  n{number}: {{attach: [h-{number}, {router}], subnet: 10.{high}.{low}.0/29}}"
            );
        }
        text
    }

    const WORKLOADS: &str = "workloads:\n  - device: {on: h-2}\n  - load: {on: h-1, to: h-2, arrivals: \
                             'exponential:1s'}\n";

    /// What failed: a second error said that the ends of the workload do not reach each other, and a file
    /// of thousands of networks took seconds.
    #[test]
    fn a_router_on_too_many_networks_is_the_only_mistake() {
        for (router, name) in [("r", "r"), ("r-2", "r-2")] {
            let error = plan(&(star(241, router) + WORKLOADS)).unwrap_err();
            assert!(error.contains(&format!("`{name}` is on 241 networks")), "{error}");
            assert!(error.contains("240 interfaces") && error.contains("1 error in"), "{error}");
        }
        plan(&(star(4_000, "r") + WORKLOADS)).unwrap_err();
    }

    #[test]
    fn a_router_may_have_as_many_interfaces_as_there_can_be() {
        let plan = plan(&star(240, "r")).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(plan.node("r-2").unwrap().links.len(), 240);
        assert_eq!(plan.node("h-7").unwrap().routes.len(), 1);
    }
}
