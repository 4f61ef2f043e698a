//! Programs that try to leave a node with a separate root, and what programs of any node get from
//! their caller. `docs/results/boundary.md` has the table.

#[path = "../../image/tests/common/mod.rs"]
mod archive;
mod common;

use archive::{Image, Layer, Pack, write_tar};
use common::live::Live;
use common::{Bed, CommandOutput, has, is_root};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;

/// The attempts of `escape/probe.c`, in its order.
const ATTEMPTS: [&str; 35] = [
    "descriptors-of-caller",
    "environment-of-caller",
    "file-of-user",
    "root-of-processes",
    "descriptors-of-init",
    "binary-of-init",
    "chroot",
    "trace-init",
    "signal-host",
    "abstract-socket",
    "core-pattern",
    "sysrq",
    "kernel-memory",
    "mount-cgroup2",
    "mount-cgroup1",
    "mount-devtmpfs",
    "mount-proc",
    "mount-sysfs",
    "mount-tmpfs",
    "mknod",
    "open-by-handle",
    "bpf",
    "module",
    "clock",
    "keyring",
    "userfaultfd",
    "io-uring",
    "perf",
    "swap",
    "reboot",
    "type-into-terminal",
    "user-namespace",
    "fill-shm",
    "fill-root",
    "fork-bomb",
];

/// More than the 64 processes of the node with that limit.
const BOMB: &str = "300";
/// More than an ordinary user's nodes may have together.
const BOMB_OF_USER: &str = "5000";

/// Prepares an image with the probe, and a file that only its owner may read; `None` without a C
/// compiler that links statically.
fn prepare(bed: &Bed) -> Option<String> {
    let (source, probe) = ("tests/escape/probe.c", bed.path().join("probe"));
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let compiled =
        Command::new("cc").args(["-static", "-O1", "-o"]).arg(&probe).arg(source).output();
    if !compiled.is_ok_and(|output| output.status.success()) {
        eprintln!("NOT RUN: needs cc and a static C library (Debian: gcc libc6-dev)");
        return None;
    }
    let layer = Layer::new()
        .dir("bin/")
        .program("bin/probe", &fs::read(&probe).unwrap())
        .dir("tmp/")
        .dir("etc/");
    let image = Image::new(vec![(layer, Pack::Plain)], json!({"Env": ["PATH=/bin"]}));
    write_tar(&bed.path().join("image.tar"), &image.saved());
    let marker = bed.path().join("marker");
    fs::write(&marker, "secret").unwrap();
    fs::set_permissions(&marker, fs::Permissions::from_mode(0o600)).unwrap();
    Some(marker.display().to_string())
}

/// An experiment that runs the probe while a program of Thingbed runs in the same node.
fn experiment(marker: &str, socket: &str, extra: &str, bomb: &str) -> String {
    let pid = std::process::id();
    format!(
        "experiment: escape
nodes:
  gateway: {{}}
  box: {{root: image.tar{extra}}}
networks:
  field: {{attach: [gateway, box], subnet: 10.3.0.0/24}}
models:
  udp-rr: {{down: udp/request-response, up: udp/request-response, every: 0.1 s}}
workloads:
  - interaction: {{source: gateway, sinks: box, model: udp-rr, payload: payload.xml}}
  - command: {{on: box, run: [/bin/probe, {marker}, {socket}, '{pid}', '{bomb}']}}
duration: 1 s
drain: 60 s
"
    )
}

/// The probe's lines: whether each attempt was held.
fn table(bed: &Bed) -> BTreeMap<String, String> {
    let text = fs::read_to_string(bed.sweep("escape").join("programs/box.1.out")).unwrap();
    let line = |line: &str| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned()));
    let table: BTreeMap<_, _> = text.lines().filter_map(line).collect();
    let missing: Vec<_> = ATTEMPTS.iter().filter(|name| !table.contains_key(**name)).collect();
    assert!(missing.is_empty() && table.len() == ATTEMPTS.len(), "{missing:?} in {text}");
    table
}

