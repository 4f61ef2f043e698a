//! TCP through TAPs that give super-frames: a bare forwarder that splits them in
//! thought, draws a loss for each segment and joins what is left.

use crate::{load, nodes};
use lab::Link;
use medium::{SuperFrame, VNET_HEADER, VnetHeader};
use std::error::Error;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(3);

/// What a forwarder has seen.
#[derive(Default)]
struct Seen {
    bytes: AtomicU64,
    frames: AtomicU64,
    segments: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
}

/// Prints Gbit/s of TCP between two nodes, and what was lost, at MTU 1500.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "\nbulk: one TCP stream between two nodes, MTU 1500\n{:>14} {:>8} {:>8} {:>9} {:>13} {:>9} {:>8}",
        "TAP", "control", "loss %", "Gbit/s", "segments/frame", "lost %", "refused"
    );
    for link in [Link::Tap, Link::TapWithSuperFrames] {
        for control in ["cubic", "bbr"] {
            for loss in [0.0, 0.001, 0.01] {
                let mut rounds = Vec::new();
                for _ in 0..ROUNDS {
                    rounds.push(round(link, control, loss)?);
                }
                let [rate, share, lost, refused] = [0, 1, 2, 3]
                    .map(|i| crate::median(rounds.iter().map(|round| round[i]).collect()));
                println!(
                    "{:>14} {control:>8} {:>8} {rate:>9.2} {share:>13.1} {lost:>9.3} {refused:>8}",
                    if link == Link::Tap { "plain" } else { "super-frames" },
                    loss * 100.0,
                );
            }
        }
    }
    Ok(())
}

fn round(link: Link, control: &str, loss: f64) -> Result<[f64; 4], Box<dyn Error>> {
    let (lab, taps) = nodes::up(2, |i| vec![1 - i], link)?;
    let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
    let (its_stop, its_seen) = (stop.clone(), seen.clone());
    let thread = std::thread::spawn(move || {
        load::keep_to(load::Cpu::First);
        forward(&taps, link == Link::TapWithSuperFrames, loss, &its_stop, &its_seen);
        drop(medium::Taps::new(taps));
    });
    load::start(&lab, 1, &[load::DRAIN])?;
    load::start(&lab, 0, &[load::POUR, &nodes::address(1).to_string(), control])?;
    while seen.segments.load(Relaxed) < 100 {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    let (before, begin) = (seen.bytes.load(Relaxed), Instant::now());
    std::thread::sleep(ROUND);
    let bytes = (seen.bytes.load(Relaxed) - before) as f64;
    let rate = bytes * 8.0 / begin.elapsed().as_secs_f64() / 1e9;
    stop.store(true, Relaxed);
    drop(lab);
    thread.join().map_err(|_| "the forwarder panicked")?;
    let of = |count: &AtomicU64| count.load(Relaxed) as f64;
    Ok([
        rate,
        of(&seen.segments) / of(&seen.frames),
        100.0 * of(&seen.lost) / of(&seen.segments),
        of(&seen.refused),
    ])
}

/// Forwards between two TAPs; what node 0 sends is counted, and lost at times.
fn forward(taps: &[OwnedFd], uncut: bool, loss: f64, stop: &AtomicBool, seen: &Seen) {
    let mut ready: Vec<libc::pollfd> = taps
        .iter()
        .map(|tap| libc::pollfd { fd: tap.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    for tap in taps {
        // SAFETY: fcntl on an owned descriptor with integer arguments.
        unsafe { libc::fcntl(tap.as_raw_fd(), libc::F_SETFL, libc::O_RDWR | libc::O_NONBLOCK) };
    }
    let mut buffer = vec![0u8; 70_000];
    let mut draw = Dice(88_172_645_463_325_252);
    while !stop.load(Relaxed) {
        // SAFETY: the array is as long as said.
        unsafe { libc::poll(ready.as_mut_ptr(), 2, 10) };
        for from in 0..2 {
            for _ in 0..64 {
                // SAFETY: the buffer is writable for its length.
                let n = unsafe {
                    libc::read(taps[from].as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len())
                };
                if n < 14 {
                    break;
                }
                let (header, frame) = match VnetHeader::split(&buffer[..n as usize]) {
                    Some(split) if uncut => split,
                    _ => (VnetHeader::default(), &buffer[..n as usize]),
                };
                let Some(frame) = SuperFrame::new(header, frame) else { continue };
                let loss = if from == 0 { loss } else { 0.0 };
                pass(
                    &frame,
                    &taps[1 - from],
                    uncut,
                    || draw.next() < loss,
                    (from == 0).then_some(seen),
                );
            }
        }
    }
}

/// Passes on the segments that are not lost, those that follow each other as one.
fn pass(
    frame: &SuperFrame<'_>,
    to: &OwnedFd,
    uncut: bool,
    mut lost: impl FnMut() -> bool,
    seen: Option<&Seen>,
) {
    let count = frame.segments();
    let mut begin = 0;
    let mut gone = 0;
    for end in 0..=count {
        let cut = end == count || lost();
        if !cut {
            continue;
        }
        gone += u64::from(end < count);
        if begin < end {
            let run = frame.join(begin..end);
            let before = if uncut { run.before() } else { &run.before()[VNET_HEADER..] };
            let parts = [before, run.payload].map(|part| libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            });
            // SAFETY: both parts are readable for their lengths.
            let written = unsafe { libc::writev(to.as_raw_fd(), parts.as_ptr(), 2) };
            if let Some(seen) = seen {
                match written > 0 {
                    true => seen.bytes.fetch_add(run.payload.len() as u64, Relaxed),
                    false => seen.refused.fetch_add(1, Relaxed),
                };
            }
        }
        begin = end + 1;
    }
    if let Some(seen) = seen {
        seen.frames.fetch_add(1, Relaxed);
        seen.segments.fetch_add(count as u64, Relaxed);
        seen.lost.fetch_add(gone, Relaxed);
    }
}

/// Numbers from 0 to 1 (xorshift), enough for a bare forwarder.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}
