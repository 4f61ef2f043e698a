//! Networks of IPv6, and of IPv4 and IPv6.

mod common;

use common::live::Live;
use common::{Bed, figure, has, json};

/// Messages of 100 B over a network that loses some of the answers.
fn experiment(name: &str, subnet: &str, loss: &str) -> String {
    format!(
        "experiment: {name}
seed: 7
nodes: {{hub: {{}}, meter: {{count: 2}}}}
networks:
  lan:
    attach: [hub, meter]
    subnet: {subnet}
    links: {{meter: {{up: {{loss: {loss}}}, down: {{delay: 5 ms}}}}}}
models:
  udp: {{down: udp/request-response, up: udp/request-response, every: 20 ms, count: 60}}
  tcp: {{down: tcp/router-dealer, up: tcp/request-reply, every: 20 ms, count: 20}}
workloads:
  - interaction: {{source: hub, sinks: meter, model: udp, payload: payload.xml}}
duration: 1 s
drain: 3 s
"
    )
}

fn bed() -> Bed {
    let bed = Bed::new();
    bed.write("payload.xml", &format!("##########{}", " ".repeat(90)));
    bed
}

/// Runs the experiment and returns its figures.
fn run(bed: &Bed, name: &str, text: &str, options: &[&str]) -> serde_json::Value {
    bed.write("e.yaml", text);
    bed.thingbed(&[&["run", "e.yaml", "-q"], options].concat()).ran(&[]);
    json(&bed.sweep(name).join("summary.json"))
}

#[test]
fn messages_arrive_over_ipv6_and_all_their_headers_are_counted() {
    let bed = bed();
    // Only the first subnet's addresses carry messages.
    for (name, subnet, header) in [
        ("six", "fd00:6::/64", 40.0),
        ("six-four", "[fd00:6::/64, 10.6.0.0/24]", 40.0),
        ("four-six", "[10.6.0.0/24, fd00:6::/64]", 20.0),
    ] {
        let summary = run(&bed, name, &experiment(name, subnet, "0 %"), &[]);
        assert_eq!(figure(&summary, ".messages.answered"), 60.0, "{summary:#}");
        for group in ["hub", "meter"] {
            let of = |key: &str| figure(&summary, &format!(".groups.{group}.{key}"));
            let without_control = of("tx_bytes") - of("control_bytes");
            assert_eq!(without_control, 60.0 * (14.0 + header + 8.0 + 100.0), "{name} {group}");
            assert_eq!(of("carried_bytes"), 6000.0);
        }
    }
}

#[test]
fn tcp_works_over_ipv6() {
    let bed = bed();
    let text = experiment("tcp", "fd00:6::/64", "0 %").replace("model: udp", "model: tcp");
    let summary = run(&bed, "tcp", &text, &[]);
    assert_eq!(figure(&summary, ".messages.answered"), 20.0, "{summary:#}");
}

#[test]
fn the_same_seed_loses_the_same_messages() {
    let bed = bed();
    let answered = |name: &str| {
        let summary = run(&bed, name, &experiment(name, "fd00:6::/64", "30 %"), &[]);
        figure(&summary, ".messages.answered")
    };
    let first = answered("one");
    assert!((20.0..60.0).contains(&first), "{first}");
    assert_eq!(answered("two"), first);
}

#[test]
fn virtual_time_has_ipv6() {
    let bed = bed();
    let text = experiment("virtual", "fd00:6::/64", "30 %");
    let options = ["--clock", "virtual"];
    let first = run(&bed, "virtual", &text, &options);
    assert!((20.0..60.0).contains(&figure(&first, ".messages.answered")), "{first:#}");
    assert_eq!(run(&bed, "virtual", &text, &options), first);
}

