//! Experiments changed for one command (`--set`, environment variables), the demo, and imports.

mod common;

use common::live::Live;
use common::{Bed, CommandOutput};
use std::fs;

const FILE: &str = "\
experiment: set
defaults: {links: {up: {delay: '${delay}'}}}
nodes: {a: {}, b: {count: '${env:SENSORS:-2}'}}
networks:
  n: {attach: [a, b], subnet: 10.0.0.0/24}
matrix: {delay: [10 ms, 20 ms]}
workloads:
  - device: {on: b, udp: 7}
  - load: {name: l, on: a, to: b, protocol: udp, port: 7, arrivals: constant:500ms}
duration: 2 s
drain: 2 s
expect:
  - {say: fast, metric: loads.l.response_ms.p50, of: {delay: 10 ms}, is: below, value: 100}
";

#[test]
fn axes_and_keys_are_changed_for_one_command() {
    let bed = Bed::new();
    bed.write("set.yaml", FILE);
    let plan = |words: &[&str]| bed.thingbed(&[&["plan", "set.yaml"], words].concat());
    let set = ["--set", "delay=7 ms", "--set", "nodes.b.count=3"];
    let answer = plan(&set).expect(0, &["b-3", "delay 7 ms"]);
    assert!(answer.err.contains("1 expectation not evaluated"), "{}", answer.err);
    assert!(!answer.out.contains("delay 10 ms"), "{}", answer.out);
    plan(&["--set", "dealy=7 ms"]).expect(2, &["did you mean `delay`?"]);
    plan(&["--set", "nodes.c.count=7"]).expect(2, &["`nodes` has no entry `c`"]);
    plan(&["--set", "nodes.b.cpus=1"]).expect(2, &["unknown key `cpus`", "set.yaml with --set"]);
    let many = bed.command(&["plan", "set.yaml"]).env("SENSORS", "4").output().unwrap();
    CommandOutput::of(many).expect(0, &["b-4"]);
}

#[test]
fn a_changed_sweep_is_stored_resumed_and_verified_as_it_was() {
    let bed = Bed::new();
    bed.write("set.yaml", FILE);
    let set = ["--clock", "virtual", "-q", "--set", "delay=7 ms|9 ms"];
    let run = |more: &[&str]| {
        let mut command = bed.command(&[&["run", "set.yaml"], &set[..], more].concat());
        CommandOutput::of(command.env("SENSORS", "3").output().unwrap())
    };
    run(&[]).expect(0, &["VALID"]);
    let sweep = bed.sweep("set");
    let stored = fs::read_to_string(sweep.join("experiment.yaml")).unwrap();
    assert!(stored.contains("# Changed by --set delay=7 ms|9 ms"), "{stored}");
    assert!(stored.contains("# Environment: SENSORS=3"), "{stored}");
    let folder = sweep.to_str().unwrap();
    // Without the variable: the recorded value counts.
    bed.thingbed(&["verify", "-q", folder]).expect(0, &["identical"]);
    fs::remove_dir_all(sweep.join("9_ms-0")).unwrap();
    let other = bed.thingbed(&["run", "set.yaml", "--clock", "virtual", "--resume", folder]);
    other.expect(1, &["--set or environment variables differ"]);
    run(&["--resume", folder]).expect(0, &["VALID"]);
    assert!(sweep.join("9_ms-0/run.json").exists());
    bed.thingbed(&["pack", "set.yaml"]).expect(2, &["environment variable `SENSORS`"]);
}

#[test]
fn a_gradual_change_that_another_replaces_is_reported() {
    let bed = Bed::new();
    let text = FILE.replace("experiment: set", "experiment: NAME");
    let lab = Live::up_with(&bed, "ramps", &text, &["--set", "delay=5 ms"]);
    let link = |words: &[&str]| {
        let (command, rest) = words.split_first().unwrap();
        bed.thingbed(&[&["link", command, "--lab", &lab.name], rest].concat())
    };
    link(&["show", "b-1"]).expect(0, &["delay 5 ms"]);
    link(&["set", "b-1", "--way", "up", "--over", "600 s", "delay=200 ms"]).expect(0, &["200 ms"]);
    let other = link(&["set", "b-1", "--way", "up", "loss=1 %"]).expect(0, &["-> ", "200 ms"]);
    assert!(!other.err.contains("replaces"), "{}", other.err);
    let words = ["the gradual change to delay 200 ms was not complete"];
    link(&["set", "b-1", "--way", "up", "delay=10 ms"]).expect(0, &words);
    link(&["set", "b-1", "delay=80"]).expect(2, &["`80` has no unit", "80 ms"]);
}

