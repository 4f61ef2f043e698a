//! Control groups of a lab's nodes, which count, limit and reserve resources; cgroup v1 or v2,
//! depending on the host.

mod join;
mod probe;

pub(crate) use join::join;
pub use probe::{can_limit, can_limit_processes};

use crate::hierarchy::{CONTROLLERS, Hierarchy, hands_down};
use crate::meter::Source;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use units::Bytes;

/// Resource limits and reservations of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// Maximum number of CPUs, e.g. 0.5; above 0.
    pub cpus: Option<f64>,
    /// Maximum memory, in bytes.
    pub memory: Option<u64>,
    /// CPUs guaranteed under contention with other nodes; above 0.
    pub reserved_cpus: Option<f64>,
    /// Memory in bytes that the kernel does not reclaim from it while others exceed theirs.
    pub reserved_memory: Option<u64>,
    /// Maximum number of processes and threads; `None` for [`PROCESSES`], if this machine can limit
    /// them.
    pub processes: Option<u64>,
}

/// The number of processes and threads that a node may have unless its limits say otherwise.
pub const PROCESSES: u64 = 4096;

impl Limits {
    /// Whether nothing is limited or reserved.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A program was killed for lack of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The node's limit in bytes; `None` if the whole machine ran out of memory.
    pub limit: Option<u64>,
}

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.limit {
            Some(limit) => write!(f, "out of memory, limit {}", Bytes::new(limit)),
            None => f.write_str(
                "out of memory: the machine had none left (in virtual time the guest, which is \
                 larger if nodes have `limits: {memory: ...}`)",
            ),
        }
    }
}

/// Accounting period of a CPU quota, in microseconds; the kernel's default.
const PERIOD_US: f64 = 100_000.0;

/// The control groups of one lab. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct Groups {
    hierarchy: Hierarchy,
    roots: Vec<PathBuf>,
    made: Vec<PathBuf>,
    known: HashSet<PathBuf>,
    /// The original group of this process and the one it moved to; version 2 only.
    left: Option<(PathBuf, PathBuf)>,
}

impl Groups {
    /// Finds where this process may create groups, and determines the folders of the lab's groups;
    /// creates nothing yet.
    pub(crate) fn find(name: &str) -> Result<Self, String> {
        let hierarchy = Hierarchy::here()?;
        let roots = hierarchy.roots(name);
        Ok(Self { hierarchy, roots, made: Vec::new(), known: HashSet::new(), left: None })
    }

    /// The folders that contain all of the lab's groups.
    pub(crate) fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// The version of the control groups.
    pub(crate) fn source(&self) -> Source {
        match self.hierarchy {
            Hierarchy::V1 { .. } => Source::CgroupV1,
            Hierarchy::V2(_) => Source::CgroupV2,
        }
    }

    /// Raises the nodes' total weight against the host's other programs, so that the nodes' own
    /// weights are effective.
    pub(crate) fn outweigh(&self) {
        for (file, most) in [("cpu.shares", "262144"), ("cpu.weight", "10000")] {
            for file in self.roots.iter().map(|root| root.join(file)).filter(|f| f.exists()) {
                let _ = fs::write(file, most);
            }
        }
    }

    /// Creates the folders of [`Self::roots`].
    pub(crate) fn begin(&mut self) -> Result<(), String> {
        let Hierarchy::V2(parent) = &self.hierarchy else {
            for root in self.roots.clone() {
                self.make(&root)?;
            }
            return Ok(());
        };
        let parent = parent.clone();
        if !hands_down(&parent) {
            let control = parent.join("cgroup.subtree_control");
            if fs::write(&control, CONTROLLERS).is_err() {
                // A group that delegates controllers may not contain processes (cgroup v2, "no
                // internal processes"), so this one moves.
                self.step_aside(&parent)?;
                write(&control, CONTROLLERS)?;
            }
        }
        let root = self.roots[0].clone();
        self.make(&root)?;
        // CPU time is counted without the controller `cpu`, which would also change how it is
        // shared.
        write(&root.join("cgroup.subtree_control"), "+memory")?;
        // Few machines lack this one; without it, [`Self::cap`] says so.
        for dir in [&parent, &root] {
            let _ = fs::write(dir.join("cgroup.subtree_control"), "+pids");
        }
        Ok(())
    }

    /// Moves this process into a separate group below `parent`.
    fn step_aside(&mut self, parent: &Path) -> Result<(), String> {
        let aside = self.roots[1].clone();
        make(&aside)?;
        // Remembered before the result is looked at, so that Drop moves the process back in any
        // case.
        let moved = write(&aside.join("cgroup.procs"), &std::process::id().to_string());
        self.left = Some((parent.to_path_buf(), aside));
        moved
    }

