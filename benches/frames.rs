//! Frames per second through the medium, compared with the load generators' maximum and with a bare
//! forwarder on the same frame path.

use crate::bare::Bare;
use crate::{load, nodes};
use engine::{Endpoint, Engine, FrameBackend, FramePath, Place, SegmentSpec, Threads};
use link::{Impairment, Limit};
use measure::Accounting;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use units::{Ratio, Span};

const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(500);
const ROUND: Duration = Duration::from_secs(2);

/// The frame paths named on the command line, or all.
pub fn paths() -> Vec<FramePath> {
    let named: Vec<_> = std::env::args().filter_map(|arg| FramePath::from_name(&arg)).collect();
    if named.is_empty() { FramePath::ALL.to_vec() } else { named }
}

/// A switch with `count` endpoints, and their places.
pub fn switch(count: usize, link: &Endpoint) -> (SegmentSpec, Vec<Place>) {
    let endpoints = vec![link.clone(); count];
    let spec = SegmentSpec { endpoints, ..SegmentSpec::switch(1) };
    (spec, (0..count).map(|endpoint| Place { segment: 0, endpoint }).collect())
}

/// A link with delay, loss and a queue limit.
pub fn impaired() -> Result<Endpoint, Box<dyn Error>> {
    let up = Impairment {
        delay: "2 ms".parse::<Span>()?.into(),
        loss: "0.01 %".parse::<Ratio>()?.into(),
        queue: Limit::Frames(1_000_000).into(),
        ..Impairment::default()
    };
    Ok(Endpoint { up, ..Endpoint::default() })
}

/// A link with all random impairments in both directions, and a rate above the load.
pub fn all_impairments() -> Result<Endpoint, Box<dyn Error>> {
    let way: Impairment = serde_json::from_value(serde_json::json!({
        "delay": "1 ms", "jitter": "0.2 ms", "correlation": "20 %", "distribution": "normal",
        "gilbert_elliott": {"p": "0.01 %", "r": "50 %"},
        "corrupt": "0.01 %", "duplicate": "0.01 %", "reorder": "0.01 %",
        "rate": "10 Gbit/s", "queue": 1_000_000,
    }))?;
    Ok(Endpoint { up: way.clone(), down: way, ..Endpoint::default() })
}

/// Prints the throughput between 2 and among 300 nodes: with the bare forwarder, through the medium
/// with impairments and all counters, and of the load without a reader. Medians of interleaved
/// rounds. The ratio is that of CPU times per frame, which remain valid if other programs use the
/// machine.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "\nframes: {} bytes, every other node floods its neighbour; plain: delay, loss and a queue, all: all that chance can do, both ways\n\
         {:>6} {:>7} {:>9} {:>7} {:>10} {:>7} {:>6} {:>10} {:>7} {:>6}",
        load::FRAME,
        "nodes",
        "path",
        "bare k/s",
        "CPU ns",
        "plain k/s",
        "CPU ns",
        "ratio",
        "all k/s",
        "CPU ns",
        "ratio"
    );
    for count in [2, 300] {
        let mut loads = Vec::new();
        let mut rounds = vec![[(); 6].map(|()| Vec::new()); paths().len()];
        for _ in 0..ROUNDS {
            loads.push(load_round(count)?);
            for (path, rounds) in paths().into_iter().zip(&mut rounds) {
                let bare = bare_round(path, count)?;
                let plain = medium_round(path, count, &impaired()?)?;
                let all = medium_round(path, count, &all_impairments()?)?;
                for (values, value) in rounds.iter_mut().zip([bare, plain, all].concat()) {
                    values.push(value);
                }
            }
        }
        println!("{count:>6} {:>7} {:>9.0}", "load", crate::median(loads));
        for (path, rounds) in paths().into_iter().zip(rounds) {
            let [bare, bare_ns, plain, plain_ns, all, all_ns] = rounds.map(crate::median);
            let (path, ratios) = (path.name(), [plain_ns, all_ns].map(|ns| bare_ns / ns));
            println!(
                "{count:>6} {path:>7} {bare:>9.0} {bare_ns:>7.0} {plain:>10.0} {plain_ns:>7.0} {:>6.2} {all:>10.0} {all_ns:>7.0} {:>6.2}",
                ratios[0], ratios[1]
            );
        }
    }
    Ok(())
}

/// Starts an engine on the first CPU, where it is measured.
pub fn start(
    carrier: FrameBackend,
    segments: Vec<SegmentSpec>,
    places: Vec<Place>,
    accounting: Accounting,
    spin: Span,
) -> std::io::Result<Engine<Accounting>> {
    load::pin_to(load::Cpu::First);
    let threads = Threads::balanced(&segments, 1);
    let carriers = vec![carrier];
    let engine = Engine::start_threads(&threads, carriers, segments, places, accounting, spin);
    load::pin_to(load::Cpu::Any);
    engine
}

