//! What users of other tools expect: pings between all nodes, completion, manual pages.

mod common;

use common::live::Live;
use common::{Bed, CommandOutput, has};
use std::fs;
use std::process::Command;

const LAB: &str = "experiment: NAME
nodes: {hub: {}, meter: {count: 2}}
networks: {lan: {attach: [hub, meter], subnet: 10.1.0.0/24, links: {meter: {up: {delay: 20 ms}}}}}
";

#[test]
fn all_nodes_ping_each_other_and_a_link_that_is_down_is_found() {
    if !has("ping") {
        return;
    }
    let bed = Bed::new();
    let lab = Live::up(&bed, "pings", LAB);
    lab.ask(&["pingall"]).expect(0, &["FROM \\ TO", "meter-2", "6 of 6 pairs answered"]);
    let text = lab.ask(&["pingall", "--json", "hub", "meter-1"]).expect(0, &[]);
    let pings: serde_json::Value = serde_json::from_str(&text.out).unwrap();
    let rtt = pings[0]["rtt_ms"].as_f64().unwrap();
    assert!(rtt >= 20.0, "the link delays by 20 ms: {pings}");
    bed.thingbed(&["link", "down", "--lab", &lab.name, "meter-2"]).expect(0, &[]);
    let words = ["hub to meter-2 (10.1.0.3): no answer", "2 of 6 pairs answered"];
    lab.ask(&["pingall", "-W", "1"]).expect(4, &words);
    lab.ask(&["pingall", "hub"]).expect(1, &["no two nodes"]);
}

#[test]
fn nodes_behind_routers_ping_each_other_and_a_group_changes_where_it_is_attached() {
    if !has("ping") {
        return;
    }
    let bed = Bed::new();
    let file = "experiment: NAME
nodes: {left: {}, router: {count: 3, forward: true}, right: {}, island: {count: 2}}
edges: [[left, router-1, router-2], {between: [router-2, router-3], subnet: ['fd00::/64', 10.9.0.0/30]}, [router-3, right]]
networks: {sea: {attach: island, subnet: 10.8.0.0/24}}
";
    let lab = Live::up(&bed, "routed", file);
    // Both families where both are on the network; islands reach only each other.
    lab.ask(&["pingall"]).expect(0, &["24 of 24 pairs answered"]);
    lab.ask(&["ps"]).expect(0, &["fd00::1", "10.9.0.1"]);
    let set = ["link", "set", "router", "--network", "router-2-router-3", "delay=15ms", "--lab"];
    let set = |more: &[&str]| bed.thingbed(&[&set[..], &[&lab.name], more].concat());
    let output = set(&["--way", "up"]).expect(0, &["router-3 router-2-router-3 up    delay 15 ms"]);
    assert!(!output.out.contains("router-1-router-2 up    delay"), "{}", output.out);
    bed.thingbed(&[
        "link",
        "set",
        "island",
        "--network",
        "router-2-router-3",
        "loss=1%",
        "--lab",
        &lab.name,
    ])
    .expect(
        1,
        &["`island` is not attached to a network `router-2-router-3`; it is attached to sea"],
    );
    let text = lab.ask(&["pingall", "--json", "left", "right"]).expect(0, &[]);
    let pings: serde_json::Value = serde_json::from_str(&text.out).unwrap();
    let rtt = pings[0]["rtt_ms"].as_f64().unwrap();
    assert!(rtt >= 30.0, "{pings}");
}

/// What failed before: nodes of networks that a bridge joins did not ping each other.
#[test]
fn all_nodes_behind_bridges_and_routers_ping_each_other() {
    if !has("ping") {
        return;
    }
    let bed = Bed::new();
    let file = "experiment: NAME
nodes: {left: {}, switch: {bridge: true}, right: {}, router: {forward: true}, far: {}}
edges: [[left, switch], [switch, right], [switch, router], [router, far]]
";
    let lab = Live::up(&bed, "bridged", file);
    // Each of five from each of four others, the router at one address from all but `far`.
    lab.ask(&["pingall"]).expect(0, &["20 of 20 pairs answered"]);
}

#[test]
fn names_of_running_nodes_are_completed() {
    let bed = Bed::new();
    let lab = Live::up(&bed, "completed", LAB);
    let complete = |words: &[&str]| {
        let mut command = bed.command(&["--", "thingbed"]);
        command.args(words).env("COMPLETE", "bash").env("_CLAP_IFS", "\n");
        command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        CommandOutput::of(command.output().unwrap()).out
    };
    // Other labs may be up as well.
    let names = complete(&["exec", "met"]);
    assert!(["meter", "meter-1", "meter-2"].iter().all(|name| names.lines().any(|l| l == *name)));
    assert!(complete(&["exec", "--lab", "comp"]).lines().any(|name| name == lab.name));
    assert!(complete(&["ping"]).contains("pingall"));
}

#[test]
fn shells_get_their_setup_and_each_command_a_page() {
    let bed = Bed::new();
    let script = bed.thingbed(&["completions", "bash"]).expect(0, &["complete -o"]).out;
    let script = bed.write("completions", &script);
    let sourced = Command::new("bash").args(["-n".as_ref(), script.as_os_str()]).output().unwrap();
    assert!(sourced.status.success(), "{sourced:?}");
    bed.thingbed(&["completions", "cmd"]).expect(2, &["bash", "zsh"]);
    bed.thingbed(&["manual", "man"]).expect(0, &["man man/thingbed.1"]);
    let page = fs::read_to_string(bed.path().join("man/thingbed-pingall.1")).unwrap();
    assert!(page.contains(".TH thingbed-pingall 1"), "{page}");
}