    /// Moves the process `pid` into groups that count; its children inherit them.
    pub(crate) fn enrol(&mut self, node: &str, pid: i32) -> Result<(), String> {
        let dirs: Vec<PathBuf> = match &self.hierarchy {
            Hierarchy::V1 { .. } => {
                let usage = self.root_with("cpuacct.usage")?;
                let memory = self.root_with("memory.usage_in_bytes").ok();
                let memory = memory.filter(|memory| *memory != usage);
                memory.into_iter().chain([usage]).map(|root| root.join(node)).collect()
            }
            Hierarchy::V2(_) => vec![self.roots[0].join(node)],
        };
        for dir in dirs {
            self.make(&dir)?;
            write(&dir.join("cgroup.procs"), &pid.to_string())?;
        }
        Ok(())
    }

    /// Limits the number of processes and threads of all nodes together, whose parent is `pid`. In
    /// version 2 each node has a group already, and [`Self::cap`] costs no further one.
    pub(crate) fn cap_all(&self, pid: u32, most: u64) -> Result<(), String> {
        if let Hierarchy::V1 { .. } = &self.hierarchy {
            let root = self.root_with("pids.max")?;
            write(&root.join("pids.max"), &most.to_string())?;
            write(&root.join("cgroup.procs"), &pid.to_string())?;
        }
        Ok(())
    }

    /// Whether a limit of a node's processes needs a separate group.
    pub(crate) fn is_per_controller(&self) -> bool {
        matches!(self.hierarchy, Hierarchy::V1 { .. })
    }

    /// Limits the number of processes and threads of a node with the processes `pids`.
    pub(crate) fn cap(&mut self, node: &str, pids: &[i32], most: u64) -> Result<(), String> {
        let root = match &self.hierarchy {
            Hierarchy::V1 { .. } => self.root_with("pids.max")?,
            Hierarchy::V2(_) => self.roots[0].clone(),
        };
        let dir = root.join(node);
        self.make(&dir)?;
        write(&dir.join("pids.max"), &most.to_string())?;
        self.move_into(&dir, pids)
    }

    fn move_into(&self, dir: &Path, pids: &[i32]) -> Result<(), String> {
        // The first is the init, whose failure to move means that the node is not limited.
        let (first, rest) = pids.split_first().ok_or("no process to limit")?;
        write(&dir.join("cgroup.procs"), &first.to_string())?;
        for pid in rest {
            // A process that has just ended needs no limit.
            let _ = write(&dir.join("cgroup.procs"), &pid.to_string());
        }
        Ok(())
    }

    /// Applies `limits` to the processes `pids` and their future children.
    pub(crate) fn limit(
        &mut self,
        node: &str,
        pids: &[i32],
        limits: &Limits,
    ) -> Result<(), String> {
        for (file, value) in self.settings(node, limits)? {
            let dir = file.parent().unwrap_or(&file).to_path_buf();
            self.make(&dir)?;
            write(&file, &value)?;
            self.move_into(&dir, pids)?;
        }
        limits.processes.map_or(Ok(()), |most| self.cap(node, pids, most))
    }

    /// The files and values that set `limits`.
    fn settings(&self, node: &str, limits: &Limits) -> Result<Vec<(PathBuf, String)>, String> {
        // The kernel refuses quotas below 1 ms.
        let quota = limits.cpus.map(|cpus| (cpus * PERIOD_US).round().max(1000.0) as u64);
        let v1 = matches!(self.hierarchy, Hierarchy::V1 { .. });
        let root = |file: &str| if v1 { self.root_with(file) } else { Ok(self.roots[0].clone()) };
        let mut settings = Vec::new();
        let mut set = |v1_file: &str, v2_file: &str, value: String| -> Result<(), String> {
            let file = if v1 { v1_file } else { v2_file };
            settings.push((root(v1_file)?.join(node).join(file), value));
            Ok(())
        };
        // Only where it is needed: the controller `cpu` changes how CPU time is shared (decision
        // 23).
        if (limits.cpus.is_some() || limits.reserved_cpus.is_some()) && !v1 {
            write(&self.roots[0].join("cgroup.subtree_control"), "+cpu")?;
        }
        if let Some(quota) = quota {
            let value = if v1 { quota.to_string() } else { format!("{quota} {PERIOD_US}") };
            set("cpu.cfs_quota_us", "cpu.max", value)?;
        }
        if let Some(cpus) = limits.reserved_cpus {
            let (shares, weight) = (share(cpus, 2.0, 262_144.0), share(cpus, 1.0, 10_000.0));
            let value = if v1 { shares } else { weight };
            set("cpu.shares", "cpu.weight", value.to_string())?;
        }
        if let Some(bytes) = limits.memory {
            set("memory.limit_in_bytes", "memory.max", bytes.to_string())?;
        }
        if let Some(bytes) = limits.reserved_memory {
            set("memory.soft_limit_in_bytes", "memory.low", bytes.to_string())?;
        }
        Ok(settings)
    }

