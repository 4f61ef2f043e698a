//! `thingbed pingall`: pings between all nodes of a lab.

use super::{find, table};
use crate::arguments::Pingall;
use crate::{Status, complain, say};
use runner::NodeShown;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Pings at a time: enough to hide delays, too few to be a load.
const AT_ONCE: usize = 8;
/// Most pairs: more take minutes.
const PAIRS: usize = 10_000;
/// Most nodes whose pairs are a table.
const COLUMNS: usize = 12;

/// The pings from one node to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Pings {
    from: String,
    to: String,
    network: String,
    address: IpAddr,
    /// Lost pings in per cent; `None` if `ping` did not run.
    lost_pct: Option<f64>,
    /// Mean round trip in ms; `None` without an answer.
    rtt_ms: Option<f64>,
    /// Why `ping` did not run.
    error: Option<String>,
}

/// Pings each node from each other one, by a network or by routers. The status is 4 if a pair has lost all
/// pings.
pub fn pingall(arguments: &Pingall) -> Result<Status, String> {
    let lab = find(&arguments.which.lab)?;
    let nodes = lab.nodes(&arguments.which.nodes)?;
    let pairs = pairs(&nodes, &lab.nodes(&[])?);
    if pairs.is_empty() {
        return Err("there are no two nodes with addresses that a network or routers connect\n  `thingbed ps` lists \
                    the nodes and their addresses"
            .to_owned());
    }
    if pairs.len() > PAIRS {
        return Err(format!(
            "{} nodes make {} pairs, more than {PAIRS}\n  name some nodes: thingbed pingall \
             gateway 'meter-1*'",
            nodes.len(),
            pairs.len()
        ));
    }
    let tool = std::env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    let done = run(pairs, |pings| ping(&tool, lab.pid, arguments, pings));
    if arguments.json {
        say(serde_json::to_string_pretty(&done).unwrap_or_default());
    } else {
        show(&nodes, &done);
    }
    let is_lost = |pings: &Pings| pings.rtt_ms.is_none();
    Ok(if done.iter().any(is_lost) { Status::Unexpected } else { Status::Fine })
}

/// All pairs of nodes: each address on a network that both are on, or that bridges join with it, or, for
/// nodes that routers connect, one of a family that both have. Machines with their own network stack have
/// no `ping` to start from outside.
fn pairs(nodes: &[NodeShown], all: &[NodeShown]) -> VecDeque<Pings> {
    let networks = all.iter().flat_map(|node| &node.interfaces).map(|(_, network, _)| network);
    let each = networks.enumerate().map(|(number, network)| (network.clone(), number)).collect();
    let joined = connect(each, all.iter().flat_map(bridged));
    let routers = all.iter().filter(|node| node.forwards);
    let routed = routers.map(|router| router.interfaces.iter().map(|(_, own, _)| own).collect());
    let parts = connect(joined.clone(), routed);
    let mut pairs = VecDeque::new();
    for from in nodes.iter().filter(|from| !from.has_own_stack) {
        for to in nodes.iter().filter(|to| to.name != from.name) {
            let is_in = |parts: &Parts, network: &String| {
                from.interfaces.iter().any(|(_, own, _)| parts.get(own) == parts.get(network))
            };
            let usable = to.interfaces.iter().filter(|(.., address)| !address.is_unspecified());
            let mut near: Vec<(&String, IpAddr)> = Vec::new();
            for (_, network, address) in usable.clone().filter(|(_, on, _)| is_in(&joined, on)) {
                // All ports of a bridge have one address.
                if near.iter().all(|(_, before)| before != address) {
                    near.push((network, *address));
                }
            }
            let routed = usable.clone().find(|(_, network, address)| {
                from.interfaces.iter().any(|(_, own, own_address)| {
                    // Routers forward within a family only.
                    own_address.is_ipv6() == address.is_ipv6()
                        && parts.get(own) == parts.get(network)
                })
            });
            // A direct network is what the user means; the way over routers would test other links.
            let routed = routed.filter(|_| near.is_empty());
            let routed = routed.map(|(_, network, address)| (network, *address));
            pairs.extend(near.into_iter().chain(routed).map(|(network, address)| Pings {
                from: from.name.clone(),
                to: to.name.clone(),
                network: network.clone(),
                address,
                lost_pct: None,
                rtt_ms: None,
                error: None,
            }));
        }
    }
    pairs
}

/// The part of the lab that each network belongs to.
type Parts = HashMap<String, usize>;

/// The networks that a node joins by a bridge: its ports have one address.
fn bridged(node: &NodeShown) -> Vec<Vec<&String>> {
    let with = |address: &IpAddr| {
        let same = node.interfaces.iter().filter(move |(.., own)| own == address);
        same.map(|(_, network, _)| network).collect::<Vec<_>>()
    };
    let ports = node.interfaces.iter().map(|(.., address)| with(address));
    ports.filter(|networks| networks.len() > 1).collect()
}

