//! Combinations of keys against models of what they mean.

use crate::file;
use experiment::{Experiment, Only, Overrides, Plan, PlannedNode};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;

fn plans(text: &str, set: &[String], environment: &dyn Fn(&str) -> Option<String>) -> Vec<Plan> {
    let overrides = Overrides { set, environment };
    let experiment = Experiment::parse_with(text, "e.yaml", "", overrides)
        .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let cells = experiment.cells(&Only::all()).unwrap();
    cells.iter().map(|cell| experiment.plan(cell, 0, 1).unwrap()).collect()
}

/// A way to write the number of nodes of the group `a`: the value of `count`, the axis `n`, a
/// setting, and the numbers of the cells.
struct Count {
    count: &'static str,
    axis: Option<&'static str>,
    set: &'static [&'static str],
    cells: &'static [usize],
}

const COUNTS: &[Count] = &[
    Count { count: "", axis: None, set: &[], cells: &[1] },
    Count { count: "count: 3, ", axis: None, set: &[], cells: &[3] },
    Count { count: "count: '${n}', ", axis: Some("[2, 3]"), set: &[], cells: &[2, 3] },
    Count { count: "count: '${n}', ", axis: Some("[2, 3]"), set: &["n=4|1"], cells: &[4, 1] },
    Count {
        count: "count: '${n}', ",
        axis: Some("[2, 3]"),
        set: &["n=4", "n=[5, 2]"],
        cells: &[5, 2],
    },
    Count { count: "count: '${env:FOUR}', ", axis: None, set: &[], cells: &[4] },
    Count { count: "count: '${env:NONE:-2}', ", axis: None, set: &[], cells: &[2] },
    Count { count: "count: '${env:EMPTY:-2}', ", axis: None, set: &[], cells: &[2] },
    Count { count: "count: '1${env:NONE:-}', ", axis: None, set: &[], cells: &[1] },
    // Variables are replaced before axes, so a variable can be a value of an axis.
    Count { count: "count: '${n}', ", axis: Some("['${env:FOUR}', 2]"), set: &[], cells: &[4, 2] },
    Count { count: "count: '1${n}', ", axis: Some("[0, 1]"), set: &[], cells: &[10, 11] },
    // A setting may itself refer to an axis or a variable.
    Count {
        count: "count: 9, ",
        axis: Some("[2, 3]"),
        set: &["nodes.a.count=${n}"],
        cells: &[2, 3],
    },
    Count { count: "count: 9, ", axis: None, set: &["nodes.a.count=${env:FOUR}"], cells: &[4] },
    Count { count: "", axis: None, set: &["nodes.a.count=2", "nodes.a.count=3"], cells: &[3] },
    Count { count: "count: '${env:FOUR}', ", axis: None, set: &["nodes.a.count=5"], cells: &[5] },
];

/// Own limit of processes, that of `defaults`, a setting, and the resulting limit.
const LIMITS: &[(&str, &str, &[&str], Option<u32>)] = &[
    ("", "", &[], None),
    ("processes: 5", "", &[], Some(5)),
    ("", "processes: 7", &[], Some(7)),
    ("processes: 5", "processes: 7", &[], Some(5)),
    ("cpus: 1", "processes: 7", &[], Some(7)),
    ("processes: 5", "processes: 7", &["defaults.nodes.limits.processes=8"], Some(5)),
    ("cpus: 1", "processes: 7", &["defaults.nodes.limits.processes=8"], Some(8)),
    ("processes: 5", "processes: 7", &["nodes.a.limits.processes=9"], Some(9)),
    ("", "processes: '${env:FOUR}'", &[], Some(4)),
];