/// Pairs of neighbours: 0 and 1, 2 and 3.
fn pairs(path: FramePath, count: usize) -> Result<(lab::Lab, FrameBackend), Box<dyn Error>> {
    nodes::up_by(path, count, |i| vec![i ^ 1])
}

/// Receivers send first: frames to unknown addresses would go to all ports.
fn greet(lab: &lab::Lab, count: usize) -> Result<(), Box<dyn Error>> {
    for node in (1..count).step_by(2) {
        load::start(lab, node, &[load::HELLO, &nodes::address(node - 1).to_string()])?;
    }
    Ok(())
}

fn floods(
    lab: &lab::Lab,
    count: usize,
    flood: &str,
    frames: impl Fn() -> u64,
) -> Result<(), Box<dyn Error>> {
    greet(lab, count)?;
    while frames() < count as u64 / 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    for node in (0..count).step_by(2) {
        load::start(lab, node, &[flood, &nodes::address(node + 1).to_string(), "0"])?;
    }
    Ok(())
}

/// Growth of `frames` in thousands per second, and the forwarder's CPU time per frame in ns.
fn rate(frames: impl Fn() -> u64) -> [f64; 2] {
    std::thread::sleep(WARM_UP);
    let (before, cpu, begin) = (frames(), medium_cpu_ns(), Instant::now());
    std::thread::sleep(ROUND);
    let (frames, cpu) = ((frames() - before) as f64, (medium_cpu_ns() - cpu) as f64);
    [frames / begin.elapsed().as_secs_f64() / 1e3, cpu / frames]
}

/// The load without a reader: the kernel's counters of a ring that has long been full.
fn load_round(count: usize) -> Result<f64, Box<dyn Error>> {
    let (lab, carrier) = pairs(FramePath::Ring, count)?;
    for node in (0..count).step_by(2) {
        load::start(&lab, node, &[load::FLOOD, &nodes::address(node + 1).to_string(), "0"])?;
    }
    let senders = (0..count).step_by(2).filter_map(|node| lab.pids().get(node).copied());
    let senders: Vec<i32> = senders.collect();
    let counted = || -> u64 {
        let counters = senders.iter().filter_map(|pid| lab::counters(*pid, "eth0"));
        counters.map(|c| c.tx_frames + c.tx_dropped).sum()
    };
    let [rate, _] = rate(counted);
    drop(lab);
    drop(carrier);
    Ok(rate)
}

fn bare_round(path: FramePath, count: usize) -> Result<[f64; 2], Box<dyn Error>> {
    let (lab, carrier) = pairs(path, count)?;
    let bare = Bare::start(carrier, count, false)?;
    floods(&lab, count, load::FLOOD, || bare.frames())?;
    let rate = rate(|| bare.frames());
    drop(lab);
    bare.stop()?;
    Ok(rate)
}

fn medium_round(
    path: FramePath,
    count: usize,
    link: &Endpoint,
) -> Result<[f64; 2], Box<dyn Error>> {
    let (lab, carrier) = pairs(path, count)?;
    let (spec, places) = switch(count, link);
    let accounting = Accounting::new(vec![(0..count).collect()], Vec::new(), None);
    let engine = start(carrier, vec![spec], places, accounting, Span::ZERO)?;
    engine.begin();
    floods(&lab, count, load::FLOOD, || engine.frames())?;
    let rate = rate(|| engine.frames());
    drop(lab);
    engine.stop()?;
    Ok(rate)
}

/// Prints the copies per second, in thousands, of multicasts to 300 members, with the bare
/// forwarder and through the medium, and the CPU time per copy.
pub fn multicast() -> Result<(), Box<dyn Error>> {
    const MEMBERS: usize = 300;
    println!(
        "\nmulticast: one node floods {MEMBERS} members, copies\n{:>7} {:>8} {:>7} {:>10} {:>7} {:>6}",
        "path", "bare k/s", "CPU ns", "plain k/s", "CPU ns", "ratio"
    );
    for path in paths() {
        let mut rounds = [(); 4].map(|()| Vec::new());
        for _ in 0..ROUNDS {
            let both = [multicast_bare(path, MEMBERS)?, multicast_medium(path, MEMBERS)?].concat();
            rounds.iter_mut().zip(both).for_each(|(values, value)| values.push(value));
        }
        let [bare, bare_ns, plain, plain_ns] = rounds.map(crate::median);
        println!(
            "{:>7} {bare:>8.0} {bare_ns:>7.0} {plain:>10.0} {plain_ns:>7.0} {:>6.2}",
            path.name(),
            bare_ns / plain_ns
        );
    }
    Ok(())
}

/// All members join, then one node floods.
fn join_and_flood(
    lab: &lab::Lab,
    members: usize,
    frames: impl Fn() -> u64,
) -> Result<(), Box<dyn Error>> {
    for node in 1..=members {
        load::start(lab, node, &[load::JOIN, &load::GROUP.to_string()])?;
    }
    while frames() < members as u64 {
        std::thread::sleep(Duration::from_millis(10));
    }
    load::start(lab, 0, &[load::FLOOD, &load::GROUP.to_string(), "4000"])
}

