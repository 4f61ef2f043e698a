//! Scale-up of a running lab: clones of nodes.

mod common;

use common::Bed;
use common::live::Live;

const LAB: &str = "experiment: NAME
nodes:
  server:
    run: [sh, -c, 'echo begun; while :; do sleep 0.1; done']
    ready: {log: begun}
  meter: {count: 2, limits: {memory: 64 MiB}}
networks:
  lan: {attach: [server, meter], subnet: 10.1.0.0/24, links: {meter: {up: {delay: 20 ms}}}}
  depot: {attach: meter, subnet: 10.2.0.0/28, CHANNEL}
";

/// On each frame path, and on each kind of channel.
#[test]
fn clones_are_reached_by_name_on_all_paths_and_channels() {
    let ways = [
        ("ring", "channel: switch"),
        ("tap", "channel: {shared: 10 Mbit/s}"),
        ("packet", "channel: {cell: {up: 1 Mbit/s, down: 1 Mbit/s}}"),
        ("ring", "mtu: 127 B, channel: {csma: {}}"),
    ];
    if !common::has("ping") {
        return;
    }
    let bed = Bed::new();
    for (path, channel) in ways {
        let text = LAB.replace("CHANNEL", channel);
        let Some(lab) = Live::by(&bed, &format!("{path}-clones"), &text, Some(path)) else {
            continue;
        };
        lab.ask(&["clone", "meter-1", "--count", "2"])
            .expect(0, &["meter-3 10.1.0.4 10.2.0.3", "meter-4 10.1.0.5 10.2.0.4"]);
        lab.ask(&["clone", "server"]).expect(0, &["server-2 10.1.0.6"]);
        // Frames of a radio can collide: two of five must arrive there.
        let (count, all) = match channel.contains("csma") {
            true => ("-c5", ""),
            false => ("-c2", "2 received"),
        };
        let ping = |from: &str, to: &str| {
            let ping = ["exec", from, "--", "ping", "-n", count, "-i0.1", "-W5", to];
            let out = lab.ask(&ping).expect(0, &[all]).out;
            assert!(out.matches("ttl=").count() >= 2, "{out}");
            out
        };
        // From old to new, new to old, and between new nodes.
        ping("server", "meter-3");
        ping("meter-4", "meter-1");
        let out = ping("meter-4", "server-2");
        // min/avg/max/mdev: the clone's uplink has the delay of its original.
        let least = out.split("= ").last().unwrap().split('/').next().unwrap();
        assert!(least.parse::<f64>().unwrap() >= 20.0, "{out}");
        // On the other network, for which the names are also valid.
        ping("meter-3", "10.2.0.1");
        ping("meter-2", "10.2.0.4");
    }
}