#[test]
fn counts_and_limits_come_from_the_file_axes_defaults_settings_and_variables() {
    let environment = |name: &str| match name {
        "FOUR" => Some("4".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    for count in COUNTS {
        for (own, default, set, processes) in LIMITS {
            let own = if own.is_empty() { String::new() } else { format!("limits: {{{own}}}") };
            let mut lines = format!("nodes: {{a: {{{}{own}}}, b: {{}}}}\n", count.count);
            if !default.is_empty() {
                lines += &format!("defaults: {{nodes: {{limits: {{{default}}}}}}}\n");
            }
            lines += &count.axis.map(|axis| format!("matrix: {{n: {axis}}}\n")).unwrap_or_default();
            let set: Vec<String> =
                count.set.iter().chain(set.iter()).map(|set| (*set).to_owned()).collect();
            let text = file(&lines);
            let found = plans(&text, &set, &environment);
            let nodes = |plan: &Plan| plan.nodes.iter().filter(|node| node.group == "a").count();
            let counts: Vec<usize> = found.iter().map(nodes).collect();
            assert_eq!(counts, count.cells, "{set:?}\n{text}");
            for (plan, count) in found.iter().zip(count.cells) {
                let names: Vec<&str> = plan
                    .nodes
                    .iter()
                    .filter(|node| node.group == "a")
                    .map(|node| node.name.as_str())
                    .collect();
                let expected: Vec<String> = match count {
                    1 => vec!["a".to_owned()],
                    _ => (1..=*count).map(|number| format!("a-{number}")).collect(),
                };
                assert_eq!(names, expected, "{set:?}\n{text}");
                let limits = plan.nodes.iter().filter(|node| node.group == "a");
                assert!(
                    limits.clone().all(|node| node.limits.processes == *processes),
                    "{processes:?} {set:?}\n{text}"
                );
            }
        }
    }
}

#[test]
fn addresses_are_unique_and_inside_for_all_kinds_of_subnets_and_services() {
    let subnets =
        ["10.0.0.0/29", "fd00::/125", "[10.0.0.0/29, fd00::/64]", "[fd00::/64, 10.0.0.0/29]"];
    let flags = [false, true];
    for (subnet, nat, dhcp, dns, leased) in subnets.into_iter().flat_map(|subnet| {
        flags.into_iter().flat_map(move |nat| {
            flags.into_iter().flat_map(move |dhcp| {
                flags.into_iter().flat_map(move |dns| {
                    flags.into_iter().map(move |leased| (subnet, nat, dhcp, dns, leased))
                })
            })
        })
    }) {
        let address = if leased { "dhcp" } else { "planned" };
        let text = file(&format!(
            "nodes: {{a: {{count: 3, address: {address}}}, b: {{}}}}\n\
             networks: {{n: {{attach: [a, b], subnet: {subnet}, nat: {nat}, dhcp: {dhcp}, dns: {dns}}}}}\n"
        ));
        let experiment = match Experiment::parse(&text, "e.yaml", "") {
            Ok(experiment) => experiment,
            Err(errors) => {
                // Nodes that ask for a server need one; the pool may be too small for the subnet.
                let first = errors.problems()[0].message();
                let is_known = leased && !dhcp && first == "`a` has no DHCP server";
                assert!(is_known, "{errors}\n{text}");
                continue;
            }
        };
        assert!(dhcp || !leased, "accepted:\n{text}");
        let plan = experiment.plan(&experiment.cells(&Only::all()).unwrap()[0], 0, 1).unwrap();
        let network = &plan.networks[0];
        let (mut addresses, mut macs) = (HashSet::new(), HashSet::new());
        for node in &plan.nodes {
            let link = &node.links[0];
            assert!(macs.insert(link.mac), "{} twice\n{text}", link.mac);
            assert_eq!(link.by_dhcp, leased && node.group == "a", "{text}");
            for address in link.addresses() {
                assert!(addresses.insert(address), "{address} twice\n{text}");
                let inside = network.subnets().any(|subnet| subnet.index(address).is_some());
                assert!(inside, "{address}\n{text}");
            }
            for family in [false, true] {
                let has_family = network.subnet_of(family).is_some();
                assert_eq!(link.address_of(family).is_some(), has_family, "{text}");
            }
            // A gateway that the lab sets is the node of services, and never on a leased link.
            for gateway in node.gateways() {
                assert!(nat && !link.by_dhcp && node.services.is_none(), "{text}");
                let owner = plan.nodes.iter().find(|node| node.services.is_some()).unwrap();
                assert!(owner.links[0].addresses().any(|own| own == gateway), "{text}");
            }
        }
        let services = plan.nodes.iter().filter(|node| node.services.is_some()).count();
        assert_eq!(services, usize::from(nat || dhcp || dns), "{text}");
    }
}

/// A node: networks and whether it forwards.
type Generated = (u8, bool);

fn topology(nodes: &[Generated], networks: u8) -> Option<String> {
    let name = |number: usize| format!("v{number}");
    let mut text = "experiment: e\nduration: 1 s\nnodes:\n".to_owned();
    for (number, (_, forward)) in nodes.iter().enumerate() {
        text += &format!("  {}: {{forward: {forward}}}\n", name(number));
    }
    text += "networks:\n";
    for network in 0..networks {
        let on: Vec<String> =
            (0..nodes.len()).filter(|node| nodes[*node].0 >> network & 1 == 1).map(name).collect();
        if on.is_empty() {
            return None;
        }
        text += &format!(
            "  n{network}: {{attach: [{}], subnet: [10.{network}.0.0/24, 'fd00:{network}::/64']}}\n",
            on.join(", ")
        );
    }
    Some(text)
}

/// The next hop of a packet by the longest prefix, as in the kernel.
fn next_hop(node: &PlannedNode, to: IpAddr) -> Option<IpAddr> {
    let routes = node.routes.iter().filter(|route| route.to.contains(to));
    let longest = routes.max_by_key(|route| route.to.prefix()).map(|route| route.via);
    longest.or_else(|| node.gateways().find(|gateway| gateway.is_ipv6() == to.is_ipv6()))
}

/// Number of routers that a packet passes; `None` if it does not arrive.
fn passes(plan: &Plan, from: usize, to: IpAddr) -> Option<usize> {
    let mut at = &plan.nodes[from];
    for routers in 0..=plan.nodes.len() {
        let is_on = |node: &PlannedNode| {
            node.links.iter().any(|link| {
                plan.networks.iter().any(|net| {
                    net.name == link.network && net.subnets().any(|own| own.contains(to))
                })
            })
        };
        if at.links.iter().any(|link| link.addresses().any(|own| own == to)) {
            return Some(routers.saturating_sub(1));
        }
        let via = if is_on(at) { to } else { next_hop(at, to)? };
        let shares = |node: &&PlannedNode| {
            node.links.iter().any(|link| {
                link.addresses().any(|own| own == via)
                    && at.links.iter().any(|own| own.network == link.network)
            })
        };
        let next = plan.nodes.iter().find(shares)?;
        if !next.forward && via != to {
            return None;
        }
        at = next;
    }
    None
}

/// Least number of routers from a node to a network, by a breadth-first search.
fn distances(nodes: &[Generated], from: usize) -> HashMap<u8, usize> {
    let mut found = HashMap::new();
    let mut queue = VecDeque::from([(from, 0)]);
    let mut seen = HashSet::from([from]);
    while let Some((node, routers)) = queue.pop_front() {
        for network in (0..8).filter(|network| nodes[node].0 >> network & 1 == 1) {
            found.entry(network).or_insert(routers);
            for (next, (on, forward)) in nodes.iter().enumerate() {
                if *forward && on >> network & 1 == 1 && seen.insert(next) {
                    queue.push_back((next, routers + 1));
                }
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A packet arrives exactly where routers lead, over as few of them as possible.
    #[test]
    fn planned_routes_lead_to_all_reachable_networks_by_the_shortest_way(
        nodes in proptest::collection::vec((1u8..32, any::<bool>()), 2..7)
    ) {
        let networks = 5;
        let Some(text) = topology(&nodes, networks) else { return Ok(()) };
        let experiment = Experiment::parse(&text, "e.yaml", "")
            .unwrap_or_else(|errors| panic!("{errors}"));
        let plan = experiment.plan(&experiment.cells(&Only::all()).unwrap()[0], 0, 1).unwrap();
        for from in 0..nodes.len() {
            let model = distances(&nodes, from);
            for (to, target) in plan.nodes.iter().enumerate().filter(|(to, _)| *to != from) {
                for link in &target.links {
                    let network: u8 = link.network[1..].parse().unwrap();
                    for address in link.addresses() {
                        let found = passes(&plan, from, address);
                        let expected = model.get(&network).copied();
                        // The target itself may be the last router on the way to its own address.
                        let is_right = found == expected
                            || (found.is_some() && expected.is_some() && found < expected);
                        prop_assert!(is_right, "v{from} to v{to} {address}: {found:?}, {expected:?}\n{text}");
                    }
                }
            }
        }
    }
}

#[test]
fn own_routes_of_overlapping_prefixes_add_to_those_of_the_plan_and_replace_equal_ones() {
    let text = "experiment: e
duration: 1 s
nodes:
  a: {routes: {10.2.0.0/16: s, 10.2.3.0/24: r, 10.2.3.7: s, 10.1.0.0/24: s, default: r}}
  r: {forward: true}
  s: {forward: true}
  far: {}
networks:
  near: {attach: [a, r, s], subnet: 10.0.0.0/24}
  back: {attach: [r, far], subnet: 10.1.0.0/24}
";
    let plan = &plans(text, &[], &|_| None)[0];
    let (a, r, s) = (&plan.nodes[0], &plan.nodes[1], &plan.nodes[2]);
    for (to, hop) in [
        ("10.2.9.9", s),
        ("10.2.3.9", r),
        ("10.2.3.7", s),
        ("10.2.3.8", r),
        // The plan's own route leads over `r`, the only router on `back`.
        ("10.1.0.9", s),
        ("192.0.2.1", r),
    ] {
        let hop = hop.links[0].address;
        assert_eq!(next_hop(a, to.parse().unwrap()), Some(hop), "{to}");
    }
    let targets: HashSet<String> = a.routes.iter().map(|route| route.to.to_string()).collect();
    assert_eq!(targets.len(), a.routes.len(), "{:?}", a.routes);
    // Clones have the same routes.
    let clone = &plan.clones(0, 2, plan.nodes.len()).unwrap()[1];
    assert_eq!((clone.name.as_str(), &clone.routes), ("a-3", &a.routes));
}

#[test]
fn faults_of_a_group_are_for_its_planned_nodes_and_clones_get_other_names_and_addresses() {
    let text = file(
        "nodes: {a: {count: 2, run: [x]}, b: {}}\nfaults: [{at: 0.5 s, kill: a}, {at: 0.6 s, pause: a-2, lasts: 0.1 s}]\n",
    );
    let plan = &plans(&text, &[], &|_| None)[0];
    let clones = plan.clones(1, 40, plan.nodes.len()).unwrap();
    let all: Vec<&PlannedNode> = plan.nodes.iter().chain(&clones).collect();
    let names: HashSet<&str> = all.iter().map(|node| node.name.as_str()).collect();
    let addresses: HashSet<IpAddr> = all.iter().map(|node| node.links[0].address).collect();
    let macs: HashSet<_> = all.iter().map(|node| node.links[0].mac).collect();
    assert_eq!([names.len(), addresses.len(), macs.len()], [43; 3]);
    let program = plan.nodes[1].program.as_ref();
    assert!(clones.iter().all(|node| node.program.as_ref() == program));
    // `lasts` is a second fault that ends the first.
    let faulty: Vec<String> = plan
        .faults
        .iter()
        .map(|fault| format!("{} {}", fault.what, fault.nodes.join(" ")))
        .collect();
    assert_eq!(faulty, ["kill a-1 a-2", "pause a-2", "resume a-2"]);
}

#[test]
fn the_number_of_cells_has_a_limit_also_where_it_does_not_fit_a_number() {
    let axes = |sizes: &[usize]| {
        let axis = |(number, size): (usize, &usize)| {
            let values: Vec<String> = (0..*size).map(|value| format!("{number}.{value}")).collect();
            format!("  x{number}: [{}]\n", values.join(", "))
        };
        let used: String = (0..sizes.len()).map(|number| format!("${{x{number}}} ")).collect();
        let axes: String = sizes.iter().enumerate().map(axis).collect();
        file(&format!("nodes: {{a: {{env: {{X: '{used}'}}, run: [x]}}, b: {{}}}}\nmatrix:\n{axes}"))
    };
    let cells = |sizes: &[usize]| {
        let parsed =
            Experiment::parse(&axes(sizes), "e.yaml", "").map_err(|error| error.to_string());
        parsed.map(|experiment| experiment.cells(&Only::all()).unwrap().len())
    };
    assert_eq!(cells(&[64, 64]), Ok(4096));
    for sizes in [&[4097][..], &[64, 65], &[2; 13], &[2; 64], &[3; 80]] {
        let error = cells(sizes).unwrap_err();
        assert!(error.contains("the matrix has more than 4096 cells"), "{sizes:?}: {error}");
        assert!(error.contains("1 error in"), "{sizes:?}: {error}");
    }
}
