//! A breakpoint in virtual time, with shells in the nodes.

mod common;

use common::{Bed, CommandOutput};
use std::io::Write;
use std::process::Stdio;

const PING: &str = "experiment: ping
nodes: {a: {}, b: {}}
networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {delay: 30 ms}, down: {delay: 30 ms}}}}}
workloads:
  - command: {on: a, run: [ping, -i, '0.5', -c, '8', b]}
duration: 5 s
drain: 1 s
";

fn stopped(bed: &Bed, typed: &str) -> CommandOutput {
    let words = ["run", "e.yaml", "--clock", "virtual", "--stop-at", "1.2 s", "-q"];
    let mut command = bed.command(&words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    CommandOutput::of(child.wait_with_output().unwrap())
}

/// The lines of a shell that print its time in ns.
fn times(output: &CommandOutput) -> Vec<u64> {
    output.out.lines().filter_map(|line| line.trim().strip_prefix("now ")?.parse().ok()).collect()
}

#[test]
fn time_stands_still_while_a_shell_works_and_goes_on_when_told() {
    let bed = Bed::new();
    bed.write("e.yaml", PING);
    let look = "echo now $(date +%s%N)\n";
    let typed = format!(
        "a\nsleep 1000 &\nhostname; echo $THINGBED_NODE\nip -o -4 addr show | grep -c 10.0.0.1\n{look}{look}exit\n\
         go 100ms\nb\n{look}exit\nnobody\ngo\n"
    );
    let runs = [(); 2].map(|()| {
        stopped(&bed, &typed)
            .expect(0, &["is paused at 1.2000", "no node is called `nobody`", "VALID"])
    });
    let all = runs.each_ref().map(times);
    let [a, b, c] = all[0][..] else { panic!("{:?}\n{}", all, runs[0].out) };
    // Shell commands take some microseconds, because they read the clock.
    assert!(b - a < 1_000_000 && (100_000_000..102_000_000).contains(&(c - b)), "{:?}", all[0]);
    assert_eq!(all[0], all[1], "the same moment each time");
    // The pings continued at their interval.
    let program = bed.sweep("ping").join("programs/a.0.out");
    let output = std::fs::read_to_string(program).unwrap();
    assert!(output.contains("8 received") && output.contains("time 35"), "{output}");
}

#[test]
fn it_can_be_ended_there_and_is_refused_where_time_cannot_stop() {
    let bed = Bed::new();
    bed.write("e.yaml", PING);
    stopped(&bed, "quit\n").expect(130, &["is paused", "the user stopped it after 1.2 s"]);
    let refused = |more: &[&str], words: &[&str]| {
        let run = ["run", "e.yaml", "--stop-at", "1 s"];
        bed.thingbed(&[&run[..], more].concat()).expect(2, words);
    };
    refused(&[], &["--stop-at needs virtual time", "--clock virtual"]);
    refused(&["--cpu", "1"], &["--stop-at needs --cpu infinite"]);
    refused(
        &["--clock", "virtual", "--repeat", "2"],
        &["--stop-at stops one run, and there are 2"],
    );
}
