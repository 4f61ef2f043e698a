//! Exchanges: payloads over every protocol, their sections, and failures.

mod common;

use common::{Bed, figure, has, json};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Pairs of sources and sinks, and a broker, on one network with these workloads.
fn experiment(workloads: &str, more: &str) -> String {
    format!(
        "experiment: x
nodes:
  broker: {{run: [mosquitto, -c, plain.conf], ready: {{tcp: 1883}}}}
  source: {{count: 9}}
  sink: {{count: 9}}
networks:
  field:
    attach: [broker, source, sink]
    subnet: 10.0.0.0/24
    links:
      source: {{up: {{delay: 3 ms}}, down: {{delay: 3 ms}}}}
workloads:
{workloads}
{more}
setup_limit: 120 s
"
    )
}

/// A workload of pair `k`.
fn exchange(k: u32, name: &str, protocol: &str, more: &str) -> String {
    format!(
        "  - exchange: {{name: {name}, sources: source-{k}, sinks: sink-{k}, protocol: {protocol}, \
         every: 50 ms, pause: 5 ms, timeout: 3 s, {more}}}\n"
    )
}

fn bed() -> Bed {
    let bed = Bed::new();
    bed.write("plain.conf", "listener 1883\nallow_anonymous true\nuser root\n");
    bed
}

/// The summary of the only run.
fn summary(bed: &Bed) -> Value {
    json(&bed.sweep("x").join("summary.json"))
}

#[track_caller]
fn of<'a>(summary: &'a Value, name: &str, size: u64) -> &'a Value {
    let found = &summary["exchanges"][name]["sizes"][size.to_string()];
    assert!(found.is_object(), "no {size} of {name} in {:#}", summary["exchanges"]);
    found
}

/// Names of the sections of an exchange.
fn sections(of: &Value) -> Vec<&str> {
    of["sections"].as_object().unwrap().keys().map(String::as_str).collect()
}

/// All exchanges succeeded, and their number is as configured.
#[track_caller]
fn all_succeeded(summary: &Value, name: &str, count: f64) {
    let exchanges = &summary["exchanges"][name];
    assert_eq!(figure(exchanges, ".failed"), 0.0, "{name}: {exchanges:#}");
    assert_eq!(figure(exchanges, ".exchanges"), count, "{name}: {exchanges:#}");
}

/// Endpoints and medium counted the same bytes.
#[track_caller]
fn counts_agree(folder: &Path) {
    let run = json(&folder.join("run.json"));
    let evidence = run["verdict"]["evidence"].as_array().unwrap();
    let found = evidence
        .iter()
        .find(|found| found["name"] == "byte counts of endpoints against Thingbed's")
        .expect("both have counted");
    assert_eq!(found["value"], 0.0, "{found:#}");
}

