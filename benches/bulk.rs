//! TCP through TAPs, plain and with super-frames, by two forwarders: a bare one that splits
//! super-frames in memory, draws a loss for each segment and joins the rest; and the medium with
//! all its counters.

use crate::{frames, load, median, nodes};
use lab::{Lab, Link};
use measure::Accounting;
use medium::{
    End, Endpoint, FrameBackend, FrameFormat, Impairment, SuperFrame, VNET_HEADER, VnetHeader,
};
use std::error::Error;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(500);
const ROUND: Duration = Duration::from_secs(2);

/// A forwarder's counters.
#[derive(Default)]
struct Seen {
    frames: AtomicU64,
    segments: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
}

/// Results of one round.
#[derive(Clone, Copy)]
struct Rate {
    gbit_s: f64,
    /// CPU time of the forwarder per 1,000 bytes, in ns.
    ns_kb: f64,
}

/// A forwarder's counts in one round: segments per frame, loss in percent, refused frames.
type Counts = [f64; 3];

/// Prints TCP throughput between two nodes in Gbit/s, as counted by the receiver's kernel, and the
/// loss, at MTU 1500; medians of interleaved rounds. The ratio is that of CPU times, which remain
/// valid if other programs use the machine.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "\nbulk: one TCP stream between two nodes, MTU 1500\n{:>12} {:>6} {:>6} {:>11} {:>6} {:>13} {:>6} {:>6} {:>9} {:>7} {:>7}",
        "TAP",
        "TCP",
        "loss %",
        "bare Gbit/s",
        "ns/kB",
        "medium Gbit/s",
        "ns/kB",
        "ratio",
        "segments",
        "lost %",
        "refused"
    );
    for uncut in [false, true] {
        for control in ["cubic", "bbr"] {
            for loss in [0.0, 0.1, 1.0] {
                row(uncut, control, loss)?;
            }
        }
    }
    Ok(())
}

fn row(uncut: bool, control: &str, loss: f64) -> Result<(), Box<dyn Error>> {
    let (mut bare, mut medium, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(bare_round(uncut, control, loss)?.0);
        let (rate, count) = medium_round(uncut, control, loss)?;
        medium.push(rate);
        counts.push(count);
    }
    let rate = |all: &[Rate]| median(all.iter().map(|rate| rate.gbit_s).collect());
    let cost = |all: &[Rate]| median(all.iter().map(|rate| rate.ns_kb).collect());
    let [share, lost, refused] =
        [0, 1, 2].map(|i| median(counts.iter().map(|count| count[i]).collect()));
    println!(
        "{:>12} {control:>6} {loss:>6} {:>11.2} {:>6.0} {:>13.2} {:>6.0} {:>6.2} {share:>9.1} {lost:>7.3} {refused:>7}",
        if uncut { "super-frames" } else { "plain" },
        rate(&bare),
        cost(&bare),
        rate(&medium),
        cost(&medium),
        cost(&bare) / cost(&medium),
    );
    Ok(())
}

/// Sends from node 0 to node 1, which reads all.
fn pour(lab: &Lab, control: &str) -> Result<Rate, Box<dyn Error>> {
    load::start(lab, 1, &[load::DRAIN])?;
    load::start(lab, 0, &[load::POUR, &nodes::address(1).to_string(), control])?;
    let pid = *lab.pids().get(1).ok_or("no second node")?;
    let received = || lab::counters(pid, "eth0").map_or(0, |counters| counters.rx_bytes);
    while received() < 1_000_000 {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(WARM_UP);
    let (before, cpu, begin) = (received(), frames::medium_cpu_ns(), Instant::now());
    std::thread::sleep(ROUND);
    let (bytes, cpu) = ((received() - before) as f64, frames::medium_cpu_ns() - cpu);
    let gbit_s = bytes * 8.0 / begin.elapsed().as_secs_f64() / 1e9;
    Ok(Rate { gbit_s, ns_kb: cpu as f64 / bytes * 1e3 })
}

fn medium_round(uncut: bool, control: &str, loss: f64) -> Result<(Rate, Counts), Box<dyn Error>> {
    let (lab, taps) = nodes::up_with(2, |i| vec![1 - i], Link::Tap, uncut)?;
    let gives = if uncut { FrameFormat::SuperFrames } else { FrameFormat::Frames };
    let carrier = FrameBackend::over_taps(taps.into_iter().map(|fd| End { fd, gives }).collect())?;
    let (mut spec, places) = frames::switch(2, &Endpoint::default());
    let up = Impairment { loss: format!("{loss} %").parse::<units::Ratio>()?.into(), ..Impairment::default() };
    spec.endpoints[0].up = up;
    let accounting = Accounting::new(vec![vec![0, 1]], Vec::new(), None);
    let engine = frames::start(carrier, vec![spec], places, accounting, 0)?;
    engine.begin();
    let rate = pour(&lab, control)?;
    drop(lab);
    let outcome = engine.stop()?;
    let [sender, receiver] = outcome.observer.nodes() else { return Err("not two nodes".into()) };
    let [up, _] = outcome.totals[0][0];
    Ok((
        rate,
        [
            sender.all_tx[0] as f64 / (sender.all_tx[0] - sender.uncut[0]) as f64,
            100.0 * up.lost as f64 / up.frames as f64,
            receiver.refused as f64,
        ],
    ))
}

fn bare_round(uncut: bool, control: &str, loss: f64) -> Result<(Rate, Counts), Box<dyn Error>> {
    let (lab, taps) = nodes::up_with(2, |i| vec![1 - i], Link::Tap, uncut)?;
    let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
    let (its_stop, its_seen) = (stop.clone(), seen.clone());
    // Uses the medium's thread name and priority, so that CPU times are found and comparable.
    let thread = std::thread::Builder::new().name("medium".into()).spawn(move || {
        load::pin_to(load::Cpu::First);
        // SAFETY: setpriority with integer arguments; 0 is this thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
        forward(&taps, uncut, loss / 100.0, &its_stop, &its_seen);
        drop(medium::Taps::new(taps));
    })?;
    let rate = pour(&lab, control)?;
    stop.store(true, Relaxed);
    drop(lab);
    thread.join().map_err(|_| "the forwarder panicked")?;
    let of = |count: &AtomicU64| count.load(Relaxed) as f64;
    let segments = of(&seen.segments);
    Ok((rate, [segments / of(&seen.frames), 100.0 * of(&seen.lost) / segments, of(&seen.refused)]))
}

/// Forwards between two TAPs; counts the frames of node 0 and drops some.
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
    let mut draw = Rng(88_172_645_463_325_252);
    while !stop.load(Relaxed) {
        // SAFETY: the array is as long as given.
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

/// Forwards the segments that are not lost; consecutive ones as one frame.
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
                seen.refused.fetch_add(u64::from(written <= 0), Relaxed);
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

/// Random numbers from 0 to 1 (xorshift), sufficient for a bare forwarder.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}
