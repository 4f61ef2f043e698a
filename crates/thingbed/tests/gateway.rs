//! Unmodified MQTT programs through the director's gateways, in nodes.

mod common;

use common::Bed;
use common::live::{Live, until};
use std::path::Path;

fn gateway() -> String {
    let path = Path::new(env!("CARGO_BIN_EXE_thingbed")).with_file_name("director-gateway");
    assert!(path.exists(), "cargo build -p thingbed-director-gateway first: no {}", path.display());
    path.display().to_string()
}

/// Subscribes with a session that is kept, says so, and prints messages until all have come.
const SUBSCRIBER: &str = "
mosquitto_sub -E -c -i $1 -q $2 -t '#' && touch ready-$1
mosquitto_sub -c -i $1 -q $2 -t '#' -F \"$1 %t %q %r %p\" >out-$1 &
until [ $(grep -c 'readings/[12w]\\|done' out-$1) -ge 12 ]; do sleep 0.1; done
kill $!
cat out-$1
";
/// Publishes when both have subscribed; the last client is killed, so that its will follows.
const SOURCE: &str = "
mosquitto_pub -t readings/kept -r -q 1 -m kept
until [ -e ready-hub ] && [ -e ready-device ]; do sleep 0.1; done
mosquitto_sub -t none --will-topic readings/will --will-payload killed --will-qos 1 &
for q in 1 2; do
    for n in 1 2 3 4 5; do echo $q-$n; done | mosquitto_pub -t readings/$q -q $q -l
done
kill -9 $!
mosquitto_pub -t done -q 2 -m done
";

/// Mosquitto's clients over a path with 20 % loss in each direction: levels of delivery, order,
/// kept sessions, retained messages, a will.
#[test]
fn mosquitto_clients_work_over_a_bad_path() {
    let bed = Bed::new();
    bed.write("key", "a key of all the gateways");
    bed.write("subscriber.sh", SUBSCRIBER);
    bed.write("source.sh", SOURCE);
    let gateway = gateway();
    bed.write(
        "e.yaml",
        &format!(
            "experiment: mqtt
nodes:
  hub:
    run: [{gateway}, hub, --key, key, --local, 'hub:5700', 'device-1:5700', 'device-2:5700']
    ready: {{tcp: 1883}}
  device:
    count: 2
    run: [sh, -c, 'exec {gateway} device --key key --local $THINGBED_NODE:5700 --hub hub:5700']
    ready: {{tcp: 1883}}
networks:
  field:
    attach: [hub, device]
    subnet: 10.0.0.0/24
    links: {{device: {{up: {{delay: 20 ms, loss: 20 %}}, down: {{delay: 20 ms, loss: 20 %}}}}}}
workloads:
  - command: {{name: all, on: hub, run: [sh, subscriber.sh, hub, '2']}}
  - command: {{name: other, on: device-2, run: [sh, subscriber.sh, device, '1']}}
  - command: {{name: source, on: device-1, run: [sh, source.sh]}}
duration: 60 s
"
        ),
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let output = std::fs::read_dir(bed.sweep("mqtt").join("programs")).unwrap();
    let output: String =
        output.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok()).collect();
    for (name, most) in [("hub", 2), ("device", 1)] {
        for qos in 1..=2 {
            let own = |n: i32| format!("{name} readings/{qos} {} 0 {qos}-{n}\n", qos.min(most));
            let places: Vec<Option<usize>> = (1..=5).map(|n| output.find(&own(n))).collect();
            assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{output}");
            // Once, also at QoS 1: nothing has restarted.
            assert!((1..=5).all(|n| output.matches(&own(n)).count() == 1), "{output}");
        }
        assert!(output.contains(&format!("{name} readings/kept 1 ")), "{output}");
        assert!(output.contains(&format!("{name} readings/will 1 0 killed")), "{output}");
    }
}

