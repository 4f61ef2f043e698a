//! Reads the nodes' resource usage every second at little cost: one short file per value and node,
//! all kept open, and only one for an idle node.

use crate::switches::{self, Switches};
use crate::usage::{Tree, tree};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use units::Span;

/// Source of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Control groups of version 1: CPU time to the nanosecond.
    CgroupV1,
    /// Control groups of version 2: CPU time to the microsecond.
    CgroupV2,
    /// `/proc`: CPU time in steps of the kernel's tick, at a higher cost.
    Proc,
}

impl Source {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::CgroupV1 => "cgroup v1",
            Self::CgroupV2 => "cgroup v2",
            Self::Proc => "/proc",
        }
    }
}

/// Cumulative usage of a node, its init included. All values but `memory` only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// CPU time in user mode.
    pub user: Span,
    /// CPU time in the kernel.
    pub system: Span,
    /// Current memory, in bytes: that of the node's group, including the page cache of files that
    /// it was the first to read; by `/proc` the resident memory of its processes.
    pub memory: u64,
    /// Peak memory so far, in bytes.
    pub memory_peak: u64,
    /// Number of voluntary context switches of its threads, and of involuntary ones. Those of a
    /// process between the last read and its end are missing.
    pub voluntary: u64,
    /// See `voluntary`.
    pub involuntary: u64,
    /// Time in which a limit throttled it.
    pub throttled: Span,
    /// Bytes read from and written to disks. Reads from the page cache do not count; a write counts
    /// when the program makes it.
    pub disk_read: u64,
    /// See `disk_read`.
    pub disk_written: u64,
}

/// Reads the nodes' usage.
#[derive(Debug)]
pub struct Meter {
    source: Source,
    inits: Vec<i32>,
    nodes: Vec<Node>,
    switches: Option<Switches>,
    text: Text,
}

/// The files of one node, and the last values.
#[derive(Debug, Default)]
struct Node {
    usage: Counter,
    split: Counter,
    memory: Counter,
    peak: Counter,
    members: Counter,
    throttled: Counter,
    /// Whether `throttled` exists: groups with limits may be created later.
    limited: Arc<AtomicBool>,
    /// The last value of `usage`: if it is unchanged, nothing has run.
    last: u64,
    processes: Processes,
    reading: Reading,
}

impl Meter {
    /// A meter for nodes with these inits that uses only `/proc`.
    pub fn of_processes(inits: &[i32]) -> Self {
        Self::new(Source::Proc, inits, inits.iter().map(|_| Node::default()).collect())
    }

    /// A meter for nodes with these inits; `dirs` has the groups that count CPU time, memory and
    /// throttling.
    pub(crate) fn of_groups(
        source: Source,
        inits: &[i32],
        dirs: Vec<[Option<PathBuf>; 3]>,
        limited: &[Arc<AtomicBool>],
    ) -> Self {
        let files: [&str; 6] = match source {
            Source::CgroupV2 => {
                ["cpu.stat", "", "memory.current", "memory.peak", "cgroup.procs", ""]
            }
            _ => [
                "cpuacct.usage",
                "cpuacct.usage_all",
                "memory.usage_in_bytes",
                "memory.max_usage_in_bytes",
                "cgroup.procs",
                "cpu.stat",
            ],
        };
        let nodes = dirs.into_iter().zip(limited).map(|([time, memory, cpu], limited)| Node {
            usage: Counter::of(&time, files[0]),
            split: Counter::of(&time, files[1]),
            memory: Counter::of(&memory, files[2]),
            peak: Counter::of(&memory, files[3]),
            members: Counter::of(&time, files[4]),
            throttled: Counter::of(&cpu, files[5]),
            limited: limited.clone(),
            ..Node::default()
        });
        Self::new(source, inits, nodes.collect())
    }

    fn new(source: Source, inits: &[i32], nodes: Vec<Node>) -> Self {
        let (inits, switches) = (inits.to_vec(), Switches::open());
        Self { source, inits, nodes, switches, text: Text::default() }
    }

    /// Source of the values.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The usage of each node, in the order of the nodes. For a node that is gone, the last values,
    /// except for its memory.
    pub fn read(&mut self) -> impl Iterator<Item = Reading> {
        match self.source {
            Source::CgroupV1 => self.nodes.iter_mut().for_each(|node| {
                node.read_v1(&mut self.text, self.switches.as_ref());
            }),
            Source::CgroupV2 => self.nodes.iter_mut().for_each(|node| {
                node.read_v2(&mut self.text, self.switches.as_ref());
            }),
            Source::Proc => self.read_processes(),
        }
        self.nodes.iter().map(|node| node.reading)
    }

