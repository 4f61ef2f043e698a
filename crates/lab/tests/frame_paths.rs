//! Frames between real nodes and the medium, by each way of carrying them.

use lab::{Event, Exit, FIRST_INTERFACE, Interface, Lab, Limits, Member, NodeSpec, Program};
use medium::{FrameIo, Received, Ring, monotonic_now};
use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

fn address(i: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, i as u8 + 1)
}

fn mac(i: usize) -> [u8; 6] {
    [2, 0, 10, 0, 0, i as u8 + 1]
}

fn up(count: usize, mtu: u32) -> (Lab, Vec<OwnedFd>) {
    let member = |i: usize| {
        let interface = Interface {
            name: "eth0".into(),
            mac: mac(i),
            address: address(i),
            prefix: 24,
            mtu,
            neighbours: (0..count).map(|j| (address(j), mac(j))).collect(),
        };
        let spec = NodeSpec { name: format!("node-{i}"), interfaces: vec![interface] };
        Member { spec, limits: Limits::default() }
    };
    let members: Vec<_> = (0..count).map(member).collect();
    let nursery = Path::new(env!("CARGO_BIN_EXE_thingbed-nursery"));
    let (lab, taps) = Lab::up(nursery, &members, "127.0.0.1 localhost\n").unwrap();
    (lab, taps.into_iter().flatten().collect())
}

/// The ring, or nothing where this machine does not let us have one.
fn ring(taps: Vec<OwnedFd>) -> Option<Ring> {
    match Ring::new(taps, FIRST_INTERFACE) {
        Ok(ring) => Some(ring),
        Err((_, error)) => {
            eprintln!("NOT RUN: no ring here: {error}");
            assert!(Ring::try_out().is_err(), "the trial run says otherwise: {error}");
            None
        }
    }
}

/// Runs one of the helpers below, which are this very program, in a node.
fn helper(lab: &Lab, node: usize, id: u64, name: &str, arguments: &str) {
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
    lab.run(node, id, program).unwrap();
}

/// Waits for the helpers with these ids to end well.
fn ended(lab: &Lab, mut ids: Vec<u64>) {
    while !ids.is_empty() {
        match lab.events().recv_timeout(Duration::from_secs(30)).unwrap() {
            Event::Ended { id, exit, .. } => {
                assert_eq!(exit, Exit::Status(0), "helper {id}");
                ids.retain(|other| *other != id);
            }
            Event::Started { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

fn arguments() -> Vec<u64> {
    let text = std::env::var("HELPER").unwrap_or_default();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// Sends datagrams from a node: how many, of how many bytes, to which node.
#[test]
#[ignore = "a program for the tests, not a test"]
fn send() {
    let [count, bytes, to] = arguments()[..] else { return };
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let mut payload = vec![0u8; bytes as usize];
    for number in 0..count {
        payload[..8].copy_from_slice(&number.to_be_bytes());
        socket.send_to(&payload, (address(to as usize), 9)).unwrap();
    }
}

/// The next frame within a while.
fn next(io: &mut impl FrameIo, buffer: &mut [u8]) -> Option<Received> {
    let until = Instant::now() + Duration::from_secs(10);
    while Instant::now() < until {
        if let Some(received) = io.receive(buffer) {
            return Some(received);
        }
        let now = monotonic_now();
        io.wait(now, Some(now + 100_000_000)).unwrap();
    }
    None
}

const UDP_HEADERS: usize = 14 + 20 + 8;

#[test]
fn the_ring_brings_frames_of_all_sizes_whole_with_port_and_time() {
    let (lab, taps) = up(2, 65_521);
    let Some(mut ring) = ring(taps) else { return };
    let mut buffer = vec![0; 70_000];
    for (id, bytes) in [8, 62, 63, 1_472, 1_473, 9_000, 40_000, 65_493].into_iter().enumerate() {
        let before = monotonic_now();
        helper(&lab, 1, id as u64, "send", &format!("3 {bytes} 0"));
        for number in 0..3u64 {
            let got = next(&mut ring, &mut buffer).expect("a frame");
            assert_eq!((got.port, got.len), (1, bytes + UDP_HEADERS));
            let arrived = got.arrived.expect("a time");
            assert!(before < arrived && arrived <= monotonic_now());
            assert_eq!(buffer[..12], [mac(0), mac(1)].concat());
            assert_eq!(buffer[UDP_HEADERS..UDP_HEADERS + 8], number.to_be_bytes());
        }
        ended(&lab, vec![id as u64]);
    }
    let tally = ring.tallies().read()[1];
    assert_eq!((tally.taken, tally.refused), (24, 0));
}

#[test]
fn a_flood_loses_its_own_frames_and_its_neighbours_go_first() {
    let (lab, taps) = up(3, 1500);
    let Some(mut ring) = ring(taps) else { return };
    // Nobody reads meanwhile.
    helper(&lab, 0, 0, "send", "30000 58 2");
    ended(&lab, vec![0]);
    helper(&lab, 1, 1, "send", "100 58 2");
    ended(&lab, vec![1]);
    let tallies = ring.tallies().read();
    assert_eq!((tallies[0].taken, tallies[0].refused), (10_000, 20_000));
    assert_eq!((tallies[1].taken, tallies[1].refused), (100, 0));

    let mut buffer = vec![0; 2_000];
    let mut got = [0u64; 2];
    let mut before_neighbour = None;
    while got != [10_000, 100] {
        let received = next(&mut ring, &mut buffer).expect("a frame");
        let number = u64::from_be_bytes(*buffer[UDP_HEADERS..].first_chunk().unwrap());
        assert_eq!(number, got[received.port], "in order");
        got[received.port] += 1;
        if received.port == 1 {
            before_neighbour.get_or_insert(got[0]);
        }
    }
    let before = before_neighbour.unwrap();
    assert!(before < 2_000, "{before} frames of the flood went before its neighbour's first");
    // All room is free again.
    helper(&lab, 0, 2, "send", "9000 58 2");
    for _ in 0..9_000 {
        next(&mut ring, &mut buffer).expect("a frame");
    }
    ended(&lab, vec![2]);
    assert_eq!(ring.tallies().read()[0].refused, 20_000);
}
