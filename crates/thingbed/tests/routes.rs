//! Routers and routes between networks.

mod common;

use common::live::Live;
use common::{Bed, figure, has, json};

/// A host, two routers and a server in a chain, with both families.
const CHAIN: &str = "nodes: {host: {}, left: {forward: true}, right: {forward: true}, server: {}}
networks:
  near: {attach: [host, left], subnet: [10.1.0.0/24, 'fd00:1::/64']}
  between: {attach: [left, right], subnet: [10.2.0.0/24, 'fd00:2::/64'], links: {left: {up: {delay: 2 ms}}}}
  far: {attach: [right, server], subnet: [10.3.0.0/24, 'fd00:3::/64']}
";

/// Messages of 100 B from the host to the server.
fn interaction(name: &str, model: &str) -> String {
    format!(
        "experiment: {name}
seed: 7
{CHAIN}models:
  udp: {{down: udp/request-response, up: udp/request-response, every: 20 ms, count: 40}}
  tcp: {{down: tcp/router-dealer, up: tcp/request-reply, every: 20 ms, count: 20}}
  pgm: {{down: pgm/publish-subscribe, up: tcp/request-reply, every: 20 ms, count: 20}}
workloads:
  - interaction: {{source: host, sinks: server, model: {model}, payload: payload.xml}}
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

#[test]
fn the_plan_shows_routes_and_packets_take_them() {
    if !["ip", "ping"].into_iter().all(has) {
        return eprintln!("NOT RUN: needs ip and ping");
    }
    let bed = bed();
    bed.write("e.yaml", &format!("experiment: plan\n{CHAIN}duration: 1 s\n"));
    bed.thingbed(&["plan", "e.yaml"]).expect(
        0,
        &[
            "routes: default via 10.1.0.2, default via fd00:1::2",
            "left: left, forwards packets",
            "routes: 10.3.0.0/24 via 10.2.0.2, fd00:3::/64 via fd00:2::2",
        ],
    );
    let lab = Live::up(&bed, "chain", &format!("experiment: NAME\n{CHAIN}"));
    let on = |node: &str, line: &str| lab.ask(&["exec", node, "--", "sh", "-c", line]);
    for (family, server, first, second) in
        [("-4", "10.3.0.2", "10.1.0.2", "10.2.0.2"), ("-6", "fd00:3::2", "fd00:1::2", "fd00:2::2")]
    {
        let ping = format!("ping {family} -n -c 1 -W 30");
        on("host", &format!("{ping} server")).expect(0, &[&format!("from {server}"), "ttl=62"]);
        on("server", &format!("{ping} host")).expect(0, &["ttl=62"]);
        // What traceroute does.
        let exceeded = "exceeded";
        on("host", &format!("{ping} -t 1 server")).expect(1, &[first, exceeded]);
        on("host", &format!("{ping} -t 2 server")).expect(1, &[second, exceeded]);
        let neighbours = on("left", &format!("ip {family} neigh")).expect(0, &[]).out;
        assert!(neighbours.lines().all(|line| line.contains("PERMANENT")), "{neighbours}");
    }
    // A router that is down.
    lab.ask(&["pause", "right"]).expect(0, &[]);
    on("host", "ping -n -c 1 -W 30 server").expect(0, &["ttl=62"]);
    bed.thingbed(&["link", "set", "--lab", &lab.name, "right", "loss=100 %"]).expect(0, &[]);
    on("host", "ping -n -c 1 -W 1 server").expect(1, &["100% packet loss"]);
}

#[test]
fn interactions_cross_routers_and_every_link_counts_its_frames() {
    let bed = bed();
    for (model, messages) in [("udp", 40.0), ("tcp", 20.0)] {
        bed.write("e.yaml", &interaction(model, model));
        bed.thingbed(&["plan", "e.yaml"]).expect(0, &["host to server, over near"]);
        bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
        let summary = json(&bed.sweep(model).join("summary.json"));
        assert_eq!(figure(&summary, ".messages.answered"), messages, "{summary:#}");
        if model == "udp" {
            let of = |group: &str| {
                let of = |key: &str| figure(&summary, &format!(".groups.{group}.{key}"));
                of("tx_bytes") - of("control_bytes")
            };
            // Headers of Ethernet, IPv4 and UDP. Routers send in both directions.
            let one_way = messages * (14.0 + 20.0 + 8.0 + 100.0);
            assert_eq!((of("host"), of("server")), (one_way, one_way), "{summary:#}");
            assert_eq!((of("left"), of("right")), (2.0 * one_way, 2.0 * one_way), "{summary:#}");
        }
    }
}

#[test]
fn virtual_time_has_routers() {
    let bed = bed();
    bed.write("e.yaml", &interaction("virtual", "udp"));
    let run = || {
        bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]).ran(&[]);
        json(&bed.sweep("virtual").join("summary.json"))
    };
    let first = run();
    assert_eq!(figure(&first, ".messages.answered"), 40.0, "{first:#}");
    // One of four crossings of the middle network is delayed.
    assert!(figure(&first, ".messages.rtd_ms.p50") >= 2.0, "{first:#}");
    assert_eq!(run(), first);
}