    fn read_processes(&mut self) {
        let trees = tree(&self.inits);
        for (node, Tree { sample, members }) in self.nodes.iter_mut().zip(trees) {
            let reading = &mut node.reading;
            let span = |ms: f64| Span::from_ns((ms * 1e6) as u64);
            let used = (span(sample.user_ms), span(sample.system_ms));
            // Switches and disk I/O can have changed only if the node has run.
            let has_run = used != (reading.user, reading.system);
            // The time of a process that ends unreaped disappears with it.
            reading.user = reading.user.max(used.0);
            reading.system = reading.system.max(used.1);
            reading.memory = sample.rss_bytes;
            reading.memory_peak = reading.memory_peak.max(reading.memory);
            if has_run {
                node.processes.look(&members, self.switches.as_ref(), &mut self.text, reading);
            }
        }
    }
}

impl Node {
    fn read_v1(&mut self, text: &mut Text, switches: Option<&Switches>) {
        let total: Option<u64> = self.usage.read(text).and_then(|all| all.trim().parse().ok());
        let Some(total) = total else {
            self.reading.memory = 0;
            return;
        };
        // Memory may change without activity of the node, but its peak may not.
        self.reading.memory = self.memory.number(text);
        if total == self.last {
            return;
        }
        self.last = total;
        let ticks = self.split.read(text).map_or([0; 2], parse_split);
        self.reading.split(Span::from_ns(total), ticks);
        self.finish(text, switches);
        if self.limited.load(Relaxed) {
            let stat = self.throttled.read(text).unwrap_or_default();
            self.reading.throttled = Span::from_ns(value(stat, "throttled_time").unwrap_or(0));
        }
    }

    fn read_v2(&mut self, text: &mut Text, switches: Option<&Switches>) {
        let stat = self.usage.read(text).unwrap_or_default();
        let span = |key: &str| Span::from_us(value(stat, key).unwrap_or(0));
        let Some(total) = value(stat, "usage_usec") else {
            self.reading.memory = 0;
            return;
        };
        let (user, system) = (span("user_usec"), span("system_usec"));
        self.reading.throttled = span("throttled_usec");
        self.reading.memory = self.memory.number(text);
        if total == self.last {
            return;
        }
        self.last = total;
        (self.reading.user, self.reading.system) = (user, system);
        self.finish(text, switches);
    }

    /// Updates the values that change only if the node has run.
    fn finish(&mut self, text: &mut Text, switches: Option<&Switches>) {
        let reading = &mut self.reading;
        // Older kernels have no peak in version 2.
        let peak = self.peak.number(text).max(reading.memory);
        reading.memory_peak = reading.memory_peak.max(peak);
        let members = self.members.read(text).unwrap_or_default();
        let members: Vec<i32> = members.lines().filter_map(|pid| pid.parse().ok()).collect();
        self.processes.look(&members, switches, text, reading);
    }
}

impl Reading {
    /// Splits `total` into user and kernel time in proportion to their ticks: the sum is exact,
    /// and neither part ever shrinks (like the kernel's cputime_adjust for processes).
    fn split(&mut self, total: Span, [user, system]: [u64; 2]) {
        let ticks = u128::from(user) + u128::from(system);
        let exact = match ticks {
            0 => Span::ZERO,
            // In 128 bits: ns times ticks exceed 64 bits after some hours of CPU time.
            ticks => {
                let ns = u128::from(total.as_ns()) * u128::from(system) / ticks;
                Span::from_ns(ns as u64)
            }
        };
        let most = total - self.user;
        self.system = exact.min(most).max(self.system);
        self.user = (total - self.system).max(self.user);
    }
}

/// Parses `cpuacct.usage_all`: a line per CPU with its number, user and kernel time.
fn parse_split(text: &str) -> [u64; 2] {
    let mut sum = [0; 2];
    for line in text.lines().skip(1) {
        let mut values = line.split_ascii_whitespace().skip(1).map(str::parse);
        for part in &mut sum {
            *part += values.next().and_then(Result::ok).unwrap_or(0);
        }
    }
    sum
}

/// The number after a key at the beginning of a line.
fn value(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix([' ', ':']))?;
    rest.trim().parse().ok()
}

/// The known processes of a node.
#[derive(Debug, Default)]
struct Processes {
    alive: HashMap<i32, Process>,
    /// Context switches of ended processes.
    ended: [u64; 2],
}

#[derive(Debug, Default)]
struct Process {
    io: Counter,
    switches: [u64; 2],
}

