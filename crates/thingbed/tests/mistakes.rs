//! Error messages: they say what failed, why, and the fix; they have an exit status and leave
//! nothing behind.

mod common;

use common::{Bed, CommandOutput, comparison, figure, has, is_root};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A bed with copies of the programs in `bin`; if `script` is given, it replaces the workload
/// program.
fn with_copies(script: Option<&str>) -> Bed {
    let bed = Bed::new();
    let bin = bed.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let tool = Path::new(env!("CARGO_BIN_EXE_thingbed"));
    fs::copy(tool, bin.join("thingbed")).unwrap();
    let workload = bin.join("thingbed-workload");
    match script {
        Some(script) => fs::write(&workload, format!("#!/bin/sh\n{script}\n")).unwrap(),
        None => drop(fs::copy(tool.with_file_name("thingbed-workload"), &workload).unwrap()),
    }
    for path in [bed.path(), &bin, &workload] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    bed
}

/// Runs a shell line in the bed.
fn sh(bed: &Bed, line: &str) -> common::CommandOutput {
    common::CommandOutput::of(
        Command::new("sh").args(["-c", line]).current_dir(bed.path()).output().unwrap(),
    )
}

/// A user program on the first of two nodes.
fn command(name: &str, run: &str, more: &str) -> String {
    format!(
        "experiment: {name}
nodes:
  a: {{count: 1}}
  b: {{count: 1}}
networks:
  net: {{attach: [a, b], subnet: 10.0.0.0/24, links: {{a: {{up: {{delay: 30 ms}}}}}}}}
workloads:
  - command: {{on: a, run: {run}}}
duration: 1 s
drain: 5 s
{more}"
    )
}

#[test]
fn a_payload_that_is_not_there() {
    let bed = Bed::new();
    bed.write("e.yaml", &comparison("e", 3, "udp-rr", "ideal", ""));
    fs::remove_file(bed.path().join("payload.xml")).unwrap();
    let answer = bed.thingbed(&["run", "e.yaml"]);
    answer.expect(2, &["e.yaml:", "payload.xml", "payload: payload.xml"]);
    assert!(!bed.path().join("runs").exists(), "nothing was begun");
}

#[test]
fn a_file_that_is_not_there_or_is_no_experiment() {
    let bed = Bed::new();
    bed.thingbed(&["run", "none.yaml"]).expect(2, &["none.yaml"]);
    bed.write("e.yaml", "experiment: x\nnodez: {}\n");
    bed.thingbed(&["check", "e.yaml"]).expect(2, &["e.yaml:2:1", "nodez", "nodes"]);
    bed.thingbed(&["run", "e.yaml", "--repeat", "0"]).expect(2, &["--repeat"]);
    bed.write("e.yaml", &comparison("e", 3, "udp-rr", "ideal", ""));
    bed.thingbed(&["run", "e.yaml", "--only", "modle=udp-rr"]).expect(2, &["modle", "model"]);
    bed.thingbed(&["run", "e.yaml", "--only", "model=udp"]).expect(2, &["udp-rr"]);
}

#[test]
fn an_interactions_program_that_dies_at_once() {
    let bed = with_copies(Some("echo 'the meter is on fire' >&2; exit 7"));
    bed.write("e.yaml", &comparison("e", 3, "udp-rr", "ideal", ""));
    sh(&bed, "bin/thingbed run e.yaml -q")
        .expect(1, &["ended with status 7 before the run started", "| the meter is on fire"]);
}

#[test]
fn an_interactions_program_that_hangs() {
    let bed = with_copies(Some("echo 'still thinking' >&2; exec sleep 1000"));
    bed.write("e.yaml", &comparison("e", 3, "udp-rr", "ideal", "setup_limit: 1 s"));
    sh(&bed, "bin/thingbed run e.yaml -q")
        .expect(1, &["4 of 4 programs were not ready after 1 s", "still thinking", "setup_limit"]);
}