fn open(table: &BTreeMap<String, String>) -> Vec<&str> {
    table.iter().filter(|(_, how)| !how.starts_with("held")).map(|(name, _)| &name[..]).collect()
}

/// A socket of the host without a file, which only network namespaces separate.
fn listen(test: &str) -> (UnixListener, String) {
    let name = format!("thingbed-escape-{test}-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    (UnixListener::bind_addr(&address).unwrap(), name)
}

#[test]
fn nothing_leaves_a_root_that_root_runs() {
    if !is_root() {
        return;
    }
    let bed = Bed::new();
    let (_listener, socket) = listen("root");
    let Some(marker) = prepare(&bed) else { return };
    let limited = lab::can_limit_processes().is_ok();
    let limits = if limited { ", limits: {processes: 64}" } else { "" };
    bed.write("e.yaml", &experiment(&marker, &socket, limits, BOMB));
    let mut run = bed.command(&["run", "e.yaml", "-q"]);
    run.env("ESCAPE_SECRET", "1").env("XDG_CACHE_HOME", bed.path().join("cache"));
    CommandOutput::of(run.output().unwrap()).ran(&["report: "]);
    let table = table(&bed);
    let expected: &[&str] = if limited { &[] } else { &["fork-bomb"] };
    assert_eq!(open(&table), expected, "{table:#?}");
}

#[test]
fn nothing_leaves_a_root_that_a_user_runs() {
    let namespaces = fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
    if !is_root() || !has("setpriv") || namespaces.trim() == "0" {
        return;
    }
    let bed = Bed::new();
    let (_listener, socket) = listen("user");
    let Some(marker) = prepare(&bed) else { return };
    let tool = std::path::Path::new(env!("CARGO_BIN_EXE_thingbed"));
    for name in ["thingbed", "thingbed-workload"] {
        fs::copy(tool.with_file_name(name), bed.path().join(name)).unwrap();
    }
    bed.write("e.yaml", &experiment(&marker, &socket, "", BOMB_OF_USER));
    let line = "chown -R 65534:65534 . && exec setpriv --reuid=65534 --regid=65534 --clear-groups \
                env -u XDG_RUNTIME_DIR XDG_CACHE_HOME=$PWD/cache ESCAPE_SECRET=1 \
                ./thingbed run e.yaml -q";
    let mut shell = Command::new("sh");
    CommandOutput::of(shell.args(["-c", line]).current_dir(bed.path()).output().unwrap())
        .ran(&["report: "]);
    let table = table(&bed);
    assert_eq!(open(&table), [""; 0], "{table:#?}");
}

#[test]
fn what_the_file_allows_is_open_and_nothing_else() {
    if !is_root() {
        return;
    }
    let bed = Bed::new();
    let (_listener, socket) = listen("file");
    let Some(marker) = prepare(&bed) else { return };
    let allowed = ", capabilities: [sys_time], limits: {storage: 100 MiB}";
    bed.write("e.yaml", &experiment(&marker, &socket, allowed, "2"));
    bed.thingbed(&["plan", "e.yaml"]).expect(0, &["capabilities SYS_TIME", "100 MiB of storage"]);
    let mut run = bed.command(&["run", "e.yaml", "-q"]);
    run.env("XDG_CACHE_HOME", bed.path().join("cache"));
    CommandOutput::of(run.output().unwrap()).ran(&["report: "]);
    let page = fs::read_to_string(bed.sweep("escape").join("report.html")).unwrap();
    let answer = "Programs of box: capabilities SYS_TIME; at most 100 MiB of storage.";
    assert!(page.contains(answer), "the page does not show what the file allows");
    let table = table(&bed);
    assert_eq!(open(&table), ["clock", "fill-root", "fill-shm", "fork-bomb"], "{table:#?}");
}

/// A script that executes Thingbed's own program again, with a loader of the node, cannot write to
/// that program on the host.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_script_that_names_its_executor_does_not_reach_it() {
    if !is_root() {
        return;
    }
    let bed = Bed::new();
    let loader = bed.path().join("loader");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/escape/loader.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-static", "-nostdlib", "-fno-stack-protector", "-O1", source, "-o"]);
    if !compiler.arg(&loader).status().is_ok_and(|status| status.success()) {
        eprintln!("NOT RUN: needs cc");
        return;
    }
    let layer = Layer::new()
        .dir("bin/")
        .program("bin/self", b"#!/proc/self/exe\n")
        .dir("lib64/")
        .program("lib64/ld-linux-x86-64.so.2", &fs::read(&loader).unwrap());
    let image = Image::new(vec![(layer, Pack::Plain)], json!({"Env": ["PATH=/bin"]}));
    write_tar(&bed.path().join("image.tar"), &image.saved());
    let text = |run: &str| {
        format!(
            "experiment: NAME\nnodes:\n  box: {{root: image.tar{run}}}\n  b: {{}}\n\
             networks:\n  n: {{attach: [box, b], subnet: 10.6.0.0/24}}\n"
        )
    };
    bed.write("init.yaml", &text(", run: [/bin/self]").replace("NAME", "by-the-init"));
    bed.thingbed(&["up", "init.yaml"]).expect(1, &["held /"]);
    let live = Live::up(&bed, "executor", &text(""));
    let executed =
        CommandOutput::of(live.command(&["exec", "box", "--", "/bin/self"]).output().unwrap());
    assert!(executed.out.starts_with("held /"), "by exec: {}{}", executed.out, executed.err);
}

