//! CPU pinning of medium and nodes, where the experiment leaves it to the tool.

use experiment::{Plan, Workload};
use lab::Member;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::Serialize;
use std::collections::HashSet;

/// The core of each role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Pinning {
    /// The core of the medium.
    pub medium: u32,
    /// Cores of nodes that only send loads.
    pub senders: Vec<u32>,
    /// Cores of all other nodes.
    pub others: Vec<u32>,
}

/// Minimum number of cores to separate the roles: one for host and tool, one for the medium, one
/// for senders, and one for the rest.
const FEWEST: u32 = 4;
/// From this number of cores on, senders get two.
const MANY: u32 = 8;

impl Pinning {
    /// Applies the pinning that `plan` requests to the nodes without configured cores;
    /// `None` if it requests none.
    pub(crate) fn apply(plan: &Plan, members: &mut [Member]) -> Option<Result<Self, String>> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let placement = plan.affinity.then(|| Self::on(cores as u32))?;
        if let Ok(placement) = &placement {
            for (member, cores) in members.iter_mut().zip(placement.cores(plan)) {
                member.spec.setting.cores = cores;
            }
        }
        Some(placement)
    }

    /// The pinning for a machine with `cores` cores, or the reason why it has too few.
    fn on(cores: u32) -> Result<Self, String> {
        if cores < FEWEST {
            return Err(format!(
                "this machine has {cores} cores; {FEWEST} are required to separate host, \
                 forwarding, senders and devices"
            ));
        }
        // Kernels run the host's own work on core 0.
        let last = if cores >= MANY { 4 } else { 3 };
        Ok(Self { medium: 1, senders: (2..last).collect(), others: (last..cores).collect() })
    }

    /// The cores of each node: those of the plan, if any.
    fn cores(&self, plan: &Plan) -> Vec<Vec<u32>> {
        let mut busy: HashSet<&str> = HashSet::new();
        let mut sends: HashSet<&str> = HashSet::new();
        // Probes run on the cores of their configuration.
        let mut free: HashSet<&str> = HashSet::new();
        for workload in &plan.workloads {
            match workload {
                Workload::Load(load) => sends.extend(load.on.iter().map(String::as_str)),
                Workload::Device(device) => busy.extend(device.on.iter().map(String::as_str)),
                Workload::Probe(probe) => free.extend(probe.on.iter().map(String::as_str)),
                _ => {}
            }
        }
        let of = |node: &experiment::PlannedNode| {
            let name = node.name.as_str();
            match () {
                () if !node.cores.is_empty() => node.cores.clone(),
                () if free.contains(name) => Vec::new(),
                () if sends.contains(name) && !busy.contains(name) => self.senders.clone(),
                () => self.others.clone(),
            }
        };
        plan.nodes.iter().map(of).collect()
    }
}

/// Pins this thread, and those that it starts, to a core until it is dropped.
pub(crate) struct Affinity(CpuSet);

impl Affinity {
    /// Pins to `core`; `None` if the kernel refuses.
    pub(crate) fn on(core: u32) -> Option<Self> {
        let this = Pid::from_raw(0);
        let before = sched_getaffinity(this).ok()?;
        let mut only = CpuSet::new();
        only.set(core as usize).and_then(|()| sched_setaffinity(this, &only)).ok()?;
        Some(Self(before))
    }
}

impl Drop for Affinity {
    fn drop(&mut self) {
        // The previous affinity is still allowed.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_core_has_one_role() {
        for cores in 4..64 {
            let Pinning { medium, senders, others } = Pinning::on(cores).unwrap();
            let mut all = [vec![0, medium], senders, others].concat();
            assert!(all.is_sorted());
            all.dedup();
            assert_eq!(all, (0..cores).collect::<Vec<_>>());
        }
        assert!(Pinning::on(2).unwrap_err().contains("2 cores"));
    }

    #[test]
    fn a_thread_stays_and_is_free_again() {
        let here = || {
            let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
            (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap()).count()
        };
        let before = here();
        if let Some(affinity) = Affinity::on(0) {
            assert_eq!(here(), 1);
            drop(affinity);
        }
        assert_eq!(here(), before);
    }
}
