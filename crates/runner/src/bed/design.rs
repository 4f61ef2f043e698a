//! Everything about a bed that is known before it exists.

use super::broker;
use super::frame_path::SelectedPath;
use super::host_cpu;
use super::jobs::{Job, own_programs};
use super::options::BedOptions;
use super::pinning::Pinning;
use super::roots::Roots;
use super::services;
use super::topology::Topology;
use crate::error::Error;
use engine::Threads;
use experiment::Plan;
use record::HostCpu;
use std::path::{Path, PathBuf};

/// A plan's nodes, networks and own programs, ready to be brought up.
pub(crate) struct Design {
    /// The folder of the programs' files.
    pub programs: PathBuf,
    /// Network services and the nodes' own programs, until the controller takes them.
    pub jobs: Vec<Job>,
    /// The nodes' root file systems, which stay in the cache while this exists.
    pub roots: Roots,
    /// How frames are to travel.
    pub path: SelectedPath,
    /// The input of lab and medium.
    pub topology: Topology,
    /// The thread that forwards each network's frames.
    pub threads: Threads,
    /// The host CPU that limits by clock or benchmark are based on.
    pub host_cpu: HostCpu,
    /// Whether the plan has such limits.
    pub is_limited_by_host: bool,
    /// The core of each role, or why there is no pinning; `None` if it was not requested.
    pub placement: Option<Result<Pinning, String>>,
}

impl Design {
    /// Prepares the files that the bed needs, and checks what can be checked.
    ///
    /// # Errors
    /// The file, root or setting that does not work.
    pub fn of(plan: &Plan, programs: &Path, options: &BedOptions<'_>) -> Result<Self, Error> {
        // First, because an image names the program of its nodes.
        let roots = Roots::of(plan)?;
        let mut jobs = services::programs(plan, options.workload, programs)?;
        jobs.extend(broker::programs(plan, options.workload, programs)?);
        jobs.extend(own_programs(
            plan,
            &plan.nodes,
            &roots,
            options.home,
            options.workload,
            programs,
        )?);
        let path = SelectedPath::of(plan, options.frame_path)?;
        let mut topology = Topology::of(plan, &roots);
        let host_cpu = host_cpu::read_host_cpu();
        let is_limited_by_host = host_cpu::limit(&host_cpu, plan, &mut topology.members)?;
        // Before the pinning, which gives each thread of the medium a core (decision 66).
        let threads = Threads::balanced(&topology.segments, options.threads);
        let placement = Pinning::apply(plan, &mut topology.members, threads.count());
        Ok(Self {
            programs: programs.to_owned(),
            jobs,
            roots,
            path,
            topology,
            threads,
            host_cpu,
            is_limited_by_host,
            placement,
        })
    }

    /// The cores, if roles are pinned.
    pub fn pinning(&self) -> Option<&Pinning> {
        self.placement.as_ref().and_then(|placement| placement.as_ref().ok())
    }
}