#[test]
fn every_protocol_goes_and_is_taken_apart() {
    let bed = bed();
    let sizes = "payload: [0 B, 5 B, 100 B, 2500 B], repetitions: 3";
    let mut workloads = String::new();
    let all = [
        ("udp", "udp"),
        ("tcp", "tcp"),
        ("get", "coap"),
        ("put", "{coap: {method: put, block: 64 B}}"),
        ("post", "{coap: {method: post, transport: tcp, block: 512 B}}"),
        ("dtls", "{coap: {transport: dtls}}"),
        ("observe", "{coap: {observe: true}}"),
        ("non", "{coap: {confirmable: false, block: 256 B}}"),
    ];
    for (k, (name, protocol)) in all.iter().enumerate() {
        workloads += &exchange(k as u32 + 1, name, protocol, sizes);
    }
    workloads += &exchange(9, "kept", "tcp", &format!("{sizes}, connection: kept"));
    bed.write(
        "e.yaml",
        &experiment(&workloads, "")
            .replace("mosquitto, -c, plain.conf", "sleep, 1000")
            .replace(", ready: {tcp: 1883}", ""),
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["x"]);
    let summary = summary(&bed);
    for (name, _) in all.iter().chain(&[("kept", "")]) {
        all_succeeded(&summary, name, 12.0);
    }
    assert_eq!(figure(&summary, ".messages.delivered"), 9.0 * 12.0);
    // Headers of 42 B and a number of 4 B, in each direction.
    assert_eq!(figure(of(&summary, "udp", 100), ".bytes"), 100.0 + 2.0 * 46.0);
    // Two fragments: another 34 B of headers.
    assert_eq!(figure(of(&summary, "udp", 2500), ".bytes"), 2500.0 + 2.0 * 46.0 + 34.0);
    let parts = ["payload", "transport_close", "transport_connect"];
    assert_eq!(sections(of(&summary, "tcp", 2500)), parts);
    assert_eq!(sections(of(&summary, "kept", 2500)), ["payload"]);
    // A handshake has three frames of 66 or 74 B, the last one without data.
    let connect = figure(of(&summary, "tcp", 0), ".sections.transport_connect.bytes");
    assert!((180.0..=222.0).contains(&connect), "{connect}");
    assert_eq!(sections(of(&summary, "get", 2500)), ["payload_1", "payload_2", "payload_3"]);
    assert_eq!(sections(of(&summary, "get", 0)), ["payload_1"]);
    let first = figure(of(&summary, "get", 2500), ".sections.payload_1.bytes");
    assert!((1024.0 + 84.0..1024.0 + 84.0 + 40.0).contains(&first), "{first}");
    assert_eq!(sections(of(&summary, "put", 2500)).len(), 40);
    assert_eq!(sections(of(&summary, "observe", 2500)).len(), 3);
    assert_eq!(sections(of(&summary, "non", 2500)).len(), 10);
    let dtls = sections(of(&summary, "dtls", 100));
    assert_eq!(dtls, ["payload_1", "transport_close", "transport_connect"]);
    assert!(sections(of(&summary, "post", 100)).contains(&"protocol_connect"));
    // A round trip takes at least 6 ms, and each section of a new connection takes one.
    assert!(figure(of(&summary, "tcp", 100), ".time_ms") >= 18.0);
    assert!(figure(of(&summary, "get", 2500), ".time_ms") >= 18.0);
    let received = figure(of(&summary, "tcp", 100), ".received_ms");
    assert!(received < figure(of(&summary, "tcp", 100), ".time_ms"));
    counts_agree(&bed.sweep("x"));
    let page = fs::read_to_string(bed.sweep("x").join("report.html")).unwrap();
    assert!(page.contains("Time of an exchange by payload size") && page.contains("payload_3"));
    assert!(bed.sweep("x").join("sections.parquet").exists());
}

/// The warm-up exchanges of the pairs are recorded, but count in no metric.
#[test]
fn exchanges_that_warm_up_count_in_no_figure() {
    let bed = bed();
    let pairs = "sources: [source-1, source-2], sinks: [sink-1, sink-2]";
    let workload = format!(
        "  - exchange: {{name: warm, {pairs}, protocol: opcua, every: 50 ms, pause: 5 ms, timeout: 3 s, \
         payload: [100 B, 2500 B], repetitions: 3, warmup: 4}}\n"
    );
    let text = experiment(&workload, "")
        .replace("mosquitto, -c, plain.conf", "sleep, 1000")
        .replace(", ready: {tcp: 1883}", "");
    bed.write("e.yaml", &text);
    bed.thingbed(&["plan", "e.yaml"])
        .expect(0, &["6 exchanges by 2 pairs", "4 warm-up exchanges of each pair, not counted"]);
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["x"]);
    let summary = summary(&bed);
    all_succeeded(&summary, "warm", 6.0);
    assert_eq!(figure(&summary, ".exchanges.warm.warmup"), 8.0);
    assert_eq!(figure(&summary, ".messages.sent"), 6.0);
    for size in [100, 2500] {
        assert_eq!(figure(of(&summary, "warm", size), ".exchanges"), 3.0);
    }
    counts_agree(&bed.sweep("x"));
}

