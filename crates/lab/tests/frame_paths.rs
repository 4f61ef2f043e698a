//! Frames between real nodes and the medium, by each frame path.

mod common;

use common::{address, arguments, ended, helper, mac, member, up};
use engine::{
    Attach, Delivery, Drop, Endpoint, Engine, FrameBackend, FrameIo, FramePath, Observer, Place,
    Received, Refused, Ring, SegmentSpec,
};
use lab::{Event, Exit, FIRST_INTERFACE, Lab, Link, Ports};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use units::Span;

/// Nodes and the ring that receives their frames, with `spare` free places; `None` if this machine
/// does not allow a ring.
fn ring(count: usize, mtu: u32, spare: usize) -> Option<(Lab, Ring)> {
    if let Err(error) = Ring::try_out(Ports::try_out) {
        eprintln!("NOT RUN: no ring here: {error}");
        return None;
    }
    let (mut lab, ends) = up(count, mtu, Link::Bpf);
    let ports = lab.ports().unwrap();
    let attach = Attach::by(move |number, program| ports.attach(number, program));
    let ring = Ring::with_room(ends, FIRST_INTERFACE, attach, spare).unwrap();
    Some((lab, ring))
}

/// Sends datagrams from a node; arguments: number, bytes, destination node.
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

/// The next frame before a timeout.
fn next(io: &mut impl FrameIo, buffer: &mut [u8]) -> Option<Received> {
    let until = Instant::now() + Duration::from_secs(120);
    while Instant::now() < until {
        if let Some(received) = io.receive(buffer) {
            return Some(received);
        }
        let now = clock::now();
        io.wait(now, Some(now + Span::from_ms(100))).unwrap();
    }
    None
}

const UDP_HEADERS: usize = 14 + 20 + 8;

#[test]
fn the_ring_brings_frames_of_all_sizes_whole_with_port_and_time() {
    let Some((lab, mut ring)) = ring(2, 65_521, 0) else { return };
    let mut buffer = vec![0; 70_000];
    for (id, bytes) in [8, 62, 63, 1_472, 1_473, 9_000, 40_000, 65_493].into_iter().enumerate() {
        let before = clock::now();
        helper(&lab, 1, id as u64, "send", &format!("3 {bytes} 0"));
        for number in 0..3u64 {
            let frame = next(&mut ring, &mut buffer).expect("a frame");
            assert_eq!((frame.port, frame.len), (1, bytes + UDP_HEADERS));
            let arrived = frame.arrived.expect("a time");
            assert!(before < arrived && arrived <= clock::now());
            assert_eq!(buffer[..12], [mac(0), mac(1)].concat());
            assert_eq!(buffer[UDP_HEADERS..UDP_HEADERS + 8], number.to_be_bytes());
        }
        ended(&lab, vec![id as u64]);
    }
    assert_eq!(ring.tallies().refused()[1], 0);
    let counters = lab::counters(lab.pids()[1], "eth0").unwrap();
    assert_eq!((counters.tx_frames, counters.tx_dropped), (24, 0), "as a real interface counts");
}

/// A frame with two VLAN tags, as sent by a program on a raw socket.
fn tagged() -> Vec<u8> {
    let tags = [0x88, 0xa8, 0x20, 0x07, 0x81, 0x00, 0x00, 0x05];
    [&mac(0)[..], &mac(1), &tags, &[0x88, 0xb5], &[0x5a; 60]].concat()
}

/// Sends it.
#[test]
#[ignore = "a program for the tests, not a test"]
fn send_tagged() {
    if std::env::var("HELPER").is_err() {
        return;
    }
    let frame = tagged();
    // SAFETY: plain system calls; name, address and frame live over them.
    unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = libc::if_nametoindex(c"eth0".as_ptr()) as i32;
        let len = size_of::<libc::sockaddr_ll>() as u32;
        let to = (&raw const address).cast();
        let sent = libc::sendto(socket, frame.as_ptr().cast(), frame.len(), 0, to, len);
        assert_eq!(sent, frame.len() as isize);
    }
}

#[test]
fn the_ring_keeps_the_tags_of_virtual_lans() {
    let Some((lab, mut ring)) = ring(2, 1500, 0) else { return };
    let mut buffer = vec![0; 2_000];
    helper(&lab, 1, 0, "send_tagged", "");
    let frame = next(&mut ring, &mut buffer).expect("a frame");
    assert_eq!((frame.port, &buffer[..frame.len]), (1, &tagged()[..]));
    ended(&lab, vec![0]);
}

