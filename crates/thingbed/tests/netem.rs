//! Networks with netem impairments: used if the kernel has netem, and rejected otherwise.

mod common;

use common::{Bed, json};

const EXPERIMENT: &str = "experiment: kernel
nodes: {near: {}, far: {}}
networks:
  field:
    attach: [near, far]
    subnet: 10.0.0.0/24
    backend: netem
    links:
      near: {up: {delay: 30 ms}, down: {delay: 20 ms, loss: 20 %}}
models:
  udp-rr: {down: udp/request-response, up: udp/request-response, every: 10 ms}
workloads:
  - interaction: {source: near, sinks: far, model: udp-rr, payload: payload.xml}
duration: 3 s
drain: 2 s
";

/// Whether the kernel has netem, according to Thingbed.
fn has_netem(bed: &Bed) -> bool {
    let output = bed.thingbed(&["doctor", "--json"]);
    let findings: serde_json::Value = serde_json::from_str(&output.out).unwrap();
    let netem = findings.as_array().unwrap().iter().find(|finding| finding["what"] == "netem");
    netem.expect("doctor looks for netem")["grade"] == "good"
}

#[test]
fn the_kernel_impairs_or_the_run_is_refused_before_it_starts() {
    let bed = Bed::new();
    bed.write("e.yaml", EXPERIMENT);
    let netem = has_netem(&bed);
    let output = bed.thingbed(&["run", "e.yaml", "-q"]);
    if !netem {
        assert_eq!(output.status, 1, "{}", output.err);
        for part in ["`field` has `backend: netem`", "eth0", "modprobe sch_netem"] {
            assert!(output.err.contains(part), "{part} is not in {}", output.err);
        }
        assert!(!bed.path().join("runs").exists(), "nothing was begun");
        return;
    }
    output.ran(&[]);
    let sweep = bed.sweep("kernel");
    let (summary, run) = (json(&sweep.join("summary.json")), json(&sweep.join("run.json")));
    assert_eq!(run["frame_path"], "packet");
    // Each direction once: 50 ms. Loss of 20 % of 300, within four standard deviations of 2.3 %.
    assert!(summary["messages"]["rtd_ms"]["p50"].as_f64().unwrap() >= 50.0, "{summary}");
    for loss in [&summary["messages"]["loss_pct"], &summary["links"]["loss_measured_pct"]] {
        assert!((10.0..30.0).contains(&loss.as_f64().unwrap()), "{summary}");
    }
    assert_eq!(summary["links"]["loss_configured_pct"], 20.0);
    let evidence = run["verdict"]["evidence"].as_array().unwrap();
    let reported = evidence.iter().find(|e| e["name"] == "link directions impaired by netem");
    assert_eq!(reported.expect("it is reported")["value"], 2.0);
}

#[test]
fn a_matrix_may_have_netem_in_some_cells() {
    let bed = Bed::new();
    let text = EXPERIMENT.replace("backend: netem", "backend: \"${backend}\"");
    bed.write("e.yaml", &format!("{text}matrix:\n  backend: [medium, netem]\n"));
    // A cell without netem does not need it.
    bed.thingbed(&["run", "e.yaml", "-q", "--only", "backend=medium"]).ran(&[]);
    assert_eq!(
        json(&bed.sweep("kernel").join("summary.json"))["links"]["loss_configured_pct"],
        20.0
    );
}

/// One TCP message of 28 segments over netem, in a guest, whose kernel always has netem.
fn over_segments(bed: &Bed, offload: bool) -> serde_json::Value {
    bed.write(
        "e.yaml",
        &format!(
            "experiment: segments-{offload}
nodes: {{near: {{}}, far: {{}}}}
networks:
  field:
    attach: [near, far]
    subnet: 10.0.0.0/24
    mtu: 113 B
    backend: netem
    offload: {offload}
    links:
      near: {{down: {{delay: 20 ms, loss: 5 %}}}}
models:
  tcp-rd: {{down: tcp/router-dealer, up: tcp/request-reply, every: 1 s}}
workloads:
  - interaction: {{source: near, sinks: far, model: tcp-rd, payload: payload.xml}}
duration: 60 s
drain: 10 s
"
        ),
    );
    bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]).ran(&[]);
    let sweep = bed.sweep(&format!("segments-{offload}"));
    let run = json(&sweep.join("run.json"));
    assert_eq!(run["verdict"]["status"], "valid", "{:#}", run["verdict"]);
    assert_eq!(run["offload"].as_array().unwrap().len(), usize::from(offload));
    json(&sweep.join("summary.json"))
}

#[test]
fn netem_takes_a_super_frame_for_one_packet() {
    let bed = Bed::new();
    let [cut, whole] = [false, true].map(|offload| over_segments(&bed, offload));
    let mean = |of: &serde_json::Value| of["messages"]["rtd_ms"]["mean"].as_f64().unwrap();
    // With 28 segments, three of four answers lose a segment (1 - 0.95^28), and TCP waits for its
    // retransmission; with one packet, one of twenty.
    assert!(mean(&cut) > 1.25 * mean(&whole), "{} and {}", mean(&cut), mean(&whole));
}