#[test]
fn mqtt_goes_by_a_broker_with_every_level_and_others_hear_it() {
    if !has("mosquitto") || !has("mosquitto_sub") {
        return;
    }
    let bed = bed();
    let mut workloads = String::new();
    for (k, (name, qos, version, connection)) in [
        ("a", 0, "3.1.1", "new"),
        ("b", 1, "5", "new"),
        ("c", 2, "3.1.1", "new"),
        ("d", 0, "5", "kept"),
        ("e", 2, "5", "kept"),
    ]
    .iter()
    .enumerate()
    {
        let protocol = format!("{{mqtt: {{qos: {qos}, version: {version}}}}}");
        let more = format!(
            "broker: broker, payload: [0 B, 2500 B], repetitions: 3, connection: {connection}"
        );
        workloads += &exchange(k as u32 + 1, name, &protocol, &more);
    }
    // Topics of the first workload start with its number.
    workloads += "  - command: {on: sink-9, run: [mosquitto_sub, -h, broker, -t, 0/+, -C, 6, -F, '%l'], background: true}\n";
    bed.write("e.yaml", &experiment(&workloads, "duration: 1 s"));
    // In real time, a busy machine starts the subscriber after the first messages.
    bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]).ran(&["x"]);
    let summary = summary(&bed);
    for name in ["a", "b", "c", "d", "e"] {
        all_succeeded(&summary, name, 6.0);
    }
    assert_eq!(figure(&summary, ".messages.delivered"), 30.0);
    let whole =
        ["payload", "protocol_close", "protocol_connect", "transport_close", "transport_connect"];
    assert_eq!(sections(of(&summary, "a", 2500)), whole);
    assert_eq!(sections(of(&summary, "d", 2500)), ["payload"]);
    let payload = figure(of(&summary, "a", 2500), ".sections.payload.bytes");
    assert!((2500.0 + 2.0 * 54.0..2500.0 + 400.0).contains(&payload), "{payload}");
    counts_agree(&bed.sweep("x"));
    let log = fs::read_to_string(bed.sweep("x").join("programs/sink-9.5.out")).unwrap();
    let mut lengths: Vec<&str> = log.lines().collect();
    lengths.sort_unstable();
    assert_eq!(lengths, ["0", "0", "0", "2500", "2500", "2500"], "{log}");
}

#[test]
fn a_failed_exchange_counts_with_its_reason_and_the_sweep_goes_on() {
    let bed = bed();
    let few = "payload: 100 B, repetitions: 12";
    let workloads = exchange(1, "down", "tcp", few)
        + &exchange(2, "coap", "{coap: {ack_timeout: 1 s, max_retransmit: 0}}", few)
        + &exchange(3, "oneway", "udp", &few.replace("12", "2"))
            .replace("timeout: 3 s", "timeout: 0.4 s")
        + &exchange(
            4,
            "block",
            "{coap: {block: 64 B, ack_timeout: 1 s, max_retransmit: 0}}",
            "payload: 200 B, repetitions: 2",
        );
    let more = "faults:
  - {at: 0.25 s, kill: [sink-1, source-2]}
";
    // Frames are lost from the fourth source to its sink, and from the third sink back.
    let lossy = experiment(&workloads, more)
        .replace("mosquitto, -c, plain.conf", "sleep, 1000")
        .replace(", ready: {tcp: 1883}", "")
        .replace(
            "    links:\n",
            "    timetable:\n      - {at: 0 s, links: [sink-3, source-4], way: up, set: {loss: 100 %}}\n    links:\n      sink: {up: {delay: 1 ms}}\n",
        );
    bed.write("e.yaml", &lossy);
    let answer = bed.thingbed(&["run", "e.yaml", "-q"]);
    assert!(answer.status == 0 || answer.status == 3, "{}{}", answer.out, answer.err);
    let summary = summary(&bed);
    let of = |name: &str, what: &str| figure(&summary, &format!(".exchanges.{name}.{what}"));
    for name in ["down", "coap"] {
        assert_eq!(of(name, "exchanges"), 12.0, "{:#}", summary["exchanges"]);
        assert!((1.0..12.0).contains(&of(name, "failed")), "{:#}", summary["exchanges"][name]);
        // One may be on its way when the other end is killed.
        let one = &summary["exchanges"][name];
        let cut = one["failures"]["lost"].as_f64().unwrap_or(0.0);
        assert!(cut <= 1.0, "{one:#}");
        assert_eq!(of(name, "failures.refused") + cut, of(name, "failed"), "{one:#}");
    }
    assert_eq!(of("oneway", "failures.timeout"), 2.0);
    assert_eq!(of("oneway", "late"), 1.0, "the second waited for the first");
    assert_eq!(of("block", "failures.timeout"), 2.0);
    // Payloads whose answers were lost have arrived nevertheless.
    assert!(figure(&summary, ".messages.delivered") >= 2.0);
}

