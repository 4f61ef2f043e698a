//! Loads, devices and traces: standalone, and as workloads of an experiment.

mod common;

use common::device::{Device, figures};
use common::{Bed, figure, json};
use serde_json::Value;

#[test]
fn every_protocol_is_sent_and_answered() {
    let bed = Bed::new();
    for (scheme, kind) in [("coap", "GET"), ("http", "GET"), ("udp", "SEND"), ("tcp", "SEND")] {
        let resource: &[&str] = match scheme {
            "coap" | "http" => &["--resource", "a=constant:1ms", "--threads", "2"],
            _ => &[],
        };
        let device = Device::new(&bed, scheme, resource);
        let path: &[&str] = if resource.is_empty() { &[] } else { &["--path", "a"] };
        let args = [
            "load",
            "--target",
            &device.uri,
            "--arrivals",
            "exponential:5ms",
            "--requests",
            "100",
            "--json",
            "--out",
            scheme,
            "--operations",
        ];
        let output = figures(bed.thingbed(&[&args, path].concat()));
        assert_eq!(output["loop"], "open");
        assert_eq!(figure(&output, ".counts.answered"), 100.0, "{scheme} {output:#}");
        assert_eq!(output["classes"][0]["class"], kind);
        let (response, service) =
            (figure(&output, ".all.response.p50"), figure(&output, ".all.service.p50"));
        assert!(response >= service && (resource.is_empty() || service >= 1_000.0), "{output:#}");
        let kept = json(&bed.path().join(scheme).join("summary.json"));
        assert_eq!(kept["counts"], output["counts"]);
        let log = std::fs::read_to_string(bed.path().join(scheme).join("latency.hlog")).unwrap();
        assert!(log.contains(&format!("Tag={kind};0;slip")), "{log}");
        let path = bed.path().join(scheme).join("operations.csv");
        let operations = std::fs::read_to_string(path).unwrap();
        assert_eq!(operations.lines().count(), 101);
        for line in operations.lines().skip(1) {
            let times: Vec<u64> =
                line.split(',').skip(2).take(3).map(|time| time.parse().unwrap()).collect();
            assert!(times.is_sorted(), "intended, sent, answered: {line}");
        }
        if !resource.is_empty() {
            let served = device.end();
            assert_eq!(figure(&served, ".resources.0.requests"), 100.0, "{served:#}");
        }
    }
}

#[test]
fn a_closed_loop_is_called_one() {
    let bed = Bed::new();
    let device = Device::new(&bed, "coap", &["--resource", "a=constant:5ms", "--threads", "2"]);
    let load = ["load", "--target", &device.uri, "--path", "a", "--closed", "2"];
    let output = bed.thingbed(&[&load[..], &["--requests", "40"]].concat());
    output.expect(0, &["closed loop"]);
    let output = figures(bed.thingbed(&[&load[..], &["--requests", "40", "--json"]].concat()));
    assert_eq!((&output["loop"], &output["users"]), (&"closed".into(), &2.into()));
    bed.thingbed(&load).expect(2, &["--requests"]);
}

#[test]
fn settings_of_coap_that_cannot_be_are_refused() {
    let bed = Bed::new();
    for (uri, options, output) in [
        ("coap://127.0.0.1:1", "--max-retransmit 4", "--max-retransmit: only confirmable"),
        (
            "coap://127.0.0.1:1",
            "--max-retransmit 4 --confirmable",
            "the first retransmission is after",
        ),
        ("coap://127.0.0.1:1", "--ack-timeout 1s", "--max-retransmit"),
        ("coap://127.0.0.1:1", "--block 48B", "--block: use 16"),
        ("http://127.0.0.1:1", "--nstart 1", "--nstart: needs coap, but the requests use http"),
    ] {
        let base = ["load", "--target", uri, "--arrivals", "constant:1ms", "--requests", "1"];
        let options: Vec<&str> = options.split(' ').collect();
        bed.thingbed(&[&base[..], &options].concat()).expect(2, &[output]);
    }
    bed.write("t.csv", "0, 0, GET, http://127.0.0.1:1/a\n");
    bed.thingbed(&["load", "t.csv", "--nstart", "1"]).expect(1, &["`nstart`: needs coap"]);
}

