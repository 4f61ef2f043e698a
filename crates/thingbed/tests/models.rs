//! The four interaction models end to end, on real stacks in real namespaces.

mod common;

use common::{Bed, comparison, figure, has, json};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const ALL: &str = "udp-rr, tcp-rd, tcp-ps, pgm-ps";

fn model(summary: &Value) -> &str {
    summary["cell"]["model"].as_str().unwrap()
}

#[test]
fn all_messages_are_answered_and_all_bytes_are_known() {
    let bed = Bed::new();
    bed.write("e.yaml", &comparison("whole", 10, ALL, "ideal, slow", ""));
    let answer = bed.thingbed(&["run", "e.yaml", "--quiet"]).ran(&["pgm-ps", "report: "]);
    // The only allowed message is that the machine was busy.
    let busy = answer.status == 3 && answer.err.starts_with("\nThis machine was too busy");
    assert!(answer.err.is_empty() || busy, "{}", answer.err);
    let summaries = bed.summaries("whole");
    assert_eq!(summaries.len(), 8);
    for summary in &summaries {
        assert_eq!(figure(summary, ".messages.sent"), 20.0, "{summary:#}");
        assert_eq!(figure(summary, ".messages.delivered"), 20.0);
        assert_eq!(figure(summary, ".messages.loss_pct"), 0.0);
        let least = if summary["cell"]["network"] == "slow" { 15.0 } else { 0.0 };
        let mean = figure(summary, ".messages.rtd_ms.mean");
        assert!(mean > least && mean < 5_000.0, "{mean}");
        for group in ["utility", "consumer"] {
            let of = |key: &str| figure(summary, &format!(".groups.{group}.{key}"));
            let parts = of("lower_bytes") + of("transport_bytes") + of("carried_bytes");
            assert_eq!(of("tx_bytes"), parts);
            assert!(of("carried_bytes") >= of("payload_bytes"), "{summary:#}");
            assert!(of("cpu_ms") > 0.0 && of("rss_max_bytes") > 1e6);
            // An independent count: the kernel's, at the nodes' interfaces.
            assert_eq!(of("kernel_tx_frames"), of("medium_tx_frames"), "{summary:#}");
            assert_eq!(of("kernel_rx_frames"), of("medium_rx_frames"), "{summary:#}");
        }
        let payload = figure(summary, ".groups.utility.payload_bytes");
        let to_each = if model(summary) == "pgm-ps" { 2.0 } else { 20.0 };
        assert_eq!(payload, to_each * 1699.0);
        // 1699 bytes and 8 of UDP, in fragments of 88 (a multiple of 8) over IP.
        if model(summary) == "udp-rr" {
            assert_eq!(figure(summary, ".groups.utility.tx_frames"), 20.0 * 20.0);
            assert_eq!(
                figure(summary, ".groups.utility.tx_bytes"),
                20.0 * (1699.0 + 8.0 + 20.0 * 34.0)
            );
        }
    }
    let page = std::fs::read_to_string(bed.sweep("whole").join("report.html")).unwrap();
    assert!(page.contains("<!DOCTYPE html>") && !page.contains("src=\"http"));
}

#[test]
fn udp_loses_and_tcp_sends_again() {
    let bed = Bed::new();
    bed.write("e.yaml", &comparison("loss", 10, "udp-rr, tcp-rd", "lossy", "seed: 3"));
    bed.thingbed(&["run", "e.yaml", "--quiet"]).ran(&[]);
    for summary in bed.summaries("loss") {
        let again = figure(&summary, ".all.retransmitted_frames");
        let lost = figure(&summary, ".messages.loss_pct");
        match model(&summary) {
            // Twenty fragments in each direction at 5 % loss: one in eight exchanges succeeds.
            "udp-rr" => assert!(lost > 50.0 && again == 0.0, "{summary:#}"),
            _ => assert!(lost == 0.0 && again > 0.0, "{summary:#}"),
        }
        let measured = figure(&summary, ".links.loss_measured_pct");
        assert!((2.0..9.0).contains(&measured), "{measured}");
    }
}

#[test]
fn cells_repeats_and_seeds_are_those_asked_for() {
    let bed = Bed::new();
    bed.write("e.yaml", &comparison("cells", 4, ALL, "ideal, lossy", "repeats: 5\nseed: 1"));
    let args = ["run", "e.yaml", "-q", "--only", "model=udp-rr,network=lossy"];
    bed.thingbed(&[&args[..], &["--repeat", "2", "--seed", "9", "--out", "here"]].concat())
        .ran(&[]);
    let sweep = std::fs::read_dir(bed.path().join("here/cells")).unwrap().next().unwrap().unwrap();
    let list = json(&sweep.path().join("summary.json"));
    let weather = |i: usize| list[i]["links"]["loss_measured_pct"].clone();
    assert_eq!(list.as_array().unwrap().len(), 2);
    for repeat in 0..2 {
        assert_eq!((&list[repeat]["seed"], &list[repeat]["repeat"]), (&9.into(), &repeat.into()));
    }
    assert_ne!(weather(0), weather(1), "each repeat has different impairment decisions");

    // The same seed gives the same impairment decisions: the same frames are lost.
    bed.thingbed(&[&args[..], &["--repeat", "1", "--seed", "9"]].concat()).ran(&[]);
    let again = json(&bed.sweep("cells").join("summary.json"));
    assert_eq!(again["links"]["loss_measured_pct"], weather(0));
    assert_eq!(again["messages"]["delivered"], list[0]["messages"]["delivered"]);
}

#[test]
fn a_capture_holds_what_was_counted() {
    if !has("tshark") {
        return;
    }
    let bed = Bed::new();
    bed.write("e.yaml", &comparison("cap", 6, ALL, "ideal", "repeats: 1"));
    bed.thingbed(&["run", "e.yaml", "-q", "--capture"]).ran(&[]);
    let sweep = bed.sweep("cap");
    for summary in bed.summaries("cap") {
        let folder = sweep.join(format!("{}-ideal-0", model(&summary)));
        let counted = tshark(&folder.join("capture.pcapng"));
        let of = |key: &str| figure(&summary, &format!(".groups.utility.{key}"));
        let ours = [of("tx_frames"), of("tx_bytes"), of("rx_frames"), of("rx_bytes")];
        assert_eq!(counted, ours, "{}", model(&summary));
    }
}

/// Frames and bytes sent and received by the utility, since the start of measurement.
fn tshark(capture: &Path) -> [f64; 4] {
    let fields = ["frame.len", "frame.packet_flags_direction", "frame.comment"];
    let out = Command::new("tshark")
        .args(["-n", "-T", "fields", "-r"])
        .arg(capture)
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .args(["-e", "frame.interface_name"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let frames = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let mut counted = [0.0; 4];
    let frames = frames.skip_while(|frame| frame[2] != "measuring begins");
    for frame in frames.take_while(|frame| frame[2] != "measuring ends") {
        if frame[3] == "utility:eth0" {
            // 1 is inbound, 2 outbound (pcapng, section 4.3.1).
            let at = if frame[1].trim_start_matches("0x").ends_with('2') { 0 } else { 2 };
            counted[at] += 1.0;
            counted[at + 1] += frame[0].parse::<f64>().unwrap();
        }
    }
    counted
}
