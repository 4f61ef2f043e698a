//! Nodes, and programs for them: this test binary, under the names of its ignored tests.
#![allow(dead_code, reason = "each test file has its own needs")]

use lab::{Event, Exit, Interface, Lab, Limits, Link, Member, NodeSpec, Program, Setting};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

pub fn address(i: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, i as u8 + 1)
}

pub fn mac(i: usize) -> [u8; 6] {
    [2, 0, 10, 0, 0, i as u8 + 1]
}

pub fn up(count: usize, mtu: u32, link: Link) -> (Lab, Vec<OwnedFd>) {
    let members: Vec<_> = (0..count).map(|i| member(i, count, mtu)).collect();
    let fork_server = Path::new(env!("CARGO_BIN_EXE_thingbed-fork-server"));
    let (lab, taps) = Lab::up(fork_server, &members, "127.0.0.1 localhost\n", link).unwrap();
    (lab, taps.into_iter().flatten().collect())
}

/// Node number `i`, with neighbour entries of `count` nodes.
pub fn member(i: usize, count: usize, mtu: u32) -> Member {
    let interface = Interface {
        name: "eth0".into(),
        mac: mac(i),
        addresses: vec![(address(i).into(), 24)],
        mtu,
        offload: false,
        neighbours: (0..count).map(|j| (address(j).into(), mac(j))).collect(),
        is_advertised: false,
        advertised: None,
        tap: None,
        tun: None,
        is_port: false,
    };
    let spec = NodeSpec {
        name: format!("node-{i}"),
        interfaces: vec![interface],
        setting: Setting::default(),
    };
    Member { spec, limits: Limits::default() }
}

/// Runs one of the helpers below, which are in this binary, in a node.
pub fn helper(lab: &Lab, node: usize, id: u64, name: &str, arguments: &str) {
    let null = || File::options().write(true).open("/dev/null").unwrap();
    let program = Program {
        argv: [std::env::current_exe().unwrap().display().to_string()]
            .into_iter()
            .chain(["--ignored", "--exact", name].map(String::from))
            .collect(),
        env: vec![("HELPER".into(), arguments.into())],
        cwd: "/".into(),
        stdout: null().into(),
        stderr: null().into(),
        control: None,
    };
    lab.nodes()[node].kind.run(id, program).unwrap();
}

/// Waits until the helpers with these ids end successfully.
pub fn ended(lab: &Lab, mut ids: Vec<u64>) {
    while !ids.is_empty() {
        match lab.events().recv_timeout(Duration::from_secs(120)).unwrap() {
            Event::Ended { id, exit, .. } => {
                assert_eq!(exit, Exit::Status(0), "helper {id}");
                ids.retain(|other| *other != id);
            }
            Event::Started { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

pub fn arguments() -> Vec<u64> {
    let text = std::env::var("HELPER").unwrap_or_default();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// Accepts one connection in a node and compares the received bytes with the pattern.
pub fn take_tcp() {
    let [bytes] = arguments()[..] else { return };
    let (mut stream, _) = TcpListener::bind("0.0.0.0:5000").unwrap().accept().unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    assert_eq!(received.len() as u64, bytes);
    assert!(received.iter().enumerate().all(|(i, byte)| *byte == (i / 7) as u8));
}

/// Sends this many bytes of the pattern over TCP to node 0.
pub fn give_tcp() {
    let [bytes] = arguments()[..] else { return };
    let payload: Vec<u8> = (0..bytes).map(|i| (i / 7) as u8).collect();
    let until = Instant::now() + Duration::from_secs(120);
    let mut stream = loop {
        match TcpStream::connect((address(0), 5000)) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    };
    stream.write_all(&payload).unwrap();
}
