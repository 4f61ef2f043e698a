//! Forwarding lateness of frames on a link with 30 ms of delay, measured from the kernel's arrival
//! time where the frame path provides it.

use crate::{frames, load, nodes, timer};
use engine::{Endpoint, FramePath};
use link::{Impairment, Limit};
use measure::{Accounting, times};
use std::error::Error;
use std::time::Duration;
use units::Span;

const ROUND: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;
/// Duration of the machine's own measurement (bare sleeper) after each round.
const BARE: Duration = Duration::from_secs(1);
/// After this time without a frame, all nodes have sent their first.
const IDLE: Duration = Duration::from_millis(500);
/// Frames in flight at 100,000 per second for 30 ms, with a reserve.
const QUEUE: u32 = 10_000;

/// One type of round.
struct Case {
    path: FramePath,
    nodes: usize,
    rate: u32,
    spin_us: u64,
    busy: bool,
}

/// Prints the forwarding lateness of each path, idle and with a busy program per CPU; medians of
/// three rounds.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "\nforwarding lateness at 30 ms, us\n{:>7} {:>6} {:>9} {:>5} {:>7} {:>6} {:>8} {:>7} {:>8} {:>6} {:>7} {:>9} {:>9}",
        "path",
        "nodes",
        "frames/s",
        "spin",
        "others",
        "p50",
        "p99",
        "max",
        "received",
        "CPU %",
        "stalls",
        "sleep p50",
        "sleep p99"
    );
    let loads = [(2, 1_000), (2, 10_000), (2, 100_000), (300, 10_000)];
    let spun = [(2, 1_000), (2, 10_000), (2, 100_000)];
    let mut cases = Vec::new();
    for busy in [false, true] {
        for (nodes, rate) in loads {
            let case = |path| Case { path, nodes, rate, spin_us: 0, busy };
            let paths = frames::paths().into_iter();
            cases.extend(paths.filter(|path| *path != FramePath::Packet).map(case));
        }
    }
    let spinning =
        |(nodes, rate)| Case { path: FramePath::Ring, nodes, rate, spin_us: 60, busy: false };
    cases.extend(spun.map(spinning));
    for case in cases {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(round(&case)?);
        }
        let [p50, p99, max, received, cpu, stalls, bare_p50, bare_p99] = [0, 1, 2, 3, 4, 5, 6, 7]
            .map(|i| crate::median(rounds.iter().map(|round| round[i]).collect()));
        println!(
            "{:>7} {:>6} {:>9} {:>5} {:>7} {p50:>6.1} {p99:>8.1} {max:>7.0} {received:>8.0} {cpu:>6.1} {stalls:>7} {bare_p50:>9.1} {bare_p99:>9.1}",
            case.path.name(),
            case.nodes,
            case.rate,
            case.spin_us,
            if case.busy { "busy" } else { "idle" },
        );
    }
    Ok(())
}

/// p50, p99 and max in us, forwarded frames per second, the medium's CPU share in percent, its
/// stalls, and p50 and p99 of a bare sleeper right after.
fn round(case: &Case) -> Result<[f64; 8], Box<dyn Error>> {
    let count = case.nodes;
    let (lab, carrier) = nodes::up_by(case.path, count, |i| vec![i ^ 1])?;
    let delayed = Impairment {
        delay: "30 ms".parse::<units::Span>()?.into(),
        queue: Limit::Frames(QUEUE).into(),
        ..Impairment::default()
    };
    let link = Endpoint { up: delayed, ..Endpoint::default() };
    let (spec, places) = frames::switch(count, &link);
    let accounting = Accounting::new(vec![(0..count).collect()], Vec::new(), None);
    let engine =
        frames::start(carrier, vec![spec], places, accounting, Span::from_us(case.spin_us))?;
    for node in (1..count).step_by(2) {
        load::start(&lab, node, &[load::HELLO, &nodes::address(node - 1).to_string()])?;
    }
    // A frame to an unknown node goes to all.
    let mut last_frame = (0, std::time::Instant::now());
    while last_frame.0 < count as u64 / 2 || last_frame.1.elapsed() < IDLE {
        std::thread::sleep(Duration::from_millis(10));
        if engine.frames() > last_frame.0 {
            last_frame = (engine.frames(), std::time::Instant::now());
        }
    }
    engine.begin();
    let begin = std::time::Instant::now();
    let rate = f64::from(case.rate) / (count / 2) as f64;
    for node in (0..count).step_by(2) {
        let to = nodes::address(node ^ 1).to_string();
        load::start(&lab, node, &[load::FLOOD, &to, &rate.to_string()])?;
    }
    if case.busy {
        for _ in 0..std::thread::available_parallelism()?.get() {
            load::start(&lab, 1, &[load::BURN])?;
        }
    }
    let cpu = frames::medium_cpu_ns();
    std::thread::sleep(ROUND);
    let cpu = (frames::medium_cpu_ns() - cpu) as f64 / 1e7 / ROUND.as_secs_f64();
    engine.end();
    let seconds = begin.elapsed().as_secs_f64();
    // While the CPU-bound programs still run.
    let outcome = engine.stop()?;
    let bare = timer::sleep(case.rate.min(10_000), BARE);
    drop(lab);
    let observer = outcome.observer;
    let Some(late) = times(observer.delayed(), 1e3) else { return Err("no frames".into()) };
    let received = observer.delayed().count() as f64 / seconds;
    let stalls = outcome.stalls.count as f64;
    Ok([late.p50, late.p99, late.max, received, cpu, stalls, bare.p50, bare.p99])
}
