//! Real nodes in real namespaces.

use lab::{Event, Exit, Interface, Lab, Limits, Link, Member, NodeSpec, Program, Setting, Usage};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use units::Span;

fn member(i: u8) -> Member {
    let interface = Interface {
        name: "eth0".into(),
        mac: [2, 0, 10, 0, 0, i],
        addresses: vec![([10, 0, 0, i].into(), 24)],
        mtu: 113,
        offload: false,
        neighbours: vec![([10, 0, 0, 77].into(), [2, 0, 10, 0, 0, 77])],
        is_advertised: false,
        advertised: None,
        tap: None,
        tun: None,
        is_port: false,
    };
    let spec = NodeSpec {
        name: format!("meter-{i}"),
        interfaces: vec![interface],
        setting: Setting::default(),
    };
    Member { spec, limits: Limits::default() }
}

fn up(members: &[Member]) -> Result<(Lab, Vec<Vec<OwnedFd>>), lab::Error> {
    let fork_server = Path::new(env!("CARGO_BIN_EXE_thingbed-fork-server"));
    Lab::up(fork_server, members, "127.0.0.1 localhost\n10.0.0.2 meter-2\n", Link::Tap)
}

/// Runs a shell line in a node; returns its exit, usage and output.
fn shell(lab: &Lab, node: usize, line: &str) -> (Exit, Usage, String) {
    let mut output: File = tempfile::tempfile().unwrap();
    let program = Program {
        argv: vec!["sh".into(), "-c".into(), line.into()],
        env: vec![],
        cwd: "/".into(),
        stdout: output.try_clone().unwrap().into(),
        stderr: output.try_clone().unwrap().into(),
        control: None,
    };
    lab.nodes()[node].kind.run(1, program).unwrap();
    loop {
        match lab.events().recv_timeout(Duration::from_secs(120)).unwrap() {
            Event::Ended { exit, usage, .. } => {
                let mut text = String::new();
                output.rewind().unwrap();
                output.read_to_string(&mut text).unwrap();
                return (exit, usage, text.trim().to_owned());
            }
            Event::Started { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

fn says(lab: &Lab, node: usize, line: &str) -> String {
    let (exit, _, text) = shell(lab, node, line);
    assert_eq!(exit, Exit::Status(0), "{line}: {text}");
    text
}

#[test]
fn a_node_has_all_that_is_its_own() {
    let (lab, taps) = up(&[member(1), member(2)]).unwrap();
    assert_eq!(taps.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(says(&lab, 0, "hostname"), "meter-1");
    assert_eq!(says(&lab, 1, "hostname"), "meter-2");
    assert!(says(&lab, 0, "getent hosts meter-2").starts_with("10.0.0.2"));
    assert!(!std::fs::read_to_string("/etc/hosts").unwrap().contains("meter-2"));

    let interface = says(&lab, 0, "cat /proc/net/dev | grep : | cut -d: -f1 | tr -d ' '");
    assert_eq!(interface.split_whitespace().collect::<Vec<_>>(), ["lo", "eth0"]);
    assert!(says(&lab, 0, "cat /proc/net/arp").contains("02:00:0a:00:00:4d"));
    // The shell and its children, under our init: no process of the host.
    let seen = says(&lab, 0, "ls -d /proc/[0-9]* | wc -l");
    assert!(seen.parse::<u32>().unwrap() <= 5, "{seen} processes seen");

    let link = |pid: u32, kind: &str| std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
    for kind in ["net", "mnt", "pid", "uts", "ipc"] {
        let seen: Vec<_> = [std::process::id(), lab.pids()[0] as u32, lab.pids()[1] as u32]
            .map(|pid| link(pid, kind))
            .into();
        assert!(seen[0] != seen[1] && seen[1] != seen[2] && seen[0] != seen[2], "{kind}");
    }
}

#[test]
fn programs_report_how_they_end_and_what_they_used() {
    let (lab, _taps) = up(&[member(1)]).unwrap();
    assert_eq!(shell(&lab, 0, "exit 7").0, Exit::Status(7));
    assert_eq!(shell(&lab, 0, "kill -TERM $$").0, Exit::Signal(15));
    let (_, usage, _) = shell(&lab, 0, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
    assert!(usage.user_us > 10_000, "{usage:?}");
    assert!(usage.peak_bytes > 500_000, "{usage:?}");
}

#[test]
fn a_program_that_is_not_there_is_an_event() {
    let (lab, _taps) = up(&[member(1)]).unwrap();
    let output = tempfile::tempfile().unwrap();
    let program = Program {
        argv: vec!["/no/such/program".into()],
        env: vec![],
        cwd: "/".into(),
        stdout: output.try_clone().unwrap().into(),
        stderr: output.into(),
        control: None,
    };
    lab.nodes()[0].kind.run(5, program).unwrap();
    let Event::NotStarted { id: 5, failure } = lab.events().recv().unwrap() else {
        panic!("it cannot start")
    };
    assert_eq!(
        failure.to_string(),
        "start /no/such/program in /: No such file or directory (os error 2)"
    );
}

#[test]
fn all_is_gone_when_the_lab_is() {
    let (lab, taps) = up(&[member(1), member(2)]).unwrap();
    let pids = lab.pids().to_vec();
    let output = tempfile::tempfile().unwrap();
    let program = Program {
        argv: ["sh", "-c", "trap '' TERM; setsid sleep 1000 & sleep 1000"].map(String::from).into(),
        env: vec![],
        cwd: "/".into(),
        stdout: output.try_clone().unwrap().into(),
        stderr: output.into(),
        control: None,
    };
    lab.nodes()[0].kind.run(1, program).unwrap();
    assert_eq!(lab.events().recv().unwrap(), Event::Started { id: 1 });
    drop(taps);
    drop(lab);
    for pid in pids {
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}

#[test]
fn a_node_that_dies_is_told_of() {
    let (lab, _taps) = up(&[member(1), member(2)]).unwrap();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(lab.pids()[1]),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    assert_eq!(lab.events().recv().unwrap(), Event::NodeGone { node: 1 });
    assert_eq!(says(&lab, 0, "hostname"), "meter-1");
}

#[test]
fn limits_hold_or_are_refused() {
    let mut limited = member(1);
    limited.limits = Limits { cpus: Some(0.05), memory: Some(64 << 20), ..Limits::default() };
    let can = lab::can_limit();
    let (mut lab, _taps) = match (up(&[limited]), can) {
        (Ok(up), Ok(_)) => up,
        (Err(error @ lab::Error::Limits { .. }), Err(_)) => {
            assert!(error.to_string().contains("meter-1"));
            return;
        }
        (up, can) => panic!("{up:?} though {can:?}"),
    };
    // Some work at a twentieth of a CPU. Compares CPU time per elapsed time, not the duration,
    // because a machine with thirty other programs would give no more, either.
    let share = says(
        &lab,
        0,
        "s=$(date +%s%N); i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; \
         set -- $(cut -d' ' -f14,15 /proc/$$/stat); e=$(date +%s%N); \
         echo $(( ($1 + $2) * 10000000 * 100 / (e - s) ))",
    );
    assert!(share.parse::<u32>().unwrap() <= 20, "used {share} % of a CPU");
    let reading = lab.meter().read().next().unwrap();
    assert!(reading.throttled > Span::from_ms(100), "{reading:?}");
    assert_eq!(lab.out_of_memory(0), None);
    let (exit, _, _) = shell(&lab, 0, "head -c 80000000 /dev/zero | tail -c 80000000 >/dev/null");
    assert_ne!(exit, Exit::Status(0));
    let killed = lab.out_of_memory(0).expect("killed by the kernel");
    assert_eq!(killed.to_string(), "out of memory, limit 64 MiB");
    assert_eq!(lab.out_of_memory(0), None, "reported once");
    let pid = std::process::id();
    drop(lab);
    let left: HashMap<_, _> =
        ["cpu", "memory", ""].map(|tree| (tree, format!("/sys/fs/cgroup/{tree}"))).into();
    for dir in left.values() {
        let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let ours = names.filter(|name| {
            name.file_name().to_string_lossy().starts_with(&format!("thingbed-{pid}-"))
        });
        assert_eq!(ours.count(), 0, "in {dir}");
    }
}

#[test]
fn what_nodes_use_is_counted_by_their_groups() {
    let (lab, _taps) = up(&[member(1), member(2)]).unwrap();
    let mut meter = lab.meter();
    let groups = lab::can_limit();
    assert_eq!(lab.uncounted().is_none(), groups.is_ok(), "{:?}", lab.uncounted());
    assert_eq!(meter.source().name(), *groups.as_ref().unwrap_or(&"/proc"));
    let before: Vec<_> = meter.read().collect();
    let (_, usage, _) = shell(
        &lab,
        0,
        "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; head -c 3000000 /dev/zero > /tmp/f$$; \
         sleep 0.01; rm /tmp/f$$",
    );
    let after: Vec<_> = meter.read().collect();
    let used = |node: usize| {
        let cpu = |reading: &lab::Reading| reading.user + reading.system;
        cpu(&after[node]) - cpu(&before[node])
    };
    // The kernel's figures for the program itself, without the init's.
    let reported = usage.cpu();
    let by_tick = if groups.is_ok() { Span::ZERO } else { Span::from_ms(20) };
    assert!(
        used(0) + by_tick >= reported && used(0) < reported + Span::from_ms(50),
        "{}, {reported}",
        used(0)
    );
    assert!(used(1) < reported / 10 + by_tick, "the other node did nothing: {}", used(1));
    assert!(after[0].memory > 0 && after[0].memory_peak >= after[0].memory);
    assert!(after[0].voluntary > before[0].voluntary);
    assert_eq!(after[1].disk_written, before[1].disk_written);
}

#[test]
fn reservations_weigh_and_cannot_be_more_than_there_is() {
    if lab::can_limit().is_err() {
        return;
    }
    let mut greedy = member(1);
    greedy.limits = Limits { reserved_cpus: Some(1e3), ..Limits::default() };
    let error = up(&[greedy.clone(), member(2)]).unwrap_err().to_string();
    assert!(error.contains("the nodes reserve 1000 CPUs in total"), "{error}");
    greedy.limits.reserved_cpus = Some(0.5);
    greedy.limits.reserved_memory = Some(8 << 20);
    let (lab, _taps) = up(&[greedy, member(2)]).unwrap();
    let weight = |node: usize| -> f64 {
        let group = says(&lab, node, "cat /proc/self/cgroup");
        let find = |file: &str, tree: &str, controller: &str| {
            let line = group.lines().find(|line| line.contains(controller))?;
            let path = line.splitn(3, ':').nth(2)?;
            let file = format!("/sys/fs/cgroup{tree}{path}/{file}");
            std::fs::read_to_string(file).ok()?.trim().parse().ok()
        };
        let v1 = || find("cpu.shares", "/cpu", ":cpu:");
        v1().or_else(|| find("cpu.shares", "/cpu,cpuacct", ":cpu,cpuacct:"))
            .or_else(|| find("cpu.weight", "", "0::"))
            .unwrap()
    };
    let here = std::thread::available_parallelism().unwrap().get() as f64;
    let (has, should) = (weight(0) / weight(1), 0.5 / (here - 0.5));
    assert!((has / should - 1.0).abs() < 0.05, "{has} to one, not {should}");
}
