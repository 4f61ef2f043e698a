//! Link settings: changed by a schedule, changed by hand, and replayed.

mod common;

use common::{Bed, has, json};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use std::fs::File;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

fn experiment(links: &str, more: &str) -> String {
    format!(
        "experiment: links
nodes: {{near: {{}}, far: {{}}}}
networks:
  field:
    attach: [near, far]
    subnet: 10.0.0.0/24
{links}
models:
  udp-rr: {{down: udp/request-response, up: udp/request-response, every: 10 ms, drain: 1 s}}
workloads:
  - interaction: {{source: near, sinks: far, model: udp-rr, payload: payload.xml}}
{more}"
    )
}

const CHANCE: &str = "    links:
      near:
        up: {loss: 20 %, corrupt: 5 %, delay: 5 ms, jitter: 2 ms, correlation: 25 %}
        down: {gilbert_elliott: {p: 5 %, r: 30 %}, delay: 1 ms}
      far: {up: {duplicate: 10 %}}";

/// An impairment decision: segment, endpoint, direction, flow, frame, and the decision.
type Row = ((u32, u32, u32, u64, u64), String);

fn decisions(folder: &Path) -> Vec<Row> {
    let file = File::open(folder.join("decisions.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let place = (
            row.get_uint(0).unwrap(),
            row.get_uint(1).unwrap(),
            row.get_uint(2).unwrap(),
            row.get_ulong(3).unwrap(),
            row.get_ulong(4).unwrap(),
        );
        (place, row.to_string())
    });
    let mut rows: Vec<Row> = rows.collect();
    rows.sort();
    rows
}

/// The decisions at positions that both runs have.
fn common_places(a: &[Row], b: &[Row]) -> (usize, usize) {
    let other: std::collections::HashMap<_, _> =
        b.iter().map(|(place, all)| (place, all)).collect();
    let both: Vec<_> = a.iter().filter_map(|(p, all)| other.get(p).map(|o| *o == all)).collect();
    (both.len(), both.iter().filter(|same| **same).count())
}

#[test]
fn the_same_seed_gives_every_frame_the_same_fate_and_a_replay_too() {
    let bed = Bed::new();
    bed.write("e.yaml", &experiment(CHANCE, "duration: 2 s\n"));
    let run = |args: &[&str]| {
        let before = std::fs::read_dir(bed.path().join("runs/links")).map_or(0, Iterator::count);
        bed.thingbed(&[&["run", "e.yaml", "-q"], args].concat()).ran(&[]);
        let after = std::fs::read_dir(bed.path().join("runs/links")).unwrap().count();
        assert_eq!(after, before + 1);
        bed.sweep("links")
    };
    let first = run(&["--seed", "7"]);
    let rows = decisions(&first);
    assert!(rows.len() > 500, "{}", rows.len());
    let again = decisions(&run(&["--seed", "7"]));
    let (both, same) = common_places(&rows, &again);
    assert!(both > 500 && same == both, "{same} of {both}");
    let other = decisions(&run(&["--seed", "8"]));
    let (both, same) = common_places(&rows, &other);
    assert!(same < both, "another seed decides otherwise");

    let folder = first.to_str().unwrap();
    let replayed = run(&["--replay", folder]);
    let (both, same) = common_places(&rows, &decisions(&replayed));
    assert!(both > 500 && same == both, "{same} of {both}");
    let of = &json(&replayed.join("run.json"))["replay"];
    assert_eq!(of, folder);
    assert_eq!(json(&replayed.join("plan.json"))["seed"], 7);
}

/// A program that sends 300 numbered datagrams, and one that prints those that arrive.
const SEND: &str = "import socket, sys, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(300):
    sender.sendto(str(number).encode().ljust(int(sys.argv[1])), ('10.0.0.1', 4000))
    time.sleep(0.01)
";
const RECEIVE: &str = "import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(('', 4000))
while True:
    print(receiver.recv(100).decode().strip(), flush=True)
";

fn datagrams(more: &str, length: usize) -> String {
    format!(
        "experiment: links
nodes: {{near: {{}}, far: {{}}}}
networks:
  field:
    attach: [near, far]
    subnet: 10.0.0.0/24
    links: {{near: {{down: {{loss: 20 %}}, up: {{loss: 20 %}}}}}}
workloads:
  - command: {{on: near, run: [/usr/bin/python3, receive.py], background: true}}
  - command: {{on: far, run: [/usr/bin/python3, send.py, '{length}']}}
{more}
duration: 30 s
drain: 1 s
seed: 7
"
    )
}