#[test]
fn nodes_have_both_families_permanent_neighbours_and_names() {
    if !["ip", "ping"].into_iter().all(has) {
        return eprintln!("NOT RUN: needs ip and ping");
    }
    let bed = bed();
    let text = "experiment: NAME
nodes: {hub: {}, meter: {count: 2}}
networks: {lan: {attach: [hub, meter], subnet: [10.6.0.0/24, 'fd00:6::/64']}}
";
    let lab = Live::up(&bed, "dual", text);
    let sh = |line: &str| lab.ask(&["exec", "hub", "--", "sh", "-c", line]);
    let neighbours = sh("ip -6 neigh; ip -4 neigh").expect(0, &[]).out;
    for address in ["fd00:6::2", "fd00:6::3", "10.6.0.2", "10.6.0.3"] {
        let line = neighbours.lines().find(|line| line.starts_with(&format!("{address} ")));
        assert!(line.is_some_and(|line| line.contains("PERMANENT")), "{address}: {neighbours}");
    }
    let addresses = sh("ip -6 addr show dev eth0").expect(0, &["fd00:6::1/64", "fe80::"]).out;
    assert!(!addresses.contains("tentative"), "no wait for an address: {addresses}");
    sh("getent ahosts meter-2").expect(0, &["fd00:6::3", "10.6.0.3"]);
    sh("ping -6 -n -c 1 -W 30 meter-1").expect(0, &["from fd00:6::2"]);
    sh("ping -4 -n -c 1 -W 30 meter-1").expect(0, &["from 10.6.0.2"]);
    // The peer's link-local address is resolved over the network.
    let link_local = lab.ask(&["exec", "meter-1", "--", "ip", "-6", "addr", "show", "dev", "eth0"]);
    let of = link_local.out.split_whitespace().find(|word| word.starts_with("fe80"));
    let of = of.unwrap().trim_end_matches("/64");
    sh(&format!("ping -6 -n -c 1 -W 30 {of}%eth0")).expect(0, &["1 received"]);
}

#[test]
fn a_wrong_subnet_is_refused_with_its_line_and_the_fix() {
    let bed = bed();
    for (subnet, words) in [
        ("fd00:6::7/64", &["e.yaml:7:13", "write `fd00:6::/64`"][..]),
        ("'::ffff:10.0.0.0/120'", &["e.yaml:7:13", "write the IPv4 subnet"]),
        ("ff05::/64", &["multicast groups; write for example `fd00::/64`"]),
        ("'::/0'", &["a reserved range; write for example `fd00::/64`"]),
        ("fe80::/64", &["a link-local address already"]),
        ("fd00:6::/127", &["between 16 and 126"]),
        ("[fd00::/64, fd01::/64]", &["e.yaml:7:25", "at most one subnet of IPv4 and one of IPv6"]),
        ("[]", &["the network has no subnet"]),
        ("fd00:6::/64\n    mtu: 127 B", &["e.yaml:7:13", "`mtu: 1280 B`"]),
        ("fd1b:8c4f:7e2d::/48\n    nat: true", &["e.yaml:7:13", "overlaps fd1b:8c4f:7e2d:ff::/64"]),
    ] {
        bed.write("e.yaml", &experiment("e", subnet, "0 %"));
        bed.thingbed(&["check", "e.yaml"]).expect(2, words);
    }
    let many = experiment("e", "fd00:6::/126", "0 %").replace("count: 2}", "count: 3}");
    bed.write("e.yaml", &many);
    bed.thingbed(&["check", "e.yaml"]).expect(2, &["4 nodes do not fit", "fd00:6::/125 has 7"]);
    let more = "  other: {attach: [hub], subnet: ['fd00:6:0:0:1::/80', 10.0.0.0/24]}\nmodels:";
    let overlap = experiment("e", "fd00:6::/64", "0 %").replace("models:", more);
    bed.write("e.yaml", &overlap);
    let words = ["overlaps fd00:6::/64 of network `lan`", "use another subnet"];
    bed.thingbed(&["check", "e.yaml"]).expect(2, &words);
}

/// PGM of libzmq: messages of several packets, of which PGM repairs some.
#[test]
fn pgm_works_over_ipv6() {
    let bed = bed();
    bed.write("payload.xml", &format!("##########{}", " ".repeat(2_990)));
    let text = experiment("pgm", "fd00:6::/64", "0 %")
        .replace(
            "udp: {down: udp/request-response, up: udp",
            "udp: {down: pgm/publish-subscribe, up: tcp",
        )
        .replace("up: tcp/request-response", "up: tcp/request-reply")
        .replace("delay: 5 ms", "delay: 5 ms, loss: 20 %")
        .replace("drain: 3 s", "drain: 60 s\ncapture: {}");
    let summary = run(&bed, "pgm", &text, &["--clock", "virtual"]);
    assert_eq!(figure(&summary, ".messages.answered"), 120.0, "{summary:#}");
    assert_eq!(figure(&summary, ".messages.duplicates"), 0.0);
    // Repairs by the source are counted as such, so PGM is recognised in packets of IPv6.
    assert!(figure(&summary, ".groups.hub.retransmitted_bytes") > 0.0, "{summary:#}");
    let capture = std::fs::read(bed.sweep("pgm").join("capture.pcapng")).unwrap();
    let group: std::net::Ipv6Addr = "ff12::d1:1".parse().unwrap();
    assert!(capture.windows(16).any(|bytes| bytes == group.octets()));
}

