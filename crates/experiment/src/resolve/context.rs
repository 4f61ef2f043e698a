//! What a workload is resolved with.

use crate::file::File;
use crate::nearest::advice;
use crate::plan::{PlannedLink, PlannedNetwork, PlannedNode, way};
use crate::problem::Problem;
use crate::read::{At, Named, OneOrMore, Sink};
use crate::resolve::networks::Networks;
use crate::resolve::nodes::Nodes;
use crate::source::Place;
use crate::subnet::Subnet;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::path::Path;
use units::Span;

/// The planned nodes and networks, with what leads to them: a workload may have hundreds of groups, and a
/// file thousands of networks.
#[derive(Debug)]
pub(super) struct Topology<'a> {
    pub(super) nodes: &'a [PlannedNode],
    networks: &'a [PlannedNetwork],
    by_name: HashMap<&'a str, &'a PlannedNetwork>,
    /// One node of each group for each set of networks that its nodes are on.
    kinds: HashMap<&'a str, Kinds<'a>>,
    by_node: HashMap<&'a str, &'a PlannedNode>,
    /// Nodes that forward packets, by their addresses.
    routers: HashMap<IpAddr, &'a PlannedNode>,
}

/// Nodes that a workload names together: of a group, one for each set of networks; or a single one.
type Kinds<'a> = Vec<&'a PlannedNode>;

/// A node, and its link to a network.
pub(super) type End<'a> = (&'a PlannedNode, &'a PlannedLink);

/// The path of a node's packets to a network.
#[derive(Debug)]
pub(super) struct Route<'a> {
    /// A node and the next router, which share a network.
    pub(super) hops: Vec<[End<'a>; 2]>,
    /// The node at the network: the first one, or the last router. `None` if they do not get there.
    pub(super) arrival: Option<End<'a>>,
}

impl<'a> Topology<'a> {
    pub(super) fn of(nodes: &'a [PlannedNode], networks: &'a [PlannedNetwork]) -> Self {
        let mut by_name = HashMap::new();
        for network in networks {
            by_name.entry(network.name.as_str()).or_insert(network);
        }
        let alike = |a: &PlannedNode, b: &PlannedNode| {
            a.group == b.group
                && a.links.iter().map(|l| &l.network).eq(b.links.iter().map(|l| &l.network))
        };
        // The nodes of a group are neighbours in the plan. One of each kind is enough, as groups
        // are large.
        let mut kinds: HashMap<&str, Kinds<'_>> = HashMap::new();
        for node in nodes.chunk_by(alike).filter_map(<[PlannedNode]>::first) {
            kinds.entry(&node.group).or_default().push(node);
        }
        let mut routers = HashMap::new();
        for node in nodes.iter().filter(|node| node.forward) {
            for address in node.links.iter().flat_map(PlannedLink::addresses) {
                // The first one.
                routers.entry(address).or_insert(node);
            }
        }
        let by_node = nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        Self { nodes, networks, by_name, kinds, by_node, routers }
    }