#[test]
fn an_interactions_program_that_is_not_there() {
    let bed = with_copies(None);
    fs::remove_file(bed.path().join("bin/thingbed-workload")).unwrap();
    bed.write("e.yaml", &comparison("e", 3, "udp-rr", "ideal", ""));
    sh(&bed, "PATH=/usr/bin:/bin bin/thingbed run e.yaml -q")
        .expect(1, &["could not start the program of", "thingbed-workload", "PATH"]);
    sh(&bed, "PATH=/usr/bin:/bin bin/thingbed doctor | grep -A3 'ZeroMQ with PGM'")
        .expect(0, &["degraded", "put thingbed-workload next to thingbed"]);
}

#[test]
fn a_libzmq_without_pgm() {
    let bed = with_copies(None);
    // The real library, except for the answer to one question.
    bed.write("no_pgm.c", "int zmq_has(const char *what) { (void)what; return 0; }");
    sh(&bed, "cc -shared -fPIC -o no_pgm.so no_pgm.c").expect(0, &[]);
    bed.write("e.yaml", &comparison("e", 3, "pgm-ps", "ideal", ""));
    // Programs in nodes do not inherit the variable.
    let program = "mv bin/thingbed-workload bin/original; \
                   printf '#!/bin/sh\\nLD_PRELOAD=%s/no_pgm.so exec %s/bin/original \"$@\"\\n' \
                   \"$PWD\" \"$PWD\" >bin/thingbed-workload; chmod +x bin/thingbed-workload";
    sh(&bed, program).expect(0, &[]);
    let preload = "LD_PRELOAD=$PWD/no_pgm.so bin/thingbed";
    sh(&bed, &format!("{preload} run e.yaml -q")).expect(1, &["built without PGM", "libzmq5"]);
    sh(&bed, &format!("{preload} doctor | grep -A3 'ZeroMQ with PGM'"))
        .expect(0, &["degraded", "without PGM"]);
}

#[test]
fn a_users_program_that_fails_makes_the_run_failed() {
    let bed = Bed::new();
    bed.write("e.yaml", &command("fails", "[sh, -c, 'echo boom >&2; exit 3']", ""));
    bed.thingbed(&["run", "e.yaml", "-q"]).failed(&["the program of a ended with status 3: boom"]);
    // Its output is kept.
    let log = bed.sweep("fails").join("programs/a.0.err");
    assert_eq!(fs::read_to_string(log).unwrap(), "boom\n");
}

#[test]
fn a_users_program_that_is_not_there() {
    let bed = Bed::new();
    bed.write("e.yaml", &command("e", "[no-such-program]", ""));
    bed.thingbed(&["run", "e.yaml", "-q"])
        .expect(1, &["could not start the program of a", "no-such-program", "check the path"]);
}

/// A port in use: the message names the node and quotes the program. The port is free on other
/// nodes.
#[test]
fn a_port_in_use_in_a_node() {
    if !has("python3") {
        return;
    }
    let serve = "[python3, -m, http.server, '8080']";
    let experiment = |second: &str| {
        format!(
            "experiment: port
nodes:
  a: {{run: {serve}, ready: {{tcp: 8080}}}}
  b: {{run: {serve}, ready: {{tcp: 8080}}}}
networks: {{net: {{attach: [a, b], subnet: 10.0.0.0/24}}}}
workloads:
  - command: {{on: b, run: {second}}}
duration: 1 s
"
        )
    };
    let bed = Bed::new();
    bed.write("e.yaml", &experiment(serve));
    let answer = bed.thingbed(&["run", "e.yaml", "-q"]);
    answer.failed(&["the program of b ended with status 1", "Address already in use"]);
    // The node's own program fails: the run does not start.
    bed.write(
        "twice.sh",
        "python3 -m http.server 8080 &\n\
         until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8080))'\n\
         do sleep 0.1; done 2>/dev/null\n\
         exec python3 -m http.server 8080\n",
    );
    let text = experiment("['true']").replacen(serve, "[sh, twice.sh]", 1);
    bed.write("e.yaml", &text.replacen("ready: {tcp: 8080}", "ready: {log: never}", 1));
    bed.thingbed(&["run", "e.yaml", "-q"])
        .expect(1, &["a ended with status 1 before the run started", "Address already in use"]);
}

