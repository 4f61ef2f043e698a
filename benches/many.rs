//! Cost of thousands of nodes with little traffic, compared with a bare forwarder.

use crate::bare::Bare;
use crate::frames::{impaired, medium_cpu_ns, paths, start, switch};
use crate::{load, nodes};
use engine::{FramePath, Priority};
use measure::Accounting;
use std::error::Error;
use std::time::{Duration, Instant};

const NODES: usize = 4_096;
/// Time in s after which all started programs begin to send.
const WAIT: u64 = 20;
const ROUND: Duration = Duration::from_secs(5);

/// Prints the CPU share of the medium's thread among 4,096 nodes that each send one frame per
/// second, and how often it slept; and the same of a bare forwarder.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "\nmany: {NODES} nodes, one frame a second each\n{:>7} {:>7} {:>9} {:>6} {:>8} {:>10} {:>7}",
        "path", "by", "frames/s", "CPU %", "sleeps/s", "priority", "own MB"
    );
    for path in paths().into_iter().filter(|path| *path != FramePath::Packet) {
        let [frames, cpu, sleeps] = bare(path)?;
        println!("{:>7} {:>7} {frames:>9.0} {cpu:>6.1} {sleeps:>8.0}", path.name(), "bare");
        let ([frames, cpu, sleeps], priority, memory) = medium(path)?;
        println!(
            "{:>7} {:>7} {frames:>9.0} {cpu:>6.1} {sleeps:>8.0} {priority:>10} {memory:>7.1}",
            path.name(),
            "medium"
        );
    }
    Ok(())
}

fn bare(path: FramePath) -> Result<[f64; 3], Box<dyn Error>> {
    let (lab, carrier) = nodes::up_by(path, NODES, |i| vec![i ^ 1])?;
    let bare = Bare::start(carrier, NODES, false)?;
    let figures = settled(&lab, || bare.frames())?;
    drop(lab);
    bare.stop()?;
    Ok(figures)
}

fn medium(path: FramePath) -> Result<([f64; 3], &'static str, f64), Box<dyn Error>> {
    let (lab, carrier) = nodes::up_by(path, NODES, |i| vec![i ^ 1])?;
    let before = resident_mb();
    let (spec, places) = switch(NODES, &impaired()?);
    let accounting = Accounting::new(vec![(0..NODES).collect()], Vec::new(), None);
    let engine = start(carrier, vec![spec], places, accounting, units::Span::ZERO)?;
    engine.begin();
    let figures = settled(&lab, || engine.frames())?;
    let memory = resident_mb() - before;
    drop(lab);
    let priority = match engine.stop()?.priority {
        Priority::RealTime => "real time",
        Priority::High => "high",
        Priority::Ordinary => "ordinary",
    };
    Ok((figures, priority, memory))
}

/// Starts the programs and measures once all send and the switch knows them: frames per second, the
/// forwarder's CPU share in percent, and its sleeps per second.
fn settled(lab: &lab::Lab, frames: impl Fn() -> u64) -> Result<[f64; 3], Box<dyn Error>> {
    let begin = Instant::now();
    for node in 0..NODES {
        let to = nodes::address(node ^ 1).to_string();
        load::start(lab, node, &[load::FLOOD, &to, "1", &WAIT.to_string()])?;
    }
    // Waits until the switch knows all nodes: a frame to an unknown node would go to all of them.
    while frames() < NODES as u64 {
        std::thread::sleep(Duration::from_millis(100));
    }
    let started = begin.elapsed();
    std::thread::sleep(Duration::from_secs(WAIT + 3));
    if started > Duration::from_secs(WAIT) {
        println!("(programs took {started:.0?} to start: nodes were still to be learnt)");
    }
    let (before, cpu, slept, begin) = (frames(), medium_cpu_ns(), sleeps(), Instant::now());
    std::thread::sleep(ROUND);
    let seconds = begin.elapsed().as_secs_f64();
    let cpu = (medium_cpu_ns() - cpu) as f64 / 1e7;
    let [frames, slept] = [frames() - before, sleeps() - slept].map(|count| count as f64);
    Ok([frames, cpu, slept].map(|sum| sum / seconds))
}

/// Number of voluntary context switches of the forwarder's thread.
fn sleeps() -> u64 {
    let switches = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok())
    };
    crate::frames::of_medium("status").filter_map(switches).sum()
}

/// Memory of this process, without the nodes' programs, in MB. Memory that the medium shares with
/// the kernel counts as far as it was touched.
fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0 / 1e6
}
