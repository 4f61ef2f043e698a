//! Resource usage of nodes, as counted by the kernel.

use std::cell::OnceCell;
use std::collections::HashMap;
use units::Span;

/// Cumulative usage of a node's processes, its init included.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// CPU time in user mode, in ms; in steps of the kernel's tick (10 ms).
    pub user_ms: f64,
    /// CPU time in the kernel, in ms.
    pub system_ms: f64,
    /// Resident memory of all its processes, in bytes; shared pages count for each process.
    pub rss_bytes: u64,
}

/// An interface's counters, from the node's side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes that the node received.
    pub rx_bytes: u64,
    /// Frames that the node received.
    pub rx_frames: u64,
    /// Received frames that the kernel dropped.
    pub rx_dropped: u64,
    /// Bytes that the node sent.
    pub tx_bytes: u64,
    /// Frames that the node sent.
    pub tx_frames: u64,
    /// Frames that the kernel dropped before the medium saw them.
    pub tx_dropped: u64,
}

/// One process, from `/proc/<pid>/stat`.
struct Process {
    parent: i32,
    ticks: [u64; 2],
    pages: u64,
}

/// The usage of the nodes with these inits, in their order, by one pass over `/proc`; zero for a
/// node that is gone.
pub fn sample(inits: &[i32]) -> Vec<Sample> {
    tree(inits).into_iter().map(|tree| tree.sample).collect()
}

/// The usage of a node's processes, and their ids.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    pub sample: Sample,
    pub members: Vec<i32>,
}

/// Like [`sample`], with the processes.
pub(crate) fn tree(inits: &[i32]) -> Vec<Tree> {
    let processes = processes();
    let owners = Owners::of(inits, &processes);
    let mut trees = vec![Tree::default(); inits.len()];
    // SAFETY: reads a constant of the system.
    let (tick, page) =
        unsafe { (libc::sysconf(libc::_SC_CLK_TCK), libc::sysconf(libc::_SC_PAGESIZE)) };
    let (tick_ms, page) = (1000.0 / tick.max(1) as f64, page.max(1) as u64);
    for (pid, process) in &processes {
        let Some(node) = owners.owner(*pid) else { continue };
        trees[node].members.push(*pid);
        let sample = &mut trees[node].sample;
        sample.user_ms += process.ticks[0] as f64 * tick_ms;
        sample.system_ms += process.ticks[1] as f64 * tick_ms;
        sample.rss_bytes += process.pages * page;
    }
    trees
}

/// Scheduler statistics of a node's processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// Their CPU time.
    pub run: Span,
    /// Time in which they were runnable without a CPU: because others used it, or because of a
    /// limit.
    pub wait: Span,
}

/// Scheduler statistics of the nodes with these inits, without the inits; exact, unlike [`sample`],
/// but only for living processes. 0 if the kernel does not report them (proc_pid_schedstat).
pub fn scheduled(inits: &[i32]) -> Vec<Scheduled> {
    let processes = processes();
    let owners = Owners::of(inits, &processes);
    let mut sums = vec![Scheduled::default(); inits.len()];
    for pid in processes.keys().filter(|pid| !owners.inits.contains_key(pid)) {
        let Some(node) = owners.owner(*pid) else { continue };
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let mut times =
                text.split_whitespace().map(|ns| Span::from_ns(ns.parse().unwrap_or(0)));
            sums[node].run += times.next().unwrap_or_default();
            sums[node].wait += times.next().unwrap_or_default();
        }
    }
    sums
}

/// The processes of the node with this init, which is the first of them.
pub fn members(init: i32) -> Vec<i32> {
    let processes = processes();
    let owners = Owners::of(&[init], &processes);
    let others = processes.keys().filter(|pid| **pid != init);
    let others = others.filter(|pid| owners.owner(**pid).is_some());
    std::iter::once(init).chain(others.copied()).collect()
}

/// The counters of `interface` in the node with this init.
pub fn counters(init: i32, interface: &str) -> Option<Counters> {
    let text = std::fs::read_to_string(format!("/proc/{init}/net/dev")).ok()?;
    let line = text.lines().find_map(|line| {
        let (name, values) = line.split_once(':')?;
        (name.trim() == interface).then_some(values)
    })?;
    let values: Vec<u64> = line.split_whitespace().map_while(|v| v.parse().ok()).collect();
    let at = |i: usize| values.get(i).copied().unwrap_or(0);
    Some(Counters {
        rx_bytes: at(0),
        rx_frames: at(1),
        rx_dropped: at(3),
        tx_bytes: at(8),
        tx_frames: at(9),
        tx_dropped: at(11),
    })
}