#[test]
fn a_users_program_that_will_not_end_is_killed() {
    let bed = Bed::new();
    let run = "[sh, -c, 'trap \"\" TERM; while :; do sleep 1; done']";
    bed.write("e.yaml", &command("deaf", run, "").replace("drain: 5 s", "drain: 0.5 s"));
    bed.thingbed(&["run", "e.yaml", "-q"])
        .failed(&["was still running when the run ended", "ignored SIGTERM and was killed"]);
}

/// A command that is killed at the end of the run is a failure, on any machine, unless it is
/// declared to run until the end.
#[test]
fn a_users_program_that_is_cut_off_makes_the_run_failed() {
    let bed = Bed::new();
    let steps = "[sh, -c, 'for step in $(seq 6000); do echo $step; sleep 0.1; done']";
    let cut = command("cut", steps, "").replace("drain: 5 s", "drain: 0.5 s");
    bed.write("e.yaml", &cut);
    let words = ["FAILED", "on a was still running when the run ended after", "background: true"];
    bed.thingbed(&["run", "e.yaml", "-q"]).failed(&words[1..]);
    bed.write("e.yaml", &cut.replace("on: a,", "on: a, background: true,"));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
}

#[test]
fn a_full_disk() {
    if !is_root() || !has("unshare") {
        return;
    }
    let bed = with_copies(None);
    bed.write("e.yaml", &comparison("e", 3, "udp-rr", "ideal", ""));
    fs::create_dir(bed.path().join("small")).unwrap();
    let mount = "mount -t tmpfs -o size=16k small small";
    let line = format!("unshare -m sh -c '{mount} && bin/thingbed run e.yaml -q --out small'");
    sh(&bed, &line).expect(1, &["small: the disk has", "the results need", "free space there"]);
}

#[test]
fn no_tun_device() {
    if !is_root() || !has("unshare") {
        return;
    }
    let bed = with_copies(None);
    bed.write("e.yaml", &comparison("e", 3, "udp-rr", "ideal", ""));
    let inside = "mount -t tmpfs none /dev/net";
    let run = "THINGBED_FRAME_PATH=tap bin/thingbed run e.yaml -q";
    sh(&bed, &format!("unshare -m sh -c '{inside} && {run}'"))
        .expect(1, &["open /dev/net/tun", "modprobe tun"]);
    sh(&bed, &format!("unshare -m sh -c '{inside} && bin/thingbed run e.yaml -q'"))
        .ran(&["report: "]);
    sh(&bed, &format!("unshare -m sh -c '{inside} && bin/thingbed doctor'"))
        .expect(0, &["degraded  TUN/TAP driver", "modprobe tun", "frame path `tap`"]);
}

/// A line that runs `line` as an unprivileged user, with the TUN device open to all.
fn as_nobody(line: &str) -> String {
    format!(
        "chown -R 65534:65534 . && unshare -m sh -c 'mount -t tmpfs none /dev/net && \
         mknod -m 666 /dev/net/tun c 10 200 && \
         exec setpriv --reuid=65534 --regid=65534 --clear-groups env -u XDG_RUNTIME_DIR {line}'"
    )
}

#[test]
fn without_root_it_works_but_for_limits() {
    let namespaces = fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
    if !is_root() || !has("unshare") || !has("setpriv") || namespaces.trim() == "0" {
        return;
    }
    let bed = with_copies(None);
    bed.write("e.yaml", &comparison("e", 5, "udp-rr, tcp-rd, pgm-ps", "slow", ""));
    sh(&bed, &as_nobody("bin/thingbed run e.yaml -q")).ran(&["report: "]);
    for summary in bed.summaries("e") {
        assert_eq!(figure(&summary, ".messages.loss_pct"), 0.0, "{summary:#}");
    }
    let limited = comparison("e", 5, "udp-rr", "slow", "")
        .replace("count: 5}", "count: 5, limits: {cpus: 0.5}}");
    bed.write("limited.yaml", &limited);
    sh(&bed, &as_nobody("bin/thingbed run limited.yaml -q"))
        .expect(1, &["could not limit node consumer-1", "run as root"]);
    // The TUN device of this machine may not be open to all users.
    let closed = |line: &str| as_nobody(line).replace("-m 666", "-m 600");
    sh(&bed, &closed("bin/thingbed run e.yaml -q")).ran(&["report: "]);
    sh(&bed, &closed("THINGBED_FRAME_PATH=tap bin/thingbed run e.yaml -q"))
        .expect(1, &["open /dev/net/tun", "chmod 666 /dev/net/tun"]);
    sh(&bed, &as_nobody("bin/thingbed doctor")).expect(0, &["degraded  rights", "not root"]);
    sh(&bed, &closed("bin/thingbed doctor")).expect(0, &["packet: veth pairs"]);
}

