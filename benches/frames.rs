//! Frames a second through the medium, beside what the load can give and what a
//! bare forwarder does with the same input and output.

use crate::{bare, load, nodes};
use measure::Accounting;
use medium::{
    Carrier, Endpoint, Engine, FramePath, Impairment, Limit, Place, Priority, SegmentSpec,
};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(500);
const ROUND: Duration = Duration::from_secs(2);

/// The paths that the command line names, or all of them.
pub fn paths() -> Vec<FramePath> {
    let named: Vec<_> = std::env::args().filter_map(|arg| FramePath::from_name(&arg)).collect();
    if named.is_empty() { FramePath::ALL.to_vec() } else { named }
}

/// A switch with `count` endpoints, and where they are.
pub fn switch(count: usize, link: &Endpoint) -> (SegmentSpec, Vec<Place>) {
    let endpoints = vec![link.clone(); count];
    let spec = SegmentSpec { endpoints, ..SegmentSpec::switch(1) };
    (spec, (0..count).map(|endpoint| Place { segment: 0, endpoint }).collect())
}

/// A link that delays, loses and has a queue.
pub fn impaired() -> Result<Endpoint, Box<dyn Error>> {
    let up = Impairment {
        delay: "2 ms".parse()?,
        loss: "0.01 %".parse()?,
        queue: Limit::Frames(1_000_000),
        ..Impairment::default()
    };
    Ok(Endpoint { up, ..Endpoint::default() })
}

/// A link that does, both ways, all that chance can do to a frame, behind a rate that
/// the load does not reach.
pub fn wild() -> Result<Endpoint, Box<dyn Error>> {
    let way = Impairment {
        delay: "1 ms".parse()?,
        jitter: "0.2 ms".parse()?,
        correlation: "20 %".parse()?,
        distribution: medium::Distribution::Normal,
        gilbert_elliott: Some(medium::GilbertElliott {
            p: "0.01 %".parse()?,
            r: "50 %".parse()?,
            loss_bad: "100 %".parse()?,
            loss_good: "0 %".parse()?,
        }),
        corrupt: "0.01 %".parse()?,
        duplicate: "0.01 %".parse()?,
        reorder: "0.01 %".parse()?,
        rate: Some("10 Gbit/s".parse()?),
        queue: Limit::Frames(1_000_000),
        ..Impairment::default()
    };
    Ok(Endpoint { up: way.clone(), down: way, ..Endpoint::default() })
}

/// Prints what goes between 2 and among 300 nodes: bare, and through the medium with
/// impairments on and with all that it counts; and what the load gives when nobody
/// takes it. Medians, taken in turns. The time on the processor for a frame holds
/// on a machine that others use, too, and the ratio is by it.
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
                let all = medium_round(path, count, &wild()?)?;
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

/// An engine on the first processor, on which it measures.
pub fn start(
    carrier: Carrier,
    segments: Vec<SegmentSpec>,
    places: Vec<Place>,
    accounting: Accounting,
    spin_ns: u64,
) -> std::io::Result<Engine<Accounting>> {
    load::keep_to(load::Cpu::First);
    let waker = carrier.waker();
    let engine = Engine::start_spinning(carrier, waker, segments, places, accounting, spin_ns);
    load::keep_to(load::Cpu::Any);
    engine
}

/// Neighbours in pairs: 0 and 1, 2 and 3.
fn pairs(path: FramePath, count: usize) -> Result<(lab::Lab, Carrier), Box<dyn Error>> {
    nodes::up_by(path, count, |i| vec![i ^ 1])
}

/// Receivers greet first: frames to unknown places would go to all of them.
fn greet(lab: &lab::Lab, count: usize) -> Result<(), Box<dyn Error>> {
    for node in (1..count).step_by(2) {
        load::start(lab, node, &[load::HELLO, &nodes::address(node - 1).to_string()])?;
    }
    Ok(())
}

fn floods(lab: &lab::Lab, count: usize, frames: impl Fn() -> u64) -> Result<(), Box<dyn Error>> {
    greet(lab, count)?;
    while frames() < count as u64 / 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    for node in (0..count).step_by(2) {
        load::start(lab, node, &[load::FLOOD, &nodes::address(node + 1).to_string(), "0"])?;
    }
    Ok(())
}

/// Thousands a second by which `frames` grows, and the ns of the forwarder's
/// processor that each took.
fn rate(frames: impl Fn() -> u64) -> [f64; 2] {
    std::thread::sleep(WARM_UP);
    let (before, cpu, begin) = (frames(), medium_cpu_ns(), Instant::now());
    std::thread::sleep(ROUND);
    let (frames, cpu) = ((frames() - before) as f64, (medium_cpu_ns() - cpu) as f64);
    [frames / begin.elapsed().as_secs_f64() / 1e3, cpu / frames]
}

