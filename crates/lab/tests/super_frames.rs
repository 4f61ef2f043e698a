//! Unsegmented TCP from TAPs, split in memory and joined again.

mod common;

use common::{ended, helper, up_uncut};
use medium::{SuperFrame, VNET_HEADER, VnetHeader};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

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

/// A forwarder's counts: frames, segments, lost segments, the longest segment.
type Seen = (u64, u64, u64, usize);

/// Forwards frames in one direction until it is stopped, and drops every segment with a number that
/// `loses` selects. Consecutive segments are sent as one frame.
fn carry(
    from: OwnedFd,
    to: OwnedFd,
    stop: Arc<AtomicBool>,
    loses: impl Fn(u64) -> bool + Send + 'static,
) -> JoinHandle<Seen> {
    std::thread::spawn(move || {
        let (mut from, mut to) = (File::from(from), File::from(to));
        let mut buffer = vec![0; 70_000];
        let mut seen = (0, 0, 0, 0);
        // Ends at the latest with the node at this side.
        while let Ok(n) = from.read(&mut buffer) {
            if stop.load(Relaxed) {
                break;
            }
            let (header, bytes) = VnetHeader::split(&buffer[..n]).unwrap();
            let whole = SuperFrame::new(header, bytes).expect("a frame as its header says");
            seen.0 += 1;
            let mut begin = 0;
            for i in 0..=whole.segments() {
                let lost = i < whole.segments() && loses(seen.1);
                seen.1 += u64::from(i < whole.segments());
                seen.2 += u64::from(lost);
                if i < whole.segments() {
                    seen.3 = seen.3.max(whole.wire_len(i));
                    if !lost {
                        continue;
                    }
                }
                if begin < i {
                    let run = whole.join(begin..i);
                    assert!(run.before().len() > VNET_HEADER || run.payload.len() >= 14);
                    to.write_all(&[run.before(), run.payload].concat()).unwrap();
                }
                begin = i + 1;
            }
        }
        seen
    })
}

#[test]
fn tcp_gets_through_with_a_fate_for_each_segment() {
    const BYTES: usize = 6_000_000;
    let (lab, taps) = up_uncut(2, 1500);
    let [zero, one] = <[OwnedFd; 2]>::try_from(taps).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (zero_too, one_too) = (zero.try_clone().unwrap(), one.try_clone().unwrap());
    let there = carry(one, zero_too, stop.clone(), |number| number % 211 == 210);
    let back = carry(zero, one_too, stop.clone(), |_| false);
    helper(&lab, 0, 0, "serve", &BYTES.to_string());
    helper(&lab, 1, 1, "fetch", &BYTES.to_string());
    ended(&lab, vec![0, 1]);
    stop.store(true, Relaxed);
    // A last frame for each wakes the readers.
    for (node, id) in [(0, 2), (1, 3)] {
        helper(&lab, node, id, "poke", "");
    }
    let (frames, segments, lost, longest) = there.join().unwrap();
    back.join().unwrap();
    assert!(segments as usize > BYTES / 1448, "{segments} segments");
    assert!(frames * 2 < segments, "{frames} frames of {segments} segments");
    assert!(lost > 10, "{lost} lost");
    assert_eq!(longest, 1514, "segments are no longer than the MTU lets them be");
}

/// Sends a datagram to any destination.
#[test]
#[ignore = "a program for the tests, not a test"]
fn poke() {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    for node in 0..2 {
        let _ = socket.send_to(b"poke", (common::address(node), 9));
    }
}

#[test]
fn small_networks_see_frames_as_the_wire_has_them() {
    let (lab, mut taps) = up_uncut(2, 1279);
    helper(&lab, 1, 0, "poke", "");
    ended(&lab, vec![0]);
    let mut tap = File::from(taps.remove(1));
    let mut buffer = [0; 2_000];
    // The group reports of a new interface may come first.
    let found = (0..10).any(|_| {
        let n = tap.read(&mut buffer).unwrap();
        buffer[..12] == [common::mac(0), common::mac(1)].concat() && n == 14 + 20 + 8 + 4
    });
    assert!(found, "no header before the frame");
}