#[test]
fn a_group_is_told_and_asked_at_once() {
    let bed = bed();
    let group = |name: &str, method: &str, ends: &str| {
        format!(
            "  - exchange: {{name: {name}, {ends}, protocol: {{coap: {{group: true, method: {method}, \
             leisure: 1 s}}}}, payload: [0 B, 40 B], repetitions: 2, every: 0.2 s, timeout: 3 s}}\n"
        )
    };
    let workloads = group("push", "put", "sources: source-1, sinks: [sink-1, sink-2, sink-3]")
        + &group("pull", "get", "sources: [source-4, source-5], sinks: sink-4, port: 6000");
    let text = experiment(&workloads, "")
        .replace("mosquitto, -c, plain.conf", "sleep, 1000")
        .replace(", ready: {tcp: 1883}", "");
    bed.write("e.yaml", &text);
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["x"]);
    let summary = summary(&bed);
    let of = |name: &str, what: &str| figure(&summary, &format!(".exchanges.{name}.{what}"));
    assert_eq!(
        (of("push", "failed"), of("pull", "failed")),
        (0.0, 0.0),
        "{:#}",
        summary["exchanges"]
    );
    // Four exchanges with three peers and four with two: a row each.
    assert_eq!(figure(&summary, ".messages.sent"), 4.0 * 3.0 + 4.0 * 2.0);
    assert_eq!(figure(&summary, ".messages.delivered"), 20.0);
}

#[test]
fn certificates_and_subscriptions_that_are_refused_are_reasons() {
    if !has("mosquitto") || !has("openssl") {
        return;
    }
    let bed = bed();
    // A self-signed certificate, and an authority that has signed no other certificate.
    for name in ["own", "other"] {
        let subject = format!("/CN=source-2/O={name}");
        let made = std::process::Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-nodes", "-days", "2", "-subj", &subject])
            .args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")])
            .current_dir(bed.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    // Mosquitto's plugin rejects all subscriptions here.
    let plugin = "/usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so";
    let refuses = Path::new(plugin).exists();
    if refuses {
        let path = bed.write("security.json", REFUSES);
        let more = format!("plugin {plugin}\nplugin_opt_config_file {}\n", path.display());
        bed.write("plain.conf", &format!("listener 1883\nallow_anonymous true\nuser root\n{more}"));
    }
    let dtls = "{coap: {transport: dtls}}";
    let few = "payload: 100 B, repetitions: 2";
    let other = "tls: {ca: other.pem, cert: own.pem, key: own.key}";
    let workloads = exchange(1, "trusted", dtls, &format!("{few}, tls: generated"))
        + &exchange(2, "refused", dtls, &format!("{few}, {other}"))
        + &exchange(3, "denied", "mqtt", &format!("{few}, broker: broker"));
    bed.write("e.yaml", &experiment(&workloads, ""));
    let answer = bed.thingbed(&["run", "e.yaml", "-q"]);
    assert!(answer.status == 0 || answer.status == 3, "{}{}", answer.out, answer.err);
    let summary = summary(&bed);
    all_succeeded(&summary, "trusted", 2.0);
    let why = |of: &str| figure(&summary, &format!(".exchanges.{of}"));
    assert_eq!(why("refused.failures.certificate"), 2.0, "{:#}", summary["exchanges"]);
    if refuses {
        assert_eq!(why("denied.failures.rejected"), 2.0, "{:#}", summary["exchanges"]);
    }
}

/// Configuration of Mosquitto's plugin: no client may subscribe.
const REFUSES: &str = r#"{"defaultACLAccess": {"publishClientSend": true, "publishClientReceive": true,
    "subscribe": false, "unsubscribe": true}, "clients": [], "groups": [], "roles": []}"#;

