//! Fault injection into nodes' own programs.

mod common;

use common::Bed;
use std::fs;

fn experiment(server: &str, more: &str) -> String {
    format!(
        "experiment: own
nodes:
  server:
{server}
  meter: {{}}
networks:
  field: {{attach: [server, meter], subnet: 10.1.0.0/24}}
{more}
drain: 2 s
setup_limit: 2 s
"
    )
}

const TICKS: &str = "    run: [sh, -c, 'echo begun; while :; do echo tick; sleep 0.05; done']
    ready: {log: begun}";

#[test]
fn a_program_is_killed_restarted_and_paused_when_it_was_asked() {
    let bed = Bed::new();
    let faults = "workloads:
  - command: {on: meter, run: [sleep, 4]}
faults:
  - {at: 500 ms, kill: server, lasts: 500 ms}
  - {at: 1500 ms, restart: server}
  - {at: 2 s, pause: server, lasts: 1 s}
  - {at: 3500 ms, stop: server}
duration: 4 s";
    bed.write("e.yaml", &experiment(TICKS, faults));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let folder = bed.sweep("own");
    let output = fs::read_to_string(folder.join("programs/server.run.out")).unwrap();
    assert_eq!(output.matches("begun").count(), 3, "{output}");
    // It ran for two of 4 s; without faults there would be 80 ticks.
    let ticks = output.matches("tick").count();
    assert!((5..70).contains(&ticks), "{ticks}");
    let events = fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let what: Vec<_> = ["kill", "start", "restart", "pause", "resume", "stop"]
        .into_iter()
        .map(|word| events.find(&format!("\"what\":\"{word}\"")).expect(word))
        .collect();
    assert!(what.is_sorted(), "{events}");
}

#[test]
fn a_program_that_ends_by_itself_makes_the_run_failed() {
    let bed = Bed::new();
    let server = "    run: [sh, -c, 'sleep 1.5; echo no more memory >&2; exit 7']";
    bed.write("e.yaml", &experiment(server, "duration: 2 s"));
    let words = ["the program of server ended with status 7: no more memory"];
    bed.thingbed(&["run", "e.yaml", "-q"]).failed(&words);
}

#[test]
fn what_is_never_ready_is_told_with_its_reason() {
    let bed = Bed::new();
    let server = "    run: [sh, -c, 'echo still looking for my disk >&2; sleep 100']
    ready: {tcp: 1883}";
    bed.write("e.yaml", &experiment(server, "duration: 1 s"));
    let words = ["not ready after 2 s: server (ready when TCP port 1883 listens)", "my disk"];
    bed.thingbed(&["run", "e.yaml", "-q"]).expect(1, &words);
}
