//! The JSON Schema refuses the numbers that the checks refuse, so that an editor shows them.

use crate::file;
use experiment::{Experiment, schema};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A numeric key with a limit. `@` in `text` is its value.
struct Case {
    /// Definition of the schema and key.
    key: [&'static str; 2],
    text: &'static str,
    /// Values at the limits. Of checks that need files, none.
    inside: &'static [&'static str],
    /// Values just outside.
    outside: &'static [&'static str],
}

const fn case(
    key: [&'static str; 2],
    text: &'static str,
    inside: &'static [&'static str],
    outside: &'static [&'static str],
) -> Case {
    Case { key, text, inside, outside }
}

const PORTS: &[&str] = &["1", "65535"];
const NO_PORTS: &[&str] = &["0", "65536"];
const LARGEST: &str = "4294967295";

/// All numeric keys with limits, with lines for [`file`].
const CASES: &[Case] = &[
    case(["", "repeats"], "repeats: @", &["1", LARGEST], &["0", "4294967296"]),
    case(["Group", "count"], "nodes: {a: {count: @}, b: {}}", &["1", "252"], &["0", "100001"]),
    case(["Ready", "tcp"], "nodes: {a: {run: [x], ready: {tcp: @}}, b: {}}", PORTS, NO_PORTS),
    case(["Ready", "udp"], "nodes: {a: {run: [x], ready: {udp: @}}, b: {}}", PORTS, NO_PORTS),
    case(
        ["Limits", "cpus"],
        "nodes: {a: {limits: {cpus: @}}, b: {}}",
        &["0.01", "64"],
        &["0.0099", "0", "-1"],
    ),
    case(["Limits", "processes"], "nodes: {a: {limits: {processes: @}}, b: {}}", &["4"], &["3"]),
    case(["Reserve", "cpus"], "nodes: {a: {reserve: {cpus: @}}, b: {}}", &["0.01"], &["0.0099"]),
    case(["Qemu", "cpus"], "nodes: {a: {qemu: {cpus: @}}, b: {}}", &[], &["0"]),
    case(
        ["BoardProfile", "coremark"],
        "nodes: {a: {board: {supply: 3 V, cpu: {active: 1 mA, idle: 1 uA}, coremark: @}}, b: {}}",
        &["0.001"],
        &["0", "-1"],
    ),
    case(
        ["BoardCpu", "scale"],
        "nodes: {a: {board: {supply: 3 V, cpu: {active: 1 mA, idle: 1 uA, scale: @}}}, b: {}}",
        &["0.001"],
        &["0", "-1"],
    ),
    case(
        ["Metric", "port"],
        "workloads: [{command: {on: a, run: [x], metrics: {m: {prometheus: up, port: @}}}}]",
        PORTS,
        NO_PORTS,
    ),
    case(
        ["ProgramExpect", "exit"],
        "workloads: [{command: {on: a, run: [x], expect: {exit: @}}}]",
        &["0", "255"],
        &["256", "-1"],
    ),
    case(
        ["Model", "count"],
        "workloads: [{interaction: {source: a, sinks: b, model: m, payload: Cargo.toml, every: 1 s}}]
models: {m: {down: udp/request-response, up: udp/request-response, count: @}}",
        &["1"],
        &["0"],
    ),
    case(
        ["Interaction", "count"],
        "models: {m: {down: udp/request-response, up: udp/request-response}}
workloads: [{interaction: {source: a, sinks: b, model: m, payload: Cargo.toml, every: 1 s, count: @}}]",
        &["1"],
        &["0"],
    ),
    case(
        ["FanOut", "to"],
        "models: {m: {down: director, up: director}}
workloads: [{interaction: {source: a, sinks: b, model: m, payload: Cargo.toml, every: 1 s, fan_out: [{at: 0.5 s, to: @}]}}]",
        &["1"],
        &["0"],
    ),
    case(
        ["Exchange", "repetitions"],
        "workloads: [{exchange: {sources: a, sinks: b, protocol: udp, payload: 9 B, every: 1 s, repetitions: @}}]",
        &["1"],
        &["0"],
    ),
    case(
        ["Exchange", "port"],
        "workloads: [{exchange: {sources: a, sinks: b, protocol: udp, payload: 9 B, every: 1 s, port: @}}]",
        PORTS,
        NO_PORTS,
    ),
    case(
        ["OpcuaKeys", "variables"],
        "workloads: [{exchange: {sources: a, sinks: b, protocol: {opcua: {variables: @}}, payload: 99 B, every: 1 s}}]",
        &["1", "10"],
        &["0", "11"],
    ),
    case(
        ["MqttKeys", "qos"],
        "nodes: {a: {}, b: {}, c: {}}
networks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}
workloads: [{exchange: {sources: a, sinks: b, broker: c, protocol: {mqtt: {qos: @}}, payload: 9 B, every: 1 s}}]",
        &["0", "2"],
        &["3", "-1"],
    ),
    case(
        ["Load", "port"],
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', port: @}}]",
        PORTS,
        NO_PORTS,
    ),
    case(
        ["Load", "users"],
        "workloads: [{load: {on: a, to: b, count: 5, users: @}}]",
        &["1", "100000"],
        &["0", "100001"],
    ),
    case(
        ["Load", "count"],
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', count: @}}]",
        &["1", "18446744073709551615"],
        &["0"],
    ),
    case(
        ["Load", "max_retransmit"],
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', confirmable: true, timeout: 9 s, max_retransmit: @}}]",
        &["0", "16"],
        &["17", "-1"],
    ),
    case(
        ["Load", "ack_random_factor"],
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', confirmable: true, timeout: 9 s, max_retransmit: 1, ack_random_factor: @}}]",
        &["1", "10"],
        &["0.999", "10.001"],
    ),
    case(
        ["Load", "nstart"],
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', nstart: @}}]",
        &["1", LARGEST],
        &["0"],
    ),
    case(
        ["Load", "qos"],
        "workloads: [{load: {on: a, to: b, protocol: mqtt, arrivals: 'constant:1s', qos: @}}]",
        &["0", "1"],
        &["2", "-1"],
    ),
    case(
        ["Load", "connections"],
        "workloads: [{load: {on: a, to: b, protocol: http, arrivals: 'constant:1s', connections: @}}]",
        &["1", "10000"],
        &["0", "10001"],
    ),
    case(
        ["Load", "senders"],
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', senders: @}}]",
        &["1", "256"],
        &["0", "257"],
    ),
    case(["Device", "coap"], "workloads: [{device: {on: a, coap: @}}]", PORTS, NO_PORTS),
    case(["Device", "http"], "workloads: [{device: {on: a, http: @}}]", PORTS, NO_PORTS),
    case(["Device", "udp"], "workloads: [{device: {on: a, udp: @}}]", PORTS, NO_PORTS),
    case(["Device", "tcp"], "workloads: [{device: {on: a, tcp: @}}]", PORTS, NO_PORTS),
    case(
        ["Device", "threads"],
        "workloads: [{device: {on: a, threads: @}}]",
        &["1", "1024"],
        &["0", "1025"],
    ),
    case(
        ["Device", "queue"],
        "workloads: [{device: {on: a, queue: @}}]",
        &["0", "10000000"],
        &["10000001", "-1"],
    ),
    case(
        ["Mqtt", "port"],
        "nodes: {a: {}, b: {}, c: {}}
networks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}
workloads: [{mqtt: {broker: a, publishers: b, subscribers: c, pattern: many-to-one, payload: Cargo.toml, rate: 1/s, port: @}}]",
        PORTS,
        NO_PORTS,
    ),
    case(
        ["Mqtt", "qos"],
        "nodes: {a: {}, b: {}, c: {}}
networks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}
workloads: [{mqtt: {broker: a, publishers: b, subscribers: c, pattern: many-to-one, payload: Cargo.toml, rate: 1/s, qos: @}}]",
        &["0", "2"],
        &["3", "-1"],
    ),
    case(
        ["Mqtt", "count"],
        "nodes: {a: {}, b: {}, c: {}}
networks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}
workloads: [{mqtt: {broker: a, publishers: b, subscribers: c, pattern: many-to-one, payload: Cargo.toml, rate: 1/s, count: @}}]",
        &["1"],
        &["0"],
    ),
    case(["Csma", "min_be"], "profiles: {p: {channel: {csma: {max_be: 8, min_be: @}}}}", &["0", "8"], &["9", "-1"]),
    case(
        ["PathLoss", "exponent"],
        "profiles: {p: {channel: {csma: {path_loss: {exponent: @}}}}}",
        &["1", "10"],
        &["0.9", "10.1"],
    ),
    case(["Csma", "max_be"], "profiles: {p: {channel: {csma: {max_be: @}}}}", &["3", "8"], &["2", "9"]),
    case(["Csma", "max_backoffs"], "profiles: {p: {channel: {csma: {max_backoffs: @}}}}", &["0", "5"], &["6", "-1"]),
    case(["Csma", "retries"], "profiles: {p: {channel: {csma: {retries: @}}}}", &["0", "7"], &["8", "-1"]),
    case(["Wifi", "aggregate"], "profiles: {p: {channel: {wifi: {aggregate: @}}}}", &["1", "64"], &["0", "65"]),
    case(["Wifi", "retries"], "profiles: {p: {channel: {wifi: {retries: @}}}}", &["0", "255"], &["256", "-1"]),
    case(["Wifi", "cw_min"], "profiles: {p: {channel: {wifi: {cw_max: 32767, cw_min: @}}}}", &["0", "32767"], &["32768", "-1"]),
    case(["Wifi", "cw_max"], "profiles: {p: {channel: {wifi: {cw_min: 0, cw_max: @}}}}", &["0", "32767"], &["65535", "-1"]),
    case(["Aloha", "channels"], "profiles: {p: {channel: {aloha: {channels: @}}}}", &["1", "96"], &["0", "97"]),
    case(["Aloha", "demodulators"], "profiles: {p: {channel: {aloha: {demodulators: @}}}}", &["1", "1000"], &["0", "1001"]),
    case(
        ["LoraPathLoss", "exponent"],
        "profiles: {p: {channel: {aloha: {path_loss: {exponent: @}}}}}",
        &["1", "10"],
        &["0.99", "10.01"],
    ),
    case(
        ["Impairment", "gap"],
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {delay: 9 ms, reorder: 5 %, gap: @}}}}}",
        &["1", LARGEST],
        &["0", "4294967296"],
    ),
    case(["Impairment", "queue"], "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {rate: 1 Mbit/s, queue: @}}}}}", &["1", LARGEST], &["0"]),
    case(
        ["Network", "vlans"],
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, vlans: {a: @, b: @}}}",
        &["1", "4094"],
        &["0", "4095"],
    ),
    case(
        ["Network", "vlan"],
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, vlans: {a: 2, b: 4094}}, v: {switch: n, vlan: @, subnet: 10.1.0.0/24}}",
        &["2", "4094"],
        &["0", "1", "4095"],
    ),
    case(["Slot", "packets"], "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {slot: {min: 1 ms, packets: @}}}}}}", &["1"], &["0"]),
    case(
        ["Lora", "spreading_factor"],
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {lora: {spreading_factor: @}}}}}}",
        &["7", "12"],
        &["6", "13"],
    ),
    case(
        ["Lora", "preamble"],
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {lora: {spreading_factor: 7, preamble: @}}}}}}",
        &["6", "65535"],
        &["5", "65536"],
    ),
];