#[test]
fn the_demo_is_valid_and_overwrites_nothing() {
    let bed = Bed::new();
    fs::create_dir(bed.path().join("thingbed-demo")).unwrap();
    let answer = bed.thingbed(&["demo", "-q", "--clock", "virtual"]);
    let answer =
        answer.expect(0, &["VALID", "4 of 4 hold", "What next:", "thingbed-demo-2/demo.yaml"]);
    let page = answer.out.lines().find_map(|line| line.strip_prefix("report: ")).unwrap();
    let page = fs::read_to_string(bed.path().join(page)).unwrap();
    assert!(page.contains("<svg") || page.contains("echarts"), "the report has pictures");
    bed.thingbed(&["demo", "thingbed-demo"]).expect(1, &["overwrites nothing"]);
}

/// What failed before: an empty file stayed, so that the next import was refused.
#[test]
fn an_import_that_cannot_be_written_leaves_no_file() {
    let bed = Bed::new();
    bed.write("compose.yaml", "services: {a: {image: x, command: [sleep, '9']}}\n");
    let tool = env!("CARGO_BIN_EXE_thingbed");
    let import = |limit: &str| {
        let line = format!("{limit} {tool} import compose.yaml --out a.yaml");
        let mut shell = std::process::Command::new("sh");
        CommandOutput::of(shell.args(["-c", &line]).current_dir(bed.path()).output().unwrap())
    };
    import("ulimit -f 0;").expect(1, &["could not write a.yaml", "--out"]);
    assert!(!bed.path().join("a.yaml").exists());
    import("").expect(0, &["1 group of nodes"]);
    // Latin-1.
    fs::write(bed.path().join("compose.yaml"), b"services: {\xfc: {image: x}}\n").unwrap();
    let output = bed.thingbed(&["import", "compose.yaml"]);
    assert!(!output.err.contains("permissions"), "{}", output.err);
    output.expect(1, &["byte 11 is not UTF-8", "iconv"]);
}

/// A broker and two clients, from a compose file, with programs of this machine.
#[test]
fn a_compose_file_is_imported_and_runs() {
    if !common::has("mosquitto_sub") || !common::has("mosquitto") {
        return;
    }
    let bed = Bed::new();
    bed.write("mosquitto.conf", "listener 1883 0.0.0.0\nallow_anonymous true\n");
    bed.write(
        "compose.yaml",
        "name: shop\nservices:\n  broker:\n    image: eclipse-mosquitto:2\n    \
         command: mosquitto -c mosquitto.conf\n    ports: ['1883:1883']\n  \
         viewer:\n    image: client\n    command: [sh, -c, 'mosquitto_sub -h broker -t t -C 1 -W 30']\n    \
         depends_on: [broker]\n  sensor:\n    image: client\n    \
         command: [sh, -c, 'sleep 2; mosquitto_pub -h broker -t t -m $${GREETING:-hello}']\n    \
         environment: {GREETING: hi}\n    depends_on: [broker]\n",
    );
    bed.thingbed(&["import", "compose.yaml", "--host-programs", "--out", "shop.yaml"]).expect(
        0,
        &[
            "3 groups of nodes, 1 network",
            "`ports` of the service broker",
            "thingbed check shop.yaml",
        ],
    );
    bed.thingbed(&["import", "compose.yaml", "--out", "shop.yaml"])
        .expect(1, &["overwrites nothing"]);
    bed.thingbed(&["run", "shop.yaml", "-q", "--clock", "virtual"]).expect(0, &["VALID"]);
    let log = fs::read_to_string(bed.sweep("shop").join("programs/viewer.0.out")).unwrap();
    assert_eq!(log, "hi\n");
    bed.thingbed(&["import", "mosquitto.conf"])
        .expect(2, &["neither a compose file nor a containerlab topology"]);
}
