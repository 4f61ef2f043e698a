//! Live labs: started, inspected and changed from another terminal.

mod common;

use common::live::Live;
use common::{Bed, CommandOutput};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
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
        .expect(1, &["could not run no-such-program in meter-2", "PATH is"]);
    lab.ask(&["exec", "meter", "--", "hostname"]).expect(1, &["`meter` matches 3 nodes; name one"]);
    assert_eq!(lab.state("server"), "running");
    lab.awaits_word("server", "begun", 1);
    // Commands return when what they say is true.
    lab.ask(&["kill", "server"]).expect(0, &[]);
    assert_eq!(lab.state("server"), "killed by signal 9");
    lab.ask(&["start", "server"]).expect(0, &[]);
    assert_eq!(lab.state("server"), "running");
    lab.awaits_word("server", "begun", 2);
    lab.ask(&["pause", "server"]).expect(0, &[]);
    lab.awaits("server", "paused");
    lab.ask(&["resume", "server"]).expect(0, &[]);
    lab.ask(&["restart", "server"]).expect(0, &[]);
    lab.awaits("server", "running");
    lab.awaits_word("server", "begun", 3);
    // Some nodes have no program: then none is stopped.
    lab.ask(&["stop", "*"]).expect(1, &["has no program to stop"]);
    assert_eq!(lab.state("server"), "running");
    lab.ask(&["stop", "server"]).expect(0, &[]);
    assert_eq!(lab.state("server"), "killed by signal 15");
    let logs = lab.ask(&["logs", "server"]).expect(0, &["server.run.out"]);
    assert_eq!(logs.out.matches("begun").count(), 3, "{}", logs.out);
    // A program started after a pause runs, and a stopped one stays stopped.
    lab.ask(&["pause", "server"]).expect(0, &[]);
    lab.ask(&["start", "server"]).expect(0, &[]);
    lab.awaits("server", "running");
    lab.ask(&["restart", "server"]).expect(0, &[]);
    lab.ask(&["stop", "server"]).expect(0, &[]);
    lab.awaits("server", "killed by signal 15");
    lab.ask(&["start", "meter-1"]).expect(1, &["`meter-1` has no program to start", "exec"]);
    // One that was killed can be started again: its radio is off.
    lab.ask(&["kill", "meter-1"]).expect(0, &[]);
    lab.ask(&["ps", "meter-1"]).expect(0, &["  killed"]);
    lab.ask(&["start", "meter-1"]).expect(0, &[]);
    lab.ask(&["start", "meter-1"]).expect(1, &["`meter-1` has no program to start"]);
    lab.ask(&["kill", "metre"])
        .expect(1, &["no node and no group has the name `metre`", "server, meter"]);
    lab.ask(&["top", "--once"]).expect(0, &["CPU %", "meter-3"]);
}