    /// The lab's root in version 1 whose groups have this file.
    fn root_with(&self, file: &str) -> Result<PathBuf, String> {
        // The top of a tree lacks some of the files that our groups below it have.
        let known = self.roots.iter().find(|root| root.join(file).exists());
        let controller = file.split('.').next().unwrap_or(file);
        known.cloned().ok_or_else(|| {
            format!("this machine has no cgroup hierarchy with the controller {controller}")
        })
    }

    /// The folders of a node's groups that count CPU time, memory and throttling.
    pub(crate) fn dirs(&self, node: &str) -> [Option<PathBuf>; 3] {
        match &self.hierarchy {
            Hierarchy::V1 { .. } => ["cpuacct.usage", "memory.usage_in_bytes", "cpu.cfs_quota_us"]
                .map(|file| self.root_with(file).ok().map(|root| root.join(node))),
            Hierarchy::V2(_) => [(); 3].map(|()| Some(self.roots[0].join(node))),
        }
    }

    /// Number of the node's processes killed for lack of memory so far.
    pub(crate) fn memory_kills(&self, node: &str) -> u64 {
        let [_, Some(dir), _] = self.dirs(node) else { return 0 };
        let file = match self.hierarchy {
            Hierarchy::V1 { .. } => "memory.oom_control",
            Hierarchy::V2(_) => "memory.events",
        };
        let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// The memory limit of a node, in bytes, if it has one.
    pub(crate) fn memory_limit(&self, node: &str) -> Option<u64> {
        let [_, Some(dir), _] = self.dirs(node) else { return None };
        let file = match self.hierarchy {
            Hierarchy::V1 { .. } => "memory.limit_in_bytes",
            Hierarchy::V2(_) => "memory.max",
        };
        let limit: u64 = fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()?;
        // Version 1 reports "no limit" as an impossibly large number of pages.
        (limit < 1 << 60).then_some(limit)
    }

    fn make(&mut self, dir: &Path) -> Result<(), String> {
        if self.known.insert(dir.to_path_buf()) {
            make(dir)?;
            self.made.push(dir.to_path_buf());
        }
        Ok(())
    }
}

/// The weight of `cpus`: the maximum divided by this machine's CPUs is the weight of one CPU, so
/// that weights are proportional to reservations.
fn share(cpus: f64, least: f64, most: f64) -> u64 {
    let here = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    (cpus / here * most).round().clamp(least, most) as u64
}

impl Drop for Groups {
    fn drop(&mut self) {
        // In reverse: a group can only be removed after those in it.
        for dir in self.made.iter().rev() {
            remove(dir);
        }
        if let Some((parent, aside)) = &self.left {
            // First the controllers: a group with controllers for its children may not contain
            // processes.
            let _ = fs::write(parent.join("cgroup.subtree_control"), "-cpu -memory");
            let _ = fs::write(parent.join("cgroup.procs"), std::process::id().to_string());
            remove(aside);
        }
    }
}

/// Removes a group; its processes may still be exiting.
pub(crate) fn remove(dir: &Path) {
    // What has used up its CPU time could not exit. Each file is of one version, and neither is in groups of
    // other controllers.
    for (file, none) in [("cpu.cfs_quota_us", "-1"), ("cpu.max", "max")] {
        let file = dir.join(file);
        if file.exists() {
            let _ = fs::write(file, none);
        }
    }
    // Killed processes leave their group when they have exited, not when they are signalled, and on a busy
    // machine that takes a while.
    for _ in 0..1_000 {
        match fs::remove_dir(dir) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            _ => return,
        }
    }
}

fn make(dir: &Path) -> Result<(), String> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(format!("create {}: {error}", dir.display()))
        }
        _ => Ok(()),
    }
}

fn write(file: &Path, value: &str) -> Result<(), String> {
    fs::write(file, value)
        .map_err(|error| format!("write `{value}` to {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_killed_for_memory_is_told_its_limit() {
        let killed = |limit| OutOfMemory { limit }.to_string();
        assert_eq!(killed(Some(64 << 20)), "out of memory, limit 64 MiB");
        assert!(killed(None).contains("the machine had none left"));
    }

    #[test]
    fn weights_are_to_each_other_as_what_is_reserved() {
        let here = std::thread::available_parallelism().unwrap().get() as f64;
        assert_eq!(share(here, 1.0, 10_000.0), 10_000);
        assert_eq!(share(here / 4.0, 1.0, 10_000.0), 2_500);
        assert_eq!(share(1e-9, 2.0, 262_144.0), 2);
    }
}