#[test]
fn arrivals_do_not_end_a_doze_and_who_wakes_does() {
    let Some((lab, mut ring)) = ring(2, 1500, 0) else { return };
    assert!(ring.can_doze());
    let mut buffer = vec![0; 2_000];
    // It has slept and was woken by frames.
    helper(&lab, 1, 0, "send", "3 100 0");
    (0..3).for_each(|_| assert!(next(&mut ring, &mut buffer).is_some()));
    ended(&lab, vec![0]);
    let begin = clock::now();
    helper(&lab, 1, 1, "send", "50 100 0");
    let until = begin + Span::from_ms(500);
    ring.doze(begin, until).unwrap();
    let end = clock::now();
    assert!(end >= until, "{:?} too soon", until - end);
    ended(&lab, vec![1]);
    for _ in 0..50 {
        let arrived = next(&mut ring, &mut buffer).expect("a frame").arrived;
        assert!(arrived.is_some_and(|at| begin < at), "{arrived:?}");
    }
    let waker = ring.waker();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            waker.wake();
        });
        let now = clock::now();
        ring.doze(now, now + Span::from_ms(600_000)).unwrap();
    });
    // It was used once and ends one wait.
    let now = clock::now();
    ring.doze(now, now + Span::from_ms(1)).unwrap();
    assert!(clock::now() >= now + Span::from_ms(1));
}

#[test]
fn nodes_added_later_use_the_ring() {
    let Some((mut lab, mut ring)) = ring(1, 1500, 2) else { return };
    let members: Vec<_> = (1..3).map(|i| member(i, 3, 1500)).collect();
    let ends = lab.add(&members).unwrap().into_iter().flatten();
    for (port, end) in (1..).zip(ends) {
        assert_eq!(ring.attach(Some(end)).unwrap(), port);
    }
    let mut buffer = vec![0; 2_000];
    for node in [1, 2, 1] {
        helper(&lab, node, node as u64, "send", "200 100 0");
        for number in 0..200u64 {
            let frame = next(&mut ring, &mut buffer).expect("a frame");
            assert_eq!((frame.port, frame.len), (node, 100 + UDP_HEADERS));
            assert!(frame.arrived.is_some());
            assert_eq!(buffer[..12], [mac(0), mac(node)].concat());
            assert_eq!(buffer[UDP_HEADERS..UDP_HEADERS + 8], number.to_be_bytes());
        }
        ended(&lab, vec![node as u64]);
    }
    // They also receive frames.
    let before = lab::counters(lab.pids()[2], "eth0").unwrap().rx_frames;
    let frame = [&mac(2)[..], &mac(0), &[0x88, 0xb5], &[0; 50]].concat();
    assert!(ring.send(2, &frame));
    assert_eq!(lab::counters(lab.pids()[2], "eth0").unwrap().rx_frames, before + 1);
    // A failure leaves the lab unchanged, and the next node gets the numbers.
    let mut wrong = member(3, 4, 1500);
    wrong.spec.interfaces[0].name = "a name that is too long".into();
    assert!(lab.add(&[member(4, 4, 1500), wrong]).is_err());
    assert_eq!(lab.pids().len(), 3);
    let _ends = lab.add(&[member(3, 4, 1500)]).unwrap();
    helper(&lab, 3, 9, "send", "1 100 0");
    ended(&lab, vec![9]);
}

#[test]
fn a_flood_loses_its_own_frames_and_its_neighbours_go_first() {
    let Some((lab, mut ring)) = ring(3, 1500, 0) else { return };
    // Nothing reads meanwhile.
    helper(&lab, 0, 0, "send", "30000 58 2");
    ended(&lab, vec![0]);
    helper(&lab, 1, 1, "send", "100 58 2");
    ended(&lab, vec![1]);
    assert_eq!(ring.tallies().refused()[..2], [20_000, 0]);

    let mut buffer = vec![0; 2_000];
    let mut counts = [0u64; 2];
    let mut before_neighbour = None;
    while counts != [10_000, 100] {
        let received = next(&mut ring, &mut buffer).expect("a frame");
        let number = u64::from_be_bytes(*buffer[UDP_HEADERS..].first_chunk().unwrap());
        assert_eq!(number, counts[received.port], "in order");
        counts[received.port] += 1;
        if received.port == 1 {
            before_neighbour.get_or_insert(counts[0]);
        }
    }
    let before = before_neighbour.unwrap();
    assert!(before < 2_000, "{before} frames of the flood went before its neighbour's first");
    // The whole ring is free again.
    helper(&lab, 0, 2, "send", "9000 58 2");
    for _ in 0..9_000 {
        next(&mut ring, &mut buffer).expect("a frame");
    }
    ended(&lab, vec![2]);
    assert_eq!(ring.tallies().refused()[0], 20_000);
}