/// A device knows only the name of its hub, which starts later and is not alone: others announce other
/// names.
#[test]
fn a_device_finds_its_hub_by_name() {
    let bed = Bed::new();
    bed.write("key", "a key of all the gateways");
    bed.write("other", "a key of other gateways");
    let gateway = gateway();
    let hub = |key: &str, name: &str| {
        format!(
            "exec {gateway} hub --key {key} --local $THINGBED_NODE:5700 --places 1 --announce '{name}'"
        )
    };
    bed.write("first.sh", &hub("key", "site.7 north"));
    bed.write("second.sh", &hub("key", "site.8"));
    bed.write("third.sh", &hub("other", "site.9"));
    bed.write(
        "device.sh",
        &format!(
            "exec {gateway} device --key key --local 10.0.0.4:5700 --hub 'Site.7 North._tb-director._udp.local'"
        ),
    );
    bed.write(
        "e.yaml",
        "experiment: found
nodes:
  hub: {count: 3}
  device: {run: [sh, device.sh]}
networks:
  field: {attach: [hub, device], subnet: 10.0.0.0/24}
workloads:
  - command: {on: hub-2, background: true, run: [sh, second.sh]}
  - command: {on: hub-3, background: true, run: [sh, third.sh]}
  - command: {on: hub-1, background: true, run: [sh, -c, 'sleep 2; . ./first.sh']}
  - command:
      name: subscriber
      on: hub-1
      run: [sh, -c, 'until mosquitto_sub -E -c -i s -q 1 -t readings; do sleep 0.1; done; touch ready; exec mosquitto_sub -c -i s -q 1 -t readings -C 1 -W 50']
      expect: {output: '17 kWh'}
  - command:
      name: publisher
      on: device
      run: [sh, -c, 'until [ -e ready ]; do sleep 0.1; done; mosquitto_pub -t readings -q 1 -m \"17 kWh\"']
duration: 60 s
",
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
}

/// Without such a hub, the device says what it has looked for, and goes on looking.
#[test]
fn a_hub_that_does_not_exist_is_named() {
    let bed = Bed::new();
    bed.write("key", "a key of all the gateways");
    let gateway = gateway();
    bed.write(
        "e.yaml",
        &format!(
            "experiment: nowhere
clock: virtual
nodes: {{device: {{}}}}
networks: {{field: {{attach: device, subnet: 10.0.0.0/24}}}}
workloads:
  - command:
      on: device
      run: [sh, -c, 'timeout 50 {gateway} device --key key --local 10.0.0.1:5700 --hub site._tb-director._udp.local 2>&1']
      expect: {{exit: 124, output: 'no hub announces itself as site'}}
duration: 60 s
"
        ),
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
}

/// The same over IPv6, with a hub that is bound to an address and with one that is not.
#[test]
fn a_device_finds_its_hub_over_ipv6() {
    let bed = Bed::new();
    bed.write("key", "a key of all the gateways");
    let gateway = gateway();
    for (name, hub, device) in [("bound", "[fd00::1]", "[fd00::2]"), ("all", "[::]", "[::]")] {
        bed.write(
            "e.yaml",
            &format!(
                "experiment: {name}
nodes: {{hub: {{}}, device: {{}}}}
networks: {{field: {{attach: [hub, device], subnet: 'fd00::/64'}}}}
workloads:
  - command: {{on: hub, background: true, run: [{gateway}, hub, --key, key, --local, '{hub}:5700', --places, '1', --announce, site]}}
  - command: {{on: device, background: true, run: [{gateway}, device, --key, key, --local, '{device}:5700', --hub, site._tb-director._udp.local]}}
  - command:
      on: hub
      run: [sh, -c, 'until mosquitto_sub -E -c -i s -q 1 -t r; do sleep 0.1; done; touch {name}; exec mosquitto_sub -c -i s -q 1 -t r -C 1 -W 50']
      expect: {{output: kWh}}
  - command: {{on: device, run: [sh, -c, 'until [ -e {name} ] && mosquitto_pub -t r -q 1 -m kWh; do sleep 0.2; done']}}
duration: 60 s
"
            ),
        );
        bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    }
}

/// An experiment with the key `mqtt` of a network: two devices over a path with 20 % loss.
fn with_broker(broker: &str, subnet: &str, workloads: &str) -> String {
    format!(
        "experiment: broker
clock: virtual
nodes: {{hub: {{}}, device: {{count: 2}}}}
networks:
  field:
    attach: [hub, device]
    subnet: {subnet}
    mqtt: {{broker: {broker}, on: hub}}
    links: {{device: {{up: {{delay: 20 ms, loss: 20 %}}, down: {{delay: 20 ms, loss: 20 %}}}}}}
workloads:
{workloads}
duration: 5 s
"
    )
}

/// Unmodified programs, MQTT clients and exchanges, which are the same for both brokers.
const SAME: &str = "
  - mqtt: {broker: hub, publishers: device-1, subscribers: device-2, pattern: pairs, qos: 1, payload: reading.txt, every: 500 ms}
  - exchange: {sources: device-2, sinks: device-1, broker: hub, protocol: {mqtt: {qos: 1}}, payload: [10 B], repetitions: 3, every: 1 s}
  - command:
      on: hub
      run: [mosquitto_sub, -h, mqtt-broker, -t, 'r/#', -q, '1', -C, '2', -W, '60', -V, mqttv5]
      expect: {output: '17 kWh'}
  - command: {on: device, run: [sh, -c, 'sleep 1; mosquitto_pub -h mqtt-broker -t r/$THINGBED_NODE -q 1 -V mqttv5 -m \"17 kWh\"']}
";

/// The key `broker` is the only line that differs.
#[test]
fn a_network_has_mosquitto_or_gateways_as_its_broker() {
    let bed = Bed::new();
    bed.write("reading.txt", "reading 0000000000");
    for (broker, subnet) in [("gateway", "'fd00::/64'"), ("mosquitto", "10.0.0.0/24")] {
        bed.write("e.yaml", &with_broker(broker, subnet, SAME));
        bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
        let summary = common::json(&bed.sweep("broker").join("summary.json"));
        assert_eq!(summary["messages"]["loss_pct"], 0.0, "{broker}: {summary:#}");
    }
}

#[test]
fn a_killed_gateway_starts_again() {
    let bed = Bed::new();
    let network = "attach: [hub, meter], subnet: 10.0.0.0/24";
    let text = format!(
        "experiment: NAME
nodes: {{hub: {{}}, meter: {{}}}}
networks: {{field: {{{network}, mqtt: {{broker: gateway, on: hub}}}}}}
"
    );
    let lab = Live::up(&bed, "gateway", &text);
    let publish = [
        "exec",
        "meter",
        "--",
        "mosquitto_pub",
        "-h",
        "mqtt-broker",
        "-t",
        "r",
        "-q",
        "1",
        "-m",
        "x",
    ];
    lab.ask(&publish).expect(0, &[]);
    lab.ask(&["kill", "meter"]).expect(0, &[]);
    lab.ask(&publish).expect(1, &["refused"]);
    lab.ask(&["start", "meter"]).expect(0, &[]);
    // The connection is refused until it listens.
    until(|| lab.ask(&publish).status == 0, || "publishing still fails".to_owned());
}
