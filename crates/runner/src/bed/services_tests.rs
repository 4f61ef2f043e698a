use super::programs;
use crate::bed::jobs::Role;
use crate::test_plan::plan;
use std::fs;
use std::path::Path;

/// The configuration files of dnsmasq, and the roles of all programs of services.
fn configured(network: &str) -> (Vec<(String, String)>, Vec<Role>) {
    let nodes = "{a: {count: 1}, phone: {count: 2, address: dhcp}}";
    configured_with(
        nodes,
        &format!("{{lan: {{attach: [a, phone], subnet: 10.0.0.0/24, {network}}}}}"),
    )
}

fn configured_with(nodes: &str, networks: &str) -> (Vec<(String, String)>, Vec<Role>) {
    let plan = plan(&format!(
        "experiment: e
nodes: {nodes}
networks: {networks}
workloads: [{{command: {{on: a, run: ['true']}}}}]
duration: 1 s
"
    ));
    let dir = tempfile::tempdir().unwrap();
    let jobs = programs(&plan, Path::new("thingbed-workload"), dir.path()).unwrap();
    let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "conf"));
    let mut texts: Vec<_> = files
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    texts.sort();
    (texts, jobs.iter().map(|job| job.role).collect())
}

#[test]
fn each_client_has_its_planned_address_for_ever() {
    let (texts, roles) = configured("dhcp: true");
    let [(_, text)] = &texts[..] else { panic!("{texts:?}") };
    assert!(text.contains("port=0\n"), "no name resolution: {text}");
    // Others than nodes get addresses of a pool.
    assert!(text.contains("dhcp-range=10.0.0.129,10.0.0.253,255.255.255.0,infinite\n"), "{text}");
    for number in 1..=3 {
        let (mac, address) = (format!("02:00:0a:00:00:0{number}"), format!("10.0.0.{number}"));
        assert!(text.contains(&format!("dhcp-host={mac},{address},infinite\n")), "{text}");
    }
    // Without a value, a client gets neither a router nor a name server.
    assert!(text.contains("dhcp-option=3\n") && text.contains("dhcp-option=6\n"), "{text}");
    assert_eq!(roles.iter().filter(|role| **role == Role::Client).count(), 2);
}

/// One server for both would resolve names of leases, even of nodes that are gone.
#[test]
fn leases_and_names_have_a_server_each() {
    let (texts, roles) = configured("dhcp: true, dns: true");
    let [(_, leases), (names, resolution)] = &texts[..] else { panic!("{texts:?}") };
    assert!(names.ends_with(".dns"), "{names}");
    assert!(leases.contains("port=0") && leases.contains("dhcp-option=6,10.0.0.254\n"), "{leases}");
    assert!(!resolution.contains("dhcp") && !resolution.contains("port=0"), "{resolution}");
    assert_eq!(roles.iter().filter(|role| **role == Role::Service).count(), 2);
}

