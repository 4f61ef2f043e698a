//! Defaults and counts of workloads against the values that the documentation states, and imported
//! topologies against their links.

use crate::file;
use experiment::{Exchange, Experiment, Interaction, Only, Plan, Workload, import::import};
use proptest::prelude::*;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;

fn plan(text: &str) -> Plan {
    let experiment =
        Experiment::parse(text, "e.yaml", "").unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    experiment.plan(&experiment.cells(&Only::all()).unwrap()[0], 0, 1).unwrap()
}

fn exchange(keys: &str) -> Exchange {
    let text = file(&format!(
        "nodes: {{a: {{}}, b: {{}}, c: {{}}}}\n\
         networks: {{n: {{attach: [a, b, c], subnet: 10.0.0.0/24}}}}\n\
         workloads: [{{exchange: {{sources: a, sinks: b, broker: c, payload: 99 B, every: 1 s, {keys}}}}}]\n"
    ));
    match plan(&text).workloads.remove(0) {
        Workload::Exchange(exchange) => exchange,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ports_connections_and_certificates_have_the_documented_defaults() {
    for (keys, port, connection, has_tls) in [
        ("protocol: udp", 7000, "new", false),
        ("protocol: tcp", 7000, "new", false),
        ("protocol: coap", 5683, "new", false),
        ("protocol: {coap: {transport: dtls}}", 5684, "new", false),
        ("protocol: {coap: {transport: tcp}}", 5683, "new", false),
        ("protocol: {coap: {transport: tls}}", 5684, "new", false),
        ("protocol: {coap: {transport: dtls}}, tls: generated", 5684, "new", true),
        ("protocol: {coap: {observe: true}}", 5683, "kept", false),
        ("protocol: mqtt", 1883, "new", false),
        ("protocol: mqtt, tls: generated", 8883, "new", true),
        ("protocol: opcua", 4840, "kept", false),
        ("protocol: http", 80, "new", false),
        // QUIC is always encrypted.
        ("protocol: quic", 4433, "new", true),
        ("protocol: mqtt, port: 9", 9, "new", false),
        ("protocol: mqtt, tls: generated, port: 9, connection: kept", 9, "kept", true),
    ] {
        let exchange = exchange(keys);
        assert_eq!(exchange.port, port, "{keys}");
        assert_eq!(exchange.connection.to_string(), connection, "{keys}");
        assert_eq!(exchange.tls.is_some(), has_tls, "{keys}");
        // Only MQTT has a broker, so that the protocol can be an axis.
        let brokers: &[String] = if keys.contains("mqtt") { &["c".to_owned()] } else { &[] };
        assert_eq!(exchange.brokers, brokers, "{keys}");
        assert_eq!((exchange.repetitions, exchange.warmup), (1, 0), "{keys}");
    }
}

#[test]
fn payload_sizes_are_a_size_a_list_or_a_sweep() {
    for (payload, sizes) in [
        ("0 B", &[0][..]),
        ("1 kB", &[1000]),
        ("1 KiB", &[1024]),
        ("[9 B, 5 B, 9 B]", &[9, 5]),
        ("{from: 1 B, to: 10 B, step: 3 B}", &[1, 4, 7, 10]),
        ("{from: 1 B, to: 9 B, step: 3 B}", &[1, 4, 7]),
        ("{from: 5 B, to: 5 B, step: 1 kB}", &[5]),
    ] {
        let text = file(&format!(
            "workloads: [{{exchange: {{sources: a, sinks: b, protocol: tcp, payload: {payload}, every: 1 s}}}}]\n"
        ));
        let Workload::Exchange(exchange) = plan(&text).workloads.remove(0) else {
            panic!("{text}")
        };
        assert_eq!(exchange.sizes, sizes, "{payload}");
    }
}

/// An interaction with these keys, and those of its model.
fn interaction(own: &str, model: &str, duration: &str) -> Interaction {
    let text = file(&format!(
        "duration: {duration}\n\
         models: {{m: {{down: udp/request-response, up: udp/request-response{model}}}}}\n\
         workloads: [{{interaction: {{source: a, sinks: b, model: m, payload: Cargo.toml{own}}}}}]\n"
    ));
    match plan(&text).workloads.remove(0) {
        Workload::Interaction(interaction) => interaction,
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_are_counted_from_the_interaction_its_model_or_the_experiment() {
    for (own, model, duration, every_ms, messages) in [
        (", every: 1 s", "", "10 s", 1000.0, 10),
        // The first is at 0, so one that begins before the end counts.
        (", every: 3 s", "", "10 s", 3000.0, 4),
        (", every: 20 s", "", "10 s", 20000.0, 1),
        ("", ", every: 2 s", "10 s", 2000.0, 5),
        (", every: 5 s", ", every: 2 s", "10 s", 5000.0, 2),
        ("", ", every: 2 s, duration: 4 s", "10 s", 2000.0, 2),
        (", duration: 6 s", ", every: 2 s, duration: 4 s", "10 s", 2000.0, 3),
        ("", ", every: 2 s, count: 7", "10 s", 2000.0, 7),
        (", count: 8", ", every: 2 s, count: 7", "10 s", 2000.0, 8),
        (", count: 8, duration: 4 s", ", every: 2 s", "10 s", 2000.0, 8),
        (", every: 0.15 s", "", "90 s", 150.0, 600),
        (", every: 1 ns, count: 1", "", "1 h", 0.000_001, 1),
    ] {
        let found = interaction(own, model, duration);
        assert_eq!((found.every.as_ms(), found.messages), (every_ms, messages), "{own} {model}");
    }
}

/// What failed: without another key for its program, the conditions for an image's program were
/// forgotten.
#[test]
fn conditions_hold_for_the_program_of_an_image_and_none_starts_with_an_empty_run() {
    let node = |keys: &str| {
        let text = crate::file(&format!("nodes: {{a: {{root: src, {keys}}}, b: {{}}}}"));
        plan(&text).nodes.remove(0)
    };
    let checked = node("expect: {exit: 1}");
    assert_eq!(checked.program.map(|program| program.check.exit), Some(vec![1]));
    let plain = node("limits: {output: 1 MiB}");
    assert!(plain.program.is_none() && !plain.is_idle, "the image's program starts");
    let idle = node("run: []");
    assert!(idle.program.is_none() && idle.is_idle);
}

/// An experiment with machines has more time until all are ready.
#[test]
fn the_default_setup_limit_suits_machines_that_boot() {
    let limit = |keys: &str| {
        let text = format!("nodes: {{a: {{{keys}}}, b: {{}}}}");
        plan(&crate::file(&text)).setup_limit.as_s()
    };
    assert_eq!(limit(""), 60.0);
    assert_eq!(limit("qemu: {arch: arm, memory: 64 MiB}"), 300.0);
}

/// A link between two of five nodes.
type Pair = (usize, usize);

/// Names that experiment files cannot have as they are, quoted as in the file.
const NAMES: [&str; 5] = ["r1", "'R_2'", "\"it's\"", "h.local", "é"];

fn topology(links: &[Pair]) -> String {
    let bare = |node: usize| NAMES[node].trim_matches(['\'', '"']);
    let mut text = "name: 'odd \"name\"'\ntopology:\n  nodes:\n".to_owned();
    for name in NAMES {
        text += &format!("    {name}: {{kind: linux, cmd: 'sh -c \"exec sleep 9\"'}}\n");
    }
    text += "  links:\n";
    for (number, (one, two)) in links.iter().enumerate() {
        let [one, two] = [bare(*one), bare(*two)];
        text += &match number % 3 {
            0 => format!("  - endpoints: [\"{one}:eth{number}\", \"{two}:eth{number}\"]\n"),
            1 => format!("  - {{endpoints: [\"{one}:x{number}\", \"{two}:y\"], mtu: 1400}}\n"),
            _ => format!(
                "  - endpoints:\n    - {{node: \"{one}\", interface: a}}\n    - node: \"{two}\"\n      interface: b\n"
            ),
        };
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn each_link_of_a_topology_is_a_network_of_its_two_nodes(
        links in proptest::collection::vec((0usize..5, 0usize..5), 1..12)
    ) {
        let text = topology(&links);
        let imported = import(&text, Path::new("t.clab.yml"), true)
            .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let plan = plan(&imported.text);
        let names: HashSet<&str> = plan.nodes.iter().map(|node| node.name.as_str()).collect();
        prop_assert_eq!((plan.nodes.len(), names.len(), plan.networks.len()), (5, 5, links.len()));
        for (network, (one, two)) in plan.networks.iter().zip(&links) {
            let is_on = |node: &usize| {
                plan.nodes[*node].links.iter().any(|link| link.network == network.name)
            };
            let found: BTreeSet<usize> = (0..5).filter(is_on).collect();
            prop_assert_eq!(found, BTreeSet::from([*one, *two]), "{} of\n{}", network.name, imported.text);
        }
        for node in &plan.nodes {
            prop_assert_eq!(&node.program.as_ref().unwrap().run, &["sh", "-c", "exec sleep 9"]);
            let interfaces: Vec<&str> = node.links.iter().map(|link| link.interface.as_str()).collect();
            let expected: Vec<String> = (0..interfaces.len()).map(|n| format!("eth{n}")).collect();
            prop_assert_eq!(interfaces, expected);
        }
    }
}