    /// A network by its name.
    pub(super) fn network(&self, name: &str) -> Option<&'a PlannedNetwork> {
        self.by_name.get(name).copied()
    }

    fn nodes_of(&self, group: &str) -> &[&'a PlannedNode] {
        self.kinds.get(group).map_or(&[], Vec::as_slice)
    }

    /// The nodes of each of these groups.
    fn of_groups(&self, groups: &[&str]) -> Vec<Kinds<'a>> {
        groups.iter().map(|group| self.nodes_of(group).to_vec()).collect()
    }

    /// These nodes, each alone; of several nodes of a group on the same networks, one.
    fn of_nodes(&self, nodes: &[&String]) -> Vec<Kinds<'a>> {
        let mut seen = HashSet::new();
        let kind = |node: &&'a PlannedNode| {
            let networks: Vec<_> = node.links.iter().map(|link| link.network.as_str()).collect();
            seen.insert((node.group.as_str(), networks))
        };
        let known = nodes.iter().filter_map(|name| self.by_node.get(name.as_str()).copied());
        known.filter(kind).map(|node| vec![node]).collect()
    }

    /// The networks that all of these single nodes are on, in the order of the first one's.
    fn common(ends: &[Kinds<'a>]) -> Vec<&'a str> {
        let mut nodes = ends.iter().flatten();
        let Some(first) = nodes.next() else { return Vec::new() };
        let mut common: Vec<_> = first.links.iter().map(|link| link.network.as_str()).collect();
        for node in nodes {
            let on: HashSet<_> = node.links.iter().map(|link| link.network.as_str()).collect();
            common.retain(|network| on.contains(network));
        }
        common
    }

    /// Whether the node is on a network, or on one that a bridge joins with it.
    fn is_on(&self, node: &PlannedNode, network: &str) -> bool {
        let own = self.network(network);
        node.links.iter().any(|link| {
            link.network == network
                || self
                    .network(&link.network)
                    .zip(own)
                    .is_some_and(|(on, own)| on.is_joined_with(own))
        })
    }

    /// Whether all of these nodes reach a network, by a link or by routers.
    fn reach(&self, ends: &[Kinds<'a>], network: &PlannedNetwork) -> bool {
        let reaches = |node: &&'a PlannedNode| self.path(node, network).arrival.is_some();
        ends.iter().all(|end| !end.is_empty() && end.iter().all(reaches))
    }

    /// The path of a node's packets to a network.
    pub(super) fn path(&self, node: &'a PlannedNode, network: &PlannedNetwork) -> Route<'a> {
        let find = |name: &str| self.network(name);
        let mut path = Route { hops: Vec::new(), arrival: None };
        let mut next = node;
        // As many hops as there are networks; more are a loop.
        for _ in 0..=self.networks.len() {
            let Some(way) = way(next, network, find) else { break };
            let Some(via) = way.via else {
                path.arrival = Some((next, way.link));
                break;
            };
            let Some(router) = self.routers.get(&via).copied() else { break };
            let mut links = router.links.iter();
            let Some(link) = links.find(|link| link.addresses().any(|own| own == via)) else {
                break;
            };
            path.hops.push([(next, way.link), (router, link)]);
            next = router;
        }
        path
    }

    /// A network of one of `groups` whose first subnet is of IPv6, if there are routers.
    fn first_of_ipv6(&self, groups: &[&str]) -> Option<&'a str> {
        let mut links = groups.iter().flat_map(|group| self.nodes_of(group)).flat_map(|n| &n.links);
        let found = links.find_map(|link| {
            self.network(&link.network).filter(|network| network.subnet.is_ipv6())
        });
        let has_routers = self.nodes.iter().any(|node| node.forward);
        found.filter(|_| has_routers).map(|network| network.name.as_str())
    }

    /// The subnets that all nodes of `end` are on. Networks that a bridge joins have the same one.
    fn subnets_of(&self, end: &Kinds<'a>) -> HashSet<Subnet> {
        let of = |node: &&PlannedNode| {
            let networks = node.links.iter().filter_map(|link| self.network(&link.network));
            networks.map(|network| network.subnet).collect::<HashSet<_>>()
        };
        let all = end.iter().map(of);
        all.reduce(|one, other| &one & &other).unwrap_or_default()
    }

    /// The network of a workload between `ends` that share none: that of most of them, if all reach it
    /// by routers.
    fn across(&self, ends: &[Kinds<'a>]) -> Option<&'a PlannedNetwork> {
        let mut counts: HashMap<Subnet, usize> = HashMap::new();
        for subnet in ends.iter().flat_map(|end| self.subnets_of(end)) {
            *counts.entry(subnet).or_default() += 1;
        }
        let count = |network: &PlannedNetwork| counts.get(&network.subnet).copied();
        let attached = self.networks.iter().filter_map(|network| Some((network, count(network)?)));
        let mut attached: Vec<_> = attached.collect();
        // The first of those with most: the order of the file stays.
        attached.sort_by_key(|(_, count)| Reverse(*count));
        attached.into_iter().map(|(network, _)| network).find(|network| self.reach(ends, network))
    }
}

/// The largest number of nodes of one group that an error names.
const FEW: usize = 3;

/// Context for resolving a workload.
pub(super) struct Context<'a, 'f> {
    pub(super) file: &'f File,
    pub(super) nodes: &'a Nodes<'f>,
    pub(super) networks: &'a Networks<'f>,
    pub(super) topology: &'a Topology<'a>,
    /// The experiment's duration.
    pub(super) duration: Option<Span>,
    pub(super) base: &'a Path,
}

impl Context<'_, '_> {
    /// The network of a workload between `nodes`, which are of `groups`: the one in `requested`; that
    /// which all groups share, or are connected with by routers; or that of these nodes alone.
    pub(super) fn network(
        &self,
        requested: &Option<At<String>>,
        place: Place,
        groups: &[&str],
        nodes: &[&String],
        sink: &mut Sink,
    ) -> Option<String> {
        // A network that failed was reported; without it, its nodes would look unattached.
        if !self.networks.complete {
            return None;
        }
        let all = match groups {
            [_] if nodes.len() <= FEW => crate::nearest::list(nodes),
            _ => groups.join(", "),
        };
        let topology = self.topology;
        let (by_group, alone) = (topology.of_groups(groups), topology.of_nodes(nodes));
        let mut shared = self.networks.shared_by(groups);
        if shared.is_empty() {
            shared = Topology::common(&alone);
        }
        if let Some(name) = requested {
            // Some of the ends may reach the named network by routers only (decision 95).
            let network = topology.network(&name.value);
            if network.is_some_and(|at| topology.reach(&by_group, at) || topology.reach(&alone, at))
            {
                return Some(name.value.clone());
            }
            let known = self.file.networks.as_ref().is_some_and(|n| n.has(&name.value));
            let (text, label) = if known {
                let text = format!("the network `{}` does not include all of {all}", name.value);
                (text, format!("they have in common: {}", crate::nearest::list(&shared)))
            } else {
                let names: Vec<&String> =
                    self.file.networks.iter().flat_map(Named::names).collect();
                let label = advice(&name.value, names.iter().map(|name| name.as_str()));
                (format!("unknown network `{}`", name.value), label)
            };
            sink.add(Problem::new(text).at(name.place).label(label));
            return None;
        }
        match &shared[..] {
            [one] => Some((*one).to_owned()),
            [] => {
                let across = topology.across(&by_group).or_else(|| topology.across(&alone));
                if let Some(network) = across {
                    return Some(network.name.clone());
                }
                let problem = Problem::new(format!("no network includes all of {all}"));
                let label = "attach them to the same network, or connect their networks by a \
                             router (a node with `forward: true`) or a bridge (`bridge: true`)";
                let problem = problem.at(place).label(label);
                sink.add(match self.topology.first_of_ipv6(groups) {
                    Some(network) => problem.note(format!(
                        "the first subnet of `{network}` is of IPv6, and workloads use the first one: \
                         all networks on the way need IPv6, or put an IPv4 subnet first"
                    )),
                    None => problem,
                });
                None
            }
            several => {
                let text = format!("{all} have several networks in common: {}", several.join(", "));
                let problem = Problem::new(text).at(place);
                sink.add(problem.label(format!("name one: `network: {}`", several[0])));
                None
            }
        }
    }

    /// Reports a workload that uses multicast, which routers do not forward, if one of its nodes is
    /// not on its network.
    pub(super) fn check_multicast<'n>(
        &self,
        what: &str,
        network: &str,
        mut nodes: impl Iterator<Item = &'n String>,
        place: Place,
        sink: &mut Sink,
    ) -> bool {
        let on: HashSet<&str> = self
            .topology
            .nodes
            .iter()
            .filter(|node| self.topology.is_on(node, network))
            .map(|node| node.name.as_str())
            .collect();
        let Some(outside) = nodes.find(|node| !on.contains(node.as_str())) else { return true };
        let text =
            format!("{what} between `{network}` and `{outside}`, which is on another network");
        let label = "it uses multicast, which routers do not forward: attach all to one network";
        sink.add(Problem::new(text).at(place).label(label));
        false
    }

    pub(super) fn nonempty(&self, list: &At<OneOrMore<At<String>>>, text: &str, sink: &mut Sink) {
        if list.value.0.is_empty() {
            sink.add(Problem::new(text).at(list.place).label("name a group or a node"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Topology;
    use crate::plan::{PlannedLink, PlannedNetwork};
    use crate::test_plan::plan;

    #[test]
    fn a_workload_is_on_the_network_of_most_groups_that_all_reach() {
        let plan = plan(
            "experiment: e
nodes: {a: {}, b: {count: 2}, c: {}, d: {}, lone: {}, far: {}, r: {forward: true}, s: {bridge: true}}
networks:
  one: {attach: [a, r], subnet: 10.1.0.0/24}
  two: {attach: [b-1, c, r], subnet: 10.2.0.0/24}
  three: {attach: [b-2, r], subnet: 10.3.0.0/24}
  island: {attach: [lone, far], subnet: 10.4.0.0/24}
  left: {attach: [r, s], subnet: 10.5.0.0/24}
  right: {attach: [d, s], subnet: 10.5.0.0/24}
duration: 1 s
",
        )
        .unwrap_or_else(|error| panic!("{error}"));
        let topology = Topology::of(&plan.nodes, &plan.networks);
        for (groups, network) in [
            (&["a", "c"][..], Some("one")),
            (&["c", "a"], Some("one")),
            (&["a", "c", "r"], Some("one")),
            (&["a", "c", "r", "c"], Some("two")),
            // Its nodes are on two networks.
            (&["b", "c"], Some("two")),
            (&["b"], None),
            // Of a network and one that a bridge joins with it, the first.
            (&["d", "r", "d"], Some("left")),
            (&["lone", "a"], None),
            (&["lone", "far"], Some("island")),
            (&["unknown", "a"], None),
            (&[], None),
        ] {
            let ends = topology.of_groups(groups);
            let found = topology.across(&ends).map(|network| network.name.as_str());
            assert_eq!(found, network, "{groups:?}");
        }
    }

    /// What failed: the nodes of a group share no network, and those that the workload does not use
    /// counted too.
    #[test]
    fn single_nodes_of_a_group_find_their_network() {
        let of = |workload: &str, network: &str| {
            plan(&format!(
                "experiment: e
nodes: {{h: {{count: 4}}, r: {{forward: true}}}}
networks:
  one: {{attach: [h-1, r], subnet: 10.1.0.0/24}}
  two: {{attach: [h-2, h-3, r], subnet: 10.2.0.0/24}}
  island: {{attach: [h-4, h-1], subnet: 10.3.0.0/24}}
workloads:
  - {workload}
duration: 1 s
"
            ))
            .map(|plan| {
                let text = plan.to_string();
                assert!(text.contains(network), "{network}: {text}");
            })
        };
        let load = |on: &str, to: &str, more: &str| {
            format!("load: {{on: {on}, to: {to}, arrivals: 'constant:10ms', protocol: http{more}}}")
        };
        // By the router; on one network; on another one, which only these two share.
        assert_eq!(of(&load("h-1", "h-2", ""), "h-1 to h-2, port 80, over one"), Ok(()));
        assert_eq!(of(&load("h-2", "h-3", ""), "over two"), Ok(()));
        assert_eq!(of(&load("h-1", "h-4", ""), "over island"), Ok(()));
        assert_eq!(of(&load("h-1", "h-2", ", network: two"), "over two"), Ok(()));
        let exchange = "exchange: {sources: h-1, sinks: h-2, protocol: udp, payload: [10 B], repetitions: 1, every: 1 s}";
        assert_eq!(of(exchange, "h-2"), Ok(()));
        let error = of(&load("h-2", "h-4", ""), "").unwrap_err();
        assert!(error.contains("no network includes all of h-2, h-4"), "{error}");
        assert!(error.contains("by a router"), "{error}");
        let error = of(&load("h-1", "h-4", ", network: two"), "").unwrap_err();
        assert!(error.contains("does not include all of h-1, h-4"), "{error}");
        assert!(error.contains("they have in common: island"), "{error}");
    }

    /// What failed before: the time was that of the cube of the number of networks, here some minutes.
    #[test]
    fn thousands_of_networks_are_no_matter() {
        let mut plan = plan(
            "experiment: e
nodes: {r: {forward: true}, a: {}, b: {}}
networks:
  x: {attach: [r, a], subnet: 10.0.0.0/24}
  y: {attach: [r, b], subnet: 10.0.1.0/24}
duration: 1 s
",
        )
        .unwrap();
        for number in 2..4_000_u32 {
            let base = format!("10.{}.{}", number / 256, number % 256);
            let network = PlannedNetwork {
                name: format!("n{number}"),
                subnet: format!("{base}.0/24").parse().unwrap(),
                ..plan.networks[0].clone()
            };
            let link = PlannedLink {
                network: network.name.clone(),
                address: format!("{base}.1").parse().unwrap(),
                ..plan.nodes[0].links[0].clone()
            };
            plan.networks.push(network);
            plan.nodes[0].links.push(link);
        }
        plan.nodes[1].routes.clear();
        plan.nodes[2].routes.clear();
        let topology = Topology::of(&plan.nodes, &plan.networks);
        let across = |groups: &[&str]| topology.across(&topology.of_groups(groups));
        assert!(across(&["a", "b", "r"]).is_none());
        assert_eq!(across(&["a", "r"]).unwrap().name, "x");
    }

    #[test]
    fn ends_of_ipv6_behind_routers_of_ipv4_are_told_why() {
        let file = "experiment: six
nodes: {a: {}, b: {}, r: {count: 3, forward: true}}
edges:
  - [r-1, r-2, r-3]
  - {between: [a, r-1], subnet: ['fd00:9::/64', 10.9.0.0/30]}
  - {between: [b, r-3], subnet: ['fd00:8::/64', 10.8.0.0/30]}
workloads:
  - exchange: {sources: a, sinks: b, protocol: udp, payload: [10 B], repetitions: 1, every: 1 s}
";
        let error = plan(file).unwrap_err();
        assert!(error.contains("the first subnet of `a-r-1` is of IPv6"), "{error}");
        let ipv4 = file.replace("'fd00:9::/64', 10.9.0.0/30", "10.9.0.0/30, 'fd00:9::/64'");
        let ipv4 = ipv4.replace("'fd00:8::/64', 10.8.0.0/30", "10.8.0.0/30, 'fd00:8::/64'");
        assert!(plan(&ipv4).is_ok(), "{:?}", plan(&ipv4).err());
    }
}
