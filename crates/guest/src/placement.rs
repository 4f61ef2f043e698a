//! Keeps the processes of a guest on one CPU of the host.
//!
//! User Mode Linux runs one process at a time: its kernel, or the program that it traces. The host's
//! scheduler starts each on an idle CPU, which has to be woken, some ten thousand times a second. On
//! one CPU a run takes two thirds of the time.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

/// Interval between two looks at the host's CPUs, and the time until the second one.
const LOOK: Duration = Duration::from_millis(500);
const FIRST: Duration = Duration::from_millis(100);
/// A guest that waits for its CPU for more than this share of the time may move.
const WAITS: f64 = 0.2;
/// It moves to a CPU that is idle for at least this share.
const IDLE: f64 = 0.6;
/// CPUs whose idle shares differ by less are alike.
const ALIKE: f64 = 0.1;

/// A guest's place among the CPUs of the host.
#[derive(Debug)]
pub(crate) struct Placement {
    leader: Pid,
    current: Option<usize>,
    /// The last look: its time, the CPUs' counters, and how long the leader has waited, in ns.
    last: Option<Look>,
}

#[derive(Debug)]
struct Look {
    at: Instant,
    cpus: BTreeMap<usize, Ticks>,
    waited_ns: u64,
}

/// Time of a CPU since the host's start, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Placement {
    /// Of the guest whose process group `leader` leads.
    pub fn of(leader: u32) -> Self {
        Self { leader: Pid::from_raw(leader as i32), current: None, last: None }
    }

    /// Looks at the host's CPUs if it is time, and moves the guest if that helps. A host that tells
    /// nothing of its CPUs, or permits no move, leaves the guest where its scheduler puts it.
    pub fn look(&mut self) {
        let now = Instant::now();
        let interval = if self.current.is_some() { LOOK } else { FIRST };
        if self.last.as_ref().is_some_and(|last| now < last.at + interval) {
            return;
        }
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let waited = fs::read_to_string(format!("/proc/{}/schedstat", self.leader));
        let waited_ns = waited.ok().and_then(|text| waited_ns(&text)).unwrap_or_default();
        let look = Look { at: now, cpus: cpus(&stat), waited_ns };
        // The tool's own: it may be limited by `taskset` or a group of CPUs.
        if let (Some(last), Ok(allowed)) = (&self.last, sched_getaffinity(Pid::from_raw(0))) {
            let mut idle = idle_shares(&last.cpus, &look.cpus);
            idle.retain(|cpu, _| allowed.is_set(*cpu).unwrap_or(false));
            let waits = waited_ns.saturating_sub(last.waited_ns) as f64;
            let waits = waits / (now - last.at).as_nanos().max(1) as f64;
            if let Some(cpu) = choose(&idle, self.current, waits, draw()) {
                move_group(self.leader, cpu);
                self.current = Some(cpu);
            }
        }
        self.last = Some(look);
    }
}

/// The CPU to move to, if any: at first one that is most idle, later another one if the guest waits for
/// its own for the share `waits` of the time. `draw`, from 0 to 1, decides between CPUs that are alike, and
/// whether it moves now: several guests on one CPU must not all go to the same other one.
fn choose(
    idle: &BTreeMap<usize, f64>,
    current: Option<usize>,
    waits: f64,
    draw: f64,
) -> Option<usize> {
    let most = idle.values().copied().reduce(f64::max)?;
    if let Some(current) = current
        && (waits < WAITS || most < IDLE || idle.get(&current).is_some_and(|own| *own > IDLE))
    {
        return None;
    }
    let moves = if current.is_some() { 0.5 } else { 1.0 };
    let alike: Vec<usize> =
        idle.iter().filter(|(_, idle)| **idle >= most - ALIKE).map(|(cpu, _)| *cpu).collect();
    let index = (draw / moves * alike.len() as f64) as usize;
    alike.get(index).copied().filter(|cpu| Some(*cpu) != current)
}

/// The CPUs' counters, from `/proc/stat` (proc(5)): `cpu0 user nice system idle iowait irq softirq steal ...`.
fn cpus(stat: &str) -> BTreeMap<usize, Ticks> {
    let cpu = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        let number = words.next()?.parse().ok()?;
        // What follows is part of the first two.
        let ticks: Vec<u64> = words.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let idle = ticks.get(3)? + ticks.get(4)?;
        Some((number, Ticks { idle, all: ticks.iter().sum() }))
    };
    stat.lines().filter_map(cpu).collect()
}

/// The time for which a process was ready and did not run, from its `schedstat`, in ns.
fn waited_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// The share of time for which each CPU was idle between two looks.
fn idle_shares(
    before: &BTreeMap<usize, Ticks>,
    now: &BTreeMap<usize, Ticks>,
) -> BTreeMap<usize, f64> {
    let share = |(cpu, now): (&usize, &Ticks)| {
        let before = before.get(cpu)?;
        let all = now.all.checked_sub(before.all).filter(|all| *all > 0)?;
        Some((*cpu, now.idle.saturating_sub(before.idle) as f64 / all as f64))
    };
    now.iter().filter_map(share).collect()
}