fn multicast_bare(path: FramePath, members: usize) -> Result<[f64; 2], Box<dyn Error>> {
    let (lab, carrier) = nodes::up_by(path, members + 1, |_| Vec::new())?;
    let bare = Bare::start(carrier, members + 1, true)?;
    join_and_flood(&lab, members, || bare.frames() / members as u64)?;
    let rate = rate(|| bare.frames());
    drop(lab);
    bare.stop()?;
    Ok(rate)
}

fn multicast_medium(path: FramePath, members: usize) -> Result<[f64; 2], Box<dyn Error>> {
    let count = members + 1;
    let (lab, carrier) = nodes::up_by(path, count, |_| Vec::new())?;
    let (spec, places) = switch(count, &impaired()?);
    let accounting = Accounting::new(vec![(0..count).collect()], Vec::new(), None);
    let engine = start(carrier, vec![spec], places, accounting, Span::ZERO)?;
    engine.begin();
    join_and_flood(&lab, members, || engine.frames())?;
    // The observer counts the members' frames, on the engine's thread.
    let remote = engine.remote();
    let copies = || {
        let (to, from) = std::sync::mpsc::sync_channel(1);
        remote.with_observer(move |seen: &mut Accounting| {
            let copies: u64 = seen.nodes()[1..].iter().map(|node| node.rx.frames).sum();
            // The receiver waits for the value.
            let _ = to.try_send(copies);
        });
        from.recv().unwrap_or(0)
    };
    let rate = rate(copies);
    drop(lab);
    engine.stop()?;
    Ok(rate)
}

/// Prints the throughput of two networks, each with a node that floods its neighbour, on one and on
/// two threads of the engine, and the threads' CPU time per frame, in interleaved rounds; medians.
/// The floods and the threads share all CPUs, so the ratio of throughputs is below 2 unless the
/// machine has a CPU for each of the four.
pub fn threads() -> Result<(), Box<dyn Error>> {
    println!(
        "\nthreads: two networks, all impairments, frames\n{:>7} {:>5} {:>12} {:>7} {:>13} {:>7} {:>6}",
        "path", "CPUs", "1 thread k/s", "CPU ns", "2 threads k/s", "CPU ns", "ratio"
    );
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    for path in paths() {
        let mut rounds = [(); 4].map(|()| Vec::new());
        for _ in 0..ROUNDS {
            let both = [threads_round(path, 1)?, threads_round(path, 2)?].concat();
            rounds.iter_mut().zip(both).for_each(|(values, value)| values.push(value));
        }
        let [one, one_ns, two, two_ns] = rounds.map(crate::median);
        println!(
            "{:>7} {cpus:>5} {one:>12.0} {one_ns:>7.0} {two:>13.0} {two_ns:>7.0} {:>6.2}",
            path.name(),
            two / one
        );
    }
    Ok(())
}

/// Forwarded frames of two networks on `count` threads, in thousands per second, and the threads'
/// CPU time per frame in ns. Floods run on any CPU: on the one of a thread with real-time priority
/// a pinned flood would send a tenth of what it sends next to it.
fn threads_round(path: FramePath, count: usize) -> Result<[f64; 2], Box<dyn Error>> {
    const NODES: usize = 4;
    let (mut lab, ends) = nodes::up(NODES, |node| vec![node ^ 1], nodes::link(path))?;
    let endpoints = vec![all_impairments()?; NODES / 2];
    let segments = vec![SegmentSpec { endpoints, ..SegmentSpec::switch(1) }; 2];
    let place = |node| Place { segment: node / 2, endpoint: node % 2 };
    let places: Vec<_> = (0..NODES).map(place).collect();
    let threads = Threads::balanced(&segments, count);
    let (ends, ports) = (threads.split(ends, &places).into_iter(), lab.ports().map(Arc::new));
    let backends: Vec<_> =
        ends.map(|ends| nodes::backend(path, ports.clone(), ends)).collect::<Result<_, _>>()?;
    let accounting = Accounting::new(vec![vec![0, 1], vec![2, 3]], Vec::new(), None);
    let engine =
        Engine::start_threads(&threads, backends, segments, places, accounting, Span::ZERO)?;
    engine.begin();
    floods(&lab, NODES, load::FLOOD_ANYWHERE, || engine.frames())?;
    let rate = rate(|| engine.frames());
    drop(lab);
    engine.stop()?;
    Ok(rate)
}

/// CPU time of the medium's threads, in ns.
pub fn medium_cpu_ns() -> u64 {
    let time =
        |schedstat: String| schedstat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok());
    of_medium("schedstat").filter_map(time).sum()
}

/// A /proc file of each of the medium's threads.
pub fn of_medium(file: &str) -> impl Iterator<Item = String> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let read = |task: &std::fs::DirEntry, file: &str| {
        std::fs::read_to_string(task.path().join(file)).unwrap_or_default()
    };
    let ours = tasks.filter(move |task| read(task, "comm").starts_with("medium"));
    ours.map(move |task| read(&task, file))
}
