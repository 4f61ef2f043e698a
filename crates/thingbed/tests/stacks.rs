//! Exchanges over OPC UA, HTTP and QUIC with Thingbed on both sides, from the file to the summary.

mod common;

use common::{Bed, figure, json};
use serde_json::Value;

fn experiment(exchange: &str, more: &str) -> String {
    format!(
        "experiment: stacks
nodes:
  server: {{count: 2}}
  meter: {{count: 2}}
networks:
  field:
    attach: [server, meter]
    subnet: 10.0.0.0/24
    links:
      meter: {{up: {{delay: 5 ms}}, down: {{delay: 5 ms}}}}
workloads:
  - exchange:
      name: it
      sources: meter
      sinks: server
      payload: [0 B, 100 B, 2500 B]
      repetitions: 4
      every: 50 ms
      timeout: 5 s
{exchange}
{more}
drain: 20 s
"
    )
}

/// The sections of exchanges of this payload size.
fn sections<'s>(summary: &'s Value, size: &str) -> Vec<&'s str> {
    let sections = &summary["exchanges"]["it"]["sizes"][size]["sections"];
    let map = sections.as_object().unwrap_or_else(|| panic!("{summary:#}"));
    map.keys().map(String::as_str).collect()
}

#[track_caller]
fn went_well(summary: &Value) {
    assert_eq!(figure(summary, ".exchanges.it.exchanges"), 12.0, "{summary:#}");
    assert_eq!(figure(summary, ".exchanges.it.failed"), 0.0, "{summary:#}");
}

#[test]
fn each_stack_has_its_sections_with_new_and_kept_connections() {
    let bed = Bed::new();
    let exchange = "      protocol: ${protocol}\n      connection: ${connection}";
    let more = "matrix:\n  protocol: [opcua, http, quic]\n  connection: [new, kept]";
    bed.write("e.yaml", &experiment(exchange, more));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["stacks"]);
    for summary in bed.summaries("stacks") {
        went_well(&summary);
        let cell = &summary["cell"];
        let mut found = sections(&summary, "2500");
        found.sort_unstable();
        let requested = match (cell["protocol"].as_str(), cell["connection"].as_str()) {
            (Some("opcua"), Some("new")) => vec![
                "payload",
                "protocol_close",
                "protocol_connect",
                "transport_close",
                "transport_connect",
            ],
            (_, Some("new")) => vec!["payload", "transport_close", "transport_connect"],
            _ => vec!["payload"],
        };
        assert_eq!(found, requested, "{cell}");
        let payload = |size: &str, what: &str| {
            figure(&summary, &format!(".exchanges.it.sizes.{size}.sections.payload.{what}"))
        };
        // A request and its answer pass the link once each, and each packet has at least the
        // headers of a frame.
        assert!(payload("2500", "time_ms") >= 10.0, "{cell}: {summary:#}");
        // Compares minima: if the machine stalls, TCP sends data twice.
        let (none, more) = (payload("0", "bytes_low"), payload("2500", "bytes_low"));
        // On a busy machine, QUIC's tickets and handshake acknowledgements may arrive during the
        // payload in all exchanges of one size, and before it in some of another: at most 400 B.
        let early = if cell["protocol"] == "quic" { 400.0 } else { 0.0 };
        let range = none + 2_500.0 - early..none + 3_200.0 + early;
        assert!(range.contains(&more), "{cell}: {summary:#}");
    }
}

#[test]
fn http_puts_and_posts_opcua_shares_out_and_quic_sends_early() {
    for (name, protocol) in [
        ("put", "{http: {method: put}}"),
        ("post", "{http: {method: post}}"),
        ("ten", "{opcua: {variables: 10, timestamps: neither}}"),
        ("early", "{quic: {early_data: true, mtu_discovery: true}}"),
    ] {
        let bed = Bed::new();
        bed.write("e.yaml", &experiment(&format!("      protocol: {protocol}"), ""));
        // The test is sensitive to timing, so it needs virtual time.
        let clock = if name == "early" { "virtual" } else { "real" };
        bed.thingbed(&["run", "e.yaml", "-q", "--clock", clock]).ran(&["stacks"]);
        let summary = &json(&bed.sweep("stacks").join("summary.json"));
        went_well(summary);
        if name == "early" {
            // The first two payloads wait for the handshake; later ones do not.
            let time = |part: &str| {
                figure(summary, &format!(".exchanges.it.sizes.2500.sections.{part}.time_ms"))
            };
            assert!(time("transport_connect") < time("payload") / 2.0, "{summary:#}");
        }
    }
}

#[test]
fn what_cannot_be_is_said_before_anything_runs() {
    for (exchange, more, word) in [
        ("      protocol: {opcua: {variables: 11}}", "", "use 1 to 10"),
        (
            "      protocol: {quic: {early_data: true}}\n      connection: kept",
            "",
            "connection: new",
        ),
        ("      protocol: http\n      tls: generated", "", "does not support TLS"),
        ("      protocol: {http: {method: delete}}", "", "delete"),
    ] {
        let bed = Bed::new();
        bed.write("e.yaml", &experiment(exchange, more));
        bed.thingbed(&["check", "e.yaml"]).expect(2, &[word]);
    }
    let bed = Bed::new();
    let small =
        experiment("      protocol: quic", "").replace("    links:", "    mtu: 1000 B\n    links:");
    bed.write("e.yaml", &small);
    bed.thingbed(&["check", "e.yaml"]).expect(2, &["MTU of 1280 B or more"]);
}
