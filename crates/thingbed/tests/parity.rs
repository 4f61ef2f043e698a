//! `up` and `run` of the same file make the same bed.

mod common;

use common::live::Live;
use common::{Bed, has, is_root};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Needs each step of a bring-up: a root, certificates, limits, a clock, cores, services, addresses
/// by DHCP, neighbours, programs that must be ready, impairments, faults. The exchange needs
/// certificates; it begins after all that the test looks at.
const EXPERIMENT: &str = "experiment: NAME
nodes:
  server:
    run: [sh, -c, 'env | sort; cat /proc/self/timens_offsets; echo is-up; exec sleep 1000']
    env: {COLOUR: red}
    ready: {log: is-up}
    limits: {memory: 64 MB, cpus: 0.5}
    clock_offset: 1000 s
    cores: [0]
  meter: {count: 2, run: [sleep, '1000']}
  mobile: {address: dhcp, root: root, run: [sleep, '1000']}
networks:
  lan:
    attach: [server, meter]
    subnet: 10.1.0.0/24
    mtu: 1400 B
    links: {meter: {up: {delay: 20 ms, loss: 1 %}, down: {rate: 1 Mbit/s}}}
  field: {attach: [server, mobile], subnet: 10.4.0.0/24, dhcp: true, dns: true}
workloads:
  - command: {on: meter-1, run: [sleep, '1000']}
  - exchange:
      sources: meter-1
      sinks: server
      network: lan
      protocol: quic
      every: 1 s
      pause: 5 ms
      timeout: 3 s
      payload: 100 B
      repetitions: 1
      tls: generated
faults:
  - {at: 0 s, pause: meter-2}
duration: 1000 s
";