#[test]
fn foreign_clients_get_payloads_block_by_block() {
    if !has("coap-client-notls") {
        return;
    }
    let bed = bed();
    // The server answers as long as its pair is active.
    let workloads = exchange(1, "own", "coap", "payload: [100 B, 2500 B], repetitions: 20")
        + "  - command: {on: sink-2, run: [coap-client-notls, -o, payload, -b, '256', 'coap://source-1/7.9c4']}\n"
        + "  - command: {on: sink-4, run: [sh, -c, 'test ! -x $AIOCOAP || $AIOCOAP coap://10.0.0.2/7.9c4 > other'], env: {AIOCOAP: AIO}}\n";
    let aiocoap = common::peer("aiocoap-client");
    let text = experiment(&workloads, "duration: 1 s")
        .replace("mosquitto, -c, plain.conf", "sleep, 1000")
        .replace(", ready: {tcp: 1883}", "")
        .replace(
            "AIO}",
            &format!("{}}}", aiocoap.as_ref().map_or("none".into(), |p| p.display().to_string())),
        );
    bed.write("e.yaml", &text);
    let answer = bed.thingbed(&["run", "e.yaml", "-q"]);
    assert!(answer.status == 0 || answer.status == 3, "{}{}", answer.out, answer.err);
    let payload = fs::read(bed.path().join("payload")).unwrap();
    assert_eq!(payload.len(), 2500);
    assert_eq!(payload[..8], 7u64.to_be_bytes());
    all_succeeded(&summary(&bed), "own", 40.0);
    if aiocoap.is_some() {
        assert_eq!(fs::read(bed.path().join("other")).unwrap(), payload);
    }
}

#[test]
fn the_captures_bytes_are_those_of_the_sections() {
    let bed = bed();
    let workloads = exchange(1, "get", "coap", "payload: [0 B, 3000 B], repetitions: 3");
    let text = experiment(&workloads, "capture: {nodes: sink-1}")
        .replace("mosquitto, -c, plain.conf", "sleep, 1000")
        .replace(", ready: {tcp: 1883}", "");
    bed.write("e.yaml", &text);
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["x"]);
    let summary = summary(&bed);
    let sizes = [0, 3000].map(|size| figure(of(&summary, "get", size), ".bytes") * 3.0);
    let capture = bed.sweep("x").join("capture.pcapng");
    let answer =
        bed.thingbed(&["analyze", &capture.display().to_string(), "--json"]).expect(0, &[]);
    let captured: Value = serde_json::from_str(&answer.out).unwrap();
    // Medians represent all exchanges if those of a size do not differ.
    let bytes = captured["bytes"].as_f64().or(captured["wire_bytes"].as_f64());
    // Before the start: the greeting, and the ICMP error for a port without listener.
    let greeting = 42.0 + 70.0;
    assert_eq!(bytes, Some(sizes.iter().sum::<f64>() + greeting), "{captured:#}");
    counts_agree(&bed.sweep("x"));
    let run = fs::read_to_string(bed.sweep("x").join("run.json")).unwrap();
    assert!(run.contains(" B, the capture "), "the capture is part of the evidence");
}

/// Runs Thingbed's driver as a command that pushes payloads of 0 B and 2500 B to a third-party
/// server. Returns the number of successful exchanges.
fn pushed_to(bed: &Bed, server: &str, listens: &str) -> usize {
    let workload = Path::new(env!("CARGO_BIN_EXE_thingbed")).with_file_name("thingbed-workload");
    let spec = serde_json::json!({"side": "drive", "node": "source-1", 
        "protocol": {"coap": {"method": "put", "block": 256}}, "connection": "new", "address": "10.0.0.2",
        "interface": "eth0", "mtu": 1500, "peers": [{"name": "server", "address": "10.0.0.1"}],
        "port": 5683, "exchanges": [[0, 0], [1, 2500], [2, 2500]], "sizes": [0, 2500],
        "every_ns": 1, "pause_ns": 1_000_000, "timeout_ns": 30_000_000_000_u64, "seed": 1,
        "events": bed.path().join("events.csv"), "sections": bed.path().join("sections.csv")});
    bed.write("spec.json", &spec.to_string());
    // It ends when its three lines are written, however long that takes.
    let talk = "echo '{\"start\":{\"at_ns\":1}}'; while [ $(wc -l < events.csv) -lt 4 ]; \
                do sleep 0.1; done; echo '{\"stop\":{}}'";
    bed.write("drive.sh", &format!("({talk}) | {} exchange spec.json\n", workload.display()));
    bed.write("events.csv", "");
    let workloads = "  - command: {on: source-1, run: [sh, drive.sh]}\n";
    let text = experiment(workloads, "duration: 1 s\ndrain: 120 s")
        .replace("mosquitto, -c, plain.conf", server)
        .replace("ready: {tcp: 1883}", "ready: {udp: 5683}");
    bed.write("e.yaml", &text);
    let answer = bed.thingbed(&["run", "e.yaml", "-q"]);
    assert!(answer.status == 0 || answer.status == 3, "{listens}: {}{}", answer.out, answer.err);
    let events = fs::read_to_string(bed.path().join("events.csv")).unwrap();
    assert_eq!(events.lines().count(), 4, "{listens}: {events}");
    let well = events.lines().skip(1).filter(|line| line.ends_with(",,,")).count();
    assert_eq!(well, 3, "{listens}: {events}");
    well
}

