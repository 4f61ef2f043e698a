//! Everything of a run that is known before the lab exists.

use crate::capture;
use crate::error::Error;
use crate::folder::Folder;
use crate::frame_path::SelectedPath;
use crate::host_cpu::HostCpu;
use crate::jobs::{Job, jobs};
use crate::pinning::Pinning;
use crate::roots::Roots;
use crate::run::Options;
use crate::topology::Topology;
use experiment::{Backend, Plan};
use measure::Capture;
use std::path::PathBuf;

/// A plan's programs, topology and files, ready to start.
pub(crate) struct Prepared {
    /// The folder of the programs' files.
    pub programs: PathBuf,
    /// The programs to start.
    pub jobs: Vec<Job>,
    /// How frames are to travel.
    pub path: SelectedPath,
    /// The input of lab and medium.
    pub topology: Topology,
    /// The host CPU that limits by clock or benchmark are based on, if there are any.
    pub host_cpu: Option<HostCpu>,
    /// The core of each role, or why there is no pinning; `None` if it was not requested.
    pub placement: Option<Result<Pinning, String>>,
    /// The file for captured frames; the measurement takes it.
    pub capture: Option<Capture>,
}

impl Prepared {
    /// Reads and writes the files that the run needs, and checks what can be checked.
    ///
    /// # Errors
    /// The file, root or setting that does not work.
    pub fn of(plan: &Plan, folder: &Folder, options: &Options<'_>) -> Result<Self, Error> {
        let programs = folder.programs()?;
        let roots = Roots::of(plan)?;
        crate::tls::make(plan, &programs)?;
        let jobs = jobs(plan, &roots, options.workload, options.home, &programs)?;
        let path = SelectedPath::of(plan, options.frame_path)?;
        let mut topology = Topology::of(plan, &roots);
        let host_cpu = HostCpu::here();
        let by_host = host_cpu.limit(plan, &mut topology.members)?;
        let placement = Pinning::apply(plan, &mut topology.members);
        replay(plan, options, &mut topology)?;
        let capture = capture::begin(plan, options, &topology, folder)?;
        let host_cpu = by_host.then_some(host_cpu);
        Ok(Self { programs, jobs, path, topology, host_cpu, placement, capture })
    }

    /// The cores, if roles are pinned.
    pub fn pinning(&self) -> Option<&Pinning> {
        self.placement.as_ref().and_then(|placement| placement.as_ref().ok())
    }
}

/// Gives the segments the decisions of the run to replay, if there is one.
fn replay(plan: &Plan, options: &Options<'_>, topology: &mut Topology) -> Result<(), Error> {
    let Some(recorded) = options.replay else { return Ok(()) };
    refuse_netem(plan)?;
    let counts: Vec<usize> = topology.owners.iter().map(Vec::len).collect();
    let replay = measure::read_decisions(&recorded.join("decisions.parquet"), &counts)?;
    for (segment, replay) in topology.segments.iter_mut().zip(replay) {
        segment.replay = Some(replay);
    }
    Ok(())
}

/// Refuses to replay plans with netem: the kernel's decisions are not recorded.
fn refuse_netem(plan: &Plan) -> Result<(), Error> {
    match plan.networks.iter().find(|network| network.backend == Backend::Netem) {
        Some(network) => Err(Error::ReplayOfNetem { network: network.name.clone() }),
        None => Ok(()),
    }
}