/// Prints what a program on a node sees.
const INSIDE: &str = "hostname; cat /etc/hosts /etc/resolv.conf /proc/net/route; env | sort
grep 0x6 /proc/net/arp | sort
for i in /sys/class/net/*; do echo $i; cat $i/address $i/mtu $i/tx_queue_len; done
grep -A1 -F '|--' /proc/net/fib_trie
for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done | grep '[d]nsmasq' | sort";

/// A measured run in the background, whose lab is stopped at the end.
struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        // SIGTERM stops the run cleanly, so that it removes its nodes.
        // SAFETY: sends a signal to a child that was not waited for.
        unsafe { libc::kill(self.0.id().cast_signed(), libc::SIGTERM) };
        let _ = self.0.wait();
    }
}

/// Properties of a lab's nodes as seen from outside, by node and property.
struct Seen {
    lab: String,
    /// The folder of the lab.
    folder: PathBuf,
    all: BTreeMap<String, String>,
}

impl Seen {
    fn of(lab: &Live<'_>) -> Self {
        let nodes = lab.nodes();
        let logs = lab.bed.path().join(nodes[0]["logs"].as_str().unwrap());
        let folder = logs.parent().unwrap().canonicalize().unwrap();
        let mut seen = Self { lab: lab.name.clone(), folder, all: BTreeMap::new() };
        for node in &nodes {
            seen.node(lab, node);
        }
        seen.files();
        seen.put("links", &lab.bed.thingbed(&["link", "show", "--lab", &lab.name]).out);
        seen
    }

    fn node(&mut self, lab: &Live<'_>, node: &Value) {
        let name = node["name"].as_str().unwrap();
        let pid = node["pid"].as_i64().unwrap();
        let mut put = |what: &str, text: &str| self.put(&format!("{name}: {what}"), text);
        put("inside", &lab.ask(&["exec", name, "--", "sh", "-c", INSIDE]).out);
        put("interfaces", &node["interfaces"].to_string());
        put("program", &node["program"].to_string());
        put("limits", &format!("{:?}", limits(pid)));
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        put("cores", status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap());
        put("log", &without_times(&lab.ask(&["logs", name]).out));
    }

    /// The files of services and certificates; the content of keys differs each time.
    fn files(&mut self) {
        for path in files_below(&self.folder.clone()) {
            let name = path.strip_prefix(&self.folder).unwrap().display().to_string();
            let is_configuration = [".conf", ".sh", ".hosts"].iter().any(|end| name.ends_with(end));
            if is_configuration {
                self.put(&format!("file {name}"), &fs::read_to_string(&path).unwrap());
            } else if path.extension().is_some_and(|end| end == "pem" || end == "key") {
                self.put(&format!("file {name}"), "");
            }
        }
    }

    fn put(&mut self, what: &str, text: &str) {
        let text = text.replace(&self.folder.display().to_string(), "FOLDER");
        self.all.insert(what.to_owned(), text.replace(&self.lab, "LAB"));
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// The different lines of a log, without dnsmasq's time of day; a DHCP request may be repeated.
fn without_times(log: &str) -> String {
    // syslog's "Nov 27 12:38:51 " has 16 bytes.
    let text = |line: &str| if line.find("dnsmasq") == Some(16) { 16 } else { 0 };
    let mut lines: Vec<&str> = log.lines().map(|line| &line[text(line)..]).collect();
    let mut known = std::collections::BTreeSet::new();
    lines.retain(|line| known.insert(*line));
    lines.join("\n")
}

/// The limits of the control groups of a process.
fn limits(pid: i64) -> BTreeMap<&'static str, String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mounts = mounts.lines().filter(|line| line.contains(" cgroup"));
    let mounts: Vec<&str> = mounts.filter_map(|line| line.split(' ').nth(1)).collect();
    let mut found = BTreeMap::new();
    let files = ["cpu.max", "memory.max", "cpu.cfs_quota_us", "memory.limit_in_bytes"];
    for path in groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)) {
        // In a container the path may begin above the mount.
        let Some(at) = path.rfind("/thingbed-") else { continue };
        for (mount, path) in mounts.iter().flat_map(|mount| [(mount, path), (mount, &path[at..])]) {
            for file in files {
                if let Ok(value) = fs::read_to_string(format!("{mount}{path}/{file}")) {
                    found.insert(file, value.trim().to_owned());
                }
            }
        }
    }
    found
}

/// A root file system with busybox; false if busybox does not run in it.
fn make_root(bed: &Bed) -> bool {
    let bin = bed.path().join("root/bin");
    fs::create_dir_all(&bin).unwrap();
    let program = ["/bin/busybox", "/usr/bin/busybox"].iter().find_map(|path| fs::read(path).ok());
    let Some(program) = program else { return false };
    fs::write(bin.join("busybox"), program).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(bin.join("busybox"), mode).unwrap();
    for name in ["sh", "cat", "grep", "env", "sort", "hostname", "tr", "sleep", "ip", "udhcpc"] {
        symlink("busybox", bin.join(name)).unwrap();
    }
    let mut alone = std::process::Command::new("chroot");
    alone.arg(bed.path().join("root")).args(["/bin/sh", "-c", "cat /dev/null"]);
    alone.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        || !bed.path().join("root/dev/null").exists()
}

#[test]
fn up_and_run_make_the_same_bed() {
    let bed = Bed::new();
    if !is_root() || !has("dnsmasq") || !make_root(&bed) {
        eprintln!("NOT RUN: needs root, dnsmasq and busybox-static");
        return;
    }
    let measured = format!("parity-run-{}", std::process::id());
    bed.write("run.yaml", &EXPERIMENT.replace("NAME", &measured));
    let mut run = bed.command(&["run", "run.yaml", "--threads", "3"]);

    let run = Run(run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let of_up = {
        let lab = Live::up_with(&bed, "parity-up", EXPERIMENT, &["--threads", "3"]);
        // The fault is due when impairments have begun.
        lab.awaits("meter-2", "paused");
        Seen::of(&lab).all
    };
    for (what, words) in [
        ("server: limits", &["50000", "64000000"][..]),
        ("server: log", &["1000", "COLOUR=red", "THINGBED_TLS=FOLDER/tls"]),
        ("server: cores", &["\t0"]),
        ("server: program", &["sleep 1000", "running"]),
        ("mobile: program", &["running"]),
        ("field-services: inside", &["--conf-file=FOLDER/programs"]),
        ("meter-1: inside", &["10.1.0.2", "1400", "0x6", "server"]),
        ("mobile: inside", &["10.4.0.", "nameserver"]),
        ("links", &["20 ms", "1 %", "1 Mbit/s"]),
    ] {
        for word in words {
            assert!(of_up[what].contains(word), "{what} has no {word}: {}", of_up[what]);
        }
    }
    let has_file = |end: &str| of_up.keys().any(|what| what.ends_with(end));
    assert!(has_file("ca.pem") && has_file(".conf"), "{:?}", of_up.keys());
    let lab = Live { bed: &bed, name: measured };
    lab.awaits("meter-2", "paused");
    let of_run = Seen::of(&lab).all;
    drop(run);
    for (what, text) in &of_up {
        assert_eq!(Some(text), of_run.get(what), "{what}: `up` on the left, `run` on the right");
    }
    assert_eq!(of_up.len(), of_run.len(), "{:?}", of_run.keys());
    let run = common::json(&bed.sweep(&lab.name).join("run.json"));
    assert_eq!(run["threads"], json!(2), "one thread per network at most");
}