/// Sends datagrams with pauses of all lengths up to 100 us, so that the reader falls asleep at
/// every possible moment.
#[test]
#[ignore = "a program for the tests, not a test"]
fn drip() {
    let [count] = arguments()[..] else { return };
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let mut dice = 1u64;
    for _ in 0..count {
        socket.send_to(&[0; 20], (address(0), 9)).unwrap();
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let until = Instant::now() + Duration::from_nanos((dice >> 33) % 100_000);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
    }
}

#[test]
fn the_ring_never_sleeps_through_a_frame() {
    let Some((lab, mut ring)) = ring(3, 1500, 0) else { return };
    let mut buffer = vec![0; 2_000];
    helper(&lab, 1, 1, "drip", "20000");
    helper(&lab, 2, 2, "drip", "20000");
    let mut count = 0;
    while count < 40_000 {
        while ring.receive(&mut buffer).is_some() {
            count += 1;
        }
        let now = clock::now();
        let until = now + Span::from_ms(20_000);
        if count < 40_000 {
            ring.wait(now, Some(until)).unwrap();
            assert!(clock::now() < until, "slept until its time-out after {count} frames");
        }
    }
    ended(&lab, vec![1, 2]);
}

/// Accepts a connection.
#[test]
#[ignore = "a program for the tests, not a test"]
fn serve() {
    common::take_tcp();
}

/// Opens a connection.
#[test]
#[ignore = "a program for the tests, not a test"]
fn fetch() {
    common::give_tcp();
}

/// Checks frames as they would be on a wire.
#[derive(Default)]
struct Wire {
    frames: u64,
    longest: usize,
    wrong: u64,
    late_times: u64,
}

impl Observer for Wire {
    fn begin(&mut self, _at: units::Instant) {}
    fn end(&mut self, _at: units::Instant) {}
    fn sent(&mut self, _from: Place, frame: &[u8], at: units::Instant) {
        self.frames += 1;
        self.longest = self.longest.max(frame.len());
        self.late_times += u64::from(at > clock::now());
        // IPv4 without options, TCP: the sum over segment and pseudo-header is 0.
        if frame[12..15] == [8, 0, 0x45] && frame[23] == 6 {
            let len = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
            let segment = &frame[34..14 + len];
            let pseudo = [&frame[26..34], &[0, 6], &(segment.len() as u16).to_be_bytes()].concat();
            let words = pseudo.chunks(2).chain(segment.chunks(2));
            let mut sum: u32 =
                words.map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum();
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            self.wrong += u64::from(sum != 0xffff);
        }
    }
    fn delivered(&mut self, _segment: usize, _delivery: &Delivery, _at: units::Instant) {}
    fn dropped(&mut self, _segment: usize, _drop: Drop, _at: units::Instant) {}
    fn refused(&mut self, _to: Place, _at: units::Instant) {}
}

/// The carrier of a path; `None` if this machine does not allow it.
fn carrier(path: FramePath, count: usize, mtu: u32) -> Option<(Lab, FrameBackend)> {
    let (lab, carrier) = match path {
        FramePath::Ring => {
            let (lab, ring) = ring(count, mtu, 0)?;
            (lab, FrameBackend::Ring(Box::new(ring)))
        }
        FramePath::Tap => {
            let (lab, ends) = up(count, mtu, Link::Tap);
            (lab, FrameBackend::over_taps(ends).unwrap())
        }
        FramePath::Packet => {
            let (lab, ends) = up(count, mtu, Link::Veth);
            (lab, FrameBackend::over_packets(ends).unwrap())
        }
    };
    assert_eq!(carrier.path(), path);
    Some((lab, carrier))
}