/// Moves all processes of a group to a CPU. Its leader comes first, because others are its copies.
fn move_group(leader: Pid, cpu: usize) {
    let mut only = CpuSet::new();
    if only.set(cpu).is_err() {
        return;
    }
    let to_cpu = |process: Pid| {
        for thread in numbers(&format!("/proc/{process}/task")) {
            let _ = sched_setaffinity(thread, &only);
        }
    };
    to_cpu(leader);
    for process in numbers("/proc") {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        if process != leader && group(&stat) == Some(leader) {
            to_cpu(process);
        }
    }
}

/// The numbers among the names of a folder.
fn numbers(folder: &str) -> impl Iterator<Item = Pid> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
}

/// The process group, from a process's `stat`: `PID (NAME) STATE PARENT GROUP ...`. A name may have
/// parentheses and spaces.
fn group(stat: &str) -> Option<Pid> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(2)?.parse().ok().map(Pid::from_raw)
}

/// A random number from 0 to 1.
fn draw() -> f64 {
    RandomState::new().build_hasher().finish() as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(shares: &[f64]) -> BTreeMap<usize, f64> {
        shares.iter().copied().enumerate().collect()
    }

    #[test]
    fn a_guest_begins_on_one_of_the_most_idle_cpus() {
        let shares = idle(&[0.1, 0.95, 0.5, 0.9]);
        let chosen = |draw| choose(&shares, None, 0.0, draw);
        assert_eq!((chosen(0.2), chosen(0.7)), (Some(1), Some(3)));
        // Also if none is idle.
        assert_eq!(choose(&idle(&[0.0, 0.05]), None, 0.0, 0.9), Some(1));
        assert_eq!(choose(&idle(&[]), None, 0.0, 0.5), None);
    }

    #[test]
    fn it_moves_only_if_it_waits_and_another_cpu_is_idle() {
        let shares = idle(&[0.0, 0.9]);
        assert_eq!(choose(&shares, Some(0), 0.5, 0.1), Some(1));
        assert_eq!(choose(&shares, Some(0), 0.5, 0.9), None, "half of those that wait stay");
        assert_eq!(choose(&shares, Some(0), 0.1, 0.1), None, "it does not wait");
        assert_eq!(choose(&idle(&[0.0, 0.3]), Some(0), 0.5, 0.1), None, "the other is busy");
        assert_eq!(choose(&idle(&[0.7, 0.9]), Some(0), 0.5, 0.1), None, "its own is free again");
        // Its own CPU is no longer allowed.
        assert_eq!(choose(&BTreeMap::from([(1, 0.9)]), Some(0), 0.5, 0.1), Some(1));
    }

    #[test]
    fn the_hosts_files_are_read() {
        let before =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 0 10 70 10 0 0 0 5 0\ncpu12 1 1 1 1 1 1 1 1 0 0\n";
        let after = "cpu0 20 0 10 140 30 0 0 0 5 0\ncpu12 1 1 1 1 1 1 1 1 0 0\nintr 7 cpu\n";
        assert_eq!(cpus(before)[&0], Ticks { idle: 80, all: 100 });
        assert_eq!(idle_shares(&cpus(before), &cpus(after)), BTreeMap::from([(0, 0.9)]));
        assert_eq!(cpus("cpu0 1 2 3\ncpux 1 2 3 4 5 6 7 8\ncpu1 a b c d e f g h\n\n").len(), 0);
        assert_eq!(
            (waited_ns("2340 1672 121455\n"), waited_ns(""), waited_ns("1")),
            (Some(1672), None, None)
        );
        let own = Some(Pid::from_raw(708));
        assert_eq!(group("713 (a) R (b) 1) t 708 708 24325 0"), own);
        assert_eq!((group(""), group("713 (a) t")), (None, None));
    }

    #[test]
    fn all_processes_of_a_group_move() {
        use std::os::unix::process::CommandExt;
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "sleep 600 & echo; wait"]).process_group(0);
        let mut shell = shell.stdout(std::process::Stdio::piped()).spawn().unwrap();
        // The shell's child has begun.
        let mut line = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let leader = Pid::from_raw(shell.id() as i32);
        let own = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let last = (0..CpuSet::count()).rfind(|cpu| own.is_set(*cpu).unwrap()).unwrap();
        move_group(leader, last);
        let members = numbers("/proc").filter(|process| {
            let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            group(&stat) == Some(leader)
        });
        let mut only = CpuSet::new();
        only.set(last).unwrap();
        let places: Vec<CpuSet> =
            members.map(|process| sched_getaffinity(process).unwrap()).collect();
        assert_eq!(places, [only, only]);
        assert_eq!(sched_getaffinity(Pid::from_raw(0)).unwrap(), own, "others stay");
        nix::sys::signal::killpg(leader, nix::sys::signal::Signal::SIGKILL).unwrap();
        shell.wait().unwrap();
    }
}
