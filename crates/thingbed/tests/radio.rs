//! Radio networks: nodes that do not all hear each other, and 6LoWPAN.

mod common;

use common::live::Live;
use common::{Bed, figure, has};
use std::fs;
use std::path::Path;

/// Share of the frames of two independent senders that collide at a receiver, if neither waits for
/// the other: a frame survives if the other sender is off the air when the frame begins, and begins
/// none until it ends. `busy` is the share of time in which a sender is on the air. A sender that is
/// off begins at the rate of its frames, less the time in which it cannot.
fn hidden_collisions(busy: f64) -> f64 {
    1.0 - (1.0 - busy) * f64::exp(-busy / (1.0 - busy))
}

#[test]
fn hidden_stations_collide_as_often_as_theory_gives_and_others_seldom() {
    let bed = Bed::new();
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/radio/hidden-stations.yaml");
    bed.write("e.yaml", &fs::read_to_string(file).unwrap());
    bed.thingbed(&["run", "e.yaml", "--clock", "virtual"]).expect(0, &["2 valid"]);
    let share = |radio: &str| {
        let mut all = bed.summaries("hidden-stations").into_iter();
        let run = all.rfind(|run| run["cell"]["radio"] == radio).unwrap();
        assert_eq!(figure(&run, ".links.weak_signal_frames"), 0.0, "{radio}");
        let sent = figure(&run, ".loads.reports.sent");
        // 2 senders, 25 frames/s each, 60 s.
        assert!((2_700.0..3_300.0).contains(&sent), "{sent}");
        (figure(&run, ".links.contention_frames") / sent, sent)
    };
    // 133 B at 250 kbit/s, 25 times per second.
    let expected = hidden_collisions(4.256e-3 * 25.0);
    assert!((expected - 0.207).abs() < 0.001, "{expected}");
    let (hidden, sent) = share("distance");
    // Collisions come in pairs: four standard deviations, and 0.01 for the backoffs, which the formula
    // omits.
    let tolerance = 4.0 * (2.0 * expected * (1.0 - expected) / sent).sqrt() + 0.01;
    assert!((hidden - expected).abs() < tolerance, "{hidden}, not {expected}");
    let (near, _) = share("same-place");
    assert!(near < 0.05, "{near}");
}

/// A strong and a weak sender, hidden from each other, of which the weak one begins 2 ms later, and their receiver.
const TOGETHER: &str = r#"experiment: together
nodes:
  sink: {position: [0 m, 0 m], board: BOARD}
  near: {position: [-18 m, 0 m], board: BOARD}
  far: {position: [25 m, 0 m], board: BOARD}
networks:
  air: {attach: [sink, near, far], subnet: 10.0.0.0/24, mtu: 113 B, profile: "${radio}"}
profiles:
  plain: {channel: {csma: {acknowledge: false, min_be: 0, path_loss: {exponent: 3}}}}
  capture: {channel: {csma: {acknowledge: false, min_be: 0, path_loss: {exponent: 3, capture: 3 dB}}}}
matrix: {radio: [plain, capture]}
workloads:
  - command: {on: sink, run: [python3, sink.py]}
  - command: {on: near, run: [python3, sender.py, "0.5"]}
  - command: {on: far, run: [python3, sender.py, "0.502"]}
clock: virtual
duration: 6 s
"#;

const BOARD: &str = "{source: a test, supply: 3 V, cpu: {active: 3 mA, idle: 0 A}, radio: {transmit: 20 mA, \
     receive: 10 mA, listen: 5 mA, sleep: 0 A, listening: 100 %}}";

const SINK: &str = "import socket
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind(('', 7000))
sink.settimeout(3)
try:
    while True: sink.recv(200)
except TimeoutError: pass
";

const SENDER: &str = "import socket, sys, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink = socket.gethostbyname('sink')
time.sleep(float(sys.argv[1]))
for _ in range(50):
    sender.sendto(bytes(85), (sink, 7000))
    time.sleep(0.04)
";

