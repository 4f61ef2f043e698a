//! TCP through TAPs at several MTUs, by two forwarders: a bare one that draws a loss for each
//! frame; and the medium with all its counters.

use crate::{frames, load, median, nodes};
use engine::{Endpoint, FrameBackend};
use lab::{Lab, Link};
use link::Impairment;
use measure::Accounting;
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

/// A forwarder's counts in one round: loss in percent, refused frames.
type Counts = [f64; 2];

/// Prints TCP throughput between two nodes in Gbit/s, as counted by the receiver's kernel, and the
/// loss; medians of interleaved rounds. The ratio is that of CPU times, which remain
/// valid if other programs use the machine.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "\nbulk: one TCP stream between two nodes\n{:>6} {:>6} {:>6} {:>11} {:>6} {:>13} {:>6} {:>6} {:>7} {:>7}",
        "MTU",
        "TCP",
        "loss %",
        "bare Gbit/s",
        "ns/kB",
        "medium Gbit/s",
        "ns/kB",
        "ratio",
        "lost %",
        "refused"
    );
    for mtu in [1500, 9000, 65_000] {
        for control in ["cubic", "bbr"] {
            for loss in [0.0, 0.1, 1.0] {
                row(mtu, control, loss)?;
            }
        }
    }
    Ok(())
}

fn row(mtu: u32, control: &str, loss: f64) -> Result<(), Box<dyn Error>> {
    let (mut bare, mut medium, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(bare_round(mtu, control, loss)?.0);
        let (rate, count) = medium_round(mtu, control, loss)?;
        medium.push(rate);
        counts.push(count);
    }
    let rate = |all: &[Rate]| median(all.iter().map(|rate| rate.gbit_s).collect());
    let cost = |all: &[Rate]| median(all.iter().map(|rate| rate.ns_kb).collect());
    let [lost, refused] = [0, 1].map(|i| median(counts.iter().map(|count| count[i]).collect()));
    println!(
        "{mtu:>6} {control:>6} {loss:>6} {:>11.2} {:>6.0} {:>13.2} {:>6.0} {:>6.2} {lost:>7.3} {refused:>7}",
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

fn medium_round(mtu: u32, control: &str, loss: f64) -> Result<(Rate, Counts), Box<dyn Error>> {
    let (lab, taps) = nodes::up_with(2, |i| vec![1 - i], Link::Tap, mtu)?;
    let carrier = FrameBackend::over_taps(taps)?;
    let (mut spec, places) = frames::switch(2, &Endpoint::default());
    let up = Impairment {
        loss: format!("{loss} %").parse::<units::Ratio>()?.into(),
        ..Impairment::default()
    };
    spec.endpoints[0].up = up;
    let accounting = Accounting::new(vec![vec![0, 1]], Vec::new(), None);
    let engine = frames::start(carrier, vec![spec], places, accounting, units::Span::ZERO)?;
    engine.begin();
    let rate = pour(&lab, control)?;
    drop(lab);
    let outcome = engine.stop()?;
    let [_, receiver] = outcome.observer.nodes() else { return Err("not two nodes".into()) };
    let [up, _] = outcome.totals[0][0];
    Ok((rate, [100.0 * up.lost as f64 / up.frames as f64, receiver.refused as f64]))
}

fn bare_round(mtu: u32, control: &str, loss: f64) -> Result<(Rate, Counts), Box<dyn Error>> {
    let (lab, taps) = nodes::up_with(2, |i| vec![1 - i], Link::Tap, mtu)?;
    let (stop, counters) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
    let (its_stop, its_counters) = (stop.clone(), counters.clone());
    // Uses the medium's thread name and priority, so that CPU times are found and comparable.
    let thread = std::thread::Builder::new().name("medium".into()).spawn(move || {
        load::pin_to(load::Cpu::First);
        // SAFETY: setpriority with integer arguments; 0 is this thread.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
        forward(&taps, loss / 100.0, &its_stop, &its_counters);
        drop(engine::Taps::new(taps));
    })?;
    let rate = pour(&lab, control)?;
    stop.store(true, Relaxed);
    drop(lab);
    thread.join().map_err(|_| "the forwarder panicked")?;
    let of = |count: &AtomicU64| count.load(Relaxed) as f64;
    Ok((rate, [100.0 * of(&counters.lost) / of(&counters.frames), of(&counters.refused)]))
}

/// Forwards between two TAPs; counts the frames of node 0 and drops some.
fn forward(taps: &[OwnedFd], loss: f64, stop: &AtomicBool, counters: &Seen) {
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
                let frame = &buffer[..n as usize];
                let lost = from == 0 && draw.next() < loss;
                // SAFETY: the frame is readable for its length.
                let refused = !lost
                    && unsafe {
                        libc::write(taps[1 - from].as_raw_fd(), frame.as_ptr().cast(), frame.len())
                            <= 0
                    };
                if from == 0 {
                    counters.frames.fetch_add(1, Relaxed);
                    counters.lost.fetch_add(u64::from(lost), Relaxed);
                    counters.refused.fetch_add(u64::from(refused), Relaxed);
                }
            }
        }
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
