//! Runs that the machine disturbed: repeated, kept and explained.

mod common;

use common::{Bed, CommandOutput, json};
use std::fs;
use std::process::Command;

/// A rate that no machine can send: each run is invalid, also on an idle machine.
const TOO_FAST: &str = "experiment: fast
nodes: {gateway: {}, sensor: {}}
networks: {field: {attach: [gateway, sensor], subnet: 10.0.0.0/24}}
workloads:
  - device: {on: sensor, resources: {a: constant:1us}, check: false}
  - load: {name: requests, on: gateway, to: sensor, path: a, arrivals: constant:200ns, patience: 200 ms, timeout: 200 ms}
duration: 300 ms
drain: 200 ms
";

/// Runs the command at the end of the advice in a shell.
fn again(bed: &Bed, answer: &CommandOutput) -> (String, CommandOutput) {
    let all = format!("{}{}", answer.out, answer.err);
    let line = all.lines().rev().find(|line| line.starts_with("  thingbed run")).expect(&all);
    let tool = format!("'{}'", env!("CARGO_BIN_EXE_thingbed"));
    let script = line.trim().replacen("thingbed", &tool, 1);
    let output = Command::new("sh").args(["-c", &script]).current_dir(bed.path()).output().unwrap();
    (line.to_owned(), CommandOutput::of(output))
}

/// The command repeats the same cells with the same seed, from a file with a space in its name.
#[test]
fn the_command_that_repeats_keeps_the_options() {
    let bed = Bed::new();
    let text = TOO_FAST.replace("arrivals: constant:200ns", "arrivals: \"constant:${between}\"");
    bed.write("too fast.yaml", &format!("{text}matrix: {{between: [200ns, 300ns]}}\n"));
    let words = ["run", "too fast.yaml", "--only", "between=300ns", "--seed", "5", "--retry", "1"];
    let answer = bed.thingbed(&words).expect(3, &["repeat only the invalid runs"]);
    let (line, answer) = again(&bed, &answer);
    assert!(line.contains("'too fast.yaml' --only between=300ns --seed 5"), "{line}");
    answer.expect(3, &["retry 3 of 3", "1 run in 1 cell"]);
    let folder = bed.sweep("fast");
    assert_eq!(fs::read_dir(folder.join("rejected")).unwrap().count(), 5);
    // A quiet run prints nothing about previously completed runs.
    let resume = folder.to_str().unwrap();
    let quiet = [&words[..6], &["--resume", resume, "-q"]].concat();
    let answer = bed.thingbed(&quiet).expect(3, &[]);
    assert!(!answer.err.contains("finished before"), "{}", answer.err);
}

#[test]
fn a_busy_machine_is_advised_to_use_virtual_time() {
    let bed = Bed::new();
    bed.write("e.yaml", TOO_FAST);
    let mut command = bed.command(&["run", "e.yaml", "--seed", "5"]);
    // Only that there is a kernel counts for the advice.
    command.env("THINGBED_KERNEL", "/bin/true");
    let line = "thingbed run e.yaml --seed 5 --clock virtual\nFor real time, close other programs";
    let answer = CommandOutput::of(command.output().unwrap());
    let answer = answer.expect(3, &["a busy machine changes no figure", line]);
    let (line, _) = again(&bed, &answer);
    assert!(line.contains("--retry 3"), "{line}");
    // Where a cell cannot run in virtual time, that is no advice.
    bed.write("e.yaml", &TOO_FAST.replace("check: false", "spin: true"));
    let mut command = bed.command(&["run", "e.yaml"]);
    command.env("THINGBED_KERNEL", "/bin/true").env("THINGBED_QEMU_KERNEL", "/nonexistent");
    let answer = CommandOutput::of(command.output().unwrap()).expect(3, &["the invalid runs"]);
    assert!(!answer.err.contains("In virtual time"), "{}", answer.err);
}

#[test]
fn invalid_runs_are_repeated_and_kept() {
    let bed = Bed::new();
    bed.write("e.yaml", TOO_FAST);
    let answer = bed.thingbed(&["run", "e.yaml", "--retry", "1"]);
    let answer = answer.expect(3, &["INVALID", "1 invalid run was rejected and repeated"]);
    let all = format!("{}{}", answer.out, answer.err);
    assert!(all.contains("retry 1 of 1"), "{all}");
    assert!(all.contains("This machine was too busy during the run"), "{all}");
    let folder = bed.sweep("fast");
    let kept = |name: &str| json(&folder.join(name).join("run.json"))["verdict"]["status"].clone();
    assert_eq!((kept("0"), kept("rejected/0.0")), ("invalid".into(), "invalid".into()));

    let (line, answer) = again(&bed, &answer);
    assert!(line.contains(" --resume "), "{line}");
    let answer = answer.expect(3, &["retry 3 of 3"]);
    assert!(!answer.err.contains("finished before"), "{}", answer.err);
    assert_eq!(fs::read_dir(folder.join("rejected")).unwrap().count(), 1 + 1 + 3);

    // Without --retry, completed runs are kept.
    let resume = folder.to_str().unwrap();
    bed.thingbed(&["run", "e.yaml", "--resume", resume]).expect(3, &["finished before"]);
    assert_eq!(fs::read_dir(folder.join("rejected")).unwrap().count(), 5);
}
