//! Samples resource usage of the host and its nodes every second.

use crate::counts::{Carried, Counts};
use crate::usage::{Cost, HostUse, Usage, UsageLog, UsageRow};
use lab::{Meter, Reading};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use units::Span;

/// Samples usage on a separate thread.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    /// `None` once it has ended.
    thread: Option<JoinHandle<Usage>>,
}

/// Sampling interval of the host; nodes are sampled every tenth time.
const INTERVAL: Duration = Duration::from_millis(100);
const NODES_EVERY: u32 = 10;

impl Sampler {
    /// Starts to sample the nodes with these names by `meter`, with the medium's counters. The rows
    /// go to files in `folder`.
    ///
    /// # Errors
    /// When the thread or a file cannot be created.
    pub fn begin(
        names: Vec<String>,
        mut meter: Meter,
        counts: Arc<Counts>,
        folder: &Path,
    ) -> std::io::Result<Self> {
        let log = UsageLog::create(folder, names.len())?;
        // Before the thread exists: on a busy machine an idle thread may run much later, and
        // everything until then would be missing.
        let first =
            First { nodes: look(&mut meter, &counts), host: Host::read(), at: Instant::now() };
        let stop = Arc::new(AtomicBool::new(false));
        let shared = stop.clone();
        let thread = std::thread::Builder::new().name("sampler".into());
        let thread = thread.spawn(move || work(log, &names, meter, &counts, first, &shared))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Takes a last sample and returns all.
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

/// Gives all other threads priority. Sampling hundreds of processes takes milliseconds, and an
/// ordinary thread would keep a sender off its CPU for a whole time slice.
fn step_back() {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter lives over the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) };
}

/// Usage and traffic of a node so far.
type Seen = (Reading, Carried);

fn look(meter: &mut Meter, counts: &Counts) -> Vec<Seen> {
    meter.read().enumerate().map(|(node, reading)| (reading, counts.at(node))).collect()
}

/// The first look, from which the differences count.
struct First {
    nodes: Vec<Seen>,
    host: Host,
    at: Instant,
}

fn work(
    mut log: UsageLog,
    names: &[String],
    mut meter: Meter,
    counts: &Counts,
    first: First,
    stop: &AtomicBool,
) -> Usage {
    step_back();
    let names: Vec<Arc<str>> = names.iter().map(|name| name.as_str().into()).collect();
    let First { nodes: mut nodes_before, host: mut host_before, at: begin } = first;
    let cost_before = clock::thread_time();
    let mut looked = begin;
    for round in 1u32.. {
        let until = begin + INTERVAL * round;
        // `park_timeout` may return early.
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
        log.add_host(&host.since(&host_before, seconds));
        host_before = host;
        if round % NODES_EVERY == 0 || last {
            // The last row may be of a part of a second.
            let second = (round - 1) / NODES_EVERY;
            let nodes_now = look(&mut meter, counts);
            let pairs = nodes_now.iter().zip(&nodes_before);
            for (node, (name, (now, before))) in names.iter().zip(pairs).enumerate() {
                log.add(node, &row(name.clone(), second, now, before));
            }
            // Each second, so that the rows of a killed run are readable up to there (decision 61).
            log.flush();
            nodes_before = nodes_now;
        }
        if last {
            break;
        }
    }
    log.end(Cost {
        source: meter.source(),
        cpu: clock::thread_time() - cost_before,
        wall: Span::from_ns(begin.elapsed().as_nanos() as u64),
    })
}

fn row(node: Arc<str>, second: u32, now: &Seen, before: &Seen) -> UsageRow {
    let ((now, sent), (before, had)) = (now, before);
    let two = |now: [u64; 2], before: [u64; 2]| [0, 1].map(|i| now[i].saturating_sub(before[i]));
    UsageRow {
        node,
        second,
        used: Reading {
            user: now.user - before.user,
            system: now.system - before.system,
            memory: now.memory,
            memory_peak: now.memory_peak,
            voluntary: now.voluntary.saturating_sub(before.voluntary),
            involuntary: now.involuntary.saturating_sub(before.involuntary),
            throttled: now.throttled - before.throttled,
            disk_read: now.disk_read.saturating_sub(before.disk_read),
            disk_written: now.disk_written.saturating_sub(before.disk_written),
        },
        carried: Carried { tx: two(sent.tx, had.tx), rx: two(sent.rx, had.rx) },
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
        // User time already includes guest time, so guest time is left out.
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).take(8).map_while(|v| v.parse().ok()).collect();
        let at = |i: usize| ticks.get(i).copied().unwrap_or(0);
        let waited_us = pressure.and_then(|text| {
            let some = text.lines().find(|line| line.starts_with("some"))?;
            some.split_once("total=")?.1.trim().parse().ok()
        });
        // The columns are user, nice, system, idle, iowait, irq, softirq and steal (proc_stat(5)).
        Self { total: ticks.iter().sum(), idle: at(3) + at(4), steal: at(7), waited_us }
    }

    fn since(&self, before: &Self, seconds: f64) -> HostUse {
        // Counters of single CPUs, and so their sum, may decrease slightly (proc(5), iowait).
        let total = self.total.saturating_sub(before.total).max(1) as f64;
        let idle = self.idle.saturating_sub(before.idle) as f64;
        let steal = self.steal.saturating_sub(before.steal) as f64;
        let waited = self.waited_us.zip(before.waited_us);
        HostUse {
            at: clock::now(),
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
        let meter = Meter::of_processes(&[std::process::id() as i32]);
        let counts = Arc::<Counts>::default();
        let tally = counts.add();
        tally.sent([1, 60]);
        let dir = tempfile::tempdir().unwrap();
        let sampler = Sampler::begin(vec!["me".into()], meter, counts, dir.path()).unwrap();
        // Whether its thread runs already or not.
        tally.sent([5, 300]);
        let usage = sampler.end();
        let rows: Vec<UsageRow> = usage.rows().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 1);
        assert!(rows[0].used.memory > 0);
        assert_eq!(rows[0].carried.tx, [4, 240]);
        assert!(usage.host().count() > 0);
        assert!(usage.cost.cpu > Span::ZERO && usage.cost.cpu_pct() > 0.0);
    }

    #[test]
    fn a_second_has_what_came_since_the_one_before() {
        let at = |n: u64| {
            let used = Reading {
                user: Span::from_ns(10 * n),
                memory: 5,
                voluntary: n,
                ..Reading::default()
            };
            (used, Carried { tx: [n, 60 * n], rx: [2 * n, 0] })
        };
        let row = row("a".into(), 3, &at(5), &at(2));
        assert_eq!((row.used.user, row.used.memory, row.used.voluntary), (Span::from_ns(30), 5, 3));
        assert_eq!(row.carried, Carried { tx: [3, 180], rx: [6, 0] });
    }
}
