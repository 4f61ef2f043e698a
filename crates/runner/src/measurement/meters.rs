//! Meters that run from the start to the end of the wait.

use crate::bed::environment::Environment;
use crate::bed::netem;
use crate::bed::{Bed, ManualChange, backlog_drops};
use crate::error::Error;
use lab::Scheduled;
use measure::{Sampler, Usage};

/// A bed whose use of resources is measured.
pub(crate) trait Metered: Environment {
    /// Running meters.
    type Meters;
    /// What they have counted.
    type Readings;

    /// Starts the meters.
    ///
    /// # Errors
    /// When one does not start.
    fn begin_metering(&mut self) -> Result<Self::Meters, Error>;

    /// Ends the measurement; programs still run. No control client changes anything after it.
    fn end_metering(&mut self, meters: Self::Meters) -> Self::Readings;
}

/// The meters of a run.
pub(crate) struct Meters {
    sampler: Sampler,
    scheduled: Vec<Scheduled>,
    backlog_drops: u64,
}

/// What the meters of a run have counted.
pub(crate) struct Readings {
    pub usage: Usage,
    /// Run and wait time of each node's programs, at the start and at the end.
    pub scheduled: [Vec<Scheduled>; 2],
    /// Frames that the kernel dropped before its backlog.
    pub backlog_drops: u64,
    /// Impairments that the kernel made.
    pub by_netem: Result<Vec<netem::Done>, lab::Error>,
    /// Changes made by hand during the run.
    pub changes: Vec<ManualChange>,
}

impl Metered for Bed<'_> {
    type Meters = Meters;
    type Readings = Readings;

    fn begin_metering(&mut self) -> Result<Meters, Error> {
        let members = &self.design().topology.members;
        let names = members.iter().map(|member| member.spec.name.clone()).collect();
        let sampler = Sampler::begin(names, self.meter(), self.counts(), self.folder())
            .map_err(Error::io("start sampling"))?;
        let scheduled = self.scheduled();
        Ok(Meters { sampler, scheduled, backlog_drops: backlog_drops() })
    }

    fn end_metering(&mut self, meters: Meters) -> Readings {
        self.end_counting();
        let scheduled = [meters.scheduled, self.scheduled()];
        let backlog_drops = backlog_drops().saturating_sub(meters.backlog_drops);
        // Netem's counters are read before programs are stopped (decision 16).
        let by_netem = self.netem_counters();
        let changes = self.close_control();
        Readings { usage: meters.sampler.end(), scheduled, backlog_drops, by_netem, changes }
    }
}