/// Options of earlier versions are refused with their names now.
#[test]
fn former_options_of_a_device_name_the_new_ones() {
    let bed = Bed::new();
    for (former, new) in [("--garbage", "--corrupt 5 %"), ("--twice", "--duplicate 5 %")] {
        bed.thingbed(&["device", former, "5 %"]).expect(2, &[former, new]);
    }
}

/// Misbehaviour of devices is counted separately and explained, and no request is lost.
#[test]
fn answers_that_are_wrong_twice_late_or_missing() {
    let bed = Bed::new();
    for (wrong, key) in [
        ("--corrupt", "malformed"),
        ("--duplicate", "duplicates"),
        ("--late", "late"),
        ("--silent", ""),
    ] {
        let device = Device::new(&bed, "coap", &[wrong, "50 %", "--late-by", "150 ms"]);
        let output = figures(bed.thingbed(&[
            "load",
            "--target",
            &device.uri,
            "--arrivals",
            "constant:5ms",
            "--requests",
            "60",
            "--timeout",
            "100 ms",
            "--json",
        ]));
        let count = |name: &str| figure(&output, &format!(".counts.{name}"));
        let answered = count("answered");
        assert_eq!(count("scheduled"), 60.0);
        assert_eq!(answered + count("timed_out"), 60.0, "{wrong} {output:#}");
        match key {
            "duplicates" => {
                assert!(answered == 60.0 && figure(&output, ".duplicates") > 5.0, "{output:#}")
            }
            "" => assert!((5.0..=55.0).contains(&answered), "{output:#}"),
            key => {
                assert!((5.0..=55.0).contains(&answered), "{wrong} {output:#}");
                // The last ones may arrive after the load has ended.
                assert!(figure(&output, &format!(".{key}")) > 2.0, "{wrong} {output:#}");
            }
        }
    }
}

#[test]
fn mistakes_in_a_trace_are_counted_and_explained() {
    let bed = Bed::new();
    let device = Device::new(&bed, "coap", &["--resource", "a"]);
    let uri = &device.uri;
    bed.write(
        "t.csv",
        &format!(
            "# device, time, method, URI\n0, 0, GET, {uri}/a\n0, 2000, GRAB, {uri}/a\n\
             0, 1000, GET, {uri}/gone\n0, 500, GET, {uri}/a\n\n\
             1, 3000, GET, coap://127.0.0.1:1/a\n2, 4000, GET, coap://nobody.invalid/a\nhello\n"
        ),
    );
    let output = bed.thingbed(&["load", "t.csv", "--timeout", "300 ms"]);
    let output =
        output.expect(1, &["line 3", "GRAB", "line 5", "line 9", "4.04", "nobody.invalid"]);
    assert!(output.out.contains("refused") || output.out.contains("unreachable"), "{}", output.out);
    let output = figures(bed.thingbed(&["load", "t.csv", "--timeout", "300 ms", "--json"]));
    assert_eq!(figure(&output, ".trace_faults"), 3.0, "{output:#}");
    assert_eq!(figure(&output, ".counts.scheduled"), 4.0, "{output:#}");
    assert_eq!(figure(&output, ".counts.answered"), 2.0, "{output:#}");
    assert_eq!(figure(&output, ".counts.errors"), 1.0, "4.04 is an answer: {output:#}");
    bed.thingbed(&["load", "gone.csv"]).expect(2, &["gone.csv"]);
    bed.write("empty.csv", "# nothing\n");
    bed.thingbed(&["load", "empty.csv"]).expect(1, &["nothing to send"]);
}

