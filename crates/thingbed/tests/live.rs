//! A lab to work in: brought up, looked at and changed from another terminal.

mod common;

use common::Bed;
use common::live::Live;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const LAB: &str = "experiment: NAME
nodes:
  server:
    run: [sh, -c, 'echo begun; while :; do sleep 0.1; done']
    ready: {log: begun}
  meter: {count: 3}
networks:
  lan: {attach: [server, meter], subnet: 10.1.0.0/24, links: {meter: {up: {delay: 20 ms}}}}
";

fn up<'a>(bed: &'a Bed, name: &str) -> Live<'a> {
    Live::up(bed, name, LAB)
}

#[test]
fn programs_are_run_killed_paused_and_started_from_another_terminal() {
    let bed = Bed::new();
    let lab = up(&bed, "work");
    lab.ask(&["exec", "meter-2", "--", "hostname"]).expect(0, &["meter-2"]);
    lab.ask(&["exec", "meter-2", "--", "sh", "-c", "exit 7"]).expect(7, &[]);
    lab.ask(&["exec", "meter-2", "--", "no-such-program"])
        .expect(1, &["could not run no-such-program in meter-2", "looked in"]);
    lab.ask(&["exec", "meter", "--", "hostname"]).expect(1, &["`meter` is 3 nodes; name one"]);
    assert_eq!(lab.state("server"), "running");
    lab.ask(&["kill", "server"]).expect(0, &[]);
    lab.awaits("server", "killed by signal 9");
    lab.ask(&["start", "server"]).expect(0, &[]);
    lab.awaits("server", "running");
    lab.ask(&["pause", "server"]).expect(0, &[]);
    lab.awaits("server", "paused");
    lab.ask(&["resume", "server"]).expect(0, &[]);
    lab.ask(&["restart", "server"]).expect(0, &[]);
    lab.awaits("server", "running");
    lab.ask(&["stop", "server"]).expect(0, &[]);
    lab.awaits("server", "killed by signal 15");
    let logs = lab.ask(&["logs", "server"]).expect(0, &["server.run.out"]);
    assert_eq!(logs.out.matches("begun").count(), 3, "{}", logs.out);
    lab.ask(&["start", "meter-1"]).expect(1, &["`meter-1` has no program of its own", "exec"]);
    lab.ask(&["kill", "metre"]).expect(1, &["no node and no group `metre`", "server, meter"]);
    lab.ask(&["top", "--once"]).expect(0, &["CPU %", "meter-3"]);
}

#[test]
fn files_settings_and_links_change_while_it_is_up() {
    let bed = Bed::new();
    let lab = up(&bed, "change");
    let file = bed.write("f.sh", "echo from a file\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let inside = bed.path().join("inside.sh").display().to_string();
    lab.ask(&["cp", "f.sh", &format!("meter-1:{inside}")]).expect(0, &["17 B"]);
    lab.ask(&["exec", "meter-1", "--", "sh", &inside]).expect(0, &["from a file"]);
    lab.ask(&["cp", "meter-1:/etc/hosts", "hosts"]).expect(0, &[]);
    assert!(fs::read_to_string(bed.path().join("hosts")).unwrap().contains("meter-3"));
    lab.ask(&["cp", "f.sh", "hosts"]).expect(1, &["NODE:FILE"]);
    lab.ask(&["set", "meter-1", "hostname=zaehler", "mtu=600B", "cpus=0.5", "memory=64MiB"])
        .expect(0, &[]);
    let look = "hostname; cat /proc/self/cgroup";
    lab.ask(&["exec", "meter-1", "--", "sh", "-c", look]).expect(0, &["zaehler", "/meter-1"]);
    // 600 B of MTU hold 572 B behind the headers of IP and ICMP.
    let ping = |size: &str| {
        lab.ask(&["exec", "meter-1", "--", "ping", "-Mdo", "-c1", "-s", size, "server"])
    };
    if common::has("ping") {
        ping("572").expect(0, &["1 received"]);
        ping("573").expect(1, &["mtu=600"]);
    }
    lab.ask(&["set", "meter-1", "colour=red"]).expect(1, &["unknown `colour`"]);
    lab.ask(&["set", "meter-1", "memory=much"]).expect(1, &["memory", "much"]);
    let shown = bed.thingbed(&["link", "set", "--lab", &lab.name, "meter", "delay=50ms"]);
    let shown = shown.expect(0, &["meter-1 lan up    delay 50 ms"]);
    assert_eq!(shown.out.lines().count(), 6, "{}", shown.out);
    lab.ask(&["destroy", "meter-2"]).expect(0, &[]);
    assert_eq!(lab.nodes().len(), 3);
    lab.ask(&["exec", "meter-2", "--", "true"]).expect(1, &["`meter-2` was destroyed"]);
    lab.ask(&["exec", "meter-1", "--", "true"]).expect(0, &[]);
}

#[test]
fn nothing_stays_of_a_lab_that_is_taken_down_or_killed() {
    let bed = Bed::new();
    let lab = up(&bed, "end");
    let (tool, init) = (lab.tool(), lab.nodes()[0]["pid"].as_i64().unwrap());
    let there = |pid: i64| Path::new(&format!("/proc/{pid}")).exists();
    assert!(there(init));
    lab.ask(&["down"]).expect(0, &[]);
    assert!(!there(init) && !there(i64::from(tool)));
    lab.ask(&["ps"]).expect(1, &["no lab `end-"]);

    let lab = up(&bed, "end");
    lab.ask(&["set", "meter", "cpus=0.5"]).expect(0, &[]);
    let (tool, init) = (lab.tool(), lab.nodes()[0]["pid"].as_i64().unwrap());
    // SAFETY: a plain system call, on a process that this test has made.
    unsafe { libc::kill(tool as i32, libc::SIGKILL) };
    let limit = Instant::now() + Duration::from_secs(20);
    while there(init) {
        assert!(Instant::now() < limit, "the node of a killed lab is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    lab.ask(&["ps"]).expect(1, &["no lab `end-"]);
    bed.thingbed(&["gc"]).expect(0, &[&format!("thingbed-{tool}-")]);
    assert!(!lab::ledger_dir().join(format!("lab-{tool}.sock")).exists());
}

#[test]
fn a_lab_that_cannot_come_up_says_why() {
    let bed = Bed::new();
    let lab = "experiment: broken
nodes:
  server: {run: [sh, -c, 'echo address in use >&2; exit 1'], ready: {tcp: 1883}}
networks: {lan: {attach: server, subnet: 10.1.0.0/24}}
";
    bed.write("lab.yaml", lab);
    let words = ["server ended with status 1", "address in use"];
    bed.thingbed(&["up", "lab.yaml", "--detach"]).expect(1, &words);
    bed.write("lab.yaml", &lab.replace("[sh, -c, 'echo address in use >&2; exit 1']", "[nosuch]"));
    bed.thingbed(&["up", "lab.yaml"]).expect(1, &["server", "nosuch", "PATH"]);
}
