//! Runs on disks that are too small, and programs that print too much.

mod common;

use common::{Bed, CommandOutput, json};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two nodes, 150 requests in 3 s, and a program on `b`.
fn experiment(group: &str, program: &str) -> String {
    format!(
        "experiment: disk
nodes: {{a: {{}}, b: {{{group}}}}}
networks: {{net: {{attach: [a, b], subnet: 10.0.0.0/24, links: {{b: {{up: {{delay: 5 ms}}}}}}}}}}
models: {{udp: {{down: udp/request-response, up: udp/request-response, every: 0.02 s, drain: 1 s}}}}
workloads:
  - interaction: {{name: poll, source: a, sinks: b, model: udp, payload: payload.xml}}
  - command: {{on: b, run: [sh, -c, \"{program}\"], background: true}}
duration: 3 s
drain: 2 s
"
    )
}

/// Runs `line` with a disk of `size` at `$DISK`, and returns what it printed and a copy of the disk.
fn on_disk(bed: &Bed, size: &str, line: &str) -> (CommandOutput, PathBuf) {
    on(bed, &format!("mount -t tmpfs -o size={size} thingbed-test \"$DISK\""), line)
}

/// The same with a folder of another file system, which `mount` makes.
fn on(bed: &Bed, mount: &str, line: &str) -> (CommandOutput, PathBuf) {
    let (disk, copy) = (bed.path().join("disk"), bed.path().join("copy"));
    fs::create_dir(&disk).unwrap();
    let script = format!(
        "{mount} || exit 99
         {line}
         status=$?
         cp -r \"$DISK\" \"$COPY\"
         exit $status"
    );
    let mut command = Command::new("unshare");
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        command.arg("--map-root-user");
    }
    let tool = env!("CARGO_BIN_EXE_thingbed");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    command.env("DISK", &disk).env("COPY", &copy).env("THINGBED", tool);
    let text = CommandOutput::of(command.current_dir(bed.path()).output().unwrap());
    assert_ne!(text.status, 99, "no file system: {}", text.err);
    (text, copy)
}

/// The only run below a folder of results.
fn run_in(copy: &Path) -> PathBuf {
    let parent = copy.join("disk");
    let mut runs = fs::read_dir(&parent).unwrap().map(|entry| entry.unwrap().path());
    runs.next().expect("a run")
}

/// Details of a piece of evidence of a run; `None` if it is not listed.
fn evidence(run: &Path, name: &str) -> Option<String> {
    let run = json(&run.join("run.json"));
    let all = run["verdict"]["evidence"].as_array().expect("evidence").clone();
    let found = all.iter().find(|found| found["name"] == name)?;
    Some(found["detail"].as_str().unwrap_or_default().to_owned())
}

/// Checks that the figures of a run are complete and agree.
fn check_figures(run: &Path) -> Value {
    let summary = json(&run.join("summary.json"));
    let messages = &summary["messages"];
    assert_eq!(messages["sent"], 150, "{messages}");
    assert_eq!(messages["unsent"], 0);
    for table in ["messages", "nodes", "links", "intervals"] {
        let bytes = fs::read(run.join(format!("{table}.parquet"))).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{table}");
    }
    for left in ["usage.csv", "host.csv", "link-intervals.csv"] {
        assert!(!run.join(left).exists(), "{left} is in a table");
    }
    summary
}

/// What failed before: any program could make the tool lose a run by its output.
#[test]
fn a_program_that_fills_the_disk_costs_auxiliary_files_and_no_figure() {
    let bed = Bed::new();
    bed.write("e.yaml", &experiment("", "while :; do head -c 1000000 /dev/zero; done"));
    let (text, copy) =
        on_disk(&bed, "24m", "\"$THINGBED\" run e.yaml --capture --out \"$DISK\" 2>&1");
    let text = text.ran(&["parts lost to a full disk"]);
    let run = run_in(&copy);
    check_figures(&run);
    let lost = evidence(&run, "parts lost to a full disk").expect("evidence");
    assert!(lost.contains("of the output of programs are missing from "), "{lost}\n{}", text.out);
    let report = bed.thingbed(&["report", run.to_str().unwrap()]);
    assert!(report.out.contains("parts lost to a full disk"), "{}", report.out);
}

#[test]
fn a_disk_that_others_fill_during_a_run_costs_the_rest_of_the_capture() {
    let bed = Bed::new();
    bed.write("e.yaml", &experiment("", "sleep 100"));
    // Fills the disk after the run has begun to capture, and keeps it full.
    let line = "(until ls \"$DISK\"/disk/*/capture.pcapng; do sleep 0.1; done; sleep 1.5
                 cat /dev/zero > \"$DISK\"/fill) > other 2>&1 & filler=$!
                \"$THINGBED\" run e.yaml --capture --out \"$DISK\" 2>&1
                status=$?; wait $filler; rm \"$DISK\"/fill; (exit $status)";
    let (text, copy) = on_disk(&bed, "24m", line);
    text.ran(&["parts lost to a full disk"]);
    let run = run_in(&copy);
    check_figures(&run);
    let lost = evidence(&run, "parts lost to a full disk").expect("evidence");
    assert!(lost.starts_with("the capture misses ") && lost.contains(" from "), "{lost}");
    // The capture up to then is readable.
    let analyzed = bed.thingbed(&["analyze", run.join("capture.pcapng").to_str().unwrap()]);
    assert_eq!(analyzed.status, 0, "{}{}", analyzed.out, analyzed.err);
}

#[test]
fn a_sweep_without_space_for_its_figures_is_refused_before_it_starts() {
    let bed = Bed::new();
    bed.write("e.yaml", &experiment("", "sleep 100"));
    let line = "\"$THINGBED\" run e.yaml --out \"$DISK\" 2>&1";
    let (text, copy) = on_disk(&bed, "500k", line);
    text.expect(1, &["the disk has 1 MB free, and the results need about", "--out"]);
    assert_eq!(fs::read_dir(copy).unwrap().count(), 0, "no folder");
}

/// A subvolume of 24 MiB of a disk with more space: what it has left is not in the free space of the file system.
const QUOTA: &str = "truncate -s 512M image && mkfs.btrfs -q image 2>/dev/null &&
    mkdir -p whole && mount -o loop image whole && btrfs quota enable whole &&
    btrfs subvolume create whole/part >/dev/null && btrfs qgroup limit SIZE whole/part &&
    mount --bind whole/part \"$DISK\"";

fn has_quotas() -> bool {
    let found = Command::new("sh")
        .args(["-c", "command -v mkfs.btrfs && test -e /dev/loop-control"])
        .output();
    // SAFETY: the call has no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let has = is_root && found.is_ok_and(|found| found.status.success());
    if !has {
        eprintln!("NOT RUN: needs root, btrfs-progs and loop devices");
    }
    has
}

#[test]
fn a_sweep_whose_quota_does_not_take_its_figures_is_refused_before_it_starts() {
    if !has_quotas() {
        return;
    }
    let bed = Bed::new();
    bed.write("e.yaml", &experiment("", "sleep 100"));
    let line = "\"$THINGBED\" run e.yaml --out \"$DISK\" 2>&1";
    let (text, copy) = on(&bed, &QUOTA.replace("SIZE", "500K"), line);
    text.expect(1, &["it has a quota", "--out"]);
    assert_eq!(fs::read_dir(copy).unwrap().count(), 0, "no folder");
}

/// What failed before: the program took the rest of the quota from the events of Thingbed's own programs,
/// which ended with an error. btrfs cuts no log when a quota is used up.
#[test]
fn a_program_that_uses_up_the_quota_costs_its_output_and_no_figure() {
    if !has_quotas() {
        return;
    }
    let bed = Bed::new();
    bed.write("e.yaml", &experiment("", "while :; do head -c 1000000 /dev/zero; done"));
    let line = "\"$THINGBED\" run e.yaml --capture --out \"$DISK\" 2>&1";
    let (text, copy) = on(&bed, &QUOTA.replace("SIZE", "24M"), line);
    text.ran(&["parts lost to a full disk"]);
    let run = run_in(&copy);
    check_figures(&run);
    let lost = evidence(&run, "parts lost to a full disk").expect("evidence");
    assert!(lost.contains("of the output of programs are missing from "), "{lost}");
}

/// What failed before: Thingbed's programs waited for the space of the log, which its program kept until
/// it was stopped after them; 0 of 150 messages were in the results.
#[test]
fn a_nodes_program_that_uses_up_the_quota_costs_its_output_and_no_figure() {
    if !has_quotas() {
        return;
    }
    let bed = Bed::new();
    // From the twentieth frame on, during the measurement: a disk that is full before is an error.
    let packets = "grep eth0 /proc/net/dev | tr -s ' :' ' ' | cut -d' ' -f4";
    let begun = format!("until [ $({packets}) -gt 20 ]; do sleep 0.1; done");
    let group = format!("run: [sh, -c, \"{begun}; while :; do head -c 1000000 /dev/zero; done\"]");
    bed.write("e.yaml", &experiment(&group, "sleep 100"));
    let line = "\"$THINGBED\" run e.yaml --capture --out \"$DISK\" 2>&1";
    let (text, copy) = on(&bed, &QUOTA.replace("SIZE", "24M"), line);
    text.ran(&["parts lost to a full disk"]);
    check_figures(&run_in(&copy));
}

/// What failed before: the signal of the limit ended the tool without a word.
#[test]
fn a_limit_of_file_sizes_costs_the_rest_of_the_capture_and_no_figure() {
    let bed = Bed::new();
    bed.write("e.yaml", &experiment("", "sleep 100"));
    // Requests and answers, each captured twice: over 4 MB.
    bed.write(
        "payload.xml",
        &format!("<update number=\"##########\">{}</update>", "x".repeat(8_000)),
    );
    // In blocks of 512 B: 3 MiB.
    let line = "ulimit -f 6144; \"$THINGBED\" run e.yaml --capture --out \"$DISK\" 2>&1";
    let (text, copy) = on_disk(&bed, "200m", line);
    text.ran(&["parts lost to a full disk"]);
    let run = run_in(&copy);
    check_figures(&run);
    let lost = evidence(&run, "parts lost to a full disk").expect("evidence");
    assert!(lost.starts_with("the capture misses "), "{lost}");
    let analyzed = bed.thingbed(&["analyze", run.join("capture.pcapng").to_str().unwrap()]);
    assert_eq!(analyzed.status, 0, "{}{}", analyzed.out, analyzed.err);
}

#[test]
fn a_limit_of_file_sizes_below_the_tables_is_refused_before_it_starts() {
    let bed = Bed::new();
    bed.write("e.yaml", &experiment("", "sleep 100"));
    let line = "ulimit -f 100; \"$THINGBED\" run e.yaml --out \"$DISK\" 2>&1";
    let (text, copy) = on_disk(&bed, "200m", line);
    text.expect(1, &["`ulimit -f`", "raise that limit"]);
    assert_eq!(fs::read_dir(copy).unwrap().count(), 0, "no folder");
}

#[test]
fn a_log_keeps_its_limit_with_its_beginning_and_its_end() {
    let bed = Bed::new();
    let program =
        "echo first; head -c 3000000 /dev/zero | tr '\\\\0' x; echo; echo last; sleep 100";
    bed.write("e.yaml", &experiment("limits: {output: 256 KiB}", program));
    bed.thingbed(&["run", "e.yaml"]).ran(&[]);
    let run = bed.sweep("disk");
    let log = fs::read_to_string(run.join("programs/b.1.out")).unwrap();
    assert!(log.starts_with("first\nxxx") && log.ends_with("xxx\nlast\n"));
    assert!(log.len() < 260 << 10 && log.len() > 120 << 10, "{} B", log.len());
    assert!(log.contains("B of output here: a log keeps 256 KiB]"));
    let dropped = evidence(&run, "program output not kept").expect("evidence");
    assert!(dropped.contains("b.1.out"), "{dropped}");
    assert_eq!(evidence(&run, "parts lost to a full disk"), None);
    let plan = bed.thingbed(&["plan", "e.yaml"]).expect(0, &["256 KiB of output each"]);
    assert!(plan.err.is_empty(), "{}", plan.err);
    bed.write("e.yaml", &experiment("limits: {output: 1 KiB}", program));
    bed.thingbed(&["check", "e.yaml"]).expect(2, &["a limit of 1 KiB of output", "64 KiB or more"]);
}

/// Values in the part of a log that was dropped would be missing from a figure without a word.
#[test]
fn a_metric_of_output_that_exceeds_its_limit_is_said_to_be_incomplete() {
    let bed = Bed::new();
    let text = "
experiment: long
nodes: {a: {limits: {output: 64 KiB}}}
workloads:
  - command: {on: a, run: [sh, -c, 'seq -f \"value %f\" 1 20000'], metrics: {all: {match: 'value ([0-9.]+)'}, few: {match: 'value (7[.].*)', optional: true}}}
duration: 1 s
";
    bed.write("e.yaml", text);
    let output = bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]);
    output
        .expect(4, &["metric `all` of `command-1` is incomplete on a: ", "limits: {output: ...}"]);
    bed.write("e.yaml", &text.replace("20000", "200"));
    bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]).ran(&[]);
}
