//! MQTT: third-party clients of every kind, at a third-party broker.

mod common;

use common::{Bed, figure, has};
use serde_json::Value;
use std::fs;

/// Nine meters and a collector, with a broker whose node has the settings `broker`.
fn experiment(broker: &str, mqtt: &str, more: &str) -> String {
    format!(
        "experiment: mqtt
nodes:
  broker:
{broker}
  collector: {{}}
  meter: {{count: 9}}
networks:
  field:
    attach: [broker, collector, meter]
    subnet: 10.0.0.0/24
    profile: near
profiles:
  near: {{}}
  far:
    links:
      collector: {{up: {{delay: 20 ms}}, down: {{delay: 20 ms}}}}
      meter: {{up: {{delay: 20 ms}}, down: {{delay: 20 ms}}}}
workloads:
  - mqtt:
      name: readings
      broker: broker
      publishers: meter
      subscribers: collector
      payload: payload.xml
{mqtt}
{more}
setup_limit: 3 s
drain: 20 s
"
    )
}

const PLAIN: &str = "    run: [mosquitto, -c, plain.conf]\n    ready: {tcp: 1883}";
const COMMON: &str = "allow_anonymous true\nuser root\n";

/// Each message sent has arrived once, and was acknowledged if the QoS requires it.
#[track_caller]
fn all_received(summary: &Value, qos: &str) {
    let figure = |name: &str| figure(summary, &format!(".messages.{name}"));
    let sent = figure("sent");
    assert!(sent > 20.0, "{summary:#}");
    assert_eq!(figure("unsent"), 0.0);
    assert_eq!(figure("delivered"), sent, "{summary:#}");
    assert_eq!(figure("loss_pct"), 0.0);
    assert_eq!(figure("acknowledged"), if qos == "0" { 0.0 } else { sent });
    assert_eq!(figure("acknowledged_lost"), 0.0);
    if qos != "1" {
        assert_eq!(figure("duplicates"), 0.0, "{summary:#}");
    }
}

#[test]
fn every_level_and_version_delivers_while_clients_join() {
    if !has("mosquitto") {
        return;
    }
    let bed = Bed::new();
    bed.write("plain.conf", &format!("listener 1883\n{COMMON}"));
    let mqtt = "      pattern: ${pattern}
      qos: ${qos}
      version: ${version}
      rate: 100/s
      join: 20 ms";
    // The pattern alternates, so that all combinations of level and version occur.
    let more = "matrix:
  qos: [0, 1, 2]
  version: [3.1.1, 5]
  pattern: [many-to-one, one-to-one]
duration: 500 ms";
    bed.write("e.yaml", &experiment(PLAIN, mqtt, more));
    // In virtual time: messages to clients that join later than planned, as on a busy machine, are lost.
    let run = |only| bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual", "--only", only]);
    run("qos=0|2,version=3.1.1,pattern=many-to-one").ran(&["mqtt"]);
    let mut all = bed.summaries("mqtt");
    fs::remove_dir_all(bed.path().join("runs")).unwrap();
    run("qos=1|2,version=5,pattern=one-to-one").ran(&["mqtt"]);
    all.extend(bed.summaries("mqtt"));
    assert_eq!(all.len(), 4);
    for summary in &all {
        all_received(summary, summary["cell"]["qos"].as_str().unwrap());
        assert_eq!(figure(summary, ".mqtt.broker.nodes"), 1.0);
    }
    let nodes = |summary: &Value| figure(summary, ".mqtt.subscriber.nodes");
    assert_eq!((nodes(&all[0]), nodes(&all[3])), (1.0, 10.0));
}

#[test]
fn encrypted_clients_trust_the_brokers_certificate() {
    if !has("mosquitto") {
        return;
    }
    let bed = Bed::new();
    let conf = "listener 8883\\nallow_anonymous true\\nuser root\\ncafile $THINGBED_TLS/ca.pem\\n\
                certfile $THINGBED_TLS/broker.pem\\nkeyfile $THINGBED_TLS/broker.key\\n";
    let broker = format!(
        "    run: [sh, -c, 'printf \"{conf}\" > tls.conf; exec mosquitto -c tls.conf']\n    \
         ready: {{tcp: 8883}}"
    );
    let mqtt = "      pattern: many-to-one
      qos: ${qos}
      version: ${version}
      tls: generated
      every: 10 ms";
    let more = "matrix: {qos: [0, 1, 2], version: [3.1.1, 5]}\nduration: 500 ms";
    bed.write("e.yaml", &experiment(&broker, mqtt, more));
    for only in ["qos=0|2,version=5", "qos=1|2,version=3.1.1"] {
        bed.thingbed(&["run", "e.yaml", "-q", "--only", only]).ran(&["mqtt"]);
        let sweep = bed.sweep("mqtt");
        for summary in bed.summaries("mqtt") {
            all_received(&summary, summary["cell"]["qos"].as_str().unwrap());
        }
        for run in fs::read_dir(&sweep).unwrap().map(|entry| entry.unwrap().path()) {
            assert!(!run.join("tls").exists(), "keys are gone with the run");
        }
        fs::remove_dir_all(bed.path().join("runs")).unwrap();
    }
    // A certificate of another authority is rejected with a message.
    let mqtt = mqtt.replace("generated", "{ca: other.pem}");
    bed.write("other.pem", OTHER);
    let tls = "  - mqtt: {name: made, broker: broker, publishers: meter, subscribers: collector, \
               pattern: many-to-one, payload: payload.xml, every: 1 s, tls: generated}\n";
    let text = experiment(&broker, &mqtt, "duration: 500 ms");
    let text = text.replace("${qos}", "1").replace("${version}", "5");
    let text = text.replace("workloads:\n", &format!("workloads:\n{tls}"));
    bed.write("e.yaml", &text);
    let words = ["over TLS", "node broker", "signed by the `ca`", "certificate verify failed"];
    bed.thingbed(&["run", "e.yaml", "-q"]).expect(1, &words);
}

