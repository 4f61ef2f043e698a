//! The topologies of other tools' tutorials, each a short file, and systems that lack files.

mod common;

use common::live::Live;
use common::{Bed, CommandOutput, has};
use std::path::Path;
use std::process::Command;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/topologies");

/// What the tool prints about one of them.
fn run(name: &str) -> String {
    let bed = Bed::new();
    let file = format!("{FOLDER}/{name}.yaml");
    let output = bed.thingbed(&["run", &file, "-q", "--clock", "virtual"]);
    output.ran(&[]).out
}

#[test]
fn a_chain_of_routers_has_pings_and_a_trace_from_end_to_end() {
    let text = run("chain");
    // Nothing sends messages that are counted, so there are no figures of messages.
    assert!(text.contains("router") && !text.contains("received"), "{text}");
}

#[test]
fn hosts_of_two_families_reach_each_other_by_a_border_router() {
    run("dual-stack");
}

#[test]
fn hosts_on_a_bridge_in_a_node_reach_each_other() {
    run("bridge");
}

#[test]
fn only_hosts_of_one_vlan_reach_each_other() {
    run("vlan");
}

/// In real time, the frames cross the host's kernel, which moves tags out of the frames' bytes.
#[test]
fn a_trunk_and_access_ports_need_no_vlans_of_the_kernel() {
    let bed = Bed::new();
    let file = format!("{FOLDER}/vlan.yaml");
    // On a busy machine, the run in real time may be invalid, but all programs did their work.
    bed.thingbed(&["run", &file, "-q", "--clock", "real"]).ran(&[]);
}

#[test]
fn a_router_has_an_interface_in_each_vlan_of_its_trunk() {
    run("vlan-interfaces");
}

#[test]
fn vlans_have_subnets_services_and_a_router_on_a_stick() {
    run("router-on-a-stick");
}

/// In real time, on this machine's kernel, which may have no VLANs. A run may be invalid on a busy
/// machine, but all programs did their work.
#[test]
fn a_router_on_a_stick_needs_no_vlans_of_the_kernel() {
    let bed = Bed::new();
    let file = format!("{FOLDER}/router-on-a-stick.yaml");
    bed.thingbed(&["run", &file, "-q", "--clock", "real", "--capture"]).ran(&[]);
    // On the router's link, frames have the tag of their VLAN.
    let capture = std::fs::read(bed.sweep("router-on-a-stick").join("capture.pcapng")).unwrap();
    for vlan in [10, 20] {
        assert!(capture.windows(6).any(|bytes| bytes == [0x81, 0, 0, vlan, 8, 0]), "VLAN {vlan}");
    }
}

#[test]
fn hosts_make_addresses_of_the_advertisements_of_several_routers() {
    run("slaac");
}

/// The server is on one side of a bridge, which routes, too, and the clients are on the other side.
#[test]
fn services_of_one_network_serve_those_that_bridges_join_with_it() {
    let text = "
experiment: joined-services
nodes:
  near: {address: dhcp}
  home: {bridge: [left, right], forward: true}
  far: {count: 2, address: dhcp}
  out: {}
networks:
  left: {attach: [near, home], subnet: [10.0.0.0/24, 'fd00::/64'], dhcp: true, dns: true}
  right: {attach: [home, far], subnet: [10.0.0.0/24, 'fd00::/64']}
  other: {attach: [home, out], subnet: [10.1.0.0/24, 'fd01::/64']}
workloads:
  - command: {on: far, run: [ping, -4, -c, '2', near], expect: {output: '2 received'}}
  - command: {on: far, run: [ping, -6, -c, '2', out], expect: {output: '2 received'}}
  - command: {on: near, run: [ping, -4, -c, '2', out], expect: {output: '2 received'}}
  - command: {on: far-2, run: [busybox, nslookup, near, 10.0.0.254], expect: {output: 10.0.0.1}}
duration: 8 s
";
    let bed = Bed::new();
    bed.write("e.yaml", text);
    bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]).ran(&[]);
}

/// What failed: clients stopped asking after 20 s, and the ports of the bridge forward frames after 30 s.
#[test]
fn clients_of_dhcp_wait_for_the_spanning_tree() {
    let text = "
experiment: dhcp-behind-stp
nodes: {near: {}, s: {bridge: [left, right], stp: true}, far: {count: 2, address: dhcp}}
networks:
  left: {attach: [near, s], subnet: [10.0.0.0/24, 'fd00::/64'], dhcp: true}
  right: {attach: [s, far], subnet: [10.0.0.0/24, 'fd00::/64']}
workloads:
  - command: {on: far, run: [ping, -4, -c, '2', near], expect: {output: '2 received'}}
  - command: {on: far, run: [ping, -6, -c, '2', near], expect: {output: '2 received'}}
duration: 4 s
";
    let bed = Bed::new();
    bed.write("e.yaml", text);
    bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]).ran(&[]);
}