/// What the load gives when nobody takes it: the kernel's counts, of a ring that
/// has long been full.
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
    let (stop, frames) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (its_stop, its_frames) = (stop.clone(), frames.clone());
    // Under the medium's name, so that its time is found as the medium's is.
    let thread = std::thread::Builder::new().name("medium".into()).spawn(move || {
        load::keep_to(load::Cpu::First);
        bare::forward(carrier, count, &its_stop, &its_frames);
    })?;
    floods(&lab, count, || frames.load(Relaxed))?;
    let rate = rate(|| frames.load(Relaxed));
    stop.store(true, Relaxed);
    drop(lab);
    thread.join().map_err(|_| "the bare forwarder panicked")?;
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
    let engine = start(carrier, vec![spec], places, accounting, 0)?;
    engine.begin();
    floods(&lab, count, || engine.frames())?;
    let rate = rate(|| engine.frames());
    drop(lab);
    engine.stop()?;
    Ok(rate)
}

/// Prints thousand copies a second of multicasts to 300 members.
pub fn multicast() -> Result<(), Box<dyn Error>> {
    const MEMBERS: usize = 300;
    println!("\nmulticast: one node floods {MEMBERS} members\n{:>7} {:>11}", "path", "copies k/s");
    for path in paths() {
        let mut rounds = Vec::new();
        for _ in 0..3 {
            rounds.push(multicast_round(path, MEMBERS)?);
        }
        println!("{:>7} {:>11.0}", path.name(), crate::median(rounds));
    }
    Ok(())
}

fn multicast_round(path: FramePath, members: usize) -> Result<f64, Box<dyn Error>> {
    let count = members + 1;
    let (lab, carrier) = nodes::up_by(path, count, |_| Vec::new())?;
    let (spec, places) = switch(count, &impaired()?);
    let accounting = Accounting::new(vec![(0..count).collect()], Vec::new(), None);
    let engine = start(carrier, vec![spec], places, accounting, 0)?;
    engine.begin();
    for node in 1..count {
        load::start(&lab, node, &[load::JOIN, &load::GROUP.to_string()])?;
    }
    while engine.frames() < members as u64 {
        std::thread::sleep(Duration::from_millis(10));
    }
    load::start(&lab, 0, &[load::FLOOD, &load::GROUP.to_string(), "4000"])?;
    std::thread::sleep(WARM_UP);
    let begin = Instant::now();
    std::thread::sleep(ROUND);
    engine.end();
    let time = begin.elapsed() + WARM_UP;
    drop(lab);
    let copies: u64 = engine.stop()?.observer.nodes()[1..].iter().map(|node| node.rx.frames).sum();
    Ok(copies as f64 / time.as_secs_f64() / 1e3)
}

/// Prints what the medium's thread takes of a processor among 4,096 nodes that
/// send one frame a second each.
pub fn many() -> Result<(), Box<dyn Error>> {
    const NODES: usize = 4_096;
    const WAIT: &str = "20";
    println!(
        "\nmany: {NODES} nodes, one frame a second each\n{:>7} {:>9} {:>6} {:>10} {:>7}",
        "path", "frames/s", "CPU %", "priority", "own MB"
    );
    for path in paths().into_iter().filter(|path| *path != FramePath::Packet) {
        let (lab, carrier) = nodes::up_by(path, NODES, |i| vec![i ^ 1])?;
        let before = resident_mb();
        let (spec, places) = switch(NODES, &impaired()?);
        let accounting = Accounting::new(vec![(0..NODES).collect()], Vec::new(), None);
        let engine = start(carrier, vec![spec], places, accounting, 0)?;
        engine.begin();
        let begin = Instant::now();
        for node in 0..NODES {
            let to = nodes::address(node ^ 1).to_string();
            load::start(&lab, node, &[load::FLOOD, &to, "1", WAIT])?;
        }
        // Until all have been heard of: a frame to a node that has not would go to
        // all of them.
        while engine.frames() < NODES as u64 {
            std::thread::sleep(Duration::from_millis(100));
        }
        let started = begin.elapsed();
        std::thread::sleep(Duration::from_secs(WAIT.parse()?) + Duration::from_secs(3));
        if started > Duration::from_secs(WAIT.parse()?) {
            println!("(programs took {started:.0?} to start: nodes were still to be learnt)");
        }
        let (frames, cpu, begin) = (engine.frames(), medium_cpu_ns(), Instant::now());
        std::thread::sleep(Duration::from_secs(5));
        let seconds = begin.elapsed().as_secs_f64();
        let frames = (engine.frames() - frames) as f64 / seconds;
        let cpu = (medium_cpu_ns() - cpu) as f64 / 1e7 / seconds;
        let own = resident_mb() - before;
        drop(lab);
        let priority = match engine.stop()?.priority {
            Priority::RealTime => "real time",
            Priority::High => "high",
            Priority::Ordinary => "ordinary",
        };
        println!("{:>7} {frames:>9.0} {cpu:>6.1} {priority:>10} {own:>7.1}", path.name());
    }
    Ok(())
}

/// Memory of this process, the nodes' programs not among it, in MB. What the medium
/// maps to share with the kernel counts as far as it was touched.
fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0 / 1e6
}

/// The processor time of the medium's thread.
pub fn medium_cpu_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let read = |task: &std::fs::DirEntry, file: &str| {
        std::fs::read_to_string(task.path().join(file)).unwrap_or_default()
    };
    let mut ours = tasks.filter(|task| read(task, "comm").trim() == "medium");
    let Some(task) = ours.next() else { return 0 };
    read(&task, "schedstat").split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}
