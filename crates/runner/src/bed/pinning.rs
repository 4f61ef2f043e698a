//! CPU pinning of medium and nodes, where the experiment leaves it to the tool.

use experiment::{Plan, Workload};
use lab::Member;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use record::Placement;
use std::collections::HashSet;

/// The cores of the roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pinning {
    pub placement: Placement,
    /// Number of the medium's threads.
    threads: u32,
}

/// Number of cores of the other roles: one for host and tool, one for senders, and one for the
/// rest.
const OTHER_ROLES: u32 = 3;
/// From this number of cores without the medium's on, senders get two.
const MANY: u32 = 7;

impl Pinning {
    /// Applies the pinning that `plan` requests to the nodes without configured cores;
    /// `None` if it requests none.
    pub(crate) fn apply(
        plan: &Plan,
        members: &mut [Member],
        threads: usize,
    ) -> Option<Result<Self, String>> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let placement = plan.affinity.then(|| Self::on(cores as u32, threads as u32))?;
        if let Ok(placement) = &placement {
            for (member, cores) in members.iter_mut().zip(placement.cores(plan)) {
                member.spec.setting.cores = cores;
            }
        }
        Some(placement)
    }

    /// The pinning for a machine with `cores` cores and a medium with `threads` threads, or the
    /// reason why it has too few.
    fn on(cores: u32, threads: u32) -> Result<Self, String> {
        let required = OTHER_ROLES + threads;
        if cores < required {
            let forwarding = match threads {
                1 => "forwarding".to_owned(),
                _ => format!("{threads} threads of forwarding (--threads)"),
            };
            return Err(format!(
                "this machine has {cores} cores; {required} are required to separate host, \
                 {forwarding}, senders and devices"
            ));
        }
        // Kernels run the host's own work on core 0.
        let (medium, first) = (1, 1 + threads);
        let last = first + if cores - threads >= MANY { 2 } else { 1 };
        let (senders, others) = ((first..last).collect(), (last..cores).collect());
        Ok(Self { placement: Placement { medium, senders, others }, threads })
    }

    /// The cores of the medium's threads, one each.
    pub(crate) fn medium(&self) -> Vec<u32> {
        (self.placement.medium..self.placement.medium + self.threads).collect()
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
                () if sends.contains(name) && !busy.contains(name) => {
                    self.placement.senders.clone()
                }
                () => self.placement.others.clone(),
            }
        };
        plan.nodes.iter().map(of).collect()
    }
}

/// Pins this thread, and those that it starts, to some cores until it is dropped.
pub(crate) struct Affinity(CpuSet);

impl Affinity {
    /// Pins to `cores`; `None` if the kernel refuses.
    pub(crate) fn on(cores: &[u32]) -> Option<Self> {
        let this = Pid::from_raw(0);
        let before = sched_getaffinity(this).ok()?;
        let mut only = CpuSet::new();
        cores.iter().try_for_each(|core| only.set(*core as usize)).ok()?;
        sched_setaffinity(this, &only).ok()?;
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
        for (threads, cores) in (1..9).flat_map(|n| (n + 3..64).map(move |cores| (n, cores))) {
            let pinning = Pinning::on(cores, threads).unwrap();
            assert_eq!(pinning.medium().len(), threads as usize);
            let all =
                [vec![0], pinning.medium(), pinning.placement.senders, pinning.placement.others]
                    .concat();
            assert_eq!(all, (0..cores).collect::<Vec<_>>());
        }
        let senders = |cores| Pinning::on(cores, 1).unwrap().placement.senders;
        assert_eq!((senders(7), senders(8)), (vec![2], vec![2, 3]));
    }

    #[test]
    fn too_few_cores_are_an_explanation() {
        assert!(Pinning::on(2, 1).unwrap_err().contains("2 cores; 4 are required"));
        let text = Pinning::on(5, 3).unwrap_err();
        assert!(text.contains("5 cores; 6 are required") && text.contains("3 threads"), "{text}");
    }

    #[test]
    fn a_thread_stays_and_is_free_again() {
        let here = || {
            let set = sched_getaffinity(Pid::from_raw(0)).unwrap();
            (0..CpuSet::count()).filter(|core| set.is_set(*core).unwrap()).count()
        };
        let before = here();
        if let Some(affinity) = Affinity::on(&[0]) {
            assert_eq!(here(), 1);
            drop(affinity);
        }
        assert_eq!(here(), before);
    }
}