/// Loads, exchanges and MQTT take addresses of the way to their network.
#[test]
fn other_workloads_cross_routers() {
    if !has("mosquitto") {
        return eprintln!("NOT RUN: needs mosquitto");
    }
    let bed = bed();
    bed.write("plain.conf", "listener 1883\nallow_anonymous true\nuser root\n");
    let chain = CHAIN
        .replace("server: {}", "server: {run: [mosquitto, -c, plain.conf], ready: {tcp: 1883}}");
    let chain = chain.replace("right, server]", "right, server, reader]");
    let chain = chain.replace("{host: {}", "{host: {count: 2}, reader: {}");
    bed.write(
        "e.yaml",
        &format!(
            "experiment: others
{chain}workloads:
  - exchange: {{name: http, sources: host-1, sinks: server, protocol: http, payload: 2500 B, repetitions: 3, every: 50 ms, pause: 5 ms, timeout: 10 s}}
  - exchange: {{name: coap, sources: host-1, sinks: server, protocol: coap, payload: 2500 B, repetitions: 3, every: 50 ms, pause: 5 ms, timeout: 10 s}}
  - device: {{on: server, coap: 5700, check: false}}
  - load: {{name: load, on: host, to: server, port: 5700, path: a, arrivals: constant:50ms, count: 10, duration: 1 s, timeout: 10 s}}
  - mqtt: {{name: readings, broker: server, publishers: host-1, subscribers: reader, payload: payload.xml, every: 50 ms, count: 10, qos: 1, pattern: one-to-one}}
duration: 1 s
setup_limit: 120 s
"
        ),
    );
    bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]).ran(&[]);
    let folder = bed.sweep("others");
    let summary = json(&folder.join("summary.json"));
    for name in ["http", "coap"] {
        let exchange = &summary["exchanges"][name];
        assert_eq!(figure(exchange, ".failed"), 0.0, "{name}: {exchange:#}");
        assert_eq!(figure(exchange, ".exchanges"), 3.0, "{name}: {exchange:#}");
    }
    assert_eq!(figure(&summary["loads"]["load"], ".answered"), 20.0, "{summary:#}");
    assert_eq!(figure(&summary, ".messages.delivered"), 16.0, "{summary:#}");
    let run = json(&folder.join("run.json"));
    let evidence = run["verdict"]["evidence"].as_array().unwrap();
    let counts = evidence
        .iter()
        .find(|found| found["name"] == "byte counts of endpoints against Thingbed's")
        .expect("both have counted");
    assert_eq!(counts["value"], 0.0, "{counts:#}");
}

