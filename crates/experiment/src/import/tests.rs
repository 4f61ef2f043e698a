use super::*;
use crate::{Experiment, Only, Plan};

pub(super) fn converted(text: &str) -> Imported {
    import(text, Path::new("/x/shop/compose.yaml"), true).unwrap_or_else(|e| panic!("{e}"))
}

/// The plan of the experiment file that an import wrote.
pub(super) fn plan(imported: &Imported) -> Plan {
    let experiment = Experiment::parse(&imported.text, "e.yaml", "")
        .unwrap_or_else(|errors| panic!("{errors}\n{}", imported.text));
    let cell = experiment.cells(&Only::all()).unwrap().remove(0);
    experiment.plan(&cell, 0, 1).unwrap()
}

/// Asserts that the import has these notes, and that they are in its experiment file.
pub(super) fn assert_notes(imported: &Imported, expected: &[&str]) {
    for words in expected {
        let found = imported.notes.iter().find(|note| note.text.contains(words));
        let note = found.unwrap_or_else(|| panic!("no {words} in {:#?}", imported.notes));
        assert!(imported.text.contains(&note.text), "{}", imported.text);
    }
}

const COMPOSE: &str = "\
version: '3'
x-common: &common {environment: {LEVEL: info}, logging: {driver: none}}
services:
  broker:
    image: eclipse-mosquitto:2
    command: mosquitto -v -c '/etc/my conf'
    ports: ['1883:1883', '9001:9001/udp']
    deploy: {resources: {limits: {cpus: '0.50', memory: 64M}}}
    networks: [front, back]
  sensor_a:
    <<: *common
    build: ./sensor
    command: [publish, -h, broker, -m, 'on']
    depends_on: [broker]
    scale: 3
    networks: {front: {ipv4_address: 10.5.0.9}}
  viewer:
    image: viewer
    command: [sh, -c, 'echo $$HOME ${TOPIC:-all}']
    environment: ['A=1', PASSED]
    volumes: ['./data:/data']
    restart: always
networks:
  front: {ipam: {config: [{subnet: 10.5.0.0/24}]}}
  back:
";

#[test]
fn services_become_nodes_and_what_is_lost_is_said() {
    let imported = converted(COMPOSE);
    let plan = plan(&imported);
    assert_eq!(imported.name, "shop");
    let names: Vec<&str> = plan.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["broker", "sensor-a-1", "sensor-a-2", "sensor-a-3", "viewer"]);
    let broker = plan.nodes[0].program.as_ref().unwrap();
    assert_eq!(broker.run, ["mosquitto", "-v", "-c", "/etc/my conf"]);
    assert_eq!(plan.nodes[0].limits.cpus, Some(0.5));
    assert!(plan.nodes[0].limits.memory.is_some_and(|memory| memory.get() == 64 << 20));
    // Others wait for the broker; the sensors may end.
    assert!(plan.nodes[1].program.is_none() && plan.workloads.len() == 1);
    let viewer = plan.nodes[4].program.as_ref().unwrap();
    assert_eq!(viewer.run, ["sh", "-c", "echo $HOME all"]);
    let networks: Vec<&str> = plan.networks.iter().map(|network| network.name.as_str()).collect();
    assert_eq!(networks, ["front", "back", "default"]);
    let notes: Vec<String> =
        imported.notes.iter().map(|note| format!("{}: {}", note.line, note.text)).collect();
    for words in [
        "7: `ports` of the service broker",
        "10: the name sensor_a",
        "`logging`",
        "ipv4_address",
        "`volumes` of the service viewer",
        "`restart`",
        "the image",
    ] {
        assert!(notes.iter().any(|note| note.contains(words)), "no {words} in {notes:#?}");
        assert!(imported.text.contains(words.split(": ").last().unwrap()), "{}", imported.text);
    }
}

#[test]
fn images_are_archives_next_to_the_experiment() {
    let imported = import(COMPOSE, Path::new("/x/shop/compose.yaml"), false).unwrap();
    assert!(imported.text.contains("root: eclipse-mosquitto-2.tar"), "{}", imported.text);
    let images: Vec<&str> = imported.images.iter().map(|(image, _)| image.as_str()).collect();
    assert_eq!(images, ["eclipse-mosquitto:2", "shop-sensor-a", "viewer"]);
}

#[test]
fn links_of_a_topology_become_networks() {
    let imported = converted(
        "name: clos\ntopology:\n  defaults: {image: alpine:3}\n  kinds: {linux: {cmd: sleep 100}}\n  nodes:\n    \
         r1: {kind: linux, exec: [ip addr add 10.0.0.1/24 dev eth1]}\n    r2: {kind: linux, cmd: top}\n    \
         sw: {kind: bridge}\n    srl: {kind: nokia_srlinux}\n  links:\n  - endpoints: ['r1:eth1', 'r2:eth1']\n    \
         mtu: 1400\n  - endpoints: ['r1:eth2', 'sw:p1']\n  - endpoints: ['srl:e1-1', 'sw:p2']\n  \
         - endpoints: ['r1:eth3', 'host:v0']\n",
    );
    let plan = plan(&imported);
    let networks: Vec<&str> = plan.networks.iter().map(|network| network.name.as_str()).collect();
    assert_eq!(networks, ["link-1", "sw"]);
    assert_eq!(plan.networks[0].mtu.get(), 1400);
    assert_eq!(plan.nodes[0].program.as_ref().unwrap().run, ["sleep", "100"]);
    assert_eq!(plan.nodes[1].program.as_ref().unwrap().run, ["top"]);
    let notes = format!("{:?}", imported.notes);
    for words in
        ["the kind nokia_srlinux", "`exec` of the node r1", "eth1 of r1 is eth0", "host, mgmt-net"]
    {
        assert!(notes.contains(words), "no {words} in {notes}");
    }
}

#[test]
fn other_files_are_refused_with_what_is_missing() {
    let error = |text: &str| import(text, Path::new("f"), true).unwrap_err().to_string();
    assert!(error("a: 1").contains("neither a compose file nor a containerlab topology"));
    assert!(error("services: {}").contains("no services"));
    assert!(error("topology: {links: []}").contains("no nodes"));
    assert!(error("services: [").contains("this is not YAML"));
}
