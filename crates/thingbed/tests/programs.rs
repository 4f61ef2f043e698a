//! Unmodified third-party programs.

mod common;

use common::{Bed, has, json};
use std::fs;

fn experiment(workloads: &str) -> String {
    format!(
        "experiment: own
nodes:
  gateway: {{count: 1}}
  meter: {{count: 3}}
networks:
  field:
    attach: [gateway, meter]
    subnet: 10.1.0.0/24
    links:
      meter:
        up: {{delay: 30 ms}}
workloads:
{workloads}
duration: 3 s
drain: 5 s
"
    )
}

#[test]
fn ping_sees_the_link_that_was_asked_for() {
    if !has("ping") {
        return;
    }
    let bed = Bed::new();
    let ping = "  - command: {on: meter-1, run: [ping, -n, -c, '10', -i, '0.1', gateway]}";
    bed.write("e.yaml", &experiment(ping));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["own", "report: "]);
    let out = fs::read_to_string(bed.sweep("own").join("programs/meter-1.0.out")).unwrap();
    assert!(out.contains("10 received, 0% packet loss"), "{out}");
    // rtt min/avg/max/mdev = 30.1/30.2/30.4/0.1 ms
    let least = out.split("= ").last().unwrap().split('/').next().unwrap();
    let least: f64 = least.parse().unwrap();
    assert!((30.0..40.0).contains(&least), "{out}");
}

#[test]
fn a_node_is_a_machine_of_its_own() {
    let bed = Bed::new();
    let look = "hostname; echo pids $(ls -d /proc/[0-9]* | wc -l); cat /etc/hosts; \
                ls -d payload.xml; echo $COLOUR $THINGBED_NODE; cat /proc/net/dev; \
                echo devices $(ls /sys/class/net); \
                echo mounts $(cut -d' ' -f2 /proc/mounts | grep ^/sys/ | sort); \
                sleep 0.1 & wait; grep Sig /proc/self/status";
    let workload = format!(
        "  - command:\n      on: [meter-2, gateway]\n      env: {{COLOUR: blue}}\n      \
         run: [sh, -c, \"{look}\"]"
    );
    bed.write("e.yaml", &experiment(&workload));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let folder = bed.sweep("own");
    for node in ["meter-2", "gateway"] {
        let out = fs::read_to_string(folder.join(format!("programs/{node}.0.out"))).unwrap();
        assert!(out.starts_with(&format!("{node}\n")), "{out}");
        assert!(out.contains("10.1.0.1 gateway\n") && out.contains("10.1.0.4 meter-3\n"), "{out}");
        assert!(
            out.contains("payload.xml\n"),
            "it starts in the folder of the experiment file: {out}"
        );
        assert!(out.contains(&format!("blue {node}\n")), "{out}");
        assert!(out.contains("eth0:") && out.contains("lo:") && !out.contains("eth1:"), "{out}");
        // Its /dev is separate from the host's; mounts below /sys are those of the host.
        let devices = out.split("devices ").nth(1).unwrap().lines().next().unwrap();
        assert_eq!(devices, "eth0 lo", "{out}");
        let mounts = out.split("mounts").nth(1).unwrap().lines().next().unwrap().trim();
        assert_eq!(mounts, mounts_below_sys(), "{out}");
        // init, the shell, and the counting command.
        let pids: u32 = out.split("pids ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
        assert!((2..8).contains(&pids), "{out}");
        assert_eq!(signals(&out, "SigBlk"), 0, "{out}");
        // The tests may run with ignored signals, and glibc's posix_spawn ignores its two internal
        // ones.
        let ours = fs::read_to_string("/proc/self/status").unwrap();
        let ignored = signals(&out, "SigIgn") & 0x7fff_ffff;
        assert_eq!(ignored & !signals(&ours, "SigIgn"), 0, "{out}");
        assert_eq!(ignored & 1 << (libc::SIGINT - 1), 0, "{out}");
    }
    assert_eq!(json(&folder.join("run.json"))["experiment"], "own");
}

/// The mounts that a node sees: those that are not hidden, sorted.
fn mounts_below_sys() -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let mut places: Vec<_> = places.filter(|place| place.starts_with("/sys/")).collect();
    places.sort_unstable();
    places.join(" ")
}

#[test]
fn the_readmes_experiment_runs_unchanged() {
    if !has("ping") || !has("python3") {
        return;
    }
    let readme = fs::read_to_string("../../README.md").unwrap();
    let section = readme.split("## Your own experiment").nth(1).unwrap();
    let yaml = section.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let bed = Bed::new();
    bed.write("first.yaml", yaml);
    let output = bed.thingbed(&["run", "first.yaml", "-q"]).ran(&["Expectations"]);
    // Expectations ignore a run that is invalid because of a busy machine.
    if output.status == 0 {
        output.expect(0, &["half of the answers arrive within 200 ms", "1 of 1 hold"]);
    }
    let folder = bed.sweep("first");
    let ping = fs::read_to_string(folder.join("programs/meter-1.1.out")).unwrap();
    assert!(ping.contains("10 packets transmitted"), "{ping}");
    assert!(json(&folder.join("summary.json"))["loads"]["http"]["scheduled"].as_u64() > Some(50));
}

/// A set of signals in a status file (proc_pid_status(5)).
fn signals(status: &str, key: &str) -> u64 {
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
}

#[test]
fn a_server_in_the_background_serves_and_ends_with_the_run() {
    if !has("python3") {
        return;
    }
    let bed = Bed::new();
    bed.write("hello.txt", "a reading\n");
    bed.write(
        "fetch.py",
        "import time, urllib.request\n\
         for _ in range(50):\n    \
             try:\n        \
                 print(urllib.request.urlopen('http://gateway:8080/hello.txt').read().decode())\n        \
                 break\n    \
             except OSError:\n        \
                 time.sleep(0.1)\n",
    );
    let workloads = "  - command: {on: gateway, run: [python3, -m, http.server, '8080'], background: true}\n  \
                       - command: {on: meter, run: [python3, fetch.py]}";
    bed.write("e.yaml", &experiment(workloads));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    for meter in 1..=3 {
        let log = bed.sweep("own").join(format!("programs/meter-{meter}.1.out"));
        assert_eq!(fs::read_to_string(log).unwrap(), "a reading\n\n");
    }
}

/// A client that ends if its server is not there. In virtual time, in which both always start in the
/// same order.
#[test]
fn a_client_starts_after_its_server() {
    let bed = Bed::new();
    let text = "experiment: order
clock: virtual
nodes:
  client: {run: [sh, -c, 'test -e there && echo found && exec sleep 1000'], AFTER}
  server: {run: [sh, -c, 'sleep 1; touch there; echo begun; exec sleep 1000'], ready: {log: begun}}
networks: {n: {attach: [client, server], subnet: 10.0.0.0/24}}
duration: 1 s
";
    bed.write("e.yaml", &text.replace(", AFTER", ""));
    bed.thingbed(&["run", "e.yaml", "-q"]).expect(1, &["client ended with status 1"]);
    bed.write("e.yaml", &text.replace("AFTER", "after: server"));
    bed.thingbed(&["run", "e.yaml", "-q"]).expect(0, &["VALID"]);
    let log = bed.sweep("order").join("programs/client.run.out");
    assert_eq!(fs::read_to_string(log).unwrap(), "found\n");
}
