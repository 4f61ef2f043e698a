//! Cost of the medium alone: its models and counters, without a kernel.

use crate::frames::{all_impairments, impaired, switch};
use crate::{load, nodes};
use engine::{Endpoint, Observer, Place, Segment};
use measure::Accounting;
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

const FRAMES: u64 = 20_000;
const ROUNDS: usize = 100;
/// Time between frames, on the segment's clock: 400,000 per second.
const GAP: u64 = 2_500;
/// Consecutive frames of one sender, as in floods.
const RUN: u64 = 64;

/// Simulates the kernel: copies the frame's bytes and fills the caches closest to the CPU with
/// other data.
struct Sink {
    copy: [u8; 2048],
    lines: Vec<[u64; 8]>,
    next: usize,
    touched: usize,
}

impl Sink {
    fn new(touched: usize) -> Self {
        // Part of the capacity of a second-level cache.
        Self { copy: [0; 2048], lines: vec![[1; 8]; 4_096], next: 0, touched }
    }

    #[inline(never)]
    fn write(&mut self, frame: &[u8]) {
        self.copy[..frame.len()].copy_from_slice(frame);
        black_box(&self.copy);
        for _ in 0..self.touched {
            self.next = (self.next + 1) % self.lines.len();
            self.lines[self.next][0] += 1;
        }
    }
}

/// Prints the ns per frame: the fastest of several rounds, because other programs on the machine
/// make rounds slower. *Cold*: after each frame, the caches hold other data.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "\nthe medium without a kernel, ns a frame\n{:>6} {:>6} {:>7} {:>7}",
        "nodes", "links", "warm", "cold"
    );
    for (name, count, link) in [
        ("plain", 2, impaired()?),
        ("all", 2, all_impairments()?),
        ("plain", 300, impaired()?),
        ("all", 300, all_impairments()?),
    ] {
        let ns = [0, 256].map(|touched| {
            // Each separately: an interruption of one does not affect the other.
            let fastest =
                |round: &dyn Fn() -> f64| (0..ROUNDS).map(|_| round()).fold(f64::MAX, f64::min);
            fastest(&|| round(count, &link, touched)) - fastest(&|| bare(count, touched))
        });
        println!("{count:>6} {name:>6} {:>7.0} {:>7.0}", ns[0], ns[1]);
    }
    Ok(())
}

fn frames(count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|from| {
            let (from, to) = (nodes::address(from).octets(), nodes::address(from ^ 1).octets());
            let mac = |of: [u8; 4]| [[2, 0].as_slice(), &of].concat();
            let mut frame =
                [mac(to), mac(from), vec![8, 0, 0x45, 0, 0, (load::FRAME - 14) as u8]].concat();
            frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
            frame.extend(from);
            frame.extend(to);
            frame.extend([0, 9, 0, 9, 0, (load::FRAME - 34) as u8, 0, 0]);
            frame.resize(load::FRAME, 7);
            frame
        })
        .collect()
}

fn sender(frame: u64, count: usize) -> usize {
    (frame / RUN * 2) as usize % count
}

fn bare(count: usize, touched: usize) -> f64 {
    let (frames, mut sink) = (frames(count), Sink::new(touched));
    let begin = Instant::now();
    for number in 0..FRAMES {
        sink.write(&frames[sender(number, count)]);
    }
    begin.elapsed().as_nanos() as f64 / FRAMES as f64
}

/// Handles frames like the engine does when they arrive faster than it reads them: many at a time,
/// and on average one per [`GAP`].
fn round(count: usize, link: &Endpoint, touched: usize) -> f64 {
    let (frames, mut sink) = (frames(count), Sink::new(touched));
    let (spec, _) = switch(count, link);
    let mut segment = Segment::new(&spec);
    let mut observer = Accounting::new(vec![(0..count).collect()], Vec::new(), None);
    // The switch learns all addresses.
    for (endpoint, frame) in frames.iter().enumerate() {
        segment.send(endpoint, frame, units::Instant::START);
    }
    let first = units::Instant::from_ns(1);
    while segment.due(first).is_some() {}
    segment.impair(first);
    observer.begin(first);
    let begin = Instant::now();
    for number in 0..FRAMES {
        let now = units::Instant::from_ns(2 + number / RUN * RUN * GAP);
        let endpoint = sender(number, count);
        observer.sent(Place { segment: 0, endpoint }, &frames[endpoint], now);
        segment.send(endpoint, &frames[endpoint], now);
        while let Some(delivery) = segment.due(now) {
            sink.write(&delivery.frame);
            black_box(clock::now_ns());
            segment.delivered(delivery.endpoint, now - delivery.intended);
            observer.delivered(0, &delivery, now);
        }
        segment.decided().for_each(|decided| observer.decided(0, decided));
        segment.drops().for_each(|drop| observer.dropped(0, drop, now));
    }
    begin.elapsed().as_nanos() as f64 / FRAMES as f64
}