/// A clone has its own interface in each VLAN of its trunk.
#[test]
fn a_router_on_a_stick_can_be_cloned() {
    if !["ip", "ping"].into_iter().all(has) {
        return eprintln!("NOT RUN: needs ip and ping");
    }
    let bed = Bed::new();
    let text = "experiment: NAME
nodes: {router: {forward: true}, a: {}, b: {}}
networks:
  lan: {attach: [router, a, b], subnet: 10.0.1.0/24, vlans: {a: 10, b: 20, router: [10, 20]}}
  ten: {switch: lan, vlan: 10, subnet: 10.0.10.0/24}
  twenty: {switch: lan, vlan: 20, subnet: 10.0.20.0/24}
";
    let lab = Live::up(&bed, "stick", text);
    lab.ask(&["clone", "router", "--count", "2"]).expect(0, &["router-2", "router-3"]);
    let ip = |node: &str, line: &str| lab.ask(&["exec", node, "--", "sh", "-c", line]);
    for clone in ["router-2", "router-3"] {
        let addresses = ip(clone, "ip -4 -o addr").expect(0, &["eth0.10", "eth0.20"]).out;
        let address = |network: &str| {
            let mut words = addresses.split_whitespace();
            let found = words.find(|word| word.starts_with(network)).unwrap();
            found.trim_end_matches("/24").to_owned()
        };
        // Over the clone, in both directions: its interfaces are on the VLANs of its trunk.
        for (host, network) in [("a", "10.0.10."), ("b", "10.0.20.")] {
            let ping = format!("ping -n -c 1 -W 60 {}", address(network));
            ip(host, &ping).expect(0, &["1 received"]);
        }
        let via = format!("ip route replace 10.0.20.0/24 via {}", address("10.0.10."));
        ip("a", &via).expect(0, &[]);
        ip("a", "ping -n -c 1 -W 60 b").expect(0, &["1 received"]);
    }
    lab.ask(&["destroy", "router-2"]).expect(0, &[]);
    ip("a", "ping -n -c 1 -W 60 b").expect(0, &["1 received"]);
}

#[test]
fn a_ring_of_bridges_survives_a_failed_link_by_the_spanning_tree() {
    run("spanning-tree");
}

/// What a network would do alone: IPv6, multicast with its reports, a bridge that routes, too.
#[test]
fn joined_networks_work_as_one() {
    let text = "
experiment: joined
nodes:
  source: {}
  home: {bridge: [left, right], forward: true}
  sinks: {count: 2}
  far: {}
networks:
  left: {attach: [source, home], subnet: ['fd00::/64', 10.0.0.0/24]}
  right: {attach: [home, sinks], subnet: ['fd00::/64', 10.0.0.0/24]}
  out: {attach: [home, far], subnet: ['fd01::/64', 10.1.0.0/24]}
workloads:
  - exchange: {sources: sinks, sinks: source, protocol: {coap: {group: true, confirmable: false}}, payload: [40 B], repetitions: 3, every: 1 s}
  - command: {on: sinks, run: [ping, -6, -c, '2', far], expect: {output: '2 received'}}
  - command: {on: far, run: [ping, -4, -c, '2', sinks-2], expect: {output: '2 received'}}
duration: 8 s
";
    let bed = Bed::new();
    bed.write("e.yaml", text);
    let output = bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]).ran(&[]);
    assert!(output.out.contains("VALID"), "{}", output.out);
}

#[test]
fn each_is_a_file_of_at_most_25_lines() {
    let files = std::fs::read_dir(FOLDER).unwrap().map(|file| file.unwrap().path());
    let files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|end| end == "yaml")).collect();
    assert!(files.len() >= 6);
    for file in files {
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= 25, "{}: {lines}", file.display());
    }
}

/// Minimal roots of Debian have no /etc/hosts, over which a lab mounts its own.
#[test]
fn a_system_without_hosts_file_runs_experiments() {
    let bed = Bed::new();
    let etc = bed.path().join("etc");
    std::fs::create_dir(&etc).unwrap();
    for name in ["passwd", "group"] {
        std::fs::copy(Path::new("/etc").join(name), etc.join(name)).unwrap();
    }
    std::os::unix::fs::symlink("/nowhere/resolv.conf", etc.join("resolv.conf")).unwrap();
    let text = "
experiment: bare
nodes: {a: {}, b: {}}
networks: {n: {attach: [a, b], subnet: 10.0.0.0/24}}
workloads:
  - command: {on: a, run: [grep, -w, b, /etc/hosts], expect: {output: 10.0.0.2}}
duration: 1 s
";
    bed.write("e.yaml", text);
    for clock in ["real", "virtual"] {
        let args = ["run", "e.yaml", "-q", "--clock", clock];
        let inside = bed.command(&args);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--user", "--map-root-user", "sh", "-c"]);
        command.args(["mount --bind etc /etc && exec \"$@\"", "sh"]);
        command.arg(inside.get_program()).args(inside.get_args()).current_dir(bed.path());
        // On a busy machine, the run in real time may be invalid, but it has done its work.
        CommandOutput::of(command.output().unwrap()).ran(&[]);
    }
    let left: Vec<_> = std::fs::read_dir(&etc).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}