/// What failed before: the lab has several threads, and only a process with one thread can enter the user
/// namespace that a user's nodes have.
#[test]
fn a_user_changes_the_host_name_and_the_mtu_of_a_node() {
    let namespaces = fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
    if !is_root() || !has("unshare") || !has("setpriv") || namespaces.trim() == "0" {
        return;
    }
    let bed = with_copies(None);
    let name = format!("settings-{}", std::process::id());
    bed.write("lab.yaml", &comparison(&name, 3, "udp-rr", "ideal", ""));
    bed.write(
        "lab.sh",
        &format!(
            "set -e
bin/thingbed up lab.yaml --detach
trap 'bin/thingbed down --lab {name}' EXIT
bin/thingbed set --lab {name} consumer-1 hostname=zaehler mtu=600B
bin/thingbed exec --lab {name} consumer-1 -- sh -c 'hostname; cat /sys/class/net/*/mtu'\n"
        ),
    );
    sh(&bed, &as_nobody("sh lab.sh")).expect(0, &["zaehler\n", "\n600\n"]);
}

#[test]
fn a_folder_of_results_that_cannot_be_written() {
    if !is_root() || !has("unshare") {
        return;
    }
    let bed = with_copies(None);
    bed.write("e.yaml", &comparison("e", 3, "udp-rr", "ideal", ""));
    fs::create_dir(bed.path().join("runs")).unwrap();
    let line = |words: &str| {
        format!("unshare -m sh -c 'mount -t tmpfs -o ro none runs && bin/thingbed {words}'")
    };
    for words in ["run e.yaml -q", "up e.yaml --detach"] {
        sh(&bed, &line(words)).expect(1, &["could not write runs/e", "--out"]);
    }
}

#[test]
fn a_report_of_nothing_or_of_damage() {
    let bed = Bed::new();
    bed.thingbed(&["report", "nowhere"]).expect(1, &["nowhere"]);
    fs::create_dir(bed.path().join("empty")).unwrap();
    bed.thingbed(&["report", "empty"]).expect(1, &["empty"]);

    bed.write("e.yaml", &comparison("e", 3, "udp-rr, tcp-rd", "ideal", ""));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let sweep = bed.sweep("e");
    fs::write(sweep.join("udp-rr-ideal-0/messages.parquet"), "not a table").unwrap();
    fs::write(sweep.join("tcp-rd-ideal-0/summary.json"), "{").unwrap();
    bed.thingbed(&["report", sweep.to_str().unwrap()])
        .expect(0, &["summary.json is damaged", "report: "]);
    let page = fs::read_to_string(sweep.join("report.html")).unwrap();
    assert!(page.contains("messages.parquet"), "the page says what it lacks");
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let bed = Bed::new();
    bed.write("e.yaml", &comparison("e", 200, "udp-rr, tcp-rd, tcp-ps, pgm-ps", "ideal, slow", ""));
    let tool = env!("CARGO_BIN_EXE_thingbed");
    for command in ["plan e.yaml", "plan e.yaml --json", "schema", "doctor"] {
        let answer = sh(&bed, &format!("{tool} {command} | head -n 1"));
        assert_eq!(answer.expect(0, &[]).err, "", "{command}");
    }
}

/// What failed before: the exit status was 0, and the end of the results missing.
#[test]
fn results_that_cannot_be_printed_are_a_failure() {
    let bed = Bed::new();
    bed.write("e.yaml", "experiment: e\nnodes: {a: {}}\nduration: 1 s\n");
    for words in [&["check", "e.yaml"][..], &["profiles"], &["schema"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = bed.command(words);
        let output = CommandOutput::of(command.stdout(full).output().unwrap());
        output.expect(1, &["error: could not write standard output: No space left on device"]);
    }
}