/// Numeric keys without a limit below that of their type.
const UNLIMITED: &[[&str; 2]] = &[
    ["", "seed"],
    ["Exchange", "warmup"],
    ["CoapKeys", "max_retransmit"],
    ["Probe", "cores"],
    ["Expect", "factor"],
    ["Expect", "value"],
];

/// Whether the schema accepts a number, of the keywords for numbers.
fn accepts(schema: &Value, all: &Value, number: f64) -> bool {
    // The values of a map.
    if let Some(value) = schema.get("additionalProperties").filter(|value| value.is_object()) {
        return accepts(value, all, number);
    }
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    let is_number = |kind: &Value| *kind == json!("number") || *kind == json!("integer");
    let has_type = match &schema["type"] {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is_number),
        kind => is_number(kind),
    };
    let referred = schema["$ref"].as_str().map(|path| all.pointer(&path[1..]).unwrap());
    has_type
        && limit("minimum").is_none_or(|least| number >= least)
        && limit("maximum").is_none_or(|most| number <= most)
        && limit("exclusiveMinimum").is_none_or(|bound| number > bound)
        && referred.is_none_or(|schema| accepts(schema, all, number))
        && schema["anyOf"]
            .as_array()
            .is_none_or(|any| any.iter().any(|one| accepts(one, all, number)))
}

