use crate::test_plan::plan;

const FILE: &str = "\
experiment: e
nodes: {router: {forward: true}, a: {count: 2}, b: {count: 2}, c: {}, s: {bridge: true}}
networks:
  lan: {attach: [router, a, b, s], subnet: 10.0.0.0/24, vlans: {a: 10, b: 20, router: [10, 20], s: [10]}}
  far: {attach: [s, c], subnet: 10.0.0.0/24, vlans: {s: [10], c: 10}}
  ten: {switch: lan, vlan: 10, subnet: [10.0.10.0/24, 'fd00:10::/64'], dhcp: true}
  twenty: {switch: lan, vlan: 20, subnet: 10.0.20.0/24}
  far-ten: {switch: far, vlan: 10, subnet: [10.0.10.0/24, 'fd00:10::/64']}
workloads:
  - exchange: {sources: a-1, sinks: b-2, protocol: udp, payload: [10 B], repetitions: 1, every: 1 s}
duration: 1 s
";

#[test]
fn vlans_have_subnets_and_the_router_an_interface_in_each() {
    let plan = plan(FILE).unwrap_or_else(|error| panic!("{error}"));
    let links = plan.nodes.iter().map(|node| {
        let links = node
            .links
            .iter()
            .map(|link| format!("{} {} {}", link.interface, link.network, link.address));
        format!("{}: {}", node.name, links.collect::<Vec<_>>().join(", "))
    });
    assert_eq!(
        links.collect::<Vec<_>>(),
        [
            "router: eth0 lan 10.0.0.1, eth0.10 ten 10.0.10.1, eth0.20 twenty 10.0.20.1",
            "a-1: eth0 ten 10.0.10.2",
            "a-2: eth0 ten 10.0.10.3",
            "b-1: eth0 twenty 10.0.20.4",
            "b-2: eth0 twenty 10.0.20.5",
            // Behind those of `lan`, as a bridge joins the networks.
            "c: eth0 far-ten 10.0.10.8",
            "s: eth0 lan 10.0.0.6, eth1 far 10.0.0.6",
            "ten-services: eth0 ten 10.0.10.254",
        ]
    );
    let router = &plan.nodes[0];
    assert!(router.links.iter().all(|link| link.mac == router.links[0].mac));
    let routes = plan.nodes[1].routes.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(routes, ["default via 10.0.10.1"]);
    assert_eq!(plan.way("a-1", "twenty").unwrap().via, Some([10, 0, 10, 1].into()));
    let text = plan.to_string();
    assert!(text.contains("network ten: 10.0.10.0/24 and fd00:10::/64, VLAN 10 of lan"), "{text}");
}

#[test]
fn mistakes_are_said_once() {
    for (from, to, message) in [
        ("vlan: 20, ", "vlan: 0, ", "0 cannot be the VLAN of a network"),
        ("vlan: 20, ", "vlan: 1, ", "VLAN 1 has the subnet of `lan`"),
        ("vlan: 20, ", "vlan: 4095, ", "4095 cannot be the VLAN of a network"),
        ("vlan: 20, ", "vlan: 30, ", "no node of `lan` is in the VLAN 30"),
        ("vlan: 20, ", "vlan: 10, ", "`ten` and `twenty` are both the VLAN 10 of `lan`"),
        ("vlan: 20, ", "", "a network with `switch` and no `vlan`"),
        ("switch: lan, vlan: 20, ", "vlan: 20, ", "a network with `vlan` and no `switch`"),
        ("switch: lan, vlan: 20", "switch: lam, vlan: 20", "unknown network `lam`"),
        ("switch: lan, vlan: 20", "switch: ten, vlan: 20", "`ten` is a VLAN, too"),
        ("vlan: 20, ", "vlan: 20, attach: c, ", "`twenty` is a VLAN of `lan` and has `attach`"),
        ("vlan: 20, ", "vlan: 20, mtu: 900 B, ", "`twenty` is a VLAN of `lan` and has `mtu`"),
        ("subnet: 10.0.20.0/24", "subnet: 10.0.20.0/30", "do not fit"),
        ("subnet: 10.0.20.0/24", "subnet: 10.0.0.0/16", "overlaps"),
        (
            "  far-ten: {switch: far, vlan: 10, subnet: [10.0.10.0/24",
            "  far-ten: {switch: far, vlan: 10, subnet: [10.0.11.0/24",
            "use the same",
        ),
        (
            "subnet: 10.0.0.0/24, vlans: {a: 10",
            "subnet: 10.0.0.0/24, dhcp: true, vlans: {a: 30",
            "VLAN 30 of `lan` does not reach its services",
        ),
        ("[router, a, b, s], ", "[router, a, b, s], backend: netem, ", "has a trunk on `lan`"),
    ] {
        let text = FILE.replacen(from, to, 1);
        assert_ne!(text, FILE, "{from}");
        let error = plan(&text).unwrap_err();
        assert!(error.contains(message), "{to}: {error}");
    }
}

#[test]
fn a_vlan_alone_is_no_way_to_others() {
    let error = plan(&FILE.replace(", forward: true", "").replace("{forward: true}", "{}"));
    assert!(error.unwrap_err().contains("no network includes all of a, b"));
}
