//! Capacity: the largest value that meets a target, and which limit it is.

mod common;

use common::{Bed, json};
use serde_json::Value;

/// A link of 1 Mbit/s carries 250 B in 2 ms. A message of N times 20 B is a frame with 42 B more,
/// so N = 10 fits.
const EXPERIMENT: &str = "experiment: size
nodes: {source: {}, sink: {}}
networks:
  net:
    attach: [source, sink]
    subnet: 10.0.0.0/24
    links: {source: {up: {rate: 1 Mbit/s, queue: 20}}}
models: {udp: {down: udp/request-response, up: udp/request-response, every: 2 ms}}
workloads:
  - interaction: {source: source, sinks: sink, model: udp, payload: \"message-${size}\"}
matrix: {size: [4]}
duration: 1500 ms
drain: 500 ms
";

fn messages(bed: &Bed, most: usize) {
    (1..=most).for_each(|n| drop(bed.write(&format!("message-{n}"), &"x".repeat(20 * n))));
}

/// The result is consistent with the measurements of the search's runs. Its value depends on the
/// load of this machine, but 16 times 20 B never fits.
#[test]
fn the_largest_message_that_a_link_carries() {
    let bed = Bed::new();
    messages(&bed, 16);
    bed.write("e.yaml", EXPERIMENT);
    let search = || {
        let args = ["capacity", "e.yaml", "--max", "size", "--slo", "loss < 1 %", "--repeat", "1"];
        bed.thingbed(&[&args[..], &["--resolution", "0 %", "--suspect", "-q"]].concat())
    };
    let output = search();
    let folder = bed.sweep("size");
    let found = json(&folder.join("capacity.json"));
    let tried = found[0]["tried"].as_array().unwrap();
    assert_eq!(tried[0]["value"], "4");
    let size = |tried: &Value| tried["value"].as_str().unwrap().parse::<u64>().unwrap();
    let mut best: Option<u64> = None;
    let mut limit = u64::MAX;
    for one in tried {
        let loss = one["figures"][0].as_f64();
        let is_met =
            one["valid"] == 1 && one["overload"].is_null() && loss.is_some_and(|l| l < 1.0);
        assert_eq!(one["found"] == "met", is_met, "{one}");
        assert!(!is_met || size(one) < 16, "320 B in 2 ms are more than 1 Mbit/s: {one}");
        if !is_met {
            assert!(one["found"] == "missed" || !one["reasons"].as_array().unwrap().is_empty());
            limit = limit.min(size(one));
        }
    }
    for one in tried.iter().filter(|one| one["found"] == "met" && size(one) < limit) {
        best = best.max(Some(size(one)));
    }
    assert_eq!(found[0]["best"], serde_json::json!(best.map(|best| best.to_string())));
    assert_eq!(found[0]["limit"][0], limit.to_string());
    let whose = match found[0]["limit"][1].as_str() {
        Some("missed") => "the limit is the system's",
        _ => "the limit is the test bed's",
    };
    output.expect(if best.is_some() { 0 } else { 4 }, &[whose, "report: "]);
    assert!(folder.join("4-0/summary.json").exists() && folder.join("report.html").exists());
    let all: Value = json(&folder.join("summary.json"));
    assert!(all.as_array().unwrap().len() >= tried.len());
}

/// A value that the experiment rejects is not a limit of the system.
#[test]
fn a_value_that_cannot_be_run_is_the_test_beds_limit() {
    let bed = Bed::new();
    messages(&bed, 4);
    bed.write("e.yaml", EXPERIMENT);
    let args =
        ["capacity", "e.yaml", "--max", "size", "--slo", "messages.sent > 0", "--repeat", "1"];
    let output = bed.thingbed(&[&args[..], &["--from", "8", "--suspect", "-q"]].concat());
    let found = json(&bed.sweep("size").join("capacity.json"));
    assert_eq!(
        (&found[0]["tried"][0]["value"], &found[0]["tried"][0]["runs"]),
        (&"8".into(), &0.into())
    );
    assert_eq!(found[0]["tried"][0]["found"], "lost");
    // The error names the file that is missing.
    let reasons = found[0]["tried"][0]["reasons"].to_string();
    assert!(reasons.contains("the payload `message-8` does not exist"), "{reasons} {}", output.out);
}

#[test]
fn what_cannot_be_searched_is_said_before_anything_runs() {
    let bed = Bed::new();
    messages(&bed, 4);
    bed.write("e.yaml", EXPERIMENT);
    let ask =
        |max: &str, slo: &str| bed.thingbed(&["capacity", "e.yaml", "--max", max, "--slo", slo]);
    ask("meters", "loss < 1 %").expect(2, &["no axis `meters`", "there is size"]);
    ask("size", "loss").expect(2, &["`loss` is not a target", "p99 < 200 ms"]);
    ask("size", "messages.los_pct < 1").expect(2, &["did you mean `messages.lo"]);
    bed.write("message-many", "x");
    bed.write("e.yaml", &EXPERIMENT.replace("[4]", "[4, many]"));
    ask("size", "loss < 1 %").expect(2, &["many"]);
    assert!(!bed.path().join("runs").exists(), "nothing was run");
}