fn property<'s>(all: &'s Value, [definition, key]: [&str; 2]) -> &'s Value {
    let definition = if definition.is_empty() { all } else { &all["$defs"][definition] };
    let found = &definition["properties"][key];
    assert!(found.is_object(), "the schema has no {key}");
    found
}

#[test]
fn numbers_at_a_limit_pass_the_check_and_the_schema_and_those_outside_neither() {
    let schema = schema();
    let mut wrong = Vec::new();
    for case in CASES {
        let property = property(&schema, case.key);
        let line = file(case.text).lines().position(|line| line.contains('@')).unwrap() + 1;
        let numbers = case.inside.iter().map(|number| (number, true));
        for (number, is_inside) in numbers.chain(case.outside.iter().map(|number| (number, false)))
        {
            let text = file(&case.text.replace('@', number));
            let name = format!("{} {} {number}", case.key[0], case.key[1]);
            match Experiment::parse(&text, "e.yaml", "") {
                Ok(_) if !is_inside => wrong.push(format!("{name}: the check accepts it")),
                Err(errors) if is_inside => wrong.push(format!("{name}: refused:\n{errors}")),
                // The error is at the number.
                Err(errors) if !errors.to_string().contains(&format!("e.yaml:{line}:")) => {
                    wrong.push(format!("{name}: not at line {line}:\n{errors}"));
                }
                _ => {}
            }
            if accepts(property, &schema, number.parse().unwrap()) != is_inside {
                wrong.push(format!("{name}: the schema differs: {property}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether the schema of a value, without its definitions, has numbers that are no texts.
fn is_numeric(schema: &Value) -> bool {
    match schema {
        Value::Object(keys) => {
            let kind = &schema["type"];
            kind == "integer"
                || kind == "number"
                || *kind == json!(["integer", "null"])
                || *kind == json!(["number", "null"])
                || keys.iter().any(|(key, value)| key != "properties" && is_numeric(value))
        }
        Value::Array(items) => items.iter().any(is_numeric),
        _ => false,
    }
}

#[test]
fn each_numeric_key_is_in_a_table_of_this_file() {
    let schema = schema();
    let root = ("".to_owned(), &schema);
    let definitions = schema["$defs"].as_object().unwrap();
    let all = definitions.iter().map(|(name, value)| (name.clone(), value)).chain([root]);
    let mut found: BTreeSet<[String; 2]> = BTreeSet::new();
    for (name, definition) in all {
        let keys = definition["properties"].as_object().into_iter().flatten();
        let numeric = keys.filter(|(_, value)| is_numeric(value));
        found.extend(numeric.map(|(key, _)| [name.clone(), key.clone()]));
    }
    let known = CASES.iter().map(|case| case.key).chain(UNLIMITED.iter().copied());
    let known: BTreeSet<[String; 2]> = known.map(|key| key.map(str::to_owned)).collect();
    assert_eq!(found, known);
}