/// `routes` adds to the plan's routes, and `none` leaves them to a routing program.
#[test]
fn routes_of_the_file_override_those_of_the_plan() {
    if !["ip", "ping"].into_iter().all(has) {
        return eprintln!("NOT RUN: needs ip and ping");
    }
    let bed = bed();
    // Two routers between the networks; the host prefers the second one.
    let text = "experiment: NAME
nodes:
  host: {routes: {default: second, 10.9.0.0/16: 10.1.0.2, 'fd00:9::/32': 'fd00:1::2'}}
  first: {forward: true}
  second: {forward: true}
  server: {}
  own: {routes: none}
networks:
  near: {attach: [host, first, second, own], subnet: [10.1.0.0/24, 'fd00:1::/64']}
  far: {attach: [first, second, server], subnet: [10.3.0.0/24, 'fd00:3::/64']}
";
    let lab = Live::up(&bed, "override", text);
    let on = |node: &str, line: &str| lab.ask(&["exec", node, "--", "sh", "-c", line]);
    on("host", "ip route; ip -6 route").expect(
        0,
        &[
            "default via 10.1.0.3 ",
            "default via fd00:1::3 ",
            "10.9.0.0/16 via 10.1.0.2 ",
            "fd00:9::/32 via fd00:1::2 ",
        ],
    );
    on("host", "ping -4 -n -c 1 -W 30 -t 1 server").expect(1, &["10.1.0.3", "exceeded"]);
    on("host", "ping -n -c 1 -W 30 server").expect(0, &["ttl=63"]);
    let own = on("own", "ip route; ping -n -c 1 -W 1 10.3.0.3");
    assert!(own.status != 0 && !own.out.contains("via"), "{}{}", own.out, own.err);
    on("own", "ip route add 10.3.0.0/24 via 10.1.0.2; ping -n -c 1 -W 30 10.3.0.3").expect(0, &[]);
    // A clone has the routes of the original.
    lab.ask(&["clone", "host", "--count", "1"]).expect(0, &[]);
    on("host-2", "ping -n -c 1 -W 30 10.3.0.3").expect(0, &["ttl=63"]);
    lab.ask(&["destroy", "second"]).expect(0, &[]);
    on("host", "ping -n -c 1 -W 1 10.3.0.3").expect(1, &[]);
}

#[test]
fn wrong_routes_are_refused_with_their_line_and_the_fix() {
    let bed = bed();
    for (routes, words) in [
        ("{10.9.0.0/33: left}", &["e.yaml:2:", "between 0 and 32"][..]),
        ("{10.9.0.1/16: left}", &["write `10.9.0.0/16`"]),
        ("{elsewhere: left}", &["neither `default`, an address, nor a prefix"]),
        ("{default: lef}", &["unknown next hop `lef`", "left"]),
        ("{default: right}", &["`right` is on no network of `host`"]),
        ("{default: host}", &["`host` is on no network of `host`"]),
        ("{default: 10.2.0.1}", &["`10.2.0.1` is on no network of `host`"]),
        ("{10.9.0.0/16: 'fd00:1::2'}", &["has no IPv4 address there"]),
        ("{10.1.0.0/24: left}", &["the subnet of its network `near`", "remove it"]),
        ("all", &["expected"]),
    ] {
        let chain = CHAIN.replace("{host: {}", &format!("{{host: {{routes: {routes}}}"));
        bed.write("e.yaml", &format!("experiment: e\n{chain}duration: 1 s\n"));
        bed.thingbed(&["check", "e.yaml"]).expect(2, words);
    }
    bed.write("e.yaml", &interaction("pgm", "pgm"));
    let words = ["which is on another network", "routers do not forward"];
    bed.thingbed(&["check", "e.yaml"]).expect(2, &words);
    let without = interaction("e", "udp").replace("left: {forward: true}", "left: {}");
    bed.write("e.yaml", &without);
    let words = ["no network includes all of", "a node with `forward: true`"];
    bed.thingbed(&["check", "e.yaml"]).expect(2, &words);
    let hardware = CHAIN.replace("host: {}", "host: {external: eth1, forward: true}");
    bed.write("e.yaml", &format!("experiment: e\n{hardware}duration: 1 s\n"));
    bed.thingbed(&["check", "e.yaml"]).expect(2, &["hardware nodes cannot have `forward`"]);
}
