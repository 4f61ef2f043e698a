//! Datagrams that a plain receiver loses: it reads one datagram per call with the system's default
//! socket buffer, while the forwarder competes with it for the CPUs.

use crate::bare::Bare;
use crate::frames::{medium_cpu_ns, paths, switch};
use crate::{load, nodes};
use engine::{Endpoint, Engine, FramePath};
use lab::Lab;
use measure::Accounting;
use std::error::Error;
use std::time::Duration;

const RATES: [u32; 3] = [20_000, 40_000, 60_000];
/// Whether the sender polls the clock instead of sleeping: it then takes a whole CPU.
const SENDERS: [bool; 2] = [false, true];
const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(500);
const ROUND: Duration = Duration::from_secs(4);

/// UDP counters of a node (`/proc/net/snmp`).
#[derive(Clone, Copy)]
struct Udp {
    sent: f64,
    read: f64,
    /// Dropped because the socket's buffer was full.
    lost: f64,
}

/// Datagrams per second of one round, and shares in percent.
struct Round {
    sent: f64,
    read: f64,
    /// Lost at the full socket, of those that reached it.
    at_socket: f64,
    /// Sent, and neither read nor lost at the socket: dropped on the way, and the change of what
    /// is under way, which is below 0.3 %.
    on_the_way: f64,
    /// CPU time of the forwarder, of one CPU.
    cpu: f64,
}

/// Prints the datagrams that a receiver reads and loses over an unimpaired link, through the bare
/// forwarder and through the medium, interleaved; medians. No program and no thread is pinned,
/// except for the bare forwarder.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "\nreceivers: UDP to a plain receiver, default socket buffer\n\
         {:>7} {:>7} {:>7} {:>7} {:>9} {:>9} {:>11} {:>12} {:>8}",
        "path", "sender", "rate", "by", "sent/s", "read/s", "at socket %", "on the way %", "CPU %"
    );
    for path in paths() {
        for spins in SENDERS {
            for rate in RATES {
                compare(path, Load { rate, spins })?;
            }
        }
    }
    Ok(())
}

/// What the sender does.
#[derive(Clone, Copy)]
struct Load {
    rate: u32,
    spins: bool,
}

fn compare(path: FramePath, load: Load) -> Result<(), Box<dyn Error>> {
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        rounds[0].push(bare_round(path, load)?);
        rounds[1].push(medium_round(path, load)?);
    }
    let sender = if load.spins { "spins" } else { "sleeps" };
    for (by, rounds) in ["bare", "medium"].into_iter().zip(rounds) {
        let median = |of: fn(&Round) -> f64| crate::median(rounds.iter().map(of).collect());
        println!(
            "{:>7} {sender:>7} {:>7} {by:>7} {:>9.0} {:>9.0} {:>11.3} {:>12.3} {:>8.1}",
            path.name(),
            load.rate,
            median(|round| round.sent),
            median(|round| round.read),
            median(|round| round.at_socket),
            median(|round| round.on_the_way),
            median(|round| round.cpu),
        );
    }
    Ok(())
}

fn bare_round(path: FramePath, load: Load) -> Result<Round, Box<dyn Error>> {
    let (lab, backend) = nodes::up_by(path, 2, |node| vec![node ^ 1])?;
    let bare = Bare::start(backend, 2, false)?;
    let round = round(&lab, load);
    drop(lab);
    bare.stop()?;
    round
}

fn medium_round(path: FramePath, load: Load) -> Result<Round, Box<dyn Error>> {
    let (lab, backend) = nodes::up_by(path, 2, |node| vec![node ^ 1])?;
    let (spec, places) = switch(2, &Endpoint::default());
    let accounting = Accounting::new(vec![vec![0, 1]], Vec::new(), None);
    let engine = Engine::start(backend, vec![spec], places, accounting)?;
    engine.begin();
    let round = round(&lab, load);
    drop(lab);
    engine.stop()?;
    round
}

/// Lets node 0 send to node 1, and reads the kernel's counters.
fn round(lab: &Lab, load: Load) -> Result<Round, Box<dyn Error>> {
    load::start(lab, 1, &[load::READ])?;
    // The receiver's socket must be open first.
    std::thread::sleep(WARM_UP);
    let (to, rate) = (nodes::address(1).to_string(), load.rate.to_string());
    let spin = if load.spins { load::SPIN } else { "" };
    load::start(lab, 0, &[load::SEND, &to, &rate, spin])?;
    std::thread::sleep(WARM_UP);
    let [sender, receiver] = [0, 1].map(|node| lab.pids().get(node).copied().unwrap_or_default());
    let before = [udp(sender)?, udp(receiver)?];
    let ran = medium_cpu_ns();
    std::thread::sleep(ROUND);
    let ran = medium_cpu_ns() - ran;
    let after = [udp(sender)?, udp(receiver)?];
    let sent = after[0].sent - before[0].sent;
    let (read, lost) = (after[1].read - before[1].read, after[1].lost - before[1].lost);
    let seconds = ROUND.as_secs_f64();
    Ok(Round {
        sent: sent / seconds,
        read: read / seconds,
        at_socket: 100.0 * lost / (read + lost),
        on_the_way: 100.0 * (sent - read - lost) / sent,
        cpu: 100.0 * ran as f64 / ROUND.as_nanos() as f64,
    })
}

/// The UDP counters of the node with this init.
fn udp(init: i32) -> Result<Udp, Box<dyn Error>> {
    let text = std::fs::read_to_string(format!("/proc/{init}/net/snmp"))?;
    let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = lines.next().zip(lines.next()).ok_or("no UDP counters")?;
    let value = |name: &str| -> Result<f64, Box<dyn Error>> {
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        let (_, value) = pairs.find(|(own, _)| *own == name).ok_or("a UDP counter is missing")?;
        Ok(value.parse()?)
    };
    Ok(Udp {
        sent: value("OutDatagrams")?,
        read: value("InDatagrams")?,
        lost: value("RcvbufErrors")?,
    })
}