#[test]
fn what_was_acknowledged_outlives_the_broker() {
    if !has("mosquitto") {
        return;
    }
    let bed = Bed::new();
    let keep = format!(
        "listener 1883\n{COMMON}persistence true\npersistence_location {}/\n\
         autosave_on_changes true\nautosave_interval 1\n",
        bed.path().display()
    );
    bed.write("plain.conf", &keep);
    let mqtt = "      pattern: many-to-one
      qos: ${qos}
      version: 5
      every: 200 ms
      clean_session: false
      reconnect: {max: 500 ms}";
    // Killed between two messages, the broker has saved its state. When stopped, it saves the
    // messages in flight, of which there are always some on these links.
    let killed = "faults: [{at: 1300 ms, kill: broker, lasts: 500 ms}]";
    let stopped = "faults: [{at: 1300 ms, stop: broker, lasts: 500 ms}]";
    for (faults, profile) in [(killed, "near"), (stopped, "far")] {
        let more = format!("{faults}\nmatrix: {{qos: [1, 2]}}\nduration: 5 s");
        let text = experiment(PLAIN, mqtt, &more);
        bed.write("e.yaml", &text.replace("profile: near", &format!("profile: {profile}")));
        bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["mqtt"]);
        for summary in bed.summaries("mqtt") {
            all_received(&summary, summary["cell"]["qos"].as_str().unwrap());
        }
        let log = bed.sweep("mqtt").join("1-0/programs/collector.0.err");
        assert!(fs::read_to_string(log).unwrap().contains("no connection"));
        fs::remove_dir_all(bed.path().join("runs")).unwrap();
        fs::remove_file(bed.path().join("mosquitto.db")).unwrap();
    }
}

/// First the collector is cut off, then the meters. `experiments/mqtt-partition.yaml` does this for
/// 30 s; published results are from there.
#[test]
fn what_was_acknowledged_crosses_a_partition() {
    if !has("mosquitto") {
        return;
    }
    let bed = Bed::new();
    bed.write("plain.conf", &format!("listener 1883\n{COMMON}"));
    let mqtt = "      pattern: many-to-one
      qos: ${qos}
      version: 5
      every: 50 ms
      clean_session: false
      reconnect: {max: 500 ms}";
    let cut = "profile: near
    timetable:
      - {at: 500 ms, partition: [collector], lasts: 1 s}
      - {at: 2 s, partition: [meter], lasts: 1 s}";
    let text = experiment(PLAIN, mqtt, "matrix: {qos: [1, 2]}\nduration: 4 s");
    bed.write("e.yaml", &text.replace("profile: near", cut));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["mqtt"]);
    for summary in bed.summaries("mqtt") {
        all_received(&summary, summary["cell"]["qos"].as_str().unwrap());
        // A client that waited for the other side waited as long as it was away.
        assert!(figure(&summary, ".messages.down_ms.max") >= 500.0, "{summary:#}");
    }
}

#[test]
fn a_broker_that_refuses_or_is_not_there_is_named_with_its_words() {
    if !has("mosquitto") {
        return;
    }
    let bed = Bed::new();
    let mqtt = "      pattern: many-to-one\n      rate: 20/s";
    let fails = |bed: &Bed, broker: &str, words: &[&str]| {
        bed.write("e.yaml", &experiment(broker, mqtt, "duration: 1 s"));
        bed.thingbed(&["run", "e.yaml", "-q"]).expect(1, words);
    };
    bed.write("plain.conf", "listener 1883\nallow_anonymous false\nuser root\n");
    let refused = ["node broker", "the broker refused", "not authori", "broker said: "];
    fails(&bed, PLAIN, &refused);
    bed.write("plain.conf", &format!("listener 1884\n{COMMON}"));
    let elsewhere = "    run: [mosquitto, -c, plain.conf]";
    let absent = ["10.0.0.1:1883 (node broker)", "Connection refused", "broker said: ", "1884"];
    fails(&bed, elsewhere, &absent);
    bed.write("plain.conf", "listener 1883\nno_such_option true\n");
    fails(&bed, elsewhere, &["the program of broker", "no_such_option"]);
}

/// An unrelated certificate, generated for this test with `openssl req -x509 -newkey ec -pkeyopt
/// ec_paramgen_curve:P-256 -nodes -days 36500`.
const OTHER: &str = include_str!("mqtt/other.pem");
