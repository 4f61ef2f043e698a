//! Two builds of a program compared, and results as JSON.

mod common;

use common::Bed;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const FILE: &str = "\
experiment: builds
nodes: {a: {}, b: {}}
networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {delay: 5 ms}}}}}
workloads:
  - command: {name: client, on: a, run: ['${env:PROGRAM}'], metrics: {bytes: {match: 'bytes ([0-9]+)'}}}
repeats: 2
duration: 5 s
expect: [{say: says bytes, metric: programs.client.bytes.mean, is: above, value: 0}]
";

/// A program that sends a ping with this number of bytes.
fn program(bed: &Bed, name: &str, bytes: u32) {
    bed.write(name, &format!("#!/bin/sh\necho bytes {bytes}\nexec ping -c 1 -s {bytes} b\n"));
    let path = bed.path().join(name);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn two_programs_differ_by_what_they_send_and_not_by_chance() {
    if !common::has("ping") {
        return;
    }
    let bed = Bed::new();
    bed.write("test.yaml", FILE);
    for (name, bytes) in [("old", 100), ("same", 100), ("new", 200)] {
        program(&bed, name, bytes);
    }
    let compare = |b: &str, more: &[&str]| {
        bed.thingbed(&[&["compare", "./old", b, "--run", "test.yaml"], more].concat())
    };
    let same = compare("./same", &["--max-change", "0 %"]);
    same.expect(
        0,
        &["bytes 0", "client.bytes mean 0", "none of 3 figures", "Virtual time: each run is exact"],
    );
    let more = compare("./new", &["--max-change", "5 %", "--format", "json"]);
    let more = more.expect(4, &[]);
    assert!(more.err.contains("by more than 5 %"), "{}", more.err);
    let more: Value = serde_json::from_str(&more.out).unwrap();
    assert_eq!(more["exact"], true);
    let figures = more["cells"][0]["figures"].as_array().unwrap();
    let figure = |path: &str| figures.iter().find(|figure| figure["figure"] == path).unwrap();
    let printed = figure("programs.client.bytes.mean");
    assert_eq!((&printed["old"], &printed["new"]), (&100.0.into(), &200.0.into()));
    assert_eq!(printed["percent_interval"], serde_json::json!([100.0, 100.0]));
    // Request and answer have 100 bytes more each.
    assert_eq!(figure("all.tx_bytes")["difference"], 200.0);

    // The folders of the last two sweeps are two builds as well.
    let mut folders: Vec<_> = fs::read_dir(bed.path().join("runs/builds")).unwrap().collect();
    folders.sort_by_key(|folder| folder.as_ref().unwrap().path());
    let folders: Vec<_> =
        folders.iter().map(|f| f.as_ref().unwrap().path().display().to_string()).collect();
    let [.., old, new] = folders.as_slice() else { panic!("{folders:?}") };
    bed.thingbed(&["compare", old, new])
        .expect(0, &["client.bytes mean +100 %", "figures differ beyond chance"]);
    bed.thingbed(&["compare", "./old", "./new"]).expect(2, &["--run EXPERIMENT"]);
    bed.write("none.yaml", &FILE.replace("${env:PROGRAM}", "true"));
    let unused = bed.thingbed(&["compare", "./old", "./new", "--run", "none.yaml"]);
    unused.expect(2, &["does not use the program"]);

    let json = bed.thingbed(&["report", new, "--format", "json"]).expect(0, &[]);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["status"], &json["experiment"]), (&"valid".into(), &"builds".into()));
    assert_eq!(json["runs"].as_array().unwrap().len(), 2);
    assert_eq!(json["runs"][0]["figures"]["programs"]["client"]["bytes"]["mean"], 200.0);
    assert_eq!(json["expectations"][0]["status"], "pass");
}

#[test]
fn in_real_time_programs_take_turns() {
    if !common::has("ping") {
        return;
    }
    let bed = Bed::new();
    bed.write("test.yaml", &FILE.replace("duration: 5 s", "duration: 1 s"));
    program(&bed, "old", 100);
    program(&bed, "new", 200);
    let real = ["compare", "./old", "./new", "--run", "test.yaml", "--clock", "real"];
    // On a busy machine no run may be valid; the order is the same.
    let turns = bed.thingbed(&real).err;
    let begun = turns.lines().filter(|line| line.starts_with("running test.yaml with"));
    let order: Vec<bool> = begun.map(|line| line.contains("/new, repeat")).collect();
    assert_eq!(order, [false, true, true, false], "{turns}");
    let folders = fs::read_dir(bed.path().join("runs/builds")).unwrap();
    for folder in folders.map(|folder| folder.unwrap().path()) {
        let runs: Value =
            serde_json::from_str(&fs::read_to_string(folder.join("summary.json")).unwrap())
                .unwrap();
        assert_eq!(runs.as_array().unwrap().len(), 2, "{}", folder.display());
    }
}

#[test]
fn a_build_that_fails_where_the_other_did_not_is_an_error() {
    let bed = Bed::new();
    bed.write("test.yaml", FILE);
    for (name, status) in [("old", 0), ("new", 7)] {
        bed.write(name, &format!("#!/bin/sh\necho bytes 5\nexit {status}\n"));
        let path = bed.path().join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let compare =
        |a: &str, b: &str| bed.thingbed(&["compare", a, b, "--run", "test.yaml", "--repeat", "1"]);
    let failed = compare("./old", "./new").expect(4, &["Significance: not tested"]);
    assert!(failed.err.contains("0 is failed with the new build only"), "{}", failed.err);
    // The old build's failure is no fault of the new one; there is nothing to compare.
    let fixed = compare("./new", "./old").expect(1, &[]);
    assert!(fixed.err.contains("no run of one has a usable counterpart"), "{}", fixed.err);
}