#[test]
fn programs_get_nothing_of_their_caller_that_they_need_not() {
    let bed = Bed::new();
    let live = Live::up(
        &bed,
        "caller",
        "experiment: NAME\nnodes:\n  a: {run: [sleep, '600'], env: {COLOUR: red}}\n  b: {}\n\
         networks:\n  n: {attach: [a, b], subnet: 10.4.0.0/24}\n",
    );
    let exec = |words: &[&str]| {
        let words = [&["exec"], words].concat();
        // A descriptor without close-on-exec, as a shell gives it.
        let mut shell = Command::new("sh");
        let command = live.command(&words);
        shell.args(["-c", "exec \"$@\" 7</dev/zero", "sh"]).arg(command.get_program());
        shell.args(command.get_args()).current_dir(bed.path());
        shell.env("ESCAPE_SECRET", "1").env("SHARED", "2").env("THINGBED_X", "3");
        CommandOutput::of(shell.output().unwrap())
    };
    let answer =
        exec(&["a", "--", "env"]).expect(0, &["COLOUR=red", "THINGBED_X=3", "THINGBED_NODE"]);
    assert!(
        !answer.out.contains("ESCAPE_SECRET") && !answer.out.contains("SHARED"),
        "{}",
        answer.out
    );
    exec(&["-e", "SHARED", "-e", "NEW=4", "a", "--", "env"]).expect(0, &["SHARED=2", "NEW=4"]);
    exec(&["-e", "NONE_SUCH", "a", "--", "env"]).expect(1, &["NONE_SUCH", "--env NONE_SUCH=VALUE"]);
    // Without a pipe, which the shell itself has open for a moment.
    let answer = exec(&["a", "--", "sh", "-c", "ls /proc/$$/fd; ls /proc/1/fd >/dev/null"]);
    assert_eq!(answer.out.lines().collect::<Vec<_>>(), ["0", "1", "2"]);
    // The control sockets of this and other labs.
    let dir = lab::ledger_dir();
    let line = format!("ls -A {} | wc -l", dir.display());
    assert_eq!(exec(&["b", "--", "sh", "-c", &line]).out.trim(), "0");
    assert!(fs::read_dir(&dir).unwrap().count() > 0, "the lab's own socket");
}
