//! Nodes with a clock offset.

use lab::{Event, Exit, Lab, Limits, Link, Member, NodeSpec, Program, Setting};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use units::Span;

const HOURS: f64 = 3.0 * 3600.0;

/// Output of `cat /proc/uptime` in a node, in s; `own` marks a program of the tool.
fn uptime(lab: &Lab, node: usize, id: u64, own: bool) -> f64 {
    let mut output: File = tempfile::tempfile().unwrap();
    let (_ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let program = Program {
        argv: ["cat", "/proc/uptime"].map(String::from).into(),
        env: vec![],
        cwd: "/".into(),
        stdout: output.try_clone().unwrap().into(),
        stderr: output.try_clone().unwrap().into(),
        control: own.then(|| OwnedFd::from(theirs)),
    };
    lab.nodes()[node].kind.run(id, program).unwrap();
    loop {
        match lab.events().recv_timeout(Duration::from_secs(120)).unwrap() {
            Event::Ended { exit, .. } => {
                assert_eq!(exit, Exit::Status(0));
                break;
            }
            Event::Started { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    let mut text = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut text).unwrap();
    first(&text)
}

fn first(text: &str) -> f64 {
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_clock_that_is_ahead_is_the_nodes_and_not_the_tools() {
    let member = |(i, clock_ahead)| Member {
        spec: NodeSpec {
            name: format!("node-{i}"),
            interfaces: Vec::new(),
            setting: Setting { clock_ahead, ..Setting::default() },
        },
        limits: Limits::default(),
    };
    let members = [(0, Span::from_s(3 * 3600)), (1, Span::ZERO)].map(member);
    let fork_server = Path::new(env!("CARGO_BIN_EXE_thingbed-fork-server"));
    let (lab, _) = Lab::up(fork_server, &members, "127.0.0.1 localhost\n", Link::Tap).unwrap();
    let before = first(&fs::read_to_string("/proc/uptime").unwrap());
    let seen = [uptime(&lab, 0, 1, false), uptime(&lab, 0, 2, true), uptime(&lab, 1, 3, false)];
    let after = first(&fs::read_to_string("/proc/uptime").unwrap());
    // The kernel truncates to hundredths of a second.
    let between = |at: f64| (before - 0.02..=after + 0.02).contains(&at);
    assert!(between(seen[0] - HOURS), "{seen:?} between {before} and {after}");
    assert!(between(seen[1]), "the tool's own programs measure by the machine's: {seen:?}");
    assert!(between(seen[2]), "and so do other nodes': {seen:?}");
}
