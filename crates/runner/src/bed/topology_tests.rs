use super::Topology;
use crate::bed::roots::Roots;
use crate::test_plan::plan;
use engine::Place;
use std::net::IpAddr;

fn topology(yaml: &str) -> Topology {
    let plan = plan(yaml);
    Topology::of(&plan, &Roots::of(&plan).unwrap())
}

/// A network of a hub and `count` leaves, which do not talk to each other.
fn star(count: usize) -> String {
    format!(
        "experiment: e
nodes: {{hub: {{count: 1}}, leaf: {{count: {count}}}}}
networks: {{air: {{attach: [hub, leaf], subnet: 10.0.0.0/24}}}}
workloads:
  - exchange: {{sources: leaf, sinks: hub, protocol: udp, payload: 20 B, every: 1 s, repetitions: 100}}
"
    )
}

/// Numbers of neighbour entries of the nodes.
fn neighbours(topology: &Topology) -> Vec<usize> {
    let members = topology.members.iter();
    members.map(|member| member.spec.interfaces[0].neighbours.len()).collect()
}

#[test]
fn all_nodes_of_a_small_network_know_each_other() {
    assert_eq!(neighbours(&topology(&star(3))), [3, 3, 3, 3]);
}

#[test]
fn in_a_large_network_only_those_who_communicate_know_each_other() {
    let known = neighbours(&topology(&star(80)));
    assert_eq!(known[0], 80, "the hub knows all");
    assert!(known[1..].iter().all(|known| *known == 1), "{known:?}");
}

#[test]
fn a_node_with_dhcp_has_no_address_yet_and_no_neighbours() {
    let topology = topology(
        "experiment: e
nodes: {server: {count: 1}, phone: {count: 1, address: dhcp}, other: {count: 1}}
networks: {lan: {attach: [server, phone, other], subnet: 10.0.0.0/24, dhcp: true}}
workloads: [{command: {on: server, run: ['true']}}]
duration: 1 s
",
    );
    let of = |name: &str| {
        let member = topology.members.iter().find(|member| member.spec.name == name).unwrap();
        &member.spec.interfaces[0]
    };
    assert_eq!(of("server").addresses, [(IpAddr::from([10, 0, 0, 1]), 24)]);
    assert_eq!(of("phone").addresses, []);
    let phone = IpAddr::from([10, 0, 0, 2]);
    assert!(topology.hosts.contains("10.0.0.2 phone\n"), "its name is known: {}", topology.hosts);
    let known = &of("server").neighbours;
    assert!(!known.is_empty() && known.iter().all(|(address, _)| *address != phone), "{known:?}");
}

#[test]
fn ports_are_numbered_by_node_and_networks_have_streams_of_their_own() {
    let topology = topology(
        "experiment: e
nodes: {gateway: {count: 1}, a: {count: 1}, b: {count: 1}}
networks:
  one: {attach: [gateway, a], subnet: 10.0.0.0/24}
  two: {attach: [b, gateway], subnet: 10.0.1.0/24}
workloads: [{command: {on: a, run: ['true']}}]
duration: 1 s
",
    );
    let place = |segment, endpoint| Place { segment, endpoint };
    // The gateway's two interfaces, then those of a and b.
    assert_eq!(topology.places, [place(0, 0), place(1, 0), place(0, 1), place(1, 1)]);
    assert_eq!(topology.owners, [vec![0, 1], vec![0, 2]]);
    assert_eq!(topology.names[1], ["gateway:eth1", "b:eth0"]);
    assert_ne!(topology.segments[0].seed, topology.segments[1].seed);
}

/// A node that learns its routes has an entry for the address by which it learns the router.
#[test]
fn a_node_with_dhcp_knows_the_router_by_its_link_local_address() {
    let topology = topology(
        "experiment: e
nodes: {phone: {address: dhcp}, r: {forward: true}, far: {}}
networks:
  lan: {attach: [phone, r], subnet: 'fd00:1::/64', dhcp: true}
  out: {attach: [r, far], subnet: 'fd00:2::/64'}
workloads:
  - exchange: {sources: phone, sinks: far, protocol: udp, payload: 20 B, every: 1 s, repetitions: 1, network: out}
duration: 1 s
",
    );
    let of = |name: &str| {
        let member = topology.members.iter().find(|member| member.spec.name == name).unwrap();
        let interface = &member.spec.interfaces[0];
        let known = interface.neighbours.iter().map(|(address, _)| address.to_string());
        (interface, known.collect::<Vec<_>>())
    };
    let (phone, known) = of("phone");
    assert!(phone.addresses.is_empty() && phone.is_advertised);
    assert_eq!(known, ["fd00:1::2", "fe80::c6:ffff:fe00:2"]);
    let (router, known) = of("r");
    assert!(!router.is_advertised && known.contains(&"fd00:1::1".to_owned()), "{known:?}");
}

/// The timetable in the medium's terms: endpoints, not nodes.
#[test]
fn changes_of_a_timetable_reach_the_endpoints_of_their_nodes_on_their_network() {
    let topology = topology(
        "experiment: e
nodes: {a: {count: 2}, b: {count: 2}, c: {count: 1}}
networks:
  one: {attach: [a, c], subnet: 10.0.0.0/24}
  two:
    attach: [c, b, a]
    subnet: 10.0.1.0/24
    timetable:
      - {at: 1 s, down: b, lasts: 1 s}
      - {at: 3 s, partition: [a, b-1], lasts: 1 s}
      - {at: 5 s, multicast: false}
workloads: [{command: {on: a, run: ['true']}}]
duration: 9 s
",
    );
    use engine::Change;
    use link::Direction::{Down, Up};
    assert_eq!(topology.owners[1], [0, 1, 2, 3, 4], "in the order of the plan's nodes");
    assert!(topology.segments[0].timetable.is_empty());
    let [down, up, parts, whole, off] = &topology.segments[1].timetable[..] else {
        panic!("{:?}", topology.segments[1].timetable)
    };
    let links = |change: &Change| match change {
        Change::Down { links, down } => (links.clone(), *down),
        other => panic!("{other:?}"),
    };
    assert_eq!(links(&down.1), (vec![(2, Up), (2, Down), (3, Up), (3, Down)], true));
    assert_eq!(links(&up.1), (vec![(2, Up), (2, Down), (3, Up), (3, Down)], false));
    assert!(matches!(&parts.1, Change::Partition(Some(part)) if *part == [1, 1, 2, 0, 0]));
    assert!(matches!(&whole.1, Change::Partition(None)));
    assert!(matches!(&off.1, Change::Multicast(false)));
    assert_eq!(off.0, units::Span::from_s(5));
}

#[test]
fn names_of_nodes_that_are_gone_are_not_published() {
    let plan = plan(&star(3));
    let hosts = super::hosts_of(&plan, |node| node != 1);
    let names: Vec<_> = hosts.lines().skip(2).filter_map(|line| line.split_once(' ')).collect();
    let names: Vec<_> = names.into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["hub", "leaf-2", "leaf-3"]);
    assert_eq!(super::hosts(&plan).lines().count(), 6);
}