impl Processes {
    fn look(
        &mut self,
        members: &[i32],
        switches: Option<&Switches>,
        text: &mut Text,
        reading: &mut Reading,
    ) {
        let ended = &mut self.ended;
        self.alive.retain(|pid, process| {
            let alive = members.contains(pid);
            if !alive {
                *ended = [0, 1].map(|i| ended[i] + process.switches[i]);
            }
            alive
        });
        let mut sum = self.ended;
        let mut io = [0; 2];
        for pid in members {
            let process = self.alive.entry(*pid).or_insert_with(|| {
                let path = PathBuf::from(format!("/proc/{pid}"));
                Process { io: Counter::of(&Some(path), "io"), switches: [0; 2] }
            });
            let now = match switches {
                Some(switches) => switches.of(*pid),
                None => switches::from_status(*pid),
            };
            // The switches of ended threads disappear with them.
            let now = now.unwrap_or_default();
            process.switches = [0, 1].map(|i| process.switches[i].max(now[i]));
            sum = [0, 1].map(|i| sum[i] + process.switches[i]);
            // A process's values include those of its reaped children.
            let text = process.io.read(text).unwrap_or_default();
            io[0] += value(text, "read_bytes").unwrap_or(0);
            io[1] += value(text, "write_bytes").unwrap_or(0);
        }
        [reading.voluntary, reading.involuntary] = sum;
        // A process that ends unreaped takes its values with it.
        reading.disk_read = reading.disk_read.max(io[0]);
        reading.disk_written = reading.disk_written.max(io[1]);
    }
}

/// Read buffer.
#[derive(Debug)]
struct Text(Box<[u8; 16384]>);

impl Default for Text {
    fn default() -> Self {
        Self(Box::new([0; 16384]))
    }
}

/// A short file that is read repeatedly.
#[derive(Debug, Default)]
struct Counter {
    path: Option<PathBuf>,
    file: Option<File>,
}

impl Counter {
    fn of(dir: &Option<PathBuf>, file: &str) -> Self {
        let path = dir.as_ref().filter(|_| !file.is_empty()).map(|dir| dir.join(file));
        Self { path, file: None }
    }

    /// Its content; `None` if it cannot be read.
    fn read<'t>(&mut self, text: &'t mut Text) -> Option<&'t str> {
        if self.file.is_none() {
            // Without free descriptors, the file is opened at the next read.
            self.file = File::open(self.path.as_ref()?).ok();
        }
        let n = self.file.as_ref()?.read_at(&mut text.0[..], 0).ok()?;
        std::str::from_utf8(&text.0[..n]).ok()
    }

    fn number(&mut self, text: &mut Text) -> u64 {
        self.read(text).and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_cpu_time_add_up_and_never_shrink() {
        let (mut reading, ns) = (Reading::default(), Span::from_ns);
        reading.split(ns(1_000_001), [0, 0]);
        assert_eq!((reading.user, reading.system), (ns(1_000_001), Span::ZERO));
        // By the ticks, user time would be less than reported before.
        reading.split(ns(2_000_000), [1, 9]);
        assert_eq!((reading.user, reading.system), (ns(1_000_001), ns(999_999)));
        reading.split(ns(10_000_000), [3, 7]);
        assert_eq!((reading.user, reading.system), (ns(3_000_000), ns(7_000_000)));
        reading.split(ns(10_000_000), [9, 1]);
        assert_eq!((reading.user, reading.system), (ns(3_000_000), ns(7_000_000)));
    }

    #[test]
    fn files_of_the_kernel_are_read() {
        let all = "cpu user system\n0 10 5\n1 16 300\n";
        assert_eq!(parse_split(all), [26, 305]);
        assert_eq!(parse_split("cpu user system\n0 ten"), [0, 0]);
        assert_eq!(value("usage_usec 5\nuser_usec 7\n", "user_usec"), Some(7));
        assert_eq!(value("rchar: 3\nread_bytes: 94208\n", "read_bytes"), Some(94208));
        assert_eq!(value("read_bytes_more: 1\n", "read_bytes"), None);
    }

    #[test]
    fn a_process_is_metered_by_proc() {
        let me = std::process::id() as i32;
        let mut meter = Meter::of_processes(&[me, i32::MAX]);
        let path = std::env::temp_dir().join(format!("thingbed-meter-{me}"));
        // Works until a tick or two are counted, however small its share of a CPU is.
        let begin = std::time::Instant::now();
        let mut readings: Vec<_> = meter.read().collect();
        while readings[0].user + readings[0].system == Span::ZERO && begin.elapsed().as_secs() < 60
        {
            let _ = std::fs::write(&path, [0; 8192]);
            readings = meter.read().collect();
        }
        let _ = std::fs::remove_file(&path);
        assert!(readings[0].user + readings[0].system > Span::ZERO && readings[0].memory > 0);
        assert!(readings[0].voluntary + readings[0].involuntary > 0);
        assert_eq!(readings[1], Reading::default());
    }
}
