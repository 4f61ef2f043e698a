//! Unmodified third-party programs, as servers and clients in nodes.

mod common;

use common::{Bed, CommandOutput};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A server with a readiness check, and clients of it that print something.
struct Trial {
    /// Required programs.
    needs: &'static [&'static str],
    server: String,
    ready: &'static str,
    /// Programs, and their expected output.
    clients: Vec<(String, Vec<&'static str>)>,
}

fn experiment(trial: &Trial) -> String {
    let commands: String = (1..=trial.clients.len())
        .zip(&trial.clients)
        .map(|(node, (run, _))| format!("  - command: {{on: client-{node}, run: {run}}}\n"))
        .collect();
    let server = &trial.server;
    format!(
        "experiment: trial
nodes:
  server: {{run: {server}, ready: {{{}}}}}
  client: {{count: 2}}
networks:
  field:
    attach: [server, client]
    subnet: 10.0.0.0/24
    links: {{client: {{up: {{delay: 10 ms}}, down: {{delay: 10 ms}}}}}}
workloads:
{commands}duration: 1 s
drain: 20 s
",
        trial.ready
    )
}

/// Runs the trial, unless a required program is missing.
fn run(bed: &Bed, trial: &Trial) {
    if !trial.needs.iter().all(|program| common::has(program)) {
        return;
    }
    bed.write("e.yaml", &experiment(trial));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["trial"]);
    let programs = bed.sweep("trial").join("programs");
    for (node, (_, words)) in (1..).zip(&trial.clients) {
        let of = |kind: &str| {
            let path = programs.join(format!("client-{node}.{}.{kind}", node - 1));
            // Empty outputs are not kept.
            fs::read_to_string(path).unwrap_or_default()
        };
        let text = CommandOutput { status: 0, out: of("out"), err: of("err") };
        text.expect(0, words);
    }
}

#[test]
fn mosquittos_clients_at_mosquitto() {
    let bed = Bed::new();
    bed.write("m.conf", "listener 1883\nallow_anonymous true\nuser root\n");
    let publish = "for i in 1 2 3; do mosquitto_pub -h server -t a/$i -q 2 -r -m reading-$i; done; \
                   echo published";
    let trial = Trial {
        needs: &["mosquitto", "mosquitto_pub", "mosquitto_sub"],
        server: "[mosquitto, -c, m.conf]".into(),
        ready: "tcp: 1883",
        clients: vec![
            (format!("[sh, -c, '{publish}']"), vec!["published"]),
            (
                "[mosquitto_sub, -h, server, -V, '5', -q, '1', -t, a/#, -C, '3', -W, '20', -v]"
                    .into(),
                vec!["a/1 reading-1", "a/2 reading-2", "a/3 reading-3"],
            ),
        ],
    };
    run(&bed, &trial);
}

#[test]
fn libcoaps_client_at_its_server() {
    let bed = Bed::new();
    let get = |more: &str| format!("[coap-client-notls, {more}coap://server/]");
    let trial = Trial {
        needs: &["coap-server-notls", "coap-client-notls"],
        server: "[coap-server-notls]".into(),
        ready: "udp: 5683",
        clients: vec![
            (get(""), vec!["test server made with libcoap"]),
            // Without acknowledgement, in blocks of 32 B.
            (get("-N, -b, '32', "), vec!["test server made with libcoap"]),
        ],
    };
    run(&bed, &trial);
}

#[test]
fn iperf3_one_way_and_the_other() {
    let bed = Bed::new();
    // A server refuses a test while it still cleans up after the last one: one for each.
    let twice = "iperf3 -c server -n 200K && iperf3 -c server -p 5202 -n 200K -R";
    let trial = Trial {
        needs: &["iperf3"],
        server: "[sh, -c, 'iperf3 -s -p 5202 & exec iperf3 -s --forceflush']".into(),
        ready: "tcp: 5201",
        clients: vec![(format!("[sh, -c, '{twice}']"), vec!["receiver", "iperf Done"])],
    };
    run(&bed, &trial);
}

#[test]
fn curl_at_nginx() {
    let bed = Bed::new();
    let here = bed.path().display();
    // All its files are next to the experiment; its workers run as another user.
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {here}/{kind}; "))
        .collect();
    bed.write(
        "nginx.conf",
        &format!(
            "user root;\ndaemon off;\npid {here}/nginx.pid;\nerror_log stderr;\nevents {{}}\n\
             http {{ access_log off; {paths}server {{ listen 8080; root {here}/www; }} }}\n"
        ),
    );
    fs::create_dir(bed.path().join("www")).unwrap();
    bed.write("www/reading.txt", "a reading\n");
    bed.write("www/large", &"0123456789".repeat(10_000));
    let nginx = format!("[nginx, -c, {here}/nginx.conf, -e, stderr]");
    let all = "curl -sS http://server:8080/reading.txt; \
               curl -sS http://server:8080/large | wc -c; \
               curl -sS -o /dev/null -w \"%{http_code}\" http://server:8080/none";
    let trial = Trial {
        needs: &["nginx", "curl"],
        server: nginx,
        ready: "tcp: 8080",
        clients: vec![
            (format!("[sh, -c, '{all}']"), vec!["a reading", "100000", "404"]),
            ("[curl, -sS, --head, 'http://server:8080/reading.txt']".into(), vec!["Server: nginx"]),
        ],
    };
    run(&bed, &trial);
}

/// A python3 that has paho: perhaps the system's, even if another one is first in PATH.
fn python_with_paho() -> Option<&'static str> {
    let has = |python: &&str| {
        let found = Command::new(python).args(["-c", "import paho.mqtt.client"]).output();
        found.is_ok_and(|output| output.status.success())
    };
    let python = ["python3", "/usr/bin/python3"].into_iter().find(has);
    if python.is_none() {
        eprintln!("paho-mqtt is not installed: part of a test is skipped");
    }
    python
}

/// Publishes at QoS 2 and waits for its own messages. Supports versions 1 and 2 of paho.
const PAHO: &str = "\
import sys
import paho.mqtt.client as paho

name, seen = sys.argv[1], []
kind = getattr(paho, 'CallbackAPIVersion', None)
client = paho.Client(kind.VERSION1, name) if kind else paho.Client(name)

def connected(client, data, flags, code):
    client.subscribe(name + '/#', qos=2)

def subscribed(client, data, number, levels):
    for i in range(10):
        client.publish(f'{name}/{i}', f'reading {i}', qos=2)

def message(client, data, message):
    seen.append(message.payload.decode())
    if len(seen) == 10:
        client.disconnect()

client.on_connect, client.on_subscribe, client.on_message = connected, subscribed, message
client.connect('server')
client.loop_forever()
print(name, 'has', len(set(seen)), 'of', len(seen), 'and', seen[9])
";

#[test]
fn a_python_script_with_paho() {
    let Some(python) = python_with_paho() else { return };
    let bed = Bed::new();
    bed.write("m.conf", "listener 1883\nallow_anonymous true\nuser root\n");
    let script = bed.write("meter.py", PAHO);
    assert!(Path::new(&script).exists());
    let client = |name: &str| format!("[{python}, meter.py, {name}]");
    let trial = Trial {
        needs: &["mosquitto"],
        server: "[mosquitto, -c, m.conf]".into(),
        ready: "tcp: 1883",
        clients: vec![
            (client("one"), vec!["one has 10 of 10 and reading 9"]),
            (client("two"), vec!["two has 10 of 10 and reading 9"]),
        ],
    };
    run(&bed, &trial);
}