#[test]
fn the_stronger_frame_of_a_collision_is_captured_and_radios_draw_current_by_their_state() {
    if !has("python3") {
        return eprintln!("NOT RUN: needs python3");
    }
    let bed = Bed::new();
    bed.write("sink.py", SINK);
    bed.write("sender.py", SENDER);
    bed.write("e.yaml", &TOGETHER.replace("BOARD", BOARD));
    bed.thingbed(&["run", "e.yaml"]).expect(0, &["2 valid"]);
    let all = bed.summaries("together");
    for (radio, arrived) in [("plain", 0.0), ("capture", 50.0)] {
        let run = all.iter().find(|run| run["cell"]["radio"] == radio).unwrap();
        assert_eq!(figure(run, ".links.contention_frames"), 100.0 - arrived, "{radio}");
        assert_eq!(figure(run, ".groups.sink.rx_frames"), arrived, "{radio}");
        let joules = |group: &str, state: &str| figure(run, &format!(".groups.{group}.{state}_j"));
        // 50 frames of 133 B at 250 kbit/s: 0.2128 s, at 20 mA and 3 V.
        for sender in ["near", "far"] {
            let transmit = joules(sender, "radio_transmit");
            assert!((transmit - 0.2128 * 0.06).abs() < 1e-9, "{radio}: {transmit}");
            assert_eq!(joules(sender, "radio_receive"), 0.0, "{radio}");
        }
        // The sink hears the two at times that overlap.
        let (receive, idle) = (joules("sink", "radio_receive"), joules("sink", "radio_idle"));
        let seconds = receive / 0.03;
        assert!((0.2128..2.0 * 0.2128).contains(&seconds), "{radio}: {seconds}");
        // The rest of the same time: at 5 mA.
        let total = seconds + idle / 0.015;
        let expected = 0.2128 + joules("near", "radio_idle") / 0.015;
        assert!((total - expected).abs() < 1e-9, "{radio}: {total}, not {expected}");
        // In virtual time, the CPU takes none.
        assert!(run["groups"]["near"]["energy_j"].is_null(), "{radio}");
    }
}

/// Devices that send at once, then one to which the gateway answers while others send.
const GATEWAY: &str = r#"experiment: gateway
nodes: {gateway: {}, meter: {count: 12}, late: {count: 3}}
networks:
  lora:
    attach: [gateway, meter, late]
    subnet: 10.0.0.0/24
    mtu: 250 B
    profile: "${receiver}"
profiles:
  real: {channel: {aloha: {channels: 96}}, links: LINKS}
  ideal: {channel: {aloha: {channels: 96, demodulators: 1000, half_duplex: false}}, links: LINKS}
matrix: {receiver: [real, ideal]}
workloads:
  - command: {on: gateway, run: [python3, answer.py]}
  - command: {on: meter, run: [python3, send.py, "1"]}
  - command: {on: late-1, run: [python3, send.py, "11"]}
  - command: {on: late-2, run: [python3, send.py, "14"]}
  - command: {on: late-3, run: [python3, send.py, "14"]}
clock: virtual
duration: 30 s
"#;

const LINKS: &str = "{meter: LINK, late: LINK}";
const LINK: &str = "{up: {overhead: -29 B, lora: {spreading_factor: 12}}, \
     down: {overhead: -29 B, lora: {spreading_factor: 12}}}";

/// Answers one device.
const ANSWER: &str = "import socket, time
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.bind(('', 7000))
sink.settimeout(12)
try:
    while True:
        message, sender = sink.recvfrom(200)
        if message.startswith(b'11'):
            sink.sendto(message, sender)
except TimeoutError: pass
";

const SEND: &str = "import socket, sys, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink = socket.gethostbyname('gateway')
time.sleep(float(sys.argv[1]))
sender.sendto(sys.argv[1].encode().ljust(51), (sink, 7000))
sender.settimeout(9)
try: sender.recv(200)
except TimeoutError: pass
";

