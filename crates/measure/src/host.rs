//! What the host and its nodes use, second by second.

use lab::Sample;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// One node's use in one second.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageRow {
    /// The node's name.
    pub node: Arc<str>,
    /// The second since sampling began, from 0.
    pub second: u32,
    /// CPU time in user mode in it, in ms.
    pub user_ms: f64,
    /// CPU time in the kernel in it, in ms.
    pub system_ms: f64,
    /// Resident memory at its end.
    pub rss_bytes: u64,
}

/// The host's use in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct HostUse {
    /// When the interval ended, ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Share of all CPUs' time that was used, 0 to 1.
    pub busy: f64,
    /// Share that the hypervisor took away, 0 to 1.
    pub steal: f64,
    /// Share of the time in which some runnable task waited for a CPU, 0 to 1;
    /// nothing where the kernel does not tell.
    pub pressure: Option<f64>,
}

/// All that a sampler saw.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// By node and second, in order of time.
    pub nodes: Vec<UsageRow>,
    /// By interval.
    pub host: Vec<HostUse>,
}

/// Samples usage on a thread of its own.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    /// Nothing once it has ended.
    thread: Option<JoinHandle<Usage>>,
}

/// The host is looked at this often, its nodes every tenth time.
const INTERVAL: Duration = Duration::from_millis(100);
const NODES_EVERY: u32 = 10;

impl Sampler {
    /// Begins to sample the nodes with these names and inits.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn begin(nodes: Vec<(String, i32)>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let shared = stop.clone();
        let thread = std::thread::Builder::new().name("sampler".into());
        let thread = thread.spawn(move || work(&nodes, &shared))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends, after a last look, and gives what was seen.
    pub fn end(mut self) -> Usage {
        self.halt()
    }

    fn halt(&mut self) -> Usage {
        self.stop.store(true, Relaxed);
        let Some(thread) = self.thread.take() else { return Usage::default() };
        thread.thread().unpark();
        thread.join().unwrap_or_default()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.halt();
    }
}

/// Lets every other thread run first. Looking at hundreds of processes takes
/// milliseconds, and an ordinary thread would keep a sender from its processor
/// for a whole slice.
fn step_back() {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter lives over the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) };
}

fn work(nodes: &[(String, i32)], stop: &AtomicBool) -> Usage {
    step_back();
    let names: Vec<Arc<str>> = nodes.iter().map(|(name, _)| name.as_str().into()).collect();
    let inits: Vec<i32> = nodes.iter().map(|(_, pid)| *pid).collect();
    let mut usage = Usage::default();
    let mut nodes_before = lab::sample(&inits);
    let mut host_before = Host::read();
    let begin = Instant::now();
    let mut looked = begin;
    for round in 1u32.. {
        let until = begin + INTERVAL * round;
        while !stop.load(Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::park_timeout(left);
        }
        let last = stop.load(Relaxed);
        let host = Host::read();
        let now = Instant::now();
        let seconds = (now - looked).as_secs_f64();
        looked = now;
        usage.host.push(host.since(&host_before, seconds));
        host_before = host;
        if round % NODES_EVERY == 0 || last {
            let second = (round - 1) / NODES_EVERY;
            let nodes_now = lab::sample(&inits);
            for ((name, now), before) in names.iter().zip(&nodes_now).zip(&nodes_before) {
                usage.nodes.push(row(name.clone(), second, now, before));
            }
            nodes_before = nodes_now;
        }
        if last {
            break;
        }
    }
    usage
}

fn row(node: Arc<str>, second: u32, now: &Sample, before: &Sample) -> UsageRow {
    UsageRow {
        node,
        second,
        // A process that ends unwaited takes its time along: never less than 0.
        user_ms: (now.user_ms - before.user_ms).max(0.0),
        system_ms: (now.system_ms - before.system_ms).max(0.0),
        rss_bytes: now.rss_bytes,
    }
}

/// The kernel's counters at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Host {
    total: u64,
    idle: u64,
    steal: u64,
    waited_us: Option<u64>,
}

impl Host {
    fn read() -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let pressure = std::fs::read_to_string("/proc/pressure/cpu").ok();
        Self::parse(&stat, pressure.as_deref())
    }

    /// Reads `/proc/stat` (proc_stat(5)) and `/proc/pressure/cpu`.
    fn parse(stat: &str, pressure: Option<&str>) -> Self {
        let line = stat.lines().next().unwrap_or_default();
        // Guest time is in user time already, so it is left out.
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).take(8).map_while(|v| v.parse().ok()).collect();
        let at = |i: usize| ticks.get(i).copied().unwrap_or(0);
        let waited_us = pressure.and_then(|text| {
            let some = text.lines().find(|line| line.starts_with("some"))?;
            some.split_once("total=")?.1.trim().parse().ok()
        });
        Self { total: ticks.iter().sum(), idle: at(3) + at(4), steal: at(7), waited_us }
    }

    fn since(&self, before: &Self, seconds: f64) -> HostUse {
        let total = self.total.saturating_sub(before.total).max(1) as f64;
        let idle = self.idle.saturating_sub(before.idle) as f64;
        let steal = self.steal.saturating_sub(before.steal) as f64;
        let waited = self.waited_us.zip(before.waited_us);
        HostUse {
            at_ns: medium::monotonic_now(),
            seconds,
            busy: ((total - idle - steal) / total).clamp(0.0, 1.0),
            steal: (steal / total).clamp(0.0, 1.0),
            pressure: waited.map(|(now, before)| {
                (now.saturating_sub(before) as f64 / 1e6 / seconds.max(1e-9)).min(1.0)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_an_interval() {
        let before = Host::parse("cpu 100 0 100 800 0 0 0 0 0 0\n", Some("some total=0\n"));
        let now = Host::parse(
            "cpu 150 0 120 820 5 0 0 5 9 0\ncpu0 1\n",
            Some("some avg10=0.00 total=500000\nfull total=1\n"),
        );
        let used = now.since(&before, 1.0);
        assert!((used.busy - 0.7).abs() < 1e-9, "{used:?}");
        assert!((used.steal - 0.05).abs() < 1e-9);
        assert_eq!(used.pressure, Some(0.5));
    }

    #[test]
    fn a_kernel_without_pressure_says_nothing() {
        assert_eq!(Host::parse("", None).since(&Host::default(), 1.0).pressure, None);
    }

    #[test]
    fn samples_this_process() {
        let sampler = Sampler::begin(vec![("me".into(), std::process::id() as i32)]).unwrap();
        let usage = sampler.end();
        assert_eq!(usage.nodes.len(), 1);
        assert!(usage.nodes[0].rss_bytes > 0);
        assert!(!usage.host.is_empty());
    }
}
