//! `thingbed profiles`, and profiles in plans.

mod common;

use common::CommandOutput;
use serde_json::Value;
use std::fs;
use std::process::Command;

fn thingbed(arguments: &[&str]) -> CommandOutput {
    let output = Command::new(env!("CARGO_BIN_EXE_thingbed")).args(arguments).output().unwrap();
    CommandOutput::of(output)
}

#[test]
fn all_are_listed_with_rates_and_quality() {
    let out = thingbed(&["profiles"]).expect(0, &["edge-lab", "7 fitted", "lora-eu868"]).out;
    let row = out.lines().find(|line| line.starts_with("ieee802154 ")).unwrap();
    assert!(row.contains("250 kbit/s"), "{row}");
    let out = thingbed(&["profiles", "--json"]).expect(0, &[]).out;
    let rows: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!(rows.len(), 22);
    // 148 B at 90 % every 20 ms, and 444 B.
    assert_eq!(rows[0]["up_bit_s"], 53_280.0);
    assert_eq!(rows[0]["down_bit_s"], 177_600.0);
}

#[test]
fn each_value_has_its_quality_and_source() {
    let shown = thingbed(&["profiles", "show", "edge-lab"]);
    let parts =
        ["157 ms (141 ms to 180 ms)", "fitted", "not modelled", "Dürkop", "have not been checked"];
    let out = shown.expect(0, &parts).out;
    assert!(out.lines().any(|line| line.contains("up.grant.cycle") && line.contains("fit")));
    let out = thingbed(&["profiles", "show", "edge-lab", "--json"]).expect(0, &[]).out;
    let profile: Value = serde_json::from_str(&out).unwrap();
    let values = profile["values"].as_array().unwrap();
    let cycle = values.iter().find(|value| value["key"] == "up.grant.cycle").unwrap();
    assert_eq!((&cycle["value"], &cycle["quality"]), (&"157 ms".into(), &"fitted".into()));
}

#[test]
fn a_name_that_is_none_is_met_with_the_nearest() {
    let text = thingbed(&["profiles", "show", "edge-lap"]);
    text.expect(2, &["unknown profile `edge-lap`", "did you mean `edge-lab`?"]);
}

#[test]
fn a_file_of_ones_own_is_shown_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let profile = "profile: line\ntechnology: ours\nsources: {us: measured}\n\
                   up: {delay: {value: 40 ms, quality: measured, source: us}}\n";
    fs::write(folder.path().join("line.yaml"), profile).unwrap();
    let experiment = "experiment: e\nnodes: {meter: {}}\nnetworks:\n  n:\n    attach: meter\n    \
                      subnet: 10.0.0.0/24\n    links: {meter: {profile: line.yaml, up: {loss: 1 %}}}\n\
                      duration: 1 s\nworkloads: [{command: {on: meter, run: [\"true\"]}}]\n";
    let file = folder.path().join("e.yaml");
    fs::write(&file, experiment).unwrap();
    let path = folder.path().join("line.yaml");
    thingbed(&["profiles", "show", path.to_str().unwrap()]).expect(0, &["line: ours", "40 ms"]);
    let plan = thingbed(&["plan", file.to_str().unwrap()]);
    plan.expect(0, &["profile line: 1 measured", "up:   loss 1 % per frame, delay 40 ms"]);
}
