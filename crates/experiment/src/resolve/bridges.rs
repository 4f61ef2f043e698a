//! Resolves bridges: which networks nodes join.

use crate::file::{Addressing, Bridge, File, Group};
use crate::joined::Joined;
use crate::nearest::advice;
use crate::plan::{PlannedBridge, PlannedLink, SourceAddresses};
use crate::problem::Problem;
use crate::read::{At, Named, Sink};
use crate::resolve::members::Members;
use crate::resolve::nodes::Nodes;
use std::collections::HashMap;

/// What bridges join.
#[derive(Debug, Default)]
pub(super) struct Bridges<'f> {
    networks: HashMap<&'f str, Joint<'f>>,
}

/// A network and those that bridges join it with.
#[derive(Debug, Clone, Copy)]
struct Joint<'f> {
    /// The first network of the set.
    first: &'f str,
    /// Number of nodes on networks of the set before this one.
    before: u64,
}

impl<'f> Bridges<'f> {
    pub fn of(file: &'f File, nodes: &Nodes<'f>, sink: &mut Sink) -> Self {
        let bridges = file.nodes.iter().flat_map(Named::iter);
        let bridges = bridges.filter(|(name, _, group)| {
            check_keys(name, group, sink);
            is_bridge(group) && nodes.has_group(name)
        });
        let bridges: Vec<_> = bridges.map(|(name, _, group)| (name, group)).collect();
        if bridges.is_empty() {
            return Self::default();
        }
        let discard = &mut Sink::default();
        let networks = file.networks.iter().flat_map(Named::iter);
        let networks: Vec<(&str, Members<'f>)> = networks
            .map(|(name, _, network)| (name, Members::of(name, network, nodes, discard).0))
            .collect();
        let mut joined = Joined::new(networks.len());
        let mut without_stp = Joined::new(networks.len());
        for (name, group) in bridges {
            let Some(bridge) = &group.bridge else { continue };
            check_names(name, bridge, &networks, sink);
            for index in 0..nodes.count(name).map_or(1, u64::from) {
                let own = networks.iter().enumerate().filter(|(_, (network, members))| {
                    members.find(name, index).is_some() && joins(&bridge.value, network)
                });
                let own: Vec<usize> = own.map(|(at, _)| at).collect();
                if own.len() < 2 && sink.is_clean() {
                    let text = format!("`{name}` is a bridge with fewer than two networks");
                    let label = "attach it to the networks that it joins, or remove `bridge`";
                    sink.add(Problem::new(text).at(bridge.place).label(label));
                }
                let mut is_loop = false;
                for pair in own.windows(2) {
                    joined.join(pair[0], pair[1]);
                    is_loop |= !has_stp(group) && !without_stp.join(pair[0], pair[1]);
                }
                if is_loop {
                    let text = format!(
                        "the bridge `{name}` closes a loop of bridges: broadcasts would circle in it for ever"
                    );
                    let label =
                        "add `stp: true` to the bridges of the loop, or take one of them away";
                    sink.add(Problem::new(text).at(bridge.place).label(label));
                    break;
                }
            }
        }
        check_networks(file, &networks, &mut joined, sink);
        let mut sizes = vec![0; networks.len()];
        let joints = networks.iter().enumerate().map(|(at, (name, members))| {
            let first = joined.first(at);
            let before = sizes[first];
            sizes[first] += members.size;
            (*name, Joint { first: networks[first].0, before })
        });
        Self { networks: joints.collect() }
    }

    /// Number of addresses that nodes of joined networks have before those of `network`.
    pub fn addresses_before(&self, network: &str) -> u64 {
        self.networks.get(network).map_or(0, |joint| joint.before)
    }

    /// The first network of those that bridges join with `network`, which may be itself.
    pub fn first<'n>(&'n self, network: &'n str) -> &'n str {
        self.networks.get(network).map_or(network, |joint| joint.first)
    }
}

/// Whether the nodes of a group are bridges.
fn is_bridge(group: &Group) -> bool {
    group.bridge.as_ref().is_some_and(|bridge| bridge.value != Bridge::Off)
}

fn has_stp(group: &Group) -> bool {
    group.stp.as_ref().is_some_and(|stp| stp.value)
}

fn joins(bridge: &Bridge, network: &str) -> bool {
    match bridge {
        Bridge::Off => false,
        Bridge::All => true,
        Bridge::Of(names) => names.iter().any(|name| name.value == network),
    }
}

/// The bridge of a node with these links, which then have the same addresses: those of the bridge.
pub(super) fn of(group: &Group, links: &mut [PlannedLink]) -> Option<PlannedBridge> {
    let bridge = group.bridge.as_ref().filter(|_| is_bridge(group))?;
    let mut interfaces = Vec::new();
    let mut addresses = None;
    for link in links.iter_mut().filter(|link| joins(&bridge.value, &link.network)) {
        let (address, second) = *addresses.get_or_insert((link.address, link.second_address));
        (link.address, link.second_address) = (address, second);
        interfaces.push(link.interface.clone());
    }
    Some(PlannedBridge { interfaces, stp: has_stp(group) })
}

fn check_keys(name: &str, group: &Group, sink: &mut Sink) {
    if let Some(stp) = group.stp.as_ref().filter(|stp| stp.value && !is_bridge(group)) {
        let problem = Problem::new(format!("`{name}` has `stp`, but is no bridge")).at(stp.place);
        sink.add(problem.label("add `bridge: true`, or remove `stp`"));
    }
    let Some(bridge) = group.bridge.as_ref().filter(|_| is_bridge(group)) else { return };
    let source = group.address.as_ref().map(|at| at.value);
    let others = [
        ("external", group.external.is_some()),
        ("address: dhcp", source == Some(Addressing::Dhcp)),
        ("address: slaac", source == Some(Addressing::Slaac)),
        ("tap", group.tap.is_some()),
        ("tun", group.tun.is_some()),
        ("qemu", group.has_own_stack()),
    ];
    if let Some((key, _)) = others.into_iter().find(|(_, has)| *has) {
        let text = format!("`{name}` has `bridge` and `{key}`");
        let label =
            "remove one of them: a bridge is in the kernel of a node with planned addresses";
        sink.add(Problem::new(text).at(bridge.place).label(label));
    }
}

fn check_names(name: &str, bridge: &At<Bridge>, networks: &[(&str, Members<'_>)], sink: &mut Sink) {
    let Bridge::Of(names) = &bridge.value else { return };
    for at in names {
        match networks.iter().find(|(network, _)| *network == at.value) {
            None => {
                let problem = Problem::new(format!("unknown network `{}`", at.value)).at(at.place);
                let known = networks.iter().map(|(network, _)| *network);
                sink.add(problem.label(advice(&at.value, known)));
            }
            Some((network, members)) if !members.has(name) => {
                let text = format!("`{name}` bridges `{network}`, but is not on it");
                let label = format!("add it to `attach` of `{network}`, or remove the network");
                sink.add(Problem::new(text).at(at.place).label(label));
            }
            Some(_) => {}
        }
    }
}

/// Reports keys that joined networks cannot have.
fn check_networks(
    file: &File,
    networks: &[(&str, Members<'_>)],
    joined: &mut Joined,
    sink: &mut Sink,
) {
    let first: Vec<usize> = (0..networks.len()).map(|at| joined.first(at)).collect();
    for (at, (name, _)) in networks.iter().enumerate() {
        let is_joined =
            first.iter().enumerate().any(|(other, own)| other != at && *own == first[at]);
        let Some(typed) =
            file.networks.as_ref().and_then(|all| all.get(name)).filter(|_| is_joined)
        else {
            continue;
        };
        let own = typed.source_addresses.as_ref().filter(|at| at.value == SourceAddresses::Own);
        if let Some(own) = own {
            let text = format!("`{name}` rejects the frames that its bridge forwards");
            sink.add(Problem::new(text).at(own.place).label("use `source_addresses: any`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::test_plan::plan;

    const FILE: &str = "\
experiment: e
nodes: {a: {count: 2}, s: {count: 2, bridge: true}, b: {forward: true}, c: {}}
networks:
  left: {attach: [a, s-1], subnet: [10.0.0.0/28, 'fd00::/64']}
  middle: {attach: s, subnet: [10.0.0.0/28, 'fd00::/64']}
  right: {attach: [s-2, b], subnet: [10.0.0.0/28, 'fd00::/64']}
  far: {attach: [b, c], subnet: [10.1.0.0/24, 'fd01::/64']}
workloads:
  - exchange: {sources: a-1, sinks: b, protocol: udp, payload: [10 B], repetitions: 1, every: 1 s}
  - exchange: {sources: a-1, sinks: c, protocol: udp, payload: [10 B], repetitions: 1, every: 1 s}
duration: 1 s
";

    #[test]
    fn nodes_of_joined_networks_have_different_addresses_and_a_bridge_one() {
        let plan = plan(FILE).unwrap();
        let links = plan.nodes.iter().flat_map(|node| &node.links);
        let mut macs: Vec<_> = links.map(|link| link.mac.to_string()).collect();
        macs.sort_unstable();
        macs.dedup();
        assert_eq!(macs.len(), 9, "each interface has another one");
        let addresses = plan.nodes.iter().map(|node| {
            let links = node.links_with_addresses().map(|link| link.address.to_string());
            format!("{} {}", node.name, links.collect::<Vec<_>>().join(" "))
        });
        assert_eq!(
            addresses.collect::<Vec<_>>(),
            [
                "a-1 10.0.0.1",
                "a-2 10.0.0.2",
                "s-1 10.0.0.3",
                "s-2 10.0.0.5",
                "b 10.0.0.7 10.1.0.1",
                "c 10.1.0.2"
            ]
        );
        let text = plan.to_string();
        assert!(text.contains("s: s-1, s-2, bridge of eth0, eth1"), "{text}");
    }

    #[test]
    fn routes_and_workloads_take_joined_networks_for_one() {
        let joined = plan(FILE).unwrap();
        let routes = |node: usize| {
            let routes = joined.nodes[node].routes.iter().map(ToString::to_string);
            routes.collect::<Vec<_>>()
        };
        assert_eq!(routes(0), ["default via 10.0.0.7", "default via fd00::7"]);
        // The subnet of the joined networks, once.
        assert_eq!(routes(5), ["default via 10.1.0.1", "default via fd01::1"]);
        assert!(routes(4).is_empty(), "{:?}", routes(4));
        let way = joined.way("a-1", "right").unwrap();
        assert_eq!((way.link.network.as_str(), way.via), ("left", None));
        let hop = FILE.replace("a: {count: 2}", "a: {count: 2, routes: {10.9.0.0/16: b}}");
        let hop = plan(&hop).unwrap();
        assert!(
            hop.nodes[0].routes.iter().any(|route| route.to_string() == "10.9.0.0/16 via 10.0.0.7")
        );
    }

    #[test]
    fn edges_that_bridges_join_have_one_subnet() {
        let text = "\
experiment: e
nodes: {a: {}, s: {bridge: true}, t: {bridge: [s-t, lan]}, b: {}, c: {forward: true}}
networks: {lan: {attach: [b, t], subnet: 10.5.0.0/24}}
edges: [[a, s, t, c], [c, b]]
duration: 1 s
";
        let subnets = |text: &str| {
            let plan = plan(text).unwrap_or_else(|error| panic!("{error}"));
            let all = plan.networks.iter().map(|on| format!("{} {}", on.name, on.subnet));
            all.collect::<Vec<_>>()
        };
        assert_eq!(
            subnets(text),
            [
                "lan 10.5.0.0/24",
                "a-s 10.5.0.0/24",
                "s-t 10.5.0.0/24",
                "t-c 172.31.0.0/30",
                "c-b 172.31.0.4/30"
            ]
        );
        let alone = text.replace("[s-t, lan]", "[s-t, t-c]");
        assert_eq!(
            subnets(&alone)[1..],
            ["a-s 172.31.0.0/29", "s-t 172.31.0.0/29", "t-c 172.31.0.0/29", "c-b 172.31.0.8/30"]
        );
    }

    #[test]
    fn mistakes_are_said_once() {
        for (from, to, message) in [
            ("bridge: true", "bridge: yes", "expected `true`, or a list of networks"),
            ("bridge: true", "bridge: [left, lef]", "unknown network `lef`"),
            ("bridge: true", "bridge: [middle, far]", "`s` bridges `far`, but is not on it"),
            ("bridge: true", "stp: true", "`s` has `stp`, but is no bridge"),
            ("bridge: true", "bridge: true, address: dhcp", "`bridge` and `address: dhcp`"),
            ("bridge: true", "bridge: true, qemu: {}", "`bridge` and `qemu`"),
            (
                "attach: [s-2, b], subnet: [10.0.0.0/28",
                "attach: [s-2, b], subnet: [10.0.0.0/27",
                "use the same",
            ),
            (
                "attach: [s-2, b], ",
                "attach: [s-2, b], source_addresses: own, ",
                "its bridge forwards",
            ),
            ("attach: [s-2, b], ", "attach: [s, b], ", "closes a loop"),
            ("c: {}", "c: {bridge: true}", "fewer than two networks"),
            ("a: {count: 2}", "a: {count: 20}", "do not fit"),
        ] {
            let error = plan(&FILE.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(message), "{to}: {error}");
        }
        let ring = FILE.replace("attach: [s-2, b], ", "attach: [s, b], ");
        assert!(plan(&ring.replace("bridge: true", "bridge: true, stp: true")).is_ok());
    }

    #[test]
    fn services_of_one_network_serve_those_that_bridges_join_with_it() {
        let text = FILE.replace("a: {count: 2}", "a: {count: 2, address: dhcp}");
        let text = text
            .replace("attach: [s-2, b], ", "attach: [s-2, b], dhcp: true, dns: true, nat: true, ");
        let joined = plan(&text).unwrap_or_else(|error| panic!("{error}"));
        let client = joined.node("a-1").unwrap();
        assert!(client.links[0].by_dhcp);
        assert_eq!(client.resolver, Some([10, 0, 0, 14].into()));
        assert_eq!(client.learned_gateways[0], std::net::IpAddr::from([10, 0, 0, 14]));
        assert_eq!(joined.node("s-1").unwrap().gateway, Some([10, 0, 0, 14].into()));
        for name in ["left", "right"] {
            let pool = joined.pool(joined.network(name).unwrap(), false).unwrap();
            assert_eq!(pool, ([10, 0, 0, 11].into(), [10, 0, 0, 13].into()), "{name}");
        }
        for (from, to, message) in [
            ("left: {", "left: {nat: true, ", "both have services"),
            ("a: {count: 2", "a: {count: 9", "do not fit"),
        ] {
            let error = plan(&text.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(message) && error.contains("1 error in"), "{to}: {error}");
        }
        // Clients behind the bridges with STP ask for longer.
        let left = |plan: &crate::Plan| plan.has_spanning_tree(plan.network("left").unwrap());
        let with_stp = plan(&text.replace("bridge: true", "bridge: true, stp: true"));
        let with_stp = with_stp.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((left(&with_stp), left(&joined)), (true, false));
        // All addresses are taken when the services, on the first network, want the last one.
        let full =
            FILE.replace("left: {", "left: {dns: true, ").replace("count: 2}, s", "count: 9}, s");
        let error = plan(&full).unwrap_err();
        assert!(error.contains("14 nodes of the networks that bridges join"), "{error}");
    }

    #[test]
    fn a_huge_count_of_bridges_is_refused_at_once() {
        let text = "experiment: e\nnodes: {s: {count: 4000000000, bridge: true}, a: {}}\nedges: [[a, s-1], [a, s]]\nduration: 1 s\n";
        assert!(plan(text).unwrap_err().contains("more than 100000 nodes"));
    }
}
