//! Members of the director that know their hub's name only: DNS-SD in nodes.

mod common;

use common::Bed;

/// A network of both families.
const NETWORK: &str = "nodes: {node: {count: 8}}
networks: {field: {attach: [node], subnet: [10.0.0.0/24, 'fd00::/64']}}
";
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const KEY: &str = "a key of all the ends";
const OTHER_KEY: &str = "a key of other ends";

/// A program of the example: a hub that expects two members, or a member.
fn program(key: &str, role: &str, name: &str, local: &str, last: &str) -> String {
    format!(
        "python3 {ROOT}/director/python/discovery.py \"{key}\" {role} \"{name}\" \"{local}\" {last}"
    )
}

/// A workload that runs this shell script.
fn workload(node: u8, script: &str, is_background: bool) -> String {
    let library = common::director_library();
    format!(
        "  - command:
      on: node-{node}
      background: {is_background}
      run: [sh, -c, '{script}']
      env: {{PYTHONPATH: {ROOT}/director/python, DIRECTOR_LIBRARY: {}}}
",
        library.display()
    )
}

/// Runs these workloads; returns what all programs have written.
fn outputs(bed: &Bed, name: &str, workloads: &str) -> String {
    let text = format!("experiment: {name}\n{NETWORK}workloads:\n{workloads}duration: 240 s\n");
    bed.write("e.yaml", &text);
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let files = std::fs::read_dir(bed.sweep(name).join("programs")).unwrap();
    files.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok()).collect()
}

/// Two hubs with different names and keys, over IPv4 and IPv6. Each ends, and starts again: the first
/// with another port, the second on another node.
#[test]
fn members_find_the_hub_of_a_name_again_wherever_it_is() {
    let bed = Bed::new();
    let path = bed.path().display();
    let hub = |key, name, local: &str| program(key, "hub", name, local, "2");
    let (seven, eight) = ("site 7", "Site Eight, north");
    let workloads = [
        workload(
            1,
            &format!(
                "{}; exec {}",
                hub(KEY, seven, "10.0.0.1:5700"),
                hub(KEY, seven, "0.0.0.0:5799")
            ),
            false,
        ),
        workload(
            2,
            &format!("{}; touch {path}/first-is-over", hub(OTHER_KEY, eight, "[::]:5700")),
            false,
        ),
        workload(
            3,
            &format!(
                "until [ -e {path}/first-is-over ]; do sleep 0.1; done; exec {}",
                hub(OTHER_KEY, eight, "[fd00::3]:5711")
            ),
            false,
        ),
        workload(4, &program(KEY, "member", seven, "0.0.0.0:0", "seven"), true),
        workload(5, &program(KEY, "member", "SITE 7", "0.0.0.0:0", "seven"), true),
        workload(6, &program(OTHER_KEY, "member", eight, "[::]:0", "eight"), true),
        workload(7, &program(OTHER_KEY, "member", eight, "[::]:5700", "eight"), true),
    ]
    .concat();
    let output = outputs(&bed, "names", &workloads);
    for place in ["10.0.0.1:5700", "0.0.0.0:5799"] {
        let line = format!("{seven} at {place}: seven");
        assert!(output.matches(&line).count() >= 2, "{line}: {output}");
    }
    for place in ["[::]:5700", "[fd00::3]:5711"] {
        let line = format!("{eight} at {place}: eight");
        assert!(output.matches(&line).count() >= 2, "{line}: {output}");
    }
}

/// What failed before: the first address for the name was the hub's, and a member stayed there as long as
/// anything came from it. The attacker announces three addresses all the time, from before the hubs start,
/// and answers at two of them.
#[test]
fn members_join_their_hub_though_others_announce_its_name() {
    let bed = Bed::new();
    let attacker = format!(
        "exec python3 {ROOT}/crates/thingbed/tests/interop/announcer.py \"site 7\" 10.0.0.8 fd00::8"
    );
    // Without a member, or with one of each family that comes to it, the attacker has been there.
    let late = |script: String| format!("sleep 2; exec {script}");
    let workloads = [
        workload(8, &attacker, true),
        workload(1, &late(program(KEY, "hub", "site 7", "0.0.0.0:5700", "2")), false),
        workload(2, &late(program(OTHER_KEY, "hub", "site 7", "[::]:5700", "2")), false),
        workload(3, &program(KEY, "member", "site 7", "0.0.0.0:0", "four"), true),
        workload(4, &program(KEY, "member", "site 7", "0.0.0.0:0", "four"), true),
        workload(5, &program(OTHER_KEY, "member", "site 7", "[::]:0", "six"), true),
        workload(6, &program(OTHER_KEY, "member", "site 7", "[::]:0", "six"), true),
    ]
    .concat();
    let output = outputs(&bed, "false", &workloads);
    for line in ["site 7 at 0.0.0.0:5700: four", "site 7 at [::]:5700: six"] {
        assert!(output.matches(line).count() >= 2, "{line}: {output}");
    }
    assert!(output.contains("a member came to"), "the attacker did nothing: {output}");
}