#[test]
fn other_traffic_does_not_change_which_datagrams_are_lost() {
    let bed = Bed::new();
    bed.write("send.py", SEND);
    bed.write("receive.py", RECEIVE);
    let run = |more: &str, length: usize, args: &[&str]| {
        bed.write("e.yaml", &datagrams(more, length));
        let before = std::fs::read_dir(bed.path().join("runs/links")).map_or(0, Iterator::count);
        let output = bed.thingbed(&[&["run", "e.yaml"], args].concat()).ran(&[]);
        assert_eq!(std::fs::read_dir(bed.path().join("runs/links")).unwrap().count(), before + 1);
        let folder = bed.sweep("links");
        let text = std::fs::read_to_string(folder.join("programs/near.0.out")).unwrap();
        let arrived: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert!(arrived.len() > 100, "{text}");
        (folder, arrived, output)
    };
    // A receiver that starts late on a busy machine misses the first datagrams.
    let same = |a: &[u32], b: &[u32]| {
        let from = a[0].max(b[0]);
        let later = |all: &[u32]| all.iter().copied().filter(|n| *n >= from).collect::<Vec<_>>();
        assert_eq!(later(a), later(b));
    };
    let (recorded, alone, _) = run("", 20, &[]);
    let pings = "  - command: {on: far, run: [ping, -i, '0.02', -c, '50', near]}";
    let (_, with_pings, _) = run(pings, 20, &[]);
    same(&alone, &with_pings);

    let folder = recorded.to_str().unwrap();
    let (replayed, again, output) = run("", 20, &["--replay", folder]);
    same(&alone, &again);
    let found = json(&replayed.join("run.json"))["replay_departures"].clone();
    // The kernel of `near` answers datagrams that its receiver was not there for.
    let differs = alone[0] != again[0];
    assert!(found["count"] == 0 || differs, "{found} {}", output.err);
    let (replayed, _, output) = run("", 21, &["--replay", folder]);
    let found = json(&replayed.join("run.json"))["replay_departures"].clone();
    assert!(found["count"].as_u64().unwrap() >= 300, "{found}");
    let text = "frames differ from the recorded run";
    assert!(output.err.contains(text) || output.out.contains(text), "{}", output.err);
    let first = found["first"].as_str().unwrap();
    assert!(first.contains("field, down: frame") || differs, "{first}");
    assert!(first.contains("B, recorded were") || differs, "{first}");
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let bed = Bed::new();
    bed.write("e.yaml", &experiment(CHANCE, "duration: 1 s\n"));
    bed.thingbed(&["run", "e.yaml", "--replay", "nowhere"])
        .expect(2, &["could not read nowhere/plan.json", "--replay takes the folder of one run"]);
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let folder = bed.sweep("links");
    let other = experiment(CHANCE, "duration: 1 s\n").replace("experiment: links", "experiment: x");
    bed.write("other.yaml", &other);
    bed.thingbed(&["run", "other.yaml", "--replay", folder.to_str().unwrap()])
        .expect(2, &["belongs to the experiment \"links\", not to `x`"]);
    std::fs::remove_file(folder.join("decisions.parquet")).unwrap();
    bed.thingbed(&["run", "e.yaml", "--replay", folder.to_str().unwrap()])
        .expect(1, &["could not read the decisions in", "--replay takes the folder of one run"]);
}