/// The stacks of others, over addresses of IPv6.
#[test]
fn the_directors_other_stacks_work_over_ipv6() {
    let bed = bed();
    let text = experiment("outside", "fd00:6::/64", "10 %")
        .replace("every: 20 ms, count: 60", "every: 0.2 s, count: 5")
        .replace("drain: 3 s", "drain: 60 s");
    for model in ["tcp-router-dealer", "tcp-publish-subscribe", "pgm-publish-subscribe"] {
        let text = text.replace("udp/request-response", &format!("director/{model}"));
        let summary = run(&bed, "outside", &text, &["--clock", "virtual"]);
        assert_eq!(figure(&summary, ".messages.answered"), 10.0, "{model}: {summary:#}");
    }
    bed.write("mosquitto.conf", "listener 1883\nallow_anonymous true\n");
    let program = "{run: [mosquitto, -c, mosquitto.conf], ready: {tcp: 1883}}";
    let broker = text
        .replace("udp/request-response", "director/mqtt")
        .replace("udp: {", "udp: {broker: broker, ")
        .replace("nodes: {", &format!("nodes: {{broker: {program}, "))
        .replace("attach: [hub, meter]", "attach: [hub, meter, broker]");
    let summary = run(&bed, "outside", &broker, &["--clock", "virtual"]);
    assert_eq!(figure(&summary, ".messages.answered"), 10.0, "mqtt: {summary:#}");
}

/// The director's own models, with multicast where a model has it.
#[test]
fn the_director_works_over_ipv6() {
    let bed = bed();
    let text = experiment("six", "fd00:6::/64", "10 %")
        .replace("every: 20 ms, count: 60", "every: 0.2 s, count: 5");
    for model in ["director", "director/multicast-fec", "director/udp-arq", "director/quic-streams"]
    {
        let text = text.replace("udp/request-response", model).replace("drain: 3 s", "drain: 60 s");
        let summary = run(&bed, "six", &text, &["--clock", "virtual"]);
        assert_eq!(figure(&summary, ".messages.answered"), 10.0, "{model}: {summary:#}");
        assert_eq!(figure(&summary, ".messages.duplicates"), 0.0, "{model}");
    }
    // Interactions of IPv6 have a group of its link.
    let fec = text.replace("udp/request-response", "director/multicast-fec");
    bed.write("e.yaml", &fec.replace("duration:", "capture: {}\nduration:"));
    bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]).ran(&[]);
    let capture = std::fs::read(bed.sweep("six").join("capture.pcapng")).unwrap();
    let group: std::net::Ipv6Addr = "ff12::d1:1".parse().unwrap();
    assert!(capture.windows(16).any(|bytes| bytes == group.octets()));
}

/// All methods of libcoap's CoAP, and a group of the site.
#[test]
fn coap_works_over_ipv6() {
    let bed = bed();
    let mut workloads = String::new();
    let exchanges = [
        ("get", "coap", "sink-1"),
        ("put", "{coap: {method: put, block: 64 B}}", "sink-1"),
        ("tcp", "{coap: {method: post, transport: tcp, block: 512 B}}", "sink-1"),
        ("dtls", "{coap: {transport: dtls}}", "sink-1"),
        ("observe", "{coap: {observe: true}}", "sink-1"),
        ("group", "{coap: {group: true, method: put, leisure: 1 s}}", "[sink-2, sink-3]"),
    ];
    for (k, (name, protocol, sinks)) in exchanges.iter().enumerate() {
        let port = 6000 + k;
        let payload = if *name == "group" { "[40 B]" } else { "[100 B, 2500 B]" };
        workloads += &format!(
            "  - exchange: {{name: {name}, sources: source-{}, sinks: {sinks}, protocol: {protocol}, port: {port}, \
             every: 1 s, timeout: 10 s, payload: {payload}, repetitions: 3}}\n",
            k + 1,
        );
    }
    let text = format!(
        "experiment: coap
nodes: {{source: {{count: 6}}, sink: {{count: 3}}}}
networks: {{field: {{attach: [source, sink], subnet: 'fd00:6::/64'}}}}
workloads:
{workloads}duration: 10 s
"
    );
    let summary = run(&bed, "coap", &text, &["--clock", "virtual"]);
    for (name, ..) in exchanges {
        let exchange = &summary["exchanges"][name];
        assert_eq!(figure(exchange, ".failed"), 0.0, "{name}: {exchange:#}");
        assert_eq!(figure(exchange, ".exchanges"), 6.0, "{name}: {exchange:#}");
    }
}

