//! State inside a node: interface counters, addresses, pings.

use super::model::Node;
use super::session::Session;
use std::collections::BTreeMap;

/// Results of a ping.
#[derive(Debug, Clone, Default)]
pub struct Ping {
    pub sent: u64,
    pub received: u64,
    /// Minimum round-trip time, in ms.
    pub least: Option<f64>,
    pub text: String,
}

/// Pings an address on a network from a node; nodes with an image have only busybox's ping.
pub fn ping(
    session: &Session<'_>,
    node: &Node,
    (network, address): (usize, &str),
    words: &[&str],
) -> Ping {
    let command: &[&str] = if node.image { &["ping"] } else { &["ping", "-n", "-i0.1"] };
    let ping = read_ping(&session.inside(&node.name, &[command, words, &[address]].concat()).out);
    session.count_requests(&node.name, network, (ping.received, ping.sent));
    ping
}

fn read_ping(text: &str) -> Ping {
    let mut ping = Ping { text: text.to_owned(), ..Ping::default() };
    let first = |part: &str| part.split_whitespace().next().and_then(|word| word.parse().ok());
    if let Some(line) = text.lines().find(|line| line.contains(" packets transmitted")) {
        let mut parts = line.split(',').map(|part| first(part).unwrap_or(0));
        (ping.sent, ping.received) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    }
    // rtt min/avg/max/mdev = 2.2/3.3/4.4/1.1 ms; busybox prints no mdev.
    let times = text.lines().find(|line| line.contains("min/avg/max"));
    ping.least = times.and_then(|line| line.split("= ").nth(1)?.split('/').next()?.parse().ok());
    ping
}

/// An interface's counters in `/proc/net/dev`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    pub received: u64,
    pub sent: u64,
    pub send_errors: u64,
    pub send_drops: u64,
}

/// The counters of all interfaces of a node except the loopback interface.
pub fn counters(session: &Session<'_>, node: &str) -> BTreeMap<String, Counters> {
    let text = session.inside(node, &["cat", "/proc/net/dev"]).out;
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let read = |(name, values): (&str, &str)| {
        let values: Vec<u64> = values.split_whitespace().filter_map(|v| v.parse().ok()).collect();
        let at = |place: usize| values.get(place).copied().unwrap_or(0);
        let counters =
            Counters { received: at(1), sent: at(9), send_errors: at(10), send_drops: at(11) };
        (name.trim().to_owned(), counters)
    };
    lines.map(read).filter(|(name, _)| name != "lo").collect()
}

/// Addresses with their prefix, and MTUs, by interface.
pub fn interfaces(session: &Session<'_>, node: &str) -> BTreeMap<String, (Vec<String>, u32)> {
    let mut all: BTreeMap<String, (Vec<String>, u32)> = BTreeMap::new();
    // Lines such as `2: eth0@if3: <UP> mtu 1500 ...` and `2: eth0    inet 10.0.0.1/24 ...`.
    let links = session.inside(node, &["busybox", "ip", "-o", "link"]).out;
    for line in links.lines() {
        let mut words = line.split_whitespace().skip(1);
        let name = words.next().unwrap_or_default().split(['@', ':']).next().unwrap_or_default();
        let mtu = words.skip_while(|word| *word != "mtu").nth(1);
        all.entry(name.to_owned()).or_default().1 = mtu.and_then(|m| m.parse().ok()).unwrap_or(0);
    }
    let addresses = session.inside(node, &["busybox", "ip", "-o", "-4", "addr"]).out;
    for line in addresses.lines() {
        let mut words = line.split_whitespace().skip(1);
        let name = words.next().unwrap_or_default();
        if let Some(address) = words.skip_while(|word| *word != "inet").nth(1) {
            all.entry(name.to_owned()).or_default().0.push(address.to_owned());
        }
    }
    all.remove("lo");
    all
}

/// The names in a node's hosts file, with their addresses.
pub fn hosts(session: &Session<'_>, node: &str) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in session.inside(node, &["cat", "/etc/hosts"]).out.lines() {
        let mut words = line.split_whitespace();
        let address = words.next().unwrap_or_default();
        for name in words.filter(|_| address != "127.0.0.1" && address != "::1") {
            all.entry(name.to_owned()).or_default().push(address.to_owned());
        }
    }
    all
}