#[test]
fn the_timetable_is_kept_and_told() {
    let bed = Bed::new();
    let timetable = "    timetable:
      - {at: 1 s, links: near, way: up, set: {loss: 100 %}}
      - {at: 2 s, links: near, way: up, set: {loss: 0 %, delay: 20 ms}, over: 1 s}
      - {at: 4 s, down: far, lasts: 500 ms}
      - {at: 5 s, partition: [near, far], lasts: 500 ms}";
    bed.write("e.yaml", &experiment(timetable, "duration: 6 s\n"));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let folder = bed.sweep("links");
    let events = std::fs::read_to_string(folder.join("events.jsonl")).unwrap();
    assert_eq!(events.matches("\"event\":\"change\"").count(), 6, "{events}");
    // Of 600 messages: those sent in the second of total loss, on average half of those in the
    // ramp, and two half seconds.
    let summary = json(&folder.join("summary.json"));
    let lost = 600.0 - common::figure(&summary, ".messages.replies");
    assert!((210.0..310.0).contains(&lost), "{lost}");
    assert!(common::figure(&summary, ".links.outage_frames") > 20.0);
    let file = File::open(folder.join("intervals.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    assert!(reader.metadata().file_metadata().num_rows() > 5);
}

/// A run in progress, which ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn links_are_looked_at_and_changed_by_hand() {
    if !has("ping") {
        return;
    }
    let bed = Bed::new();
    let links = "    links: {near: {up: {delay: 30 ms}}}";
    let text = experiment(links, "duration: 60 s\n").replace(
        "  - interaction: {source: near, sinks: far, model: udp-rr, payload: payload.xml}",
        "  - command: {on: near, run: [sleep, '60']}",
    );
    bed.write("e.yaml", &text);
    let mut run = Running(bed.command(&["run", "e.yaml", "-q"]).spawn().unwrap());
    let lab = run.0.id().to_string();
    // Other tests have separate labs.
    let ask = |args: &[&str]| bed.thingbed(&[&["link"], args, &["--lab", &lab]].concat());
    let begin = Instant::now();
    while ask(&["show"]).status != 0 {
        assert!(begin.elapsed() < Duration::from_secs(120), "the lab does not come up");
        std::thread::sleep(Duration::from_millis(50));
    }
    ask(&["show", "near"])
        .expect(0, &["near field up    delay 30 ms", "near field down  no impairments"]);
    ask(&["set", "near", "--way", "up", "loss=100%", "delay="])
        .expect(0, &["near field up    loss 100 % per frame"]);
    ask(&["set", "near", "delay=5ms", "--over", "1 s"]).expect(0, &["near field down"]);
    let shown: serde_json::Value =
        serde_json::from_str(&ask(&["show", "near", "--json"]).expect(0, &[]).out).unwrap();
    assert_eq!(shown[0]["way"], "up");
    assert_eq!(shown[0]["now"]["loss"], "100 %");
    ask(&["down", "far"]).expect(0, &[]);
    ask(&["up", "far"]).expect(0, &[]);
    ask(&["set", "nobody", "loss=1%"])
        .expect(1, &["no group has the name `nobody`; the groups are near, far"]);
    ask(&["set", "near", "--network", "moon", "loss=1%"])
        .expect(1, &["`near` is not attached to a network `moon`; it is attached to field"]);
    ask(&["set", "near", "los=1%"]).expect(2, &["did you mean `loss`?"]);
    ask(&["set", "near", "loss=120%"]).expect(2, &["120"]);
    bed.thingbed(&["link", "set", "near", "loss", "--lab", &lab])
        .expect(2, &["`loss` is not KEY=VALUE; write, for example, `loss=10%`"]);
    bed.thingbed(&["link", "show", "--lab", "1"]).expect(1, &["no lab `1` is running"]);

    // SAFETY: sends a signal to a process of this test.
    unsafe { libc::kill(run.0.id() as i32, libc::SIGINT) };
    run.0.wait().unwrap();
    let events = std::fs::read_to_string(bed.sweep("links").join("events.jsonl")).unwrap();
    assert_eq!(events.matches("change by hand").count(), 4, "{events}");
    ask(&["show"]).expect(1, &["no lab `"]);
}

/// Both directions of a link that has another path MTU from 2 to 6 s: pings of 1,028 B are lost then, and
/// smaller ones are not.
#[test]
fn a_path_mtu_that_shrinks_drops_long_packets_without_a_message() {
    if !has("ping") {
        return;
    }
    let bed = Bed::new();
    let links = "    links: {near: {up: {delay: 5 ms}}}
    timetable:
      - {at: 2 s, links: near, way: up, set: {path_mtu: 600 B}}
      - {at: 6 s, links: near, way: up, set: {path_mtu: null}}";
    let pings = |size: u32| {
        format!(
            "  - command: {{on: near, run: [ping, -q, -c, '9', -i, '1', -s, '{size}', far], background: true}}\n"
        )
    };
    let text = experiment(links, "duration: 11 s\n").replace(
        "  - interaction: {source: near, sinks: far, model: udp-rr, payload: payload.xml}\n",
        &(pings(1_000) + &pings(500)),
    );
    bed.write("e.yaml", &text);
    bed.thingbed(&["plan", "e.yaml"])
        .expect(0, &["at 2 s: near up: path_mtu 600 B", "at 6 s: near up: path_mtu reset"]);
    bed.thingbed(&["run", "e.yaml", "--clock", "virtual"]).expect(0, &["1 valid"]);
    let folder = bed.sweep("links");
    let run = json(&folder.join("summary.json"));
    let outputs = ["near.0.out", "near.1.out"].map(|name| {
        std::fs::read_to_string(folder.join("programs").join(name)).unwrap_or_default()
    });
    assert_eq!(run["links"]["too_long_frames"], 4, "{outputs:?}");
    assert!(
        outputs.iter().any(|out| out.contains("9 packets transmitted, 5 received")),
        "{outputs:?}"
    );
    assert!(
        outputs.iter().any(|out| out.contains("9 packets transmitted, 9 received")),
        "{outputs:?}"
    );
    assert!(!outputs.concat().contains("Frag needed"), "{outputs:?}");
}