#[test]
fn a_clone_is_a_node_like_all_others() {
    let bed = Bed::new();
    let lab = Live::up(&bed, "clone", &LAB.replace("CHANNEL", "channel: switch"));
    // The clone gets the current configuration of the original, not that of the file.
    lab.bed.thingbed(&["link", "set", "--lab", &lab.name, "meter-2", "delay=70ms"]).expect(0, &[]);
    lab.ask(&["clone", "meter-2"]).expect(0, &["meter-3 10.1.0.4 10.2.0.3"]);
    let shown = lab.bed.thingbed(&["link", "show", "--lab", &lab.name, "meter-3"]);
    shown.expect(0, &["meter-3 lan up    delay 70 ms", "meter-3 depot down"]);
    let set = ["link", "set", "--lab", &lab.name, "meter", "delay=5ms"];
    lab.bed.thingbed(&set).expect(0, &["meter-3 lan up    delay 5 ms"]);
    lab.ask(&["exec", "meter-3", "--", "hostname"]).expect(0, &["meter-3"]);
    lab.ask(&["exec", "meter-1", "--", "cat", "/etc/hosts"]).expect(0, &["10.1.0.4 meter-3"]);
    // What failed before: clones resolved addresses over the network, and others theirs.
    for (node, of) in [("meter-3", "10.1.0.1 "), ("meter-1", "10.1.0.4 ")] {
        let table = lab.ask(&["exec", node, "--", "cat", "/proc/net/arp"]).expect(0, &[of]);
        let entry = table.out.lines().find(|line| line.starts_with(of)).unwrap();
        // ATF_COM and ATF_PERM of linux/if_arp.h.
        assert!(entry.contains(" 0x6 "), "{}", table.out);
    }
    // A clone has a separate program, log and state.
    lab.ask(&["clone", "server"]).expect(0, &["server-2"]);
    lab.awaits("server-2", "running");
    common::live::until(
        || lab.ask(&["logs", "server-2"]).out.contains("begun"),
        || lab.ask(&["logs", "server-2"]).err,
    );
    lab.ask(&["kill", "server-2"]).expect(0, &[]);
    lab.awaits("server-2", "killed by signal 9");
    assert_eq!(lab.state("server"), "running");
    lab.ask(&["start", "server-2"]).expect(0, &[]);
    lab.awaits("server-2", "running");
    // The name and addresses of a destroyed node are not reused.
    lab.ask(&["destroy", "meter-3"]).expect(0, &[]);
    lab.ask(&["clone", "meter-1"]).expect(0, &["meter-4 10.1.0.6 10.2.0.4"]);
    let names: Vec<_> =
        lab.nodes().iter().map(|n| n["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["server", "meter-1", "meter-2", "server-2", "meter-4"]);
    // A clone of a clone, and several clones at once.
    lab.ask(&["clone", "meter-4", "--count", "3"]).expect(0, &["meter-7"]);
}

#[test]
fn what_cannot_be_cloned_is_said_and_changes_nothing() {
    let bed = Bed::new();
    let lab = Live::up(&bed, "no-clone", &LAB.replace("CHANNEL", "channel: switch"));
    lab.ask(&["clone", "meter"]).expect(1, &["`meter` matches several nodes"]);
    lab.ask(&["clone", "metre"])
        .expect(1, &["no node and no group has the name `metre`", "server, meter"]);
    lab.ask(&["clone", "meter-1", "--count", "0"]).expect(2, &["--count"]);
    // 10.2.0.0/28 has room for 14.
    lab.ask(&["clone", "meter-1", "--count", "13"])
        .expect(1, &["`depot`", "10.2.0.0/28", "no free address"]);
    assert_eq!(lab.nodes().len(), 3);
    lab.ask(&["clone", "meter-1", "--count", "12"]).expect(0, &["meter-14"]);
    assert_eq!(lab.nodes().len(), 15);
}

/// A second bridge closes a ring, of which the spanning tree protocol keeps one link idle: each host's
/// frames arrive once. Clones are on the networks that bridges join, too.
#[test]
fn a_bridge_with_stp_and_its_hosts_are_cloned() {
    if !common::has("ping") {
        return;
    }
    let text = "experiment: NAME
nodes: {left: {}, switch: {bridge: true, stp: true}, right: {}}
networks:
  one: {attach: [left, switch], subnet: 10.3.0.0/24}
  two: {attach: [switch, right], subnet: 10.3.0.0/24}
";
    let bed = Bed::new();
    let lab = Live::up(&bed, "bridges", text);
    lab.ask(&["clone", "switch"]).expect(0, &["switch-2 10.3.0.5"]);
    lab.ask(&["clone", "right"]).expect(0, &["right-2"]);
    let pings = || {
        let ping = ["ping", "-n", "-c3", "-i0.2", "-W2", "right-2"];
        lab.ask(&[&["exec", "left", "--"], &ping[..]].concat()).out
    };
    // Ports forward frames after 30 s.
    let begin = std::time::Instant::now();
    while !pings().contains("3 received") {
        assert!(begin.elapsed().as_secs() < 120, "{}", pings());
    }
    let out = pings();
    assert!(!out.contains("DUP"), "{out}");
    let state = ["sh", "-c", "cat /sys/class/net/br0/brif/*/state"];
    let states = ["switch", "switch-2"]
        .map(|node| lab.ask(&[&["exec", node, "--"], &state[..]].concat()).expect(0, &[]).out);
    // BR_STATE_BLOCKING is 4 and BR_STATE_FORWARDING 3 (linux/if_bridge.h).
    assert_eq!(states.concat().matches('4').count(), 1, "{states:?}");
}
