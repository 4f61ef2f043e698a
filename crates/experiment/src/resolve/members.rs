//! The nodes on a network: groups, and single nodes of groups.

use crate::file::Network;
use crate::problem::Problem;
use crate::read::Sink;
use crate::resolve::nodes::Nodes;

/// A group or one of its nodes on a network.
#[derive(Debug, Clone, Copy)]
struct Member<'f> {
    group: &'f str,
    /// Number of nodes of the group.
    count: u64,
    /// Index in its group of a single node of a larger one, from 0.
    node: Option<u64>,
    /// Index of its first address.
    first: u64,
}

/// The members of a network in the order of their addresses.
#[derive(Debug, Clone, Default)]
pub(super) struct Members<'f> {
    all: Vec<Member<'f>>,
    /// Number of nodes.
    pub size: u64,
}

impl<'f> Members<'f> {
    /// Those of `network`, which is `name`, and whether all are known.
    pub fn of(
        name: &str,
        network: &'f Network,
        nodes: &Nodes<'f>,
        sink: &mut Sink,
    ) -> (Self, bool) {
        let (mut members, mut complete) = (Self::default(), true);
        let attached = network.attach.as_ref().map_or(&[][..], |attach| &attach.value.0);
        for at in attached {
            let written = at.value.as_str();
            let (group, node) = match (nodes.has_group(written), nodes.place(written)) {
                (true, _) => (written, None),
                (false, Some((group, node))) => (group, Some(node)),
                (false, None) => {
                    nodes.report_unknown(at, sink);
                    complete = false;
                    continue;
                }
            };
            let mut all = members.all.iter();
            if all
                .any(|m| m.group == group && (m.node.is_none() || node.is_none() || m.node == node))
            {
                let text = format!("`{written}` is attached to `{name}` twice");
                sink.add(Problem::new(text).at(at.place));
                continue;
            }
            let count = nodes.count(group).map_or(1, u64::from);
            members.all.push(Member { group, count, node, first: members.size });
            members.size += if node.is_none() { count } else { 1 };
        }
        (members, complete)
    }

    /// Index of the address of the node at `index` of `group`, if it is on the network, and the names
    /// of its link in the file: its own, then that of its group.
    pub fn find(&self, group: &str, index: u64) -> Option<(u64, [String; 2])> {
        let of_node = |m: &&Member<'_>| m.group == group && m.node.is_none_or(|node| node == index);
        // At most one matches: a node that is attached twice was refused.
        let member = self.all.iter().find(of_node)?;
        let name = match member.count {
            // The only node of a group has no number.
            1 => group.to_owned(),
            _ => format!("{group}-{}", index + 1),
        };
        let address = member.first + if member.node.is_none() { index } else { 0 };
        Some((address, [name, group.to_owned()]))
    }

    /// Groups on the network, and single nodes of larger groups with their indices.
    pub fn attached(&self) -> impl Iterator<Item = (&'f str, Option<u64>)> + '_ {
        self.all.iter().map(|member| (member.group, member.node))
    }

    /// The groups of which nodes are on the network, each once.
    pub fn groups(&self) -> impl Iterator<Item = &'f str> + '_ {
        let is_first = |at: usize| !self.all[..at].iter().any(|m| m.group == self.all[at].group);
        (0..self.all.len()).filter(move |at| is_first(*at)).map(|at| self.all[at].group)
    }

    /// Whether any node of `group` is on the network.
    pub fn has(&self, group: &str) -> bool {
        self.all.iter().any(|member| member.group == group)
    }

    /// Number of nodes of `group`, of which some are on the network.
    pub fn count(&self, group: &str) -> u64 {
        self.all.iter().find(|member| member.group == group).map_or(0, |member| member.count)
    }

    /// Whether all nodes of `group` are on the network.
    pub fn has_all(&self, group: &str) -> bool {
        let of_group = || self.all.iter().filter(|member| member.group == group);
        let on = of_group().map(|member| if member.node.is_none() { member.count } else { 1 });
        of_group().next().is_some_and(|member| on.sum::<u64>() == member.count)
    }

    /// Whether `name`, a node or all nodes of a group, is on the network.
    pub fn includes(&self, name: &str, nodes: &Nodes<'_>) -> bool {
        let node = || nodes.place(name).is_some_and(|(group, at)| self.find(group, at).is_some());
        if nodes.has_group(name) { self.has_all(name) } else { node() }
    }

    /// Whether the link `name` of the file, of a group or a node, is one of the network's.
    pub fn has_link(&self, name: &str) -> bool {
        let is_node =
            |m: &Member<'_>| m.node.is_some_and(|at| name == format!("{}-{}", m.group, at + 1));
        self.all.iter().any(|member| member.group == name || is_node(member))
    }
}

#[cfg(test)]
mod tests {
    use crate::test_plan::plan;

    const FILE: &str = "\
experiment: e
nodes: {router: {count: 3, forward: true}, host: {count: 2}}
defaults: {links: {up: {delay: 5 ms}}}
networks:
  a: {attach: [host, router-2], subnet: 10.1.0.0/24, links: {host-1: {up: {delay: 10 ms}}}}
  b: {attach: [router-2, router-3], subnet: 10.2.0.0/24, links: {router: {up: {delay: 7 ms}}}}
  c:
    attach: router
    subnet: 10.3.0.0/24
    links: {router: {up: {delay: 7 ms}}, router-1: {up: {delay: 8 ms}}}
    timetable: [{at: 1 s, links: router-1, way: up, set: {jitter: 1 ms}}]
";

    #[test]
    fn a_single_node_is_on_a_network_with_its_own_link_or_that_of_its_group() {
        let plan = plan(FILE).unwrap();
        let links = plan.nodes.iter().map(|node| {
            let links = node.links.iter().map(|link| {
                let delay = link.up.keys().0.get("delay").cloned().unwrap_or_default();
                format!("{} {} {}", link.interface, link.address, delay.as_str().unwrap_or("none"))
            });
            format!("{}: {}", node.name, links.collect::<Vec<_>>().join(", "))
        });
        assert_eq!(
            links.collect::<Vec<_>>(),
            [
                "router-1: eth0 10.3.0.1 8 ms",
                "router-2: eth0 10.1.0.3 5 ms, eth1 10.2.0.1 7 ms, eth2 10.3.0.2 7 ms",
                "router-3: eth0 10.2.0.2 7 ms, eth1 10.3.0.3 7 ms",
                "host-1: eth0 10.1.0.1 10 ms",
                "host-2: eth0 10.1.0.2 5 ms",
            ]
        );
        // The hosts reach the other routers' network by the router of theirs.
        assert!(plan.nodes[3].routes.iter().any(|route| route.via.to_string() == "10.1.0.3"));
    }

    #[test]
    fn a_node_is_attached_once_and_changes_need_it() {
        for (from, to, message) in [
            ("[host, router-2]", "[host, host-1]", "`host-1` is attached to `a` twice"),
            ("[router-2, router-3]", "[router-2, router-2]", "attached to `b` twice"),
            ("[router-2, router-3]", "[router-2, router-4]", "unknown group `router-4`"),
            (
                "links: {router: {up: {delay: 7 ms}}}}",
                "timetable: [{at: 1 s, down: router}]}",
                "not on the network",
            ),
            (
                "links: {router: {up: {delay: 7 ms}}}}",
                "timetable: [{at: 1 s, down: router-1}]}",
                "not on the network",
            ),
        ] {
            let error = plan(&FILE.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(message) && error.contains("1 error in"), "{to}: {error}");
        }
    }
}