/// A packet of 51 B at SF12 takes 2.8 s.
#[test]
fn a_lora_gateway_receives_eight_packets_at_once_and_none_while_it_sends() {
    if !has("python3") {
        return eprintln!("NOT RUN: needs python3");
    }
    let bed = Bed::new();
    bed.write("answer.py", ANSWER);
    bed.write("send.py", SEND);
    bed.write("e.yaml", &GATEWAY.replace("LINKS", LINKS).replace("LINK", LINK));
    bed.thingbed(&["run", "e.yaml"]).expect(0, &["2 valid"]);
    let all = bed.summaries("gateway");
    for (receiver, no_demodulator, half_duplex) in [("real", 4.0, 2.0), ("ideal", 0.0, 0.0)] {
        let run = all.iter().find(|run| run["cell"]["receiver"] == receiver).unwrap();
        let links = |name: &str| figure(run, &format!(".links.{name}_frames"));
        assert_eq!(links("no_demodulator"), no_demodulator, "{receiver}");
        assert_eq!(links("half_duplex"), half_duplex, "{receiver}");
        // Two of twelve devices may have drawn the same channel.
        let collisions = links("contention") - no_demodulator - half_duplex;
        assert!(collisions <= 4.0, "{receiver}: {collisions}");
        let received = 15.0 - links("contention");
        assert_eq!(figure(run, ".groups.gateway.rx_frames"), received, "{receiver}");
    }
}

/// A node and two others, `CHANNEL`.
const RADIOS: &str = "experiment: NAME
nodes:
  base: {position: [0 m, 0 m], run: [sleep, '1000']}
  node: {count: 2, position: [[5 m, 0 m], [0 m, 5 m]], run: [sleep, '1000']}
networks: {air: {attach: [base, node], subnet: 10.1.0.0/24, CHANNEL}}
";

#[test]
fn radios_go_off_and_on_with_their_nodes_and_clones_are_at_the_place_of_their_original() {
    if !has("ping") {
        return eprintln!("NOT RUN: needs ping");
    }
    let bed = Bed::new();
    for (name, channel) in [
        ("csma", "mtu: 113 B, channel: {csma: {path_loss: {}}}"),
        ("wifi", "channel: {wifi: {}}"),
        (
            "lora",
            "profile: lora-eu868, channel: {aloha: {path_loss: {}}}, links: {base: {profile: none}}",
        ),
    ] {
        let text = RADIOS.replace("CHANNEL", channel);
        let lab = Live::up(&bed, &format!("{name}-power"), &text);
        let ping = |from: &str, to: &str, is_answered: bool| {
            let wait = if is_answered { "60" } else { "4" };
            let line = ["exec", from, "--", "ping", "-n", "-c", "1", "-W", wait, to];
            let (status, words) = if is_answered { (0, "1 received") } else { (1, "0 received") };
            lab.ask(&line).expect(status, &[words]);
        };
        ping("node-1", "base", true);
        for off in ["base", "node-1"] {
            lab.ask(&["kill", off]).expect(0, &[]);
            ping("node-1", "base", false);
            lab.ask(&["start", off]).expect(0, &[]);
            ping("node-1", "base", true);
        }
        lab.ask(&["clone", "node-2"]).expect(0, &["node-3 10.1.0.4"]);
        ping("node-3", "base", true);
        lab.ask(&["kill", "node-3"]).expect(0, &[]);
        ping("node-3", "base", false);
        lab.ask(&["restart", "node-3"]).expect(0, &[]);
        ping("node-3", "base", true);
    }
}

/// A host on Ethernet, a border router, and a node on 6LoWPAN.
const BORDER: &str = "nodes: {host: {}, border: {forward: true}, node: {}}
networks:
  office: {attach: [host, border], subnet: 'fd00:1::/64'}
  air:
    attach: [border, node]
    subnet: 'fd00:6::/64'
    channel: {csma: {carries: lowpan}}
";

