//! Members of the director that the hub does not know at its start, over IPv6 in nodes: programs in
//! C and Python, MQTT clients.

mod common;

use common::Bed;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../director");

/// Gives a node the address fd00::N, where N is the number of the node, and runs a program that
/// ends with its local address and that of the hub.
const AT: &str = "n=${THINGBED_NODE#node-}
echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6
ip -6 addr add fd00::$n/64 dev eth0 nodad
case $1 in
hub) shift; exec \"$@\" ;;
esac
exec \"$@\" \"[fd00::$n]:5700\" '[fd00::1]:5700'
";

/// The folder with what cargo builds.
fn target() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_thingbed")).parent().unwrap().to_owned()
}

fn programs(bed: &Bed, experiment: &str) -> String {
    let all = std::fs::read_dir(bed.sweep(experiment).join("programs")).unwrap();
    all.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok()).collect()
}

/// A meter in C and two in Python, each with its own key, join a hub in Python, by multicast over
/// IPv6; one is revoked and admitted again.
#[test]
fn meters_with_their_own_keys_join_over_ipv6() {
    let bed = Bed::new();
    let library = common::director_library();
    let folder = library.parent().unwrap().display();
    let meter = bed.path().join("meter");
    let built = std::process::Command::new("cc")
        .args([&format!("{ROOT}/c/examples/meter.c"), "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&meter)
        .args([&format!("-I{ROOT}/c/include"), &format!("-L{folder}")])
        .args(["-ldirector_c", &format!("-Wl,-rpath,{folder}")])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let hub = std::fs::read_to_string(format!("{ROOT}/python/membership.py")).unwrap();
    assert!(hub.lines().count() < 40);
    bed.write("at.sh", AT);
    let keys = ["the key of meter one", "the key of meter two", "the key of meter three"];
    let env = format!("{{PYTHONPATH: {ROOT}/python, DIRECTOR_LIBRARY: {}}}", library.display());
    bed.write(
        "e.yaml",
        &format!(
            "experiment: membership
nodes: {{node: {{count: 4}}}}
networks:
  field:
    attach: [node]
    subnet: 10.0.0.0/24
    links: {{node: {{up: {{loss: 10 %}}}}}}
workloads:
  - command: {{on: node-2, background: true, run: [sh, at.sh, {meter}, {one}]}}
  - command: {{on: node-3, background: true, run: [sh, at.sh, python3, {ROOT}/python/meter.py, {two}], env: {env}}}
  - command: {{on: node-4, background: true, run: [sh, at.sh, python3, {ROOT}/python/meter.py, {three}], env: {env}}}
  - command:
      name: hub
      on: node-1
      run: [sh, at.sh, hub, python3, {ROOT}/python/membership.py, '[fd00::1]:5700', '3', {one}, {two}, {three}]
      env: {env}
duration: 60 s
",
            meter = meter.display(),
            one = keys[0],
            two = keys[1],
            three = keys[2],
        ),
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let output = programs(&bed, "membership");
    // Their keys give their numbers, in whatever order they have joined.
    assert!(
        output.contains("all: [(0, b'17 kWh'), (1, b'7 B read'), (2, b'7 B read')]"),
        "{output}"
    );
    assert!(
        output.contains("without the last: [0, 1]\n") && output.contains("again: [0, 1, 2]\n"),
        "{output}"
    );
    assert!(output.contains("multicast-fec\n") && !output.contains("no multicast"), "{output}");
}

/// Devices that the hub's gateway does not know at its start, with names that only they have.
#[test]
fn mqtt_devices_join_a_hub_that_does_not_know_them() {
    let bed = Bed::new();
    let gateway = target().join("director-gateway");
    assert!(gateway.exists(), "cargo build -p director-gateway first: no {}", gateway.display());
    bed.write("key", "a key of all the gateways");
    bed.write("at.sh", AT);
    let gateway = gateway.display();
    let local = "[fd00::${THINGBED_NODE#node-}]:5700";
    let device = format!(
        "exec sh at.sh hub {gateway} device --key key --local {local} --hub '[fd00::1]:5700'"
    );
    bed.write("device.sh", &device);
    bed.write(
        "e.yaml",
        &format!(
            "experiment: devices
nodes: {{node: {{count: 3}}}}
networks:
  field:
    attach: [node]
    subnet: 10.0.0.0/24
    links: {{node: {{up: {{loss: 10 %}}}}}}
workloads:
  - command:
      on: node-1
      background: true
      run: [sh, at.sh, hub, {gateway}, hub, --key, key, --local, '[fd00::1]:5700', --places, '2']
  - command: {{on: node-2, background: true, run: [sh, device.sh]}}
  - command: {{on: node-3, background: true, run: [sh, device.sh]}}
  - command:
      name: subscriber
      on: node-3
      run: [sh, -c, 'until mosquitto_sub -E -c -i s -q 1 -t readings; do sleep 0.1; done; touch ready; exec mosquitto_sub -c -i s -q 1 -t readings -C 1 -W 50']
  - command:
      name: publisher
      on: node-2
      run: [sh, -c, 'until [ -e ready ]; do sleep 0.1; done; mosquitto_pub -t readings -q 1 -m \"17 kWh\"']
duration: 60 s
"
        ),
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let output = programs(&bed, "devices");
    assert!(output.contains("17 kWh"), "{output}");
}