/// The device answers immediately, so this machine limits the rate, over connections as well.
#[test]
fn a_rate_that_no_machine_makes_is_said() {
    let bed = Bed::new();
    for scheme in ["coap", "http"] {
        let device = Device::new(&bed, scheme, &[]);
        let output = bed.thingbed(&[
            "load",
            "--target",
            &device.uri,
            "--arrivals",
            "constant:10ns",
            "--requests",
            "2000000",
            "--patience",
            "200 ms",
            "--timeout",
            "200 ms",
        ]);
        output.expect(1, &["cannot send the schedule", "SCHEDULE NOT KEPT", "unsent"]);
    }
}

#[test]
fn traces_are_made_inspected_and_joined() {
    let bed = Bed::new();
    let made = ["trace", "generate", "--target", "coap://10.0.0.{device}/", "--devices", "5"];
    let times = ["--arrivals", "exponential:300us", "--together", "--requests", "5000"];
    let service = ["--service", "gamma:mean=5ms,shape=2", "--resources-out", "r.csv"];
    bed.thingbed(&[&made[..], &times, &service, &["--out", "one.csv"]].concat()).expect(0, &[]);
    bed.thingbed(&[&made[..], &times, &service, &["--out", "two.csv"]].concat()).expect(0, &[]);
    let read = |name: &str| std::fs::read_to_string(bed.path().join(name)).unwrap();
    assert_eq!(read("one.csv"), read("two.csv"), "the same seed");
    let inspect = ["trace", "inspect", "one.csv", "--resources", "r.csv", "--json"];
    let output = bed.thingbed(&inspect).expect(0, &[]);
    let output: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!((&output["requests"], &output["faults"]), (&5_000.into(), &0.into()), "{output:#}");
    bed.thingbed(&["trace", "merge", "one.csv", "two.csv", "--out", "both.csv"]).expect(0, &[]);
    assert_eq!(read("both.csv").lines().count(), 2 * read("one.csv").lines().count());
    bed.write("bad.csv", "0, 9, GET, coap://a/\n0, 5, GET, coap://a/\n");
    bed.thingbed(&["trace", "inspect", "bad.csv"]).expect(2, &["line 2"]);
}

const POLLING: &str = "experiment: polling
nodes:
  gateway: {}
  other: {}
  sensor: {count: 3}
networks:
  field:
    attach: [gateway, other, sensor]
    subnet: 10.0.0.0/24
    links:
      sensor: {up: {delay: 5 ms}, down: {delay: 5 ms}}
workloads:
  - device: {on: sensor, resources: {temperature: constant:2ms}, threads: 4}
  - load: {name: polling, on: [gateway, other], to: sensor, path: temperature, arrivals: exponential:30ms, duration: 2 s}
  - load: {name: users, on: gateway, to: sensor-1, path: temperature, users: 2, count: 50, duration: 2 s}
  - load: {name: gone, on: other, to: sensor-2, path: pressure, arrivals: constant:100ms, duration: 1 s}
duration: 2 s
expect:
  - {say: answers take the way and the service, metric: loads.polling.response_ms.p50, is: above, value: 12}
  - {say: all are answered, metric: loads.polling.unanswered_pct, is: below, value: 0.001}
";

#[test]
fn loads_and_devices_are_workloads() {
    let bed = Bed::new();
    bed.write("e.yaml", POLLING);
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["polling", "(closed", "loop)"]);
    let folder = bed.sweep("polling");
    let summary = json(&folder.join("summary.json"));
    let load = |name: &str| &summary["loads"][name];
    let polling = load("polling");
    let count = |of: &Value, name: &str| of[name].as_f64().unwrap();
    assert!(count(polling, "scheduled") > 100.0, "{polling:#}");
    assert_eq!(count(polling, "answered"), count(polling, "scheduled"), "{polling:#}");
    assert!(figure(polling, ".service_ms.p50") >= 12.0, "{polling:#}");
    assert!(figure(polling, ".response_ms.p99") >= figure(polling, ".service_ms.p50"));
    let senders = polling["senders"].as_object().unwrap();
    assert_eq!(senders.len(), 2, "each has a separate schedule");
    let interval = figure(&senders["other"], ".between_expected_us.mean");
    assert!(
        (interval / 10_000.0 - 1.0).abs() < 0.5,
        "three devices, one in 30 ms each: {interval}"
    );
    assert_eq!(
        (&load("users")["loop"], count(load("users"), "answered")),
        (&"closed".into(), 50.0)
    );
    assert_eq!(count(load("gone"), "errors"), 10.0, "{:#}", load("gone"));
    assert_eq!(load("gone")["codes"]["4.04"], 10);
    assert!(folder.join("latency/polling.other.hlog").exists());
    let run = json(&folder.join("run.json"));
    let evidence = run["verdict"]["evidence"].to_string();
    assert!(evidence.contains("requests never sent"), "{evidence}");
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("The interarrival time of a sender"));
}