#[test]
fn nodes_on_6lowpan_have_addresses_neighbours_and_a_path_mtu_of_1280_bytes() {
    if !["ip", "ping"].into_iter().all(has) {
        return eprintln!("NOT RUN: needs ip and ping");
    }
    let bed = Bed::new();
    let lab = Live::up(&bed, "border", &format!("experiment: NAME\n{BORDER}"));
    let on = |node: &str, line: &str| lab.ask(&["exec", node, "--", "sh", "-c", line]);
    let addresses = on("node", "ip -6 addr show dev eth0").expect(0, &["fd00:6::2/64", "fe80::"]);
    // Duplicate address detection is over, and found none.
    for word in ["tentative", "dadfailed"] {
        assert!(!addresses.out.contains(word), "{}", addresses.out);
    }
    on("node", "ip -6 neigh").expect(0, &["fd00:6::1 dev eth0 lladdr", "PERMANENT"]);
    on("node", "ip link show dev eth0").expect(0, &["mtu 1280"]);
    let ping = "ping -6 -n -c 1 -W 60 -M do";
    // 1,232 B, ICMPv6's header of 8 B and IPv6's of 40 B.
    on("node", &format!("{ping} -s 1232 border")).expect(0, &["1 received"]);
    on("node", &format!("{ping} -s 1233 border")).expect(1, &["mtu: 1280"]);
    // The neighbour's link-local address is resolved over the channel.
    let link_local = on("border", "ip -6 addr show dev eth1").expect(0, &[]).out;
    let link_local = link_local.split_whitespace().find(|word| word.starts_with("fe80"));
    let link_local = link_local.unwrap().trim_end_matches("/64");
    on("node", &format!("ping -6 -n -c 1 -W 60 {link_local}%eth0")).expect(0, &["1 received"]);
    // A host on Ethernet learns the MTU of the path from the border router.
    on("host", &format!("{ping} -s 1400 node")).expect(1, &["mtu=1280"]);
    on("host", "ip -6 route get fd00:6::2").expect(0, &["mtu 1280"]);
    on("host", "ping -6 -n -c 1 -W 60 -s 1400 node").expect(0, &["1 received"]);
}

#[test]
fn coap_over_6lowpan_is_answered_and_its_capture_has_its_fragments() {
    let bed = Bed::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/radio/lowpan.yaml");
    let text = fs::read_to_string(file).unwrap().replace("[20B, 100B, 1000B]", "[20B, 1000B]");
    bed.write("e.yaml", &text);
    bed.thingbed(&["run", "e.yaml", "--clock", "virtual"]).expect(0, &["2 valid"]);
    let summaries = bed.summaries("lowpan");
    for (size, frames) in [("20B", 1.0), ("1000B", 11.0)] {
        let run = summaries.iter().find(|run| run["cell"]["size"] == size).unwrap();
        let of = |name: &str| figure(run, &format!(".loads.reports.{name}"));
        // Five sensors, once per second each, 30 s.
        let (sent, answered) = (of("sent"), of("answered"));
        assert!((90.0..210.0).contains(&sent), "{size}: {sent}");
        assert!(answered > 0.9 * sent, "{size}: {answered} of {sent}");
        // Frames of 127 B at most, of the sensors' packets alone.
        let folder = bed.sweep("lowpan").join(format!("{size}-0"));
        let capture = folder.join("capture.pcapng");
        let analysis = bed.thingbed(&["analyze", capture.to_str().unwrap(), "--json"]);
        let analysis: serde_json::Value =
            serde_json::from_str(&analysis.expect(0, &[]).out).unwrap();
        let packets = analysis["packets"].as_f64().unwrap();
        assert!(packets >= frames * answered, "{size}: {packets} frames, {answered} answers");
        // The capture names the context of the subnet, so addresses are whole.
        let ends = analysis["flows"].as_array().unwrap().iter().map(|flow| &flow["a"]);
        let ends: Vec<&str> = ends.map(|end| end.as_str().unwrap()).collect();
        assert!(ends.iter().any(|end| end.starts_with("[fd00:6::")), "{ends:?}");
        assert!(!ends.iter().any(|end| end.contains("context")), "{ends:?}");
    }
}
