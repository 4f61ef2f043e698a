//! Compares `analyze` with tshark on the same captures.

mod common;

use common::{Bed, figure, has};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unmodified third-party brokers, servers and clients, over links with loss, delay and
/// duplication.
const PROGRAMS: &str = "experiment: programs
nodes:
  server: {}
  client: {count: 3}
networks:
  field:
    attach: [server, client]
    subnet: 10.0.0.0/24
    links:
      client:
        up: {delay: 8 ms, jitter: 5 ms, loss: 3 %, rate: 20 Mbit/s}
        down: {delay: 8 ms, jitter: 2 ms, loss: 2 %, duplicate: 1 %}
workloads:
  - command: {on: server, run: [/usr/sbin/mosquitto, -c, mosquitto.conf], background: true}
  - command: {on: server, run: [coap-server-notls, -A, 10.0.0.1], background: true}
  - command: {on: server, run: [iperf3, -s], background: true}
  - command: {on: client-1, run: [sh, -c, \"sleep 0.5; exec mosquitto_sub -h 10.0.0.1 -t a -q 2 -C 10 -W 4\"]}
  - command: {on: client-2, run: [sh, -c, \"sleep 1; for i in 1 2 3 4 5; do mosquitto_pub -V 5 -h 10.0.0.1 -t a -q 2 -m hello; mosquitto_pub -h 10.0.0.1 -t a -q 1 -f payload.xml; done\"]}
  - command: {on: client-3, run: [sh, -c, \"sleep 0.5; iperf3 -c 10.0.0.1 -n 3M; iperf3 -c 10.0.0.1 -R -n 3M; for i in 1 2 3; do coap-client-notls -B 2 -m get coap://10.0.0.1/time; done\"]}
duration: 5 s
drain: 1 s
";

/// The fields that tshark prints per packet, in this order.
const FIELDS: [&str; 25] = [
    "frame.len",
    "tcp.analysis.ack_rtt",
    "mqtt.msgtype",
    "coap.type",
    "coap.code",
    "tcp.stream",
    "ip.src",
    "tcp.srcport",
    "tcp.len",
    "icmp.type",
    "tcp.analysis.retransmission",
    "tcp.analysis.fast_retransmission",
    "tcp.analysis.spurious_retransmission",
    "tcp.analysis.out_of_order",
    "tcp.analysis.duplicate_ack",
    "tcp.analysis.lost_segment",
    "tcp.analysis.ack_lost_segment",
    "tcp.analysis.keep_alive",
    "tcp.analysis.keep_alive_ack",
    "tcp.analysis.zero_window",
    "tcp.analysis.zero_window_probe",
    "tcp.analysis.zero_window_probe_ack",
    "tcp.analysis.window_update",
    "tcp.analysis.window_full",
    "tcp.analysis.reused_ports",
];

/// Index of the first TCP analysis flag in it.
const JUDGED: usize = 10;

/// Thingbed's names of these flags.
const OURS: [&str; FIELDS.len() - JUDGED] = [
    "retransmissions",
    "fast_retransmissions",
    "spurious_retransmissions",
    "out_of_order",
    "duplicate_acks",
    "lost_segments",
    "ack_lost_segments",
    "keep_alives",
    "keep_alive_acks",
    "zero_windows",
    "zero_window_probes",
    "zero_window_probe_acks",
    "window_updates",
    "window_fulls",
    "reused_ports",
];

fn tshark(args: &[&str], capture: &Path) -> String {
    // As Thingbed does, reassemble streams with out-of-order segments.
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "tcp.reassemble_out_of_order:TRUE", "-r"]).arg(capture).args(args);
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn analysis(bed: &Bed, capture: &Path, more: &[&str]) -> Value {
    let capture = capture.to_str().unwrap();
    let answer = bed.thingbed(&[&["analyze", capture, "--json"], more].concat()).expect(0, &[]);
    serde_json::from_str(&answer.out).unwrap()
}

/// The packets of one capture point, as a separate capture.
fn seen_at(bed: &Bed, capture: &Path, point: &str) -> PathBuf {
    let one = bed.path().join(format!("{}.pcapng", point.replace(':', "-")));
    let only = format!("frame.interface_name == \"{point}\"");
    tshark(&["-Y", &only, "-w", one.to_str().unwrap()], capture);
    one
}

/// Number of occurrences per value of a field; a packet may have several values.
fn counted(rows: &[Vec<&str>], field: &str) -> BTreeMap<u64, u64> {
    let column = FIELDS.iter().position(|name| *name == field).unwrap();
    let mut counts = BTreeMap::new();
    let values = rows.iter().flat_map(|row| row[column].split(','));
    for value in values.filter_map(|value| value.parse().ok()) {
        *counts.entry(value).or_default() += 1;
    }
    counts
}

fn times(analysis: &Value) -> (u64, f64) {
    let flows = analysis["flows"].as_array().unwrap().iter();
    let ways = flows.flat_map(|flow| [&flow["forward"]["rtt_ms"], &flow["back"]["rtt_ms"]]);
    ways.filter(|times| !times.is_null()).fold((0, 0.0), |(count, sum), times| {
        let (n, mean) = (times["count"].as_u64().unwrap(), times["mean"].as_f64().unwrap());
        (count + n, sum + mean * n as f64)
    })
}

/// tshark's fields, one line per packet.
fn fields(capture: &Path) -> String {
    let fields: Vec<&str> = FIELDS.iter().flat_map(|field| ["-e", field]).collect();
    tshark(&[&["-T", "fields"], &fields[..]].concat(), capture)
}

fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split('\t').collect()).collect()
}

/// Compares the TCP analysis flags, if this version of tshark has the same rules.
fn same_judgements(thingbed: &Value, rows: &[Vec<&str>], capture: &Path) {
    if !has_tshark_4_0() {
        return;
    }
    let of = |column: usize| rows.iter().map(move |row| row[column]);
    for (column, key) in (JUDGED..).zip(OURS) {
        let tshark = of(column).filter(|value| !value.is_empty()).count();
        assert_eq!(thingbed["tcp"][key], tshark, "{key} of {}", capture.display());
    }
    let tshark: Vec<f64> = of(1).filter_map(|value| value.parse().ok()).collect();
    let (count, sum) = times(thingbed);
    assert_eq!(count, tshark.len() as u64, "round trips of {}", capture.display());
    assert!((sum - tshark.iter().sum::<f64>() * 1e3).abs() < 0.01, "{sum} ms");
}

fn has_tshark_4_0() -> bool {
    let out = Command::new("tshark").arg("--version").output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let same = text.contains(" 4.0.");
    if !same {
        let version = text.lines().next().unwrap_or_default();
        eprintln!("NOT RUN: TCP is judged as by tshark 4.0, and here is {version}");
    }
    same
}

/// Compares all results for a capture of one point.
fn agree(bed: &Bed, capture: &Path) -> Value {
    let text = fields(capture);
    let rows = rows(&text);
    let thingbed = analysis(bed, capture, &[]);
    let of = |column: usize| rows.iter().map(move |row| row[column]);

    assert_eq!(figure(&thingbed, ".packets"), rows.len() as f64);
    let sizes: Vec<u64> = of(0).map(|length| length.parse().unwrap()).collect();
    assert_eq!(figure(&thingbed, ".bytes"), sizes.iter().sum::<u64>() as f64);
    for bin in thingbed["sizes"].as_array().unwrap() {
        let from = bin["from"].as_u64().unwrap();
        let to = bin["to"].as_u64().unwrap_or(u64::MAX);
        let tshark = sizes.iter().filter(|size| (from..=to).contains(size)).count();
        assert_eq!(bin["packets"], tshark, "{bin}");
    }
    // For tshark, the headers quoted by an ICMP error are another message.
    let rows: Vec<Vec<&str>> = rows.iter().filter(|row| row[9].is_empty()).cloned().collect();
    same_judgements(&thingbed, &rows, capture);
    conversations(&thingbed, &rows);
    messages(&thingbed, &rows);
    thingbed
}

/// The header and the packets of a capture, in pcap format.
fn as_pcap(bed: &Bed, capture: &Path) -> (Vec<u8>, Vec<Vec<u8>>) {
    let plain = bed.path().join("plain.pcap");
    tshark(&["-F", "nsecpcap", "-w", plain.to_str().unwrap()], capture);
    let bytes = std::fs::read(&plain).unwrap();
    let (head, mut rest) = bytes.split_at(24);
    let mut packets = Vec::new();
    while rest.len() >= 16 {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (packet, more) = rest.split_at(16 + length);
        packets.push(packet.to_vec());
        rest = more;
    }
    (head.to_vec(), packets)
}

/// Drops `percent` of the packets and swaps as many with the next one, as determined by `seed`.
fn thin(packets: &mut Vec<Vec<u8>>, percent: u64, seed: u64) {
    // A linear congruential generator is random enough (Knuth's MMIX).
    let mut state = seed;
    let mut hit = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 100 < percent
    };
    packets.retain(|_| !hit());
    for place in 1..packets.len() {
        if hit() {
            packets.swap(place - 1, place);
        }
    }
}

/// Compares the TCP analysis flags in captures with missing packets. Returns the number of missed
/// segments.
fn agree_on_losses(bed: &Bed, capture: &Path) -> f64 {
    let (head, whole) = as_pcap(bed, capture);
    let mut missed = 0.0;
    // The last capture also lacks its start.
    for (seed, (percent, start)) in (1..).zip([(1, 0), (5, 0), (25, 0), (3, 40)]) {
        let mut packets = whole[whole.len() * start / 100..].to_vec();
        thin(&mut packets, percent, seed);
        let file = bed.path().join(format!("thin-{percent}.pcap"));
        std::fs::write(&file, [head.clone(), packets.concat()].concat()).unwrap();
        let text = fields(&file);
        let thingbed = analysis(bed, &file, &[]);
        same_judgements(&thingbed, &rows(&text), &file);
        missed +=
            figure(&thingbed, ".tcp.ack_lost_segments") + figure(&thingbed, ".tcp.lost_segments");
    }
    missed
}

/// Packets, bytes and payload of each connection, per direction.
fn conversations(thingbed: &Value, rows: &[Vec<&str>]) {
    let mut tshark: BTreeMap<(&str, String), [u64; 3]> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row[5].is_empty()) {
        let sums = tshark.entry((row[5], format!("{}:{}", row[6], row[7]))).or_default();
        sums[0] += 1;
        sums[1] += row[0].parse::<u64>().unwrap();
        sums[2] += row[8].parse::<u64>().unwrap();
    }
    let mut tshark: Vec<(String, [u64; 3])> =
        tshark.into_iter().map(|((_, from), sums)| (from, sums)).collect();
    let flows =
        thingbed["flows"].as_array().unwrap().iter().filter(|flow| flow["transport"] == "tcp");
    let ways = flows.flat_map(|flow| [(&flow["a"], &flow["forward"]), (&flow["b"], &flow["back"])]);
    let keys = ["packets", "bytes", "carried_bytes"];
    let mut own: Vec<(String, [u64; 3])> = ways
        .map(|(end, way)| {
            (end.as_str().unwrap().to_owned(), keys.map(|key| way[key].as_u64().unwrap()))
        })
        .filter(|(_, sums)| sums[0] > 0)
        .collect();
    own.sort();
    tshark.sort();
    assert_eq!(own, tshark, "connections");
}

fn messages(thingbed: &Value, rows: &[Vec<&str>]) {
    let names = [
        "",
        "CONNECT",
        "CONNACK",
        "PUBLISH",
        "PUBACK",
        "PUBREC",
        "PUBREL",
        "PUBCOMP",
        "SUBSCRIBE",
        "SUBACK",
        "UNSUBSCRIBE",
        "UNSUBACK",
        "PINGREQ",
        "PINGRESP",
        "DISCONNECT",
        "AUTH",
    ];
    let own =
        |protocol: &str, name: &str| thingbed["messages"][protocol][name].as_u64().unwrap_or(0);
    let tshark = counted(rows, "mqtt.msgtype");
    for (kind, name) in names.iter().enumerate() {
        assert_eq!(own("mqtt", name), tshark.get(&(kind as u64)).copied().unwrap_or(0), "{name}");
    }
    let tshark = counted(rows, "coap.type");
    for (kind, name) in ["CON", "NON", "ACK", "RST"].iter().enumerate() {
        assert_eq!(own("coap", name), tshark.get(&(kind as u64)).copied().unwrap_or(0), "{name}");
    }
    let tshark = counted(rows, "coap.code");
    for (code, name) in [(1, "0.01 GET"), (69, "2.05")] {
        assert_eq!(own("coap", name), tshark.get(&code).copied().unwrap_or(0), "{name}");
    }
}

#[test]
fn tshark_says_the_same_of_real_programs_on_bad_links() {
    let needed = ["tshark", "mosquitto_sub", "coap-client-notls", "iperf3"];
    if !needed.iter().all(|program| has(program)) {
        return;
    }
    let bed = Bed::new();
    bed.write("mosquitto.conf", "listener 1883 0.0.0.0\nallow_anonymous true\n");
    bed.write("e.yaml", PROGRAMS);
    // The results of the programs are irrelevant here, as long as the run ends.
    let _ = bed.thingbed(&["run", "e.yaml", "-q", "--capture"]);
    let capture = bed.sweep("programs").join("capture.pcapng");
    let mut seen = 0.0;
    let (mut mqtt, mut missed) = (0, 0.0);
    for point in ["server:eth0", "client-1:eth0", "client-2:eth0", "client-3:eth0"] {
        let one = agree(&bed, &seen_at(&bed, &capture, point));
        // The same results, with one point selected from the whole capture.
        let chosen = analysis(&bed, &capture, &["--point", point]);
        for part in ["packets", "bytes", "tcp", "messages", "kinds", "layers", "flows"] {
            assert_eq!(chosen[part], one[part], "{part} at {point}");
        }
        seen += figure(&one, ".tcp.retransmissions") + figure(&one, ".tcp.duplicate_acks");
        mqtt += one["messages"]["mqtt"]["PUBLISH"].as_u64().unwrap_or(0);
        missed += agree_on_losses(&bed, &seen_at(&bed, &capture, point));
    }
    assert!(missed > 100.0, "captures that lost packets: {missed}");
    assert!(seen > 20.0 && mqtt > 10, "the links were bad: {seen} {mqtt}");
    whole(&bed, &capture);
}

/// All points together: each packet counts once; checks the paths between points.
fn whole(bed: &Bed, capture: &Path) {
    let all = analysis(bed, capture, &["--html", "page.html"]);
    let layers: u64 =
        all["layers"].as_object().unwrap().values().map(|b| b.as_u64().unwrap()).sum();
    assert_eq!(all["bytes"], layers);
    let kinds = all["kinds"].as_array().unwrap().iter();
    let kinds: u64 = kinds.map(|kind| kind["packets"].as_u64().unwrap()).sum();
    assert_eq!(all["packets"], kinds);
    // Uses numbers instead of tshark's summaries, which may contain line breaks from the random
    // bytes that iperf3 sends.
    let out = ["-Y", "frame.packet_flags_direction == 2", "-T", "fields", "-e", "frame.number"];
    let sent = tshark(&out, capture).lines().count();
    assert_eq!(all["packets"], sent, "each packet where it was sent");
    let summary = common::json(&bed.sweep("programs").join("summary.json"));
    let paths = all["paths"].as_array().unwrap();
    let path = |from: &str, to: &str| {
        let found = paths.iter().find(|path| path["from"] == from && path["to"] == to);
        found.unwrap_or_else(|| panic!("no path from {from} to {to} in {paths:#?}"))
    };
    let up = path("client-3:eth0", "server:eth0");
    let down = path("server:eth0", "client-3:eth0");
    for way in [up, down] {
        assert!(figure(way, ".latency_ms.min") >= 3.0 && figure(way, ".latency_ms.mean") >= 6.0);
        assert!(figure(way, ".loss_pct") > 0.0 && figure(way, ".loss_pct") < 10.0, "{way}");
    }
    let lost: f64 = paths.iter().map(|path| figure(path, ".lost")).sum();
    assert!(lost > 0.0 && figure(&summary, ".links.loss_measured_pct") > 0.0);
    let page = std::fs::read_to_string(bed.path().join("page.html")).unwrap();
    assert!(page.contains("tcp control") && page.contains("PUBLISH"));
    let table = bed.thingbed(&["analyze", capture.to_str().unwrap()]).expect(0, &["mqtt payload"]);
    assert!(table.out.contains("server:eth0"), "{}", table.out);
}

#[test]
fn messages_of_zeromq_are_those_that_the_run_counted() {
    let bed = Bed::new();
    bed.write("e.yaml", &common::comparison("zmq", 2, "tcp-rd", "ideal", "repeats: 1"));
    bed.thingbed(&["run", "e.yaml", "-q", "--capture"]).ran(&[]);
    let folder = bed.sweep("zmq");
    let capture = match folder.join("capture.pcapng") {
        file if file.exists() => file,
        _ => folder.join("tcp-rd-ideal-0/capture.pcapng"),
    };
    let thingbed = analysis(&bed, &capture, &[]);
    let summary = common::json(&capture.with_file_name("summary.json"));
    let messages = figure(&summary, ".messages.delivered") + figure(&summary, ".messages.replies");
    let zmtp = &thingbed["messages"]["zmtp"];
    // In addition to the messages with which both programs discover each other.
    assert!(zmtp["message"].as_f64().unwrap() >= messages, "{zmtp} {messages}");
    assert_eq!(zmtp["greeting"], zmtp["READY"]);
    assert_eq!(thingbed["streams"]["resyncs"], 0);
    let payload = figure(&thingbed, ".goodput.payload_bytes");
    let groups = summary["groups"].as_object().unwrap().values();
    let sent: f64 = groups.map(|group| figure(group, ".payload_bytes")).sum();
    assert!(payload >= sent && payload < sent * 1.2, "{payload} of {sent}");
}

#[test]
fn a_capture_holds_what_the_experiment_asks_for() {
    let bed = Bed::new();
    let more = "capture: {nodes: consumer-1, networks: field, filter: udp, snap: 64 B}\nrepeats: 1";
    let comparison = common::comparison("part", 2, "udp-rr", "ideal", more);
    let timetable = "    timetable:\n      - {at: 1 s, down: consumer-2, lasts: 0.5 s}\nprofiles:";
    bed.write("e.yaml", &comparison.replace("profiles:", timetable));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let folder = bed.sweep("part");
    let capture = match folder.join("capture.pcapng") {
        file if file.exists() => file,
        _ => folder.join("udp-rr-ideal-0/capture.pcapng"),
    };
    let thingbed = analysis(&bed, &capture, &[]);
    let points = thingbed["points"].as_array().unwrap();
    assert_eq!((points.len(), &points[0]["name"]), (1, &"consumer-1:eth0".into()));
    // Frames of 127 B, of which the capture has 64 B.
    let packets = figure(&thingbed, ".packets");
    assert!(packets > 40.0, "{packets}");
    assert!(figure(&thingbed, ".cut") > packets / 2.0);
    let kinds: Vec<&str> = thingbed["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| kind["kind"].as_str().unwrap())
        .collect();
    assert!(!kinds.contains(&"arp") && !kinds.contains(&"tcp control"), "{kinds:?}");
    if has("tshark") {
        let comments = tshark(&["-T", "fields", "-e", "frame.comment"], &capture);
        for comment in ["measuring begins", "field: consumer-2 down", "field: consumer-2 up"] {
            assert!(comments.contains(comment), "no `{comment}`");
        }
    }
    bed.write("bad.yaml", &comparison.replace("filter: udp", "filter: udp prot 5"));
    bed.thingbed(&["run", "bad.yaml", "-q"]).expect(1, &["udp prot 5", "not a capture filter"]);
    bed.write("none.yaml", &comparison.replace("networks: field", "networks: feild"));
    bed.thingbed(&["check", "none.yaml"]).expect(2, &["unknown network `feild`"]);
}