/// Exchanges, requests and MQTT clients, whose programs Thingbed starts.
#[test]
fn the_protocols_of_workloads_work_over_ipv6() {
    if !has("mosquitto") {
        return eprintln!("NOT RUN: needs mosquitto");
    }
    let bed = bed();
    bed.write("plain.conf", "listener 1883\nallow_anonymous true\nuser root\n");
    let mut workloads = String::new();
    let exchanges = [
        ("udp", "udp"),
        ("tcp", "tcp"),
        ("opcua", "opcua"),
        ("http", "http"),
        ("quic", "quic"),
        ("mqtt", "mqtt, broker: broker"),
    ];
    for (k, (name, protocol)) in exchanges.iter().enumerate() {
        let k = k + 1;
        workloads += &format!(
            "  - exchange: {{name: {name}, sources: source-{k}, sinks: sink-{k}, protocol: {protocol}, \
             every: 50 ms, pause: 5 ms, timeout: 10 s, payload: [100 B, 2500 B], repetitions: 3}}\n"
        );
    }
    workloads +=
        "  - device: {on: sink-7, coap: 5683, http: 80, udp: 7000, tcp: 7000, check: false}\n";
    for protocol in ["coap", "http", "udp", "tcp"] {
        let path = if matches!(protocol, "coap" | "http") { ", path: a" } else { "" };
        workloads += &format!(
            "  - load: {{name: {protocol}-load, on: source-7, to: sink-7, protocol: {protocol}{path}, \
             arrivals: constant:50ms, count: 10, duration: 1 s, timeout: 10 s}}\n"
        );
    }
    workloads += "  - mqtt: {name: readings, broker: broker, publishers: source-8, subscribers: sink-8, \
                  payload: payload.xml, every: 50 ms, count: 10, qos: 1, pattern: one-to-one}\n";
    bed.write(
        "e.yaml",
        &format!(
            "experiment: protocols
nodes:
  broker: {{run: [mosquitto, -c, plain.conf], ready: {{tcp: 1883}}}}
  source: {{count: 8}}
  sink: {{count: 8}}
networks:
  field: {{attach: [broker, source, sink], subnet: 'fd00:6::/64'}}
workloads:
{workloads}duration: 1 s
setup_limit: 120 s
"
        ),
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let folder = bed.sweep("protocols");
    let summary = json(&folder.join("summary.json"));
    for (name, _) in exchanges {
        let exchange = &summary["exchanges"][name];
        assert_eq!(figure(exchange, ".failed"), 0.0, "{name}: {exchange:#}");
        assert_eq!(figure(exchange, ".exchanges"), 6.0, "{name}: {exchange:#}");
    }
    // Headers of Ethernet, IPv6 and UDP, and a number of 4 B; and a second fragment, each with a
    // fragment header.
    let udp = |size: &str| figure(&summary["exchanges"]["udp"]["sizes"][size], ".bytes");
    assert_eq!(udp("100"), 100.0 + 2.0 * 66.0);
    assert_eq!(udp("2500"), 2500.0 + 2.0 * 66.0 + 54.0 + 2.0 * 8.0);
    for protocol in ["coap", "http", "udp", "tcp"] {
        let load = &summary["loads"][format!("{protocol}-load")];
        assert_eq!(figure(load, ".answered"), 10.0, "{load:#}");
    }
    let run = json(&folder.join("run.json"));
    let evidence = run["verdict"]["evidence"].as_array().unwrap();
    let counts = evidence
        .iter()
        .find(|found| found["name"] == "byte counts of endpoints against Thingbed's")
        .expect("both have counted");
    assert_eq!(counts["value"], 0.0, "{counts:#}");
    // Six exchanges of each of six protocols, and ten messages.
    assert_eq!(figure(&summary, ".messages.delivered"), 46.0, "{summary:#}");
}

/// Third-party programs find each other by names, which resolve to IPv6.
#[test]
fn unmodified_programs_work_over_ipv6() {
    let needed = ["mosquitto", "mosquitto_sub", "coap-client-notls", "coap-server-notls"];
    if !needed.into_iter().all(has) {
        return eprintln!("NOT RUN: needs {needed:?}");
    }
    let bed = bed();
    bed.write("plain.conf", "listener 1883\nallow_anonymous true\nuser root\n");
    let coap = "coap-client-notls -B 30 -m get 'coap://[fd00:6::1]/'";
    let text = "experiment: NAME
nodes:
  server: {run: [mosquitto, -c, plain.conf], ready: {tcp: 1883}}
  client: {}
networks: {lan: {attach: [server, client], subnet: 'fd00:6::/64', links: {client: {up: {delay: 3 ms}}}}}
";
    let lab = Live::up(&bed, "real", text);
    let on = |node: &str, line: &str| lab.ask(&["exec", node, "--", "sh", "-c", line]);
    on("server", "coap-server-notls -A :: >/dev/null 2>&1 & exit 0").expect(0, &[]);
    let listener = "mosquitto_sub -h server -t a -C 1 -W 60 & \
                    until mosquitto_pub -h server -t a -r -m hello; do sleep 0.1; done; wait";
    on("client", listener).expect(0, &["hello"]);
    on("client", &format!("for i in 1 2 3 4 5 6 7 8 9; do {coap} && exit; sleep 1; done; exit 1"))
        .expect(0, &["libcoap"]);
    let link = |loss: &str| bed.thingbed(&["link", "set", "--lab", &lab.name, "client", loss]);
    link("loss=100 %").expect(0, &[]);
    on("client", "ping -6 -n -c 2 -i 0.2 -W 1 server").expect(1, &["100% packet loss"]);
    link("loss=0 %").expect(0, &[]);
    on("client", "ping -6 -n -c 1 -W 30 server").expect(0, &[" 1 received"]);
    // In three fragments.
    on("client", "ping -6 -n -c 1 -W 30 -s 4000 server").expect(0, &[" 1 received"]);
    // IPv6 needs 1,280 B; a smaller MTU would remove the addresses.
    let node = |mtu: &str| lab.ask(&["set", "client", mtu]);
    node("mtu=1279 B").expect(1, &["use `mtu=1280 B`"]);
    on("client", "ping -6 -n -c 1 -W 30 server").expect(0, &[" 1 received"]);
    node("mtu=1280 B").expect(0, &[]);
    on("client", "ping -6 -n -c 1 -W 30 -s 1200 server").expect(0, &[" 1 received"]);
}

#[test]
fn ipv6_works_with_netem_and_over_other_frame_paths() {
    let bed = bed();
    let netem = experiment("netem", "fd00:6::/64", "0 %")
        .replace("    links:", "    backend: netem\n    links:");
    let plain = experiment("paths", "fd00:6::/64", "0 %");
    for (name, text, path) in
        [("netem", &netem, None), ("paths", &plain, Some("tap")), ("paths", &plain, Some("packet"))]
    {
        bed.write("e.yaml", text);
        let mut command = bed.command(&["run", "e.yaml", "-q"]);
        command.envs(path.map(|path| ("THINGBED_FRAME_PATH", path)));
        let answer = common::CommandOutput::of(command.output().unwrap());
        let lacks = ["this kernel has no netem", "THINGBED_FRAME_PATH does not work"];
        if lacks.into_iter().any(|lack| answer.err.contains(lack)) {
            eprintln!("NOT RUN: {}", answer.err);
            continue;
        }
        answer.ran(&[]);
        let summary = json(&bed.sweep(name).join("summary.json"));
        assert_eq!(figure(&summary, ".messages.answered"), 60.0, "{summary:#}");
    }
}
