//! Frames a second through the medium, beside a bare forwarder's.

use crate::{bare, load, nodes};
use measure::Accounting;
use medium::{Endpoint, Engine, Place, SegmentSpec, Taps};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;
const WARM_UP: Duration = Duration::from_millis(500);
const ROUND: Duration = Duration::from_secs(2);

/// An ideal switch with `count` endpoints, and where they are.
pub fn switch(count: usize, link: &Endpoint) -> (SegmentSpec, Vec<Place>) {
    let endpoints = vec![link.clone(); count];
    let spec = SegmentSpec { endpoints, ..SegmentSpec::switch(1) };
    (spec, (0..count).map(|endpoint| Place { segment: 0, endpoint }).collect())
}

fn ideal() -> Endpoint {
    Endpoint::default()
}

/// Prints thousand frames a second between 2 and among 300 nodes: bare, and
/// through the medium with all that it counts; medians, taken in turns.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "\nframes: {} bytes, every other node floods its neighbour\n{:>6} {:>12} {:>12} {:>7}",
        load::FRAME,
        "nodes",
        "bare k/s",
        "medium k/s",
        "ratio"
    );
    for count in [2, 300] {
        let (mut bares, mut mediums) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            bares.push(bare_round(count)?);
            mediums.push(medium_round(count)?);
        }
        let (bare, medium) = (crate::median(bares), crate::median(mediums));
        println!("{count:>6} {bare:>12.0} {medium:>12.0} {:>7.2}", medium / bare);
    }
    Ok(())
}

/// An engine on the first processor, on which it measures.
pub fn start(
    taps: Taps,
    segments: Vec<SegmentSpec>,
    places: Vec<Place>,
    accounting: Accounting,
) -> std::io::Result<Engine<Accounting>> {
    load::keep_to(load::Cpu::First);
    let waker = taps.waker();
    let engine = Engine::start(taps, waker, segments, places, accounting);
    load::keep_to(load::Cpu::Any);
    let engine = engine?;
    engine.begin();
    Ok(engine)
}

/// Neighbours in pairs: 0 and 1, 2 and 3.
fn pairs(count: usize) -> Result<(lab::Lab, Vec<std::os::fd::OwnedFd>), Box<dyn Error>> {
    nodes::up(count, |i| vec![i ^ 1])
}

/// Receivers greet first: frames to unknown places would go to all of them.
fn floods(lab: &lab::Lab, count: usize, frames: impl Fn() -> u64) -> Result<(), Box<dyn Error>> {
    for node in (1..count).step_by(2) {
        load::start(lab, node, &[load::HELLO, &nodes::address(node - 1).to_string()])?;
    }
    while frames() < count as u64 / 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    for node in (0..count).step_by(2) {
        load::start(lab, node, &[load::FLOOD, &nodes::address(node + 1).to_string(), "0"])?;
    }
    Ok(())
}

/// Thousands a second by which `frames` grows.
fn rate(frames: impl Fn() -> u64) -> f64 {
    std::thread::sleep(WARM_UP);
    let (before, begin) = (frames(), Instant::now());
    std::thread::sleep(ROUND);
    (frames() - before) as f64 / begin.elapsed().as_secs_f64() / 1e3
}

fn bare_round(count: usize) -> Result<f64, Box<dyn Error>> {
    let (lab, taps) = pairs(count)?;
    let (stop, frames) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (its_stop, its_frames) = (stop.clone(), frames.clone());
    let thread = std::thread::spawn(move || {
        load::keep_to(load::Cpu::First);
        bare::forward(taps, its_stop, its_frames);
    });
    floods(&lab, count, || frames.load(Relaxed))?;
    let rate = rate(|| frames.load(Relaxed));
    stop.store(true, Relaxed);
    drop(lab);
    thread.join().map_err(|_| "the bare forwarder panicked")?;
    Ok(rate)
}

fn medium_round(count: usize) -> Result<f64, Box<dyn Error>> {
    let (lab, taps) = pairs(count)?;
    let taps = Taps::new(taps)?;
    let (spec, places) = switch(count, &ideal());
    let accounting = Accounting::new(vec![(0..count).collect()], Vec::new(), None);
    let engine = start(taps, vec![spec], places, accounting)?;
    floods(&lab, count, || engine.frames())?;
    let rate = rate(|| engine.frames());
    drop(lab);
    engine.stop()?;
    Ok(rate)
}