/// The parts when each of these sets of networks is connected.
fn connect<'a>(mut parts: Parts, sets: impl Iterator<Item = Vec<&'a String>>) -> Parts {
    for networks in sets {
        // One after the other, because each step renames all networks of a part.
        let own: Vec<usize> = networks.into_iter().map(|network| parts[network]).collect();
        let Some(first) = own.first() else { continue };
        for part in parts.values_mut().filter(|part| own.contains(part)) {
            *part = *first;
        }
    }
    parts
}

/// Runs all, some at a time; returns them in order.
fn run(pairs: VecDeque<Pings>, ping: impl Fn(Pings) -> Pings + Sync) -> Vec<Pings> {
    let waiting = Mutex::new((0..).zip(pairs).collect::<VecDeque<(usize, Pings)>>());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                while let Some((number, pings)) = next() {
                    let pings = ping(pings);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, pings));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, pings)| pings).collect()
}

fn ping(tool: &PathBuf, lab: u32, arguments: &Pingall, mut pings: Pings) -> Pings {
    let mut command = Command::new(tool);
    // `--workdir /`: the caller's folder may not exist in a node with a root.
    command.args(["exec", "--lab", &lab.to_string(), "--workdir", "/", &pings.from, "--"]);
    // `-n`: looking up names would send frames and take time.
    command.args(["ping", "-n", "-q", "-c", &arguments.count.to_string()]);
    command.args(["-W", &arguments.timeout.to_string(), &pings.address.to_string()]);
    match command.stdin(Stdio::null()).output() {
        Err(error) => pings.error = Some(error.to_string()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            (pings.lost_pct, pings.rtt_ms) = read(&text);
            if pings.lost_pct.is_none() {
                let error = String::from_utf8_lossy(&output.stderr);
                pings.error = Some(error.lines().next().unwrap_or("no output").to_owned());
            }
        }
    }
    pings
}

/// The share of lost pings and the mean round trip, as iputils and busybox print them.
fn read(text: &str) -> (Option<f64>, Option<f64>) {
    let lost = text.lines().find_map(|line| {
        let (before, _) = line.split_once("% packet loss")?;
        before.rsplit([' ', ',']).next()?.parse().ok()
    });
    let mean = text.lines().find_map(|line| {
        let (_, values) = line.split_once("min/avg/max")?.1.split_once("= ")?;
        values.split('/').nth(1)?.parse().ok()
    });
    (lost, mean)
}

/// Prints a table of round trips, or of large labs only a summary, and what did not answer.
fn show(nodes: &[NodeShown], done: &[Pings]) {
    let text = |pings: &Pings| match (pings.rtt_ms, pings.lost_pct, &pings.error) {
        (_, _, Some(_)) => "error".to_owned(),
        (Some(rtt), Some(lost), _) if lost > 0.0 => format!("{rtt:.1} ({lost:.0} % lost)"),
        (Some(rtt), ..) => format!("{rtt:.1}"),
        _ => "no answer".to_owned(),
    };
    if nodes.len() <= COLUMNS {
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let head: Vec<&str> = ["FROM \\ TO, ms"].into_iter().chain(names.iter().copied()).collect();
        let rows = names.iter().map(|from| {
            let cell = |to: &&str| {
                let own = done.iter().filter(|pings| pings.from == *from && pings.to == **to);
                own.map(text).collect::<Vec<_>>().join(", ")
            };
            [(*from).to_owned()].into_iter().chain(names.iter().map(cell)).collect()
        });
        say(table(&head, 1, rows.collect()));
    }
    let failed: Vec<&Pings> = done.iter().filter(|pings| pings.rtt_ms.is_none()).collect();
    // In a lab with a router down, thousands of pairs fail for one reason.
    for pings in failed.iter().take(20) {
        let why = pings.error.as_deref().unwrap_or("no answer");
        complain(format!("{} to {} ({}): {why}", pings.from, pings.to, pings.address));
    }
    say(format!("{} of {} pairs answered", done.len() - failed.len(), done.len()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_both_programs_are_read() {
        let iputils = "3 packets transmitted, 2 received, 33.3333% packet loss, time 2003ms\n\
                       rtt min/avg/max/mdev = 0.026/0.045/0.071/0.018 ms\n";
        assert_eq!(read(iputils), (Some(33.3333), Some(0.045)));
        let busybox = "2 packets transmitted, 2 packets received, 0% packet loss\n\
                       round-trip min/avg/max = 0.060/0.074/0.089 ms\n";
        assert_eq!(read(busybox), (Some(0.0), Some(0.074)));
        let none = "1 packets transmitted, 0 received, 100% packet loss, time 0ms\n";
        assert_eq!(read(none), (Some(100.0), None));
        assert_eq!(read("ping: bad address"), (None, None));
    }
}