/// What failed before: `restart` returned while the old program ran, also if that never ended.
#[test]
fn a_command_says_if_its_effect_does_not_come() {
    let bed = Bed::new();
    let file = LAB.replace("echo begun;", "trap \"\" TERM; echo begun;");
    let lab = Live::up(&bed, "stubborn", &file);
    for what in ["stop", "restart"] {
        lab.ask(&[what, "server"])
            .expect(1, &["`server` still runs 10 s after SIGTERM", "thingbed kill server"]);
    }
    // It restarts when it has ended.
    lab.ask(&["kill", "server"]).expect(0, &[]);
    lab.ask(&["start", "server"]).expect(0, &[]);
    assert_eq!(lab.state("server"), "running");
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
    // An MTU of 600 B has room for 572 B after the IP and ICMP headers.
    let ping = |size: &str| {
        lab.ask(&["exec", "meter-1", "--", "ping", "-Mdo", "-c1", "-s", size, "server"])
    };
    if common::has("ping") {
        ping("572").expect(0, &["1 received"]);
        ping("573").expect(1, &["mtu=600"]);
    }
    // What failed before: nothing changed, without a word.
    for key in ["hostname=", "mtu=", "cpus=", "memory="] {
        let word = format!("`{}` has no value", key.trim_end_matches('='));
        lab.ask(&["set", "meter-1", key]).expect(2, &[&word]);
    }
    lab.ask(&["set", "meter-1", "colour=red"]).expect(2, &["unknown key `colour`"]);
    lab.ask(&["set", "meter-1", "memory=much"]).expect(2, &["memory", "much"]);
    // As in a file: a frequency, not a number of CPUs.
    lab.ask(&["set", "meter-1", "cpu=5"]).expect(2, &["200 MHz"]);
    bed.thingbed(&["link", "set", "--lab", &lab.name, "meter", "loss=1%", "over=5s"])
        .expect(2, &["`over` is an option", "--over 5s"]);
    let shown = bed.thingbed(&["link", "set", "--lab", &lab.name, "meter", "delay=50ms"]);
    let shown = shown.expect(0, &["meter-1 lan up    delay 50 ms"]);
    assert_eq!(shown.out.lines().count(), 6, "{}", shown.out);
    lab.ask(&["destroy", "meter-2"]).expect(0, &[]);
    assert_eq!(lab.nodes().len(), 3);
    // Commands to a missing node are rejected, and it is not counted.
    lab.ask(&["exec", "meter-2", "--", "true"]).expect(1, &["`meter-2` was destroyed"]);
    for words in [&["kill", "meter-2"][..], &["destroy", "meter-2"], &["set", "meter-2", "cpus=1"]]
    {
        lab.ask(words).expect(1, &["`meter-2` was destroyed"]);
    }
    let link = |words: &[&str]| bed.thingbed(&[&["link"], words, &["--lab", &lab.name]].concat());
    link(&["up", "meter-2"]).expect(1, &["`meter-2` was destroyed"]);
    assert!(!link(&["show"]).out.contains("meter-2"));
    let labs = bed.thingbed(&["labs"]).out;
    let line = labs.lines().find(|line| line.contains(&lab.name)).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("3"), "{line}");
    let labs: serde_json::Value =
        serde_json::from_str(&bed.thingbed(&["labs", "--json"]).out).unwrap();
    let shown = labs.as_array().unwrap().iter().find(|one| one["experiment"] == *lab.name).unwrap();
    assert_eq!(
        (shown["pid"].as_u64(), shown["nodes"].as_u64()),
        (Some(u64::from(lab.tool())), Some(3))
    );
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
    // SAFETY: a plain system call on a process that this test started.
    unsafe { libc::kill(tool as i32, libc::SIGKILL) };
    let limit = Instant::now() + Duration::from_secs(120);
    while there(init) {
        assert!(Instant::now() < limit, "the node of a killed lab is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
    lab.ask(&["ps"]).expect(1, &["no lab `end-"]);
    bed.thingbed(&["gc"]).expect(0, &[&format!("thingbed-{tool}-")]);
    let sockets = std::fs::read_dir(lab::ledger_dir()).into_iter().flatten().flatten();
    let own = |name: &str| name.starts_with(&format!("lab-{tool}-"));
    assert!(!sockets.map(|entry| entry.file_name()).any(|name| own(&name.to_string_lossy())));
}

/// What failed before: `gc` killed labs of other containers, whose process ids it did not find, two
/// labs with the same process id counted into the same groups, and a command for a node could reach a
/// process of the machine.
#[test]
fn labs_of_other_containers_are_left_alone() {
    if !common::is_root() || !common::has("unshare") {
        return eprintln!("NOT RUN: needs root and unshare");
    }
    let bed = Bed::new();
    let name = format!("apart-{}", std::process::id());
    bed.write("lab.yaml", &LAB.replace("NAME", &name));
    bed.write(
        "inside.sh",
        "$TOOL up lab.yaml & until $TOOL ps; do sleep 0.1; done
         touch up-$1; until [ -e go ]; do sleep 0.1; done
         $TOOL exec meter-2 -- hostname; $TOOL labs; $TOOL down; wait\n",
    );
    let inside = |number: &str| {
        let mut command = Command::new("unshare");
        command.args(["-p", "-f", "--kill-child", "--mount-proc", "sh", "inside.sh", number]);
        command.env("TOOL", env!("CARGO_BIN_EXE_thingbed")).current_dir(bed.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let containers = ["1", "2"].map(inside);
    let limit = Instant::now() + Duration::from_secs(120);
    while !["up-1", "up-2"].iter().all(|file| bed.path().join(file).exists()) {
        assert!(Instant::now() < limit, "the labs in the containers are not up");
        std::thread::sleep(Duration::from_millis(20));
    }
    bed.thingbed(&["gc"]).expect(0, &[]);
    let words = ["exec", "--lab", &name, "meter-2", "--", "hostname"];
    bed.thingbed(&words).expect(1, &[&format!("no lab `{name}` is running")]);
    bed.write("go", "");
    for container in containers {
        let output = CommandOutput::of(container.wait_with_output().unwrap());
        let output = output.expect(0, &["meter-2\n", &name]);
        let labs = output.out.lines().filter(|line| line.starts_with(&format!(" {name} ")));
        assert_eq!(labs.count(), 1, "{}", output.out);
    }
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

/// Processes of a lab inherit no descriptors of the caller; otherwise `up --detach` would wait for
/// ever.
#[test]
fn a_lab_with_a_way_out_is_left_to_itself() {
    if !common::has("slirp4netns") {
        return;
    }
    let bed = Bed::new();
    let lab = Live::up(
        &bed,
        "out",
        "experiment: NAME
nodes: {gateway: {}, meter: {}}
networks: {lan: {attach: [gateway, meter], subnet: 10.1.0.0/24, nat: true}}
",
    );
    // Nodes have no other open descriptors than their own.
    let open = "exec 9</dev/null; ls -l /proc/self/fd | grep -c -e pipe -e socket";
    let seen = lab.ask(&["exec", "meter", "--", "sh", "-c", open]);
    // Standard output and error, which this test reads, and the pipe to grep.
    let count: u32 = seen.out.trim().parse().unwrap();
    assert!(count <= 3, "{}", seen.out);
}

#[test]
fn certificates_that_a_file_asks_for_are_there_in_a_lab_too() {
    if !common::has("mosquitto") {
        return;
    }
    let bed = Bed::new();
    let lab = Live::up(
        &bed,
        "tls",
        "experiment: NAME
nodes:
  broker:
    run: [sh, -c, 'ls $THINGBED_TLS; exec sleep 1000']
    ready: {log: .}
  meter: {count: 2}
networks: {lan: {attach: [broker, meter], subnet: 10.1.0.0/24}}
workloads:
  - mqtt:
      broker: broker
      publishers: meter-1
      subscribers: meter-2
      tls: generated
      pattern: many-to-one
      payload: payload.xml
      rate: 1/s
duration: 5 s
",
    );
    lab.ask(&["logs", "broker"]).expect(0, &["ca.pem"]);
}

#[test]
fn a_destroyed_node_answers_nothing_and_has_no_name() {
    if !common::has("ping") {
        return;
    }
    let bed = Bed::new();
    for path in ["ring", "tap", "packet"] {
        let text = LAB.replace("20 ms", "1 ms");
        let Some(lab) = Live::by(&bed, "gone", &text, Some(path)) else { continue };
        let from = |words: &[&str]| lab.ask(&[&["exec", "server", "--"], words].concat());
        let address = from(&["getent", "hosts", "meter-2"]).expect(0, &["meter-2"]).out;
        let address = address.split_whitespace().next().unwrap().to_owned();
        let ping = ["ping", "-c", "2", "-i", "0.2", "-W", "1", &address];
        from(&ping).expect(0, &["2 received"]);
        // One node destroyed by command, and one killed from outside.
        lab.ask(&["destroy", "meter-2"]).expect(0, &[]);
        from(&ping).expect(1, &["0 received"]);
        let named = || from(&["grep", "-c", "meter", "/etc/hosts"]).out.trim().to_owned();
        common::live::until(|| named() == "2", named);
        let nodes = lab.nodes();
        let third = nodes.iter().find(|node| node["name"] == "meter-3").unwrap();
        let pid = third["pid"].as_i64().unwrap() as i32;
        // SAFETY: the init process of a node of this test.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        common::live::until(|| named() == "1", named);
        let known = lab.ask(&["ps"]).expect(0, &["meter-1"]).out;
        assert!(!known.contains("meter-3"), "{known}");
    }
}

#[test]
fn top_counts_what_programs_of_exec_use() {
    let bed = Bed::new();
    let lab = up(&bed, "busy");
    let mut busy = lab.command(&["exec", "meter-1", "--", "sh", "-c", "while :; do :; done"]);
    let mut busy = busy.spawn().unwrap();
    let cpu = || {
        let top = lab.ask(&["top", "--once"]).expect(0, &["CPU %"]).out;
        let line = top.lines().find(|line| line.contains("meter-1")).unwrap().to_owned();
        // The state may be empty: CPU is the first number after the name.
        let mut words = line.split_whitespace().skip(1);
        words.find_map(|word| word.parse::<f64>().ok()).unwrap()
    };
    common::live::until(|| cpu() > 1.0, || format!("{} %", cpu()));
    busy.kill().unwrap();
    busy.wait().unwrap();
}

/// The kernel counts kills per node, not per program.
#[test]
fn a_program_that_is_killed_by_hand_has_not_run_out_of_memory() {
    if !common::is_root() || !common::has("busybox") {
        return;
    }
    let bed = Bed::new();
    let lab = up(&bed, "memory");
    lab.ask(&["set", "server", "memory=48MiB"]).expect(0, &[]);
    let fill = ["busybox", "dd", "if=/dev/zero", "of=/dev/null", "bs=100M", "count=1"];
    lab.ask(&[&["exec", "server", "--"], &fill[..]].concat()).expect(137, &[]);
    lab.ask(&["kill", "server"]).expect(0, &[]);
    lab.awaits("server", "killed by signal 9");
}

/// A process that is stopped, and continues at the end of the test in any case.
struct Stopped(i32);

impl Stopped {
    fn new(pid: u32) -> Self {
        // SAFETY: a plain system call on the lab of this test.
        assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGSTOP) }, 0);
        let stopped = Self(pid as i32);
        // `kill` only sends the signal: each thread stops when it next runs.
        let state = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        common::live::until(|| state().contains(") T "), state);
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: a plain system call on the lab of this test.
        unsafe { libc::kill(self.0, libc::SIGCONT) };
    }
}

/// What failed before: the request of a client that had given up ran later, so a repeated `clone`
/// added nodes twice.
#[test]
fn a_request_whose_client_has_given_up_does_not_run() {
    let bed = Bed::new();
    let lab = up(&bed, "hurry");
    let pid = lab.tool().to_string();
    let stopped = Stopped::new(lab.tool());
    for words in [
        &["clone", "--lab", &pid, "meter-1"][..],
        &["destroy", "--lab", &pid, "meter-2"],
        &["link", "set", "--lab", &pid, "meter-3", "delay=70ms"],
    ] {
        let mut client = bed.command(words).spawn().unwrap();
        let inside = format!("/proc/{}/syscall", client.id());
        // The request is written before the client waits for the reply.
        let waits = || fs::read_to_string(&inside).unwrap_or_default();
        let is_reading = |text: &str| {
            [libc::SYS_read, libc::SYS_recvfrom]
                .iter()
                .any(|call| text.starts_with(&format!("{call} ")))
        };
        common::live::until(|| is_reading(&waits()), waits);
        client.kill().unwrap();
        client.wait().unwrap();
    }
    drop(stopped);
    let names = lab.nodes().into_iter().map(|node| node["name"].as_str().unwrap().to_owned());
    assert_eq!(names.collect::<Vec<_>>(), ["server", "meter-1", "meter-2", "meter-3"]);
    let links = bed.thingbed(&["link", "show", "--lab", &lab.name]).expect(0, &["meter-3"]).out;
    assert!(!links.contains("70 ms"), "{links}");
    // A client that waits is served, and only once.
    lab.ask(&["clone", "meter-1"]).expect(0, &["meter-4"]);
    assert_eq!(lab.nodes().len(), 5);
}

/// What failed before: a lab that hangs delayed `labs` by 34 s, and was then missing in it.
#[test]
fn a_lab_that_hangs_is_listed_as_such_and_no_command_mistakes_another_for_it() {
    let bed = Bed::new();
    let (lab, other) = (up(&bed, "hangs"), up(&bed, "works"));
    let pid = lab.tool();
    let stopped = Stopped::new(pid);
    let listed = bed.thingbed(&["labs"]).expect(0, &["(does not answer)", &other.name]).out;
    let line = listed.lines().find(|line| line.contains(&pid.to_string())).unwrap();
    assert!(line.contains("does not answer") && !listed.contains(&lab.name), "{listed}");
    let all = bed.thingbed(&["labs", "--json"]).expect(0, &[]).out;
    let all: serde_json::Value = serde_json::from_str(&all).unwrap();
    let find = |pid: u64| all.as_array().unwrap().iter().find(|one| one["pid"] == pid).unwrap();
    assert_eq!(find(u64::from(pid)), &serde_json::json!({"pid": pid, "answers": false}));
    let working = find(u64::from(other.tool()));
    assert_eq!((&working["answers"], &working["nodes"]), (&true.into(), &4.into()));
    // Without `--lab`, the lab that works may not be the one that is meant.
    let pid = format!("process {pid}, which does not answer");
    bed.thingbed(&["ps"]).expect(1, &["several labs are running", &pid]);
    other.ask(&["ps"]).expect(0, &["meter-3"]);
    drop(stopped);
    lab.ask(&["ps"]).expect(0, &["meter-3"]);
}

/// What failed before: the second `down` returned while the lab still ran, with an error.
#[test]
fn each_of_several_downs_returns_when_the_lab_is_gone() {
    let bed = Bed::new();
    for _ in 0..3 {
        let lab = up(&bed, "downs");
        let process = format!("/proc/{}", lab.tool());
        let down = || {
            let mut command = lab.command(&["down"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut clone = lab.command(&["clone", "meter-1", "--count", "3"]);
        let clone = clone.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let downs: Vec<_> = (0..4).map(|_| down()).collect();
        let mut stopped = 0;
        for down in downs {
            let output = CommandOutput::of(down.wait_with_output().unwrap());
            match output.status {
                0 => {
                    assert!(!Path::new(&process).exists(), "{}", output.err);
                    stopped += 1;
                }
                // It began after the lab had closed its control socket.
                _ => drop(output.expect(1, &["no lab "])),
            }
        }
        assert!(stopped > 0, "no `down` has stopped the lab");
        let clone = CommandOutput::of(clone.wait_with_output().unwrap());
        // Added before the lab ended, or not at all; a request that did not run says so.
        match clone.status {
            0 => drop(clone.expect(0, &["meter-4", "meter-6"])),
            _ => {
                let words = ["ending", "no lab ", "could not reach", "ended during"];
                let is_known = words.iter().any(|word| clone.err.contains(word));
                assert!(clone.status == 1 && is_known, "{}: {}", clone.status, clone.err);
            }
        }
    }
}

/// What failed before: the file on the host was emptied before the file in the node was opened.
#[test]
fn a_copy_that_fails_leaves_the_files_of_the_host_as_they_were() {
    let bed = Bed::new();
    let lab = up(&bed, "copy");
    let kept = bed.write("kept", "of the user");
    for target in ["kept", "new", "./folder/new"] {
        fs::create_dir_all(bed.path().join("folder")).unwrap();
        lab.ask(&["cp", "meter-1:/no/such/file", target])
            .expect(1, &["could not copy", "/no/such"]);
    }
    assert_eq!(fs::read_to_string(&kept).unwrap(), "of the user");
    assert!(!bed.path().join("new").exists() && !bed.path().join("folder/new").exists());
    lab.ask(&["cp", "meter-1:/etc/hostname", "kept"]).expect(0, &[" B"]);
    assert!(!fs::read_to_string(&kept).unwrap().contains("user"), "a shorter file replaces all");
    lab.ask(&["cp", "meter-1:/etc/hosts", "folder"]).expect(0, &[" B"]);
    assert!(fs::read_to_string(bed.path().join("folder/hosts")).unwrap().contains("meter-1"));
    let mode = || fs::metadata("/dev/null").unwrap().permissions().mode();
    let before = mode();
    lab.ask(&["cp", "meter-1:/etc/hosts", "/dev/null"]).expect(0, &[" B"]);
    lab.ask(&["cp", "kept", "meter-1:/dev/null"]).expect(0, &[" B"]);
    let after = mode();
    // Before any assertion, so that the machine stays usable.
    fs::set_permissions("/dev/null", fs::Permissions::from_mode(before)).unwrap();
    assert_eq!(after, before);
}

/// What failed before: a program in the node could put an endless device or a pipe in place of its file, and
/// `cp` filled the host's disk or waited forever.
#[test]
fn a_device_or_a_pipe_of_a_node_is_not_copied() {
    let bed = Bed::new();
    let lab = up(&bed, "special");
    let pipe = bed.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = format!("meter-1:{}", pipe.display());
    bed.write("kept", "of the user");
    // The bytes after a pipe that nothing reads or writes do not come, so a copy would not end.
    let ask = |words: &[&str]| {
        let mut copy = lab.command(words);
        let copy = copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let id = copy.id().cast_signed();
        let (done, waits) = std::sync::mpsc::channel::<()>();
        let watch = std::thread::spawn(move || {
            if waits.recv_timeout(Duration::from_secs(60)).is_err() {
                // SAFETY: a plain system call; the child is not reaped before `done`.
                unsafe { libc::kill(id, libc::SIGKILL) };
            }
        });
        let output = copy.wait_with_output().unwrap();
        done.send(()).unwrap();
        watch.join().unwrap();
        CommandOutput::of(output)
    };
    ask(&["cp", "meter-1:/dev/null", "new"]).expect(1, &["/dev/null: it is a device"]);
    ask(&["cp", &pipe, "new"]).expect(1, &["it is a pipe"]);
    ask(&["cp", &pipe, "kept"]).expect(1, &["it is a pipe"]);
    ask(&["cp", "kept", &pipe]).expect(1, &["it is a pipe"]);
    assert!(!bed.path().join("new").exists());
    assert_eq!(fs::read_to_string(bed.path().join("kept")).unwrap(), "of the user");
    // Files of the kernel are files.
    ask(&["cp", "meter-1:/proc/version", "new"]).expect(0, &[" B"]);
    assert!(fs::read_to_string(bed.path().join("new")).unwrap().contains("Linux version"));
}

/// What failed before: the capture ended in the middle of a block, so no program could read all of it.
#[test]
fn a_capture_on_a_full_disk_ends_with_its_last_whole_frame() {
    if !common::is_root() || !common::has("ping") {
        return eprintln!("NOT RUN: needs root and ping");
    }
    let bed = Bed::new();
    let lab = up(&bed, "full");
    fs::create_dir(bed.path().join("disk")).unwrap();
    // In a mount namespace that ends with the command; the copy is on the other disk.
    let script = "mount -t tmpfs -o size=64k thingbed-test disk || exit 99
        $TOOL capture --lab $LAB meter-1 -w disk/c.pcapng
        status=$?; cp disk/c.pcapng copy; exit $status";
    let mut capture = Command::new("unshare");
    capture.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    capture.env("TOOL", env!("CARGO_BIN_EXE_thingbed")).env("LAB", &lab.name);
    capture.current_dir(bed.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut capture = capture.spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(120);
    // Each request and answer has over 1,400 B.
    while capture.try_wait().unwrap().is_none() {
        assert!(Instant::now() < limit, "the capture does not end");
        lab.ask(&["exec", "meter-1", "--", "ping", "-c20", "-i0.01", "-s1400", "server"]);
    }
    let output = CommandOutput::of(capture.wait_with_output().unwrap());
    output.expect(1, &["could not write disk/c.pcapng", "frames"]);
    let analyzed = bed.thingbed(&["analyze", "copy", "--json"]).expect(0, &[]);
    assert!(!format!("{}{}", analyzed.out, analyzed.err).contains("truncated"));
    let bytes = fs::read(bed.path().join("copy")).unwrap();
    let mut reader = pcap_file::pcapng::PcapNgReader::new(&bytes[..]).unwrap();
    let mut frames = 0;
    while let Some(block) = reader.next_block() {
        let (block, _) = block.unwrap();
        frames += u32::from(matches!(block, pcap_file::pcapng::Block::EnhancedPacket(_)));
    }
    assert!(frames > 10, "{frames} frames");
}