/// A load of 200 requests/s over four connections to a device that serves 50/s: requests wait, and
/// the verdict does not attribute this to a slow machine.
#[test]
fn a_slow_device_over_http_is_the_systems_limit() {
    let bed = Bed::new();
    bed.write(
        "e.yaml",
        "experiment: slow
nodes: {gateway: {}, sensor: {}}
networks: {field: {attach: [gateway, sensor], subnet: 10.0.0.0/24}}
workloads:
  - device: {on: sensor, http: 80, resources: {a: constant:20ms}, check: false}
  - load: {name: requests, on: gateway, to: sensor, protocol: http, path: a, arrivals: constant:5ms, connections: 4, timeout: 5 s}
duration: 2 s
",
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["requests wait"]);
    let folder = bed.sweep("slow");
    let load = &json(&folder.join("summary.json"))["loads"]["requests"];
    assert_eq!(figure(load, ".unsent"), 0.0, "{load:#}");
    assert_eq!(figure(load, ".sent") + figure(load, ".no_connection"), 400.0, "{load:#}");
    // The 200th request is due after one second, and sent after four.
    assert!(figure(load, ".wait_ms.p50") > 500.0, "{load:#}");
    assert!(figure(load, ".slip_ms.p50") < figure(load, ".wait_ms.p50"), "{load:#}");
    let run = json(&folder.join("run.json"));
    let evidence = run["verdict"]["evidence"].as_array().unwrap();
    let found = |name: &str| evidence.iter().find(|found| found["name"] == name).unwrap();
    assert_eq!(found("requests never sent")["status"], "valid", "{evidence:#?}");
    let wait = found("wait of requests for a connection, p99");
    assert!(wait["limit_invalid"].is_null() && wait["value"].as_f64().unwrap() > 500.0);
}