/// Hosts that hear of two routers, of which one leads nowhere, would use either.
#[test]
fn one_node_of_a_network_advertises_the_router() {
    let subnet = "subnet: ['fd00:1::/64', 10.1.0.0/24]";
    let two = |own: &str, other: &str| {
        let nodes = "{a: {}, r: {forward: true}, phone: {address: dhcp}}";
        let networks = format!(
            "{{lan: {{attach: [a, r, phone], {subnet}, {own}}}, out: {{attach: r, subnet: 'fd00:2::/80', {other}}}}}"
        );
        configured_with(nodes, &networks).0
    };
    let alone =
        configured_with("{a: {}}", &format!("{{lan: {{attach: a, {subnet}, dhcp: true}}}}")).0;
    let [(_, text)] = &alone[..] else { panic!("{alone:?}") };
    assert!(
        text.contains("enable-ra\nra-param=eth0,0,0\n") && text.contains(",slaac,64,"),
        "{text}"
    );

    let gateway = two("dhcp: true, nat: true", "dhcp: false");
    let [(_, text)] = &gateway[..] else { panic!("{gateway:?}") };
    assert!(text.contains("enable-ra\n") && !text.contains("ra-param"), "{text}");

    let router = two("dhcp: true, dns: true", "dhcp: true");
    let names: Vec<&str> = router.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["lan-services", "lan-services.dns", "out-services", "r.advertisements"]);
    for server in [&router[0].1, &router[2].1] {
        assert!(!server.contains("enable-ra") && !server.contains("slaac"), "{server}");
    }
    let text = &router[3].1;
    for line in [
        "interface=eth0\ndhcp-range=fd00:1::ff:efff,fd00:1::ff:fffe,slaac,64,infinite\n",
        "interface=eth1\ndhcp-range=fd00:2::ff:efff,fd00:2::ff:fffe,80,infinite\n",
        "dhcp-option=tag:eth0,option6:dns-server,[fd00:1::fe]\n",
        "dhcp-ignore=tag:!none\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// The server gives the first router of the file, which asks for its address, another gateway than itself.
#[test]
fn a_router_is_no_gateway_of_itself() {
    let nodes = "{a: {}, r: {forward: true, address: dhcp}, s: {forward: true, address: dhcp}}";
    let networks = "{lan: {attach: [r, s], subnet: 10.0.0.0/24, dhcp: true}, one: {attach: [r, a], subnet: \
                    10.1.0.0/24}, two: {attach: s, subnet: 10.2.0.0/24}}";
    let (texts, _) = configured_with(nodes, networks);
    let [(_, text)] = &texts[..] else { panic!("{texts:?}") };
    for line in [
        "dhcp-option=3,10.0.0.1\n",
        "dhcp-option=tag:router,3,10.0.0.2\n",
        ",set:router,10.0.0.1,infinite\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("set:router,10.0.0.2"), "{text}");
    // One with a fixed address is the gateway of all others.
    let (texts, _) = configured_with(
        &nodes.replacen("s: {forward: true, address: dhcp}", "s: {forward: true}", 1),
        networks,
    );
    let text = &texts[0].1;
    assert!(text.contains("dhcp-option=3,10.0.0.2\n") && !text.contains("router"), "{text}");
}

/// What failed before: of two clients of DHCP, the last one set the default route.
#[test]
fn the_default_route_is_that_of_the_first_network_with_a_router() {
    let plan = plan(
        "experiment: e
nodes: {r: {forward: true}, s: {forward: true}, far: {}, m: {address: dhcp}}
networks:
  none: {attach: m, subnet: 10.0.0.0/24, dhcp: true}
  one: {attach: [r, m], subnet: 10.1.0.0/24, dhcp: true}
  two: {attach: [s, m], subnet: 10.2.0.0/24, dhcp: true}
  out: {attach: [r, s, far], subnet: 10.3.0.0/24}
duration: 1 s
",
    );
    let dir = tempfile::tempdir().unwrap();
    let jobs = programs(&plan, Path::new("thingbed-workload"), dir.path()).unwrap();
    let clients = jobs.iter().filter(|job| job.role == Role::Client);
    let metrics = clients.map(|job| {
        let metric = job.env.iter().find(|(name, _)| name == super::METRIC);
        metric.map(|(_, value)| value.as_str())
    });
    assert_eq!(metrics.collect::<Vec<_>>(), [Some("1"), None, Some("2")]);
}

/// What failed before: the clone of a machine, which asks for its address, got another than the planned one.
#[test]
fn clones_have_leases_too() {
    let mut plan = plan(
        "experiment: e
nodes: {a: {}, phone: {address: dhcp}}
networks:
  lan: {attach: [a, phone], subnet: [10.0.0.0/24, 'fd00:1::/64'], dhcp: true}
  other: {attach: a, subnet: 10.1.0.0/24, dhcp: true}
duration: 1 s
",
    );
    let planned = plan.nodes.len();
    let dir = tempfile::tempdir().unwrap();
    programs(&plan, Path::new("thingbed-workload"), dir.path()).unwrap();
    let file = super::file_of_clones(dir.path(), "lan-services");
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
    let text = fs::read_to_string(dir.path().join("lan-services.conf")).unwrap();
    assert!(text.contains(&format!("dhcp-hostsfile={}\n", file.display())), "{text}");
    let clones = plan.clones(1, 1, planned).unwrap();
    plan.nodes.extend(clones);
    let lines = |server: &str| {
        crate::bed::leases::lines_of_clones(&plan, planned, plan.node(server).unwrap())
    };
    let link = &plan.nodes[planned].links[0];
    let expected = format!("{},10.0.0.3,[fd00:1::3],infinite\n", link.mac);
    assert_eq!(lines("lan-services"), expected);
    assert_eq!(lines("other-services"), "");
}

/// A router with a `root` sends its own advertisements; the others of the network do so all the same.
#[test]
fn all_routers_that_can_advertise_do() {
    let root = tempfile::tempdir().unwrap();
    let nodes = format!(
        "{{a: {{}}, r: {{forward: true, root: {}}}, s: {{forward: true}}}}",
        root.path().display()
    );
    let networks = "{lan: {attach: [r, s], subnet: 'fd00:1::/64', dhcp: true, advertise: true}, out: {attach: [r, \
                    s, a], subnet: 'fd00:2::/64'}}";
    let (texts, _) = configured_with(&nodes, networks);
    let names: Vec<&str> = texts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["lan-services", "s.advertisements"]);
}

#[test]
fn a_node_has_a_client_of_each_family() {
    let nodes = "{a: {}, phone: {count: 2, address: dhcp}}";
    for (subnet, count) in
        [("10.0.0.0/24", 2), ("'fd00::/80'", 2), ("['fd00::/64', 10.0.0.0/24]", 4)]
    {
        let networks = format!("{{lan: {{attach: [a, phone], subnet: {subnet}, dhcp: true}}}}");
        let (_, roles) = configured_with(nodes, &networks);
        let clients = roles.iter().filter(|role| **role == Role::Client);
        assert_eq!(clients.count(), count, "{subnet}");
    }
    // The smallest subnet, without addresses for others.
    let full = "{lan: {attach: [a, phone], subnet: 'fd00::/125', dhcp: true}}";
    let (texts, _) = configured_with("{a: {count: 4}, phone: {count: 2, address: dhcp}}", full);
    assert!(texts[0].1.contains("dhcp-range=fd00::,static,125,infinite\n"), "{texts:?}");
}