#[test]
fn foreign_servers_take_payloads_block_by_block() {
    if has("coap-server-notls") {
        let bed = bed();
        assert_eq!(pushed_to(&bed, "coap-server-notls, -d, 100", "libcoap"), 3);
    }
    if let Some(python) = common::peer("python") {
        let bed = bed();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/coap_server.py");
        let server = format!("{}, {script}, log", python.display());
        assert_eq!(pushed_to(&bed, &server, "aiocoap"), 3);
        let log = fs::read_to_string(bed.path().join("log")).unwrap();
        assert_eq!(log.lines().collect::<Vec<_>>(), ["0 0", "1 2500", "2 2500"]);
    }
}

#[test]
fn mqtt_over_tls_and_paho_hears_it() {
    let python = common::peer("python");
    if !has("mosquitto") {
        return;
    }
    let bed = bed();
    let conf = "listener 8883\\nallow_anonymous true\\nuser root\\ncafile $THINGBED_TLS/ca.pem\\n\
                certfile $THINGBED_TLS/broker.pem\\nkeyfile $THINGBED_TLS/broker.key\\nlistener 1883\\n";
    bed.write("broker.sh", &format!("printf \"{conf}\" > tls.conf; exec mosquitto -c tls.conf\n"));
    let few = "broker: broker, payload: [10 B, 3000 B], repetitions: 2";
    let secure = "{mqtt: {qos: 1, version: 5}}";
    let mut listener = String::new();
    let workloads = exchange(1, "new", secure, &format!("{few}, tls: generated"))
        + &exchange(2, "kept", secure, &format!("{few}, tls: generated, connection: kept"));
    if let Some(python) = &python {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/mqtt_listener.py");
        // A node's own program, because it is ready before exchanges start.
        let run = format!("{}, {script}, broker, '0/+', log", python.display());
        listener = format!("  listener: {{run: [{run}], ready: {{log: subscribed}}}}\n");
    }
    let text = experiment(&workloads, "duration: 1 s")
        .replace("mosquitto, -c, plain.conf", "sh, broker.sh")
        .replace("  source: {count: 9}\n", &format!("{listener}  source: {{count: 9}}\n"));
    let text = match listener.is_empty() {
        true => text,
        false => text.replace("[broker, source, sink]", "[broker, source, sink, listener]"),
    };
    bed.write("e.yaml", &text);
    let answer = bed.thingbed(&["run", "e.yaml", "-q"]);
    assert!(answer.status == 0 || answer.status == 3, "{}{}", answer.out, answer.err);
    let summary = summary(&bed);
    for name in ["new", "kept"] {
        all_succeeded(&summary, name, 4.0);
        assert_eq!(figure(&summary, &format!(".exchanges.{name}.undelivered")), 0.0);
    }
    // The TLS handshake is part of the protocol's connect section.
    let connect = figure(of(&summary, "new", 10), ".sections.protocol_connect.bytes");
    assert!(connect > 1000.0, "{connect}");
    if python.is_some() {
        let log = fs::read_to_string(bed.path().join("log")).unwrap();
        let mut lengths: Vec<&str> = log.lines().collect();
        lengths.sort_unstable();
        assert_eq!(lengths, ["10", "10", "3000", "3000"], "{log}");
    }
}