/// Datagrams dropped, in and out, because sockets of the node with this init were full, since the
/// node started (`Udp:` in `/proc/net/snmp`).
pub fn socket_drops(init: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{init}/net/snmp")).unwrap_or_default();
    parse_socket_drops(&text).unwrap_or(0)
}

fn parse_socket_drops(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter(|line| line.starts_with("Udp:"));
    let (names, values) = (lines.next()?.split_whitespace(), lines.next()?.split_whitespace());
    let drops = names.zip(values).filter(|(name, _)| name.ends_with("bufErrors"));
    Some(drops.filter_map(|(_, value)| value.parse::<u64>().ok()).sum())
}

fn processes() -> HashMap<i32, Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some((pid, parse(&stat)?))
    })
    .collect()
}

/// Parses a stat line (proc_pid_stat(5)). Times are those of the process and its reaped children,
/// so that a sum over living processes counts each exactly once.
fn parse(stat: &str) -> Option<Process> {
    // The name may contain anything, even brackets and spaces; it ends at the last bracket.
    let rest = &stat[stat.rfind(')')? + 1..];
    let values: Vec<&str> = rest.split_whitespace().collect();
    let number = |field: usize| values.get(field - 3)?.parse::<u64>().ok();
    Some(Process {
        parent: values.get(1)?.parse().ok()?,
        // Fields 14 and 15 are the process's own, 16 and 17 those of its reaped children.
        ticks: [number(14)? + number(16)?, number(15)? + number(17)?],
        pages: number(24)?,
    })
}

/// Maps processes to nodes.
struct Owners<'p> {
    processes: &'p HashMap<i32, Process>,
    /// Index of the node by the process id of its init.
    inits: HashMap<i32, usize>,
    /// Index of the node by the PID namespace of its init; read only when needed.
    spaces: OnceCell<HashMap<u64, usize>>,
    own: Option<u64>,
}

impl<'p> Owners<'p> {
    fn of(inits: &[i32], processes: &'p HashMap<i32, Process>) -> Self {
        let inits = inits.iter().enumerate().map(|(place, pid)| (*pid, place)).collect();
        let own = pid_space("self");
        Self { processes, inits, spaces: OnceCell::new(), own }
    }

    /// The node of a process: that of its closest ancestor that is an init, or, if it was started
    /// from outside as by `exec`, that of its PID namespace.
    fn owner(&self, pid: i32) -> Option<usize> {
        let mut at = pid;
        // Ancestries are short; the bound protects from one that changes while it is read.
        for _ in 0..64 {
            if let Some(node) = self.inits.get(&at) {
                return Some(*node);
            }
            let Some(process) = self.processes.get(&at) else { break };
            at = process.parent;
        }
        let space = pid_space(pid).filter(|space| Some(*space) != self.own)?;
        let spaces = self.spaces.get_or_init(|| {
            let space = |(pid, place): (&i32, &usize)| Some((pid_space(pid)?, *place));
            self.inits.iter().filter_map(space).collect()
        });
        spaces.get(&space).copied()
    }
}

/// The inode number of a process's PID namespace; `None` for processes of other users.
fn pid_space(pid: impl std::fmt::Display) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    Some(std::fs::metadata(format!("/proc/{pid}/ns/pid")).ok()?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_stat_line_with_a_hostile_name() {
        let line = "7 (a) R 1) S 4 7 7 0 -1 4194304 9 9 0 0 10 20 1 2 20 0 1 0 55 1000 33 \
                    18446744073709551615";
        let process = parse(line).unwrap();
        assert_eq!((process.parent, process.ticks, process.pages), (4, [11, 22], 33));
    }

    #[test]
    fn drops_of_full_sockets_both_ways() {
        let snmp = "Icmp: InMsgs\nIcmp: 3\n\
                    Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\n\
                    Udp: 9 1 8 9 5 2\nUdpLite: RcvbufErrors\nUdpLite: 4\n";
        assert_eq!(parse_socket_drops(snmp), Some(7));
        assert_eq!(parse_socket_drops(""), None);
    }

    #[test]
    fn samples_this_process() {
        let samples = sample(&[std::process::id() as i32, i32::MAX]);
        assert!(samples[0].rss_bytes > 0);
        assert_eq!(samples[1], Sample::default());
    }
}