/// Frames sent and dropped as both nodes' interfaces count them, once that agrees with what was
/// forwarded: when both programs have ended, their last frames may still be in flight.
fn settled(lab: &Lab, agrees: impl Fn(u64) -> bool) -> (u64, u64) {
    let mut counts = (0, 0);
    // A minute.
    for _ in 0..1_200 {
        let counters = [0, 1].map(|node| lab::counters(lab.pids()[node], "eth0").unwrap());
        counts = counters
            .iter()
            .fold((0, 0), |sum, one| (sum.0 + one.tx_frames, sum.1 + one.tx_dropped));
        if agrees(counts.0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    counts
}

#[test]
fn by_each_path_frames_are_those_of_a_wire() {
    for path in FramePath::ALL {
        for (mtu, bytes) in [(1500, 3_000_000), (113, 30_000)] {
            let Some((lab, carrier)) = carrier(path, 2, mtu) else { continue };
            let endpoints = vec![Endpoint::default(); 2];
            let spec = SegmentSpec { endpoints, impaired: true, ..SegmentSpec::switch(1) };
            let places = [0, 1].map(|endpoint| Place { segment: 0, endpoint }).to_vec();
            let refused = Refused::of(std::slice::from_ref(&carrier)).unwrap();
            let engine = Engine::start(carrier, vec![spec], places, Wire::default()).unwrap();
            helper(&lab, 0, 0, "serve", &bytes.to_string());
            helper(&lab, 1, 1, "fetch", &bytes.to_string());
            ended(&lab, vec![0, 1]);
            let (sent, dropped) = settled(&lab, |sent| sent == engine.frames());
            assert_eq!(refused.read().iter().sum::<u64>(), 0);
            drop(lab);
            let wire = engine.stop().unwrap().observer;
            let name = path.name();
            assert_eq!(
                wire.longest,
                mtu as usize + 14,
                "{name}, MTU {mtu}: full frames, no longer"
            );
            assert_eq!(wire.wrong, 0, "{name}: checksums are finished");
            assert_eq!(wire.late_times, 0, "{name}: no frame comes from the future");
            assert_eq!(
                (sent, dropped),
                (wire.frames, 0),
                "{name}: what a program in the node sees"
            );
        }
    }
}

#[test]
fn packet_sockets_bring_frames_with_port_and_time() {
    let (lab, sockets) = up(2, 9_000, Link::Veth);
    let mut packet = engine::Packet::new(sockets).unwrap();
    let mut buffer = vec![0; 70_000];
    for (id, bytes) in [8, 1_472, 8_972].into_iter().enumerate() {
        let before = clock::now();
        helper(&lab, 1, id as u64, "send", &format!("3 {bytes} 0"));
        for number in 0..3u64 {
            let received = loop {
                let received = next(&mut packet, &mut buffer).expect("a frame");
                // The kernel itself sends a report to multicast routers.
                if buffer[0] == 2 {
                    break received;
                }
            };
            assert_eq!((received.port, received.len), (1, bytes + UDP_HEADERS));
            let arrived = received.arrived.expect("a time");
            assert!(before < arrived && arrived <= clock::now());
            assert_eq!(buffer[UDP_HEADERS..UDP_HEADERS + 8], number.to_be_bytes());
        }
        ended(&lab, vec![id as u64]);
    }
    // The other direction: a frame sent by the medium reaches a program.
    helper(&lab, 1, 9, "hear", "");
    let header = etherparse::PacketBuilder::ethernet2(mac(0), mac(1))
        .ipv4(address(0).octets(), address(1).octets(), 9)
        .udp(9, 9);
    let mut frame = Vec::new();
    header.write(&mut frame, b"hello").unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    let exit = loop {
        assert!(packet.send(1, &frame) && Instant::now() < until);
        match lab.events().recv_timeout(Duration::from_millis(50)) {
            Ok(Event::Ended { id: 9, exit, .. }) => break exit,
            _ => continue,
        }
    };
    assert_eq!(exit, Exit::Status(0));
}

/// Waits for a datagram in a node.
#[test]
#[ignore = "a program for the tests, not a test"]
fn hear() {
    if std::env::var("HELPER").is_ok() {
        let socket = UdpSocket::bind("0.0.0.0:9").unwrap();
        assert_eq!(socket.recv(&mut [0; 9]).unwrap(), 5);
    }
}