/// CoAP options in an experiment, over a link that loses a fifth of all frames.
#[test]
fn coap_options_are_keys_of_a_load() {
    let bed = Bed::new();
    bed.write(
        "e.yaml",
        "experiment: careful
nodes: {gateway: {}, sensor: {}, far: {}}
networks:
  field:
    attach: [gateway, sensor, far]
    subnet: 10.0.0.0/24
    links: {far: {up: {loss: 20 %}, down: {loss: 20 %}}}
workloads:
  - device: {on: [sensor, far], resources: {a: constant:1ms}, payload: 3 kB, notify: constant:100ms, check: false}
  - load:
      {name: again, on: gateway, to: far, path: a, method: PUT, size: 2kB, arrivals: constant:100ms, confirmable: true,
       block: 512 B, max_retransmit: 12, ack_timeout: 50 ms, ack_random_factor: 1.2, nstart: 2, timeout: 5 min, count: 15}
  - load: {name: seen, on: gateway, to: sensor, path: a, arrivals: constant:1ms, count: 1, confirmable: true, observe: 2 s}
duration: 2 s
",
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let summary = json(&bed.sweep("careful").join("summary.json"));
    let (again, seen) = (&summary["loads"]["again"], &summary["loads"]["seen"]);
    assert_eq!(figure(again, ".answered"), 15.0, "{again:#}");
    assert_eq!((figure(again, ".errors"), &again["codes"]["2.04"]), (0.0, &15.into()));
    // Each has four request blocks and six answer blocks; a third of them is lost, counting the
    // answers.
    assert!(figure(again, ".retransmitted") > 10.0, "{again:#}");
    assert!(figure(again, ".wait_ms.max") > 0.0, "{again:#}");
    assert_eq!(figure(seen, ".observed.registered"), 1.0, "{seen:#}");
    assert_eq!(figure(seen, ".observed.deregistered"), 1.0, "{seen:#}");
    assert!(figure(seen, ".observed.notifications") > 1.0, "{seen:#}");
    assert_eq!(seen["wait_ms"], Value::Null, "it has no limit: {seen:#}");
}

/// A trace may name nodes, and may exceed the capacity of its senders.
#[test]
fn a_trace_is_sent_by_a_node() {
    let bed = Bed::new();
    let lines: String =
        (0..50).map(|k| format!("0, {}, GET, coap://sensor-1/a\n", k * 10_000)).collect();
    bed.write("t.csv", &lines);
    bed.write(
        "e.yaml",
        "experiment: traced
nodes: {gateway: {}, sensor: {count: 2}}
networks: {field: {attach: [gateway, sensor], subnet: 10.0.0.0/24}}
workloads:
  - device: {on: sensor, resources: {a: constant:0s}}
  - load: {on: gateway, trace: t.csv}
duration: 1 s
",
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["load-1"]);
    let summary = json(&bed.sweep("traced").join("summary.json"));
    assert_eq!(summary["loads"]["load-1"]["answered"], 50, "{:#}", summary["loads"]);
}

/// Probes measure the service time of the devices, on each core and in both modes.
#[test]
fn probes_take_what_devices_take() {
    let bed = Bed::new();
    bed.write(
        "e.yaml",
        "experiment: probed
nodes: {prober: {}, sensor: {}}
workloads:
  - device: {on: sensor, resources: {a: constant:20ms}, check: false}
  - probe: {name: probe, on: prober, every: 200 ms}
duration: 2 s
",
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let folder = bed.sweep("probed");
    let probe = &json(&folder.join("summary.json"))["probes"]["probe"];
    assert_eq!(figure(probe, ".service_ms"), 20.0);
    let cores = probe["cores"].as_object().unwrap();
    assert_eq!(cores.len(), std::thread::available_parallelism().unwrap().get());
    for core in cores.values() {
        assert!(figure(core, ".sleep.p50") >= 0.0 && figure(core, ".busy.p50") >= 0.0);
    }
    assert!(folder.join("probes.parquet").exists());
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("Probes send requests with a known service time"));
}

/// A probe detects other programs on the machine, and may end a run because of them. Without
/// devices it has the same priority as these programs, so that the scheduler lets it wait; it
/// computes for longer than any time slice.
#[test]
fn probes_see_contention() {
    let bed = Bed::new();
    let experiment = |name: &str, contention: &str| {
        format!(
            "experiment: {name}
nodes: {{prober: {{}}, hog: {{}}}}
workloads:
  - probe: {{name: probe, on: prober, service: 20 ms, every: 200 ms, limit: 20 %, contention: {contention}}}
  - command: {{on: hog, background: true, run: [sh, -c, \"sleep 2; for i in $(seq 16); do while :; do :; done & done; wait\"]}}
duration: 8 s
"
        )
    };
    bed.write("e.yaml", &experiment("seen", "report"));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let folder = bed.sweep("seen");
    let probe = &json(&folder.join("summary.json"))["probes"]["probe"];
    for core in probe["cores"].as_object().unwrap().values() {
        assert!(figure(core, ".busy.max") > 0.2, "16 others wanted it: {probe:#}");
    }
    assert!(figure(probe, ".over_limit_pct") > 1.0, "{probe:#}");
    let evidence = json(&folder.join("run.json"))["verdict"]["evidence"].to_string();
    assert!(evidence.contains("contention at the probes"), "{evidence}");

    bed.write("e.yaml", &experiment("ended", "abort"));
    let output = bed.thingbed(&["run", "e.yaml", "-q"]);
    output.expect(3, &["stopped it because of contention", "consecutive probes on core"]);
}
