//! Takes everything that was counted, and removes the bed.

use super::Stopped;
use super::meters::Readings;
use crate::bed::faults::InjectedFault;
use crate::bed::jobs::Job;
use crate::bed::{Bed, Design, ManualChange, Remains, Settled, Shortened, netem};
use crate::error::Error;
use crate::options::Options;
use crate::progress::Begun;
use engine::{FramePath, Outcome};
use lab::Scheduled;
use measure::{Accounting, Failure, FullDisk, IntervalLog, Intervals, Usage, Written};
use std::sync::Arc;
use units::Instant;

/// What a run measured; the bed is gone.
pub(crate) struct Measured {
    pub design: Design,
    pub phases: Vec<Begun>,
    /// Time of offset 0.
    pub start: Instant,
    pub jobs: Vec<Job>,
    pub failures: Vec<Failure>,
    pub faults: Vec<InjectedFault>,
    /// Changes made by hand during the run.
    pub changes: Vec<ManualChange>,
    pub usage: Usage,
    /// Run and wait time of each node's programs, at the start and at the end.
    pub scheduled: [Vec<Scheduled>; 2],
    /// Frames that the kernel dropped before its backlog.
    pub backlog_drops: u64,
    /// Impairments that the kernel made.
    pub by_netem: Vec<netem::Done>,
    /// What the kernel and the medium have counted.
    pub settled: Settled,
    pub socket_drops: u64,
    /// Why resource usage does not come from control groups, if so.
    pub uncounted: Option<String>,
    pub frame_path: FramePath,
    pub outcome: Outcome<Accounting>,
    pub captured: Written,
    /// Number of decisions missing in `decisions.parquet`.
    pub decisions_missed: u64,
    /// What was given up because the disk was full.
    pub disk: Arc<FullDisk>,
    /// The intervals of links.
    pub intervals: Intervals,
    /// Logs that lost a part.
    pub shortened: Vec<Shortened>,
}

impl Stopped<Bed<'_>> {
    /// Reads the kernel's counters, ends forwarding and removes the bed.
    ///
    /// # Errors
    /// When forwarding failed, or a file could not be written.
    pub fn collect(self, options: &Options<'_>) -> Result<Measured, Error> {
        let Self { bed, phases, start, jobs, mut failures, faults, readings } = self;
        let Readings { usage, scheduled, backlog_drops, by_netem, changes } = readings;
        let by_netem = or_failure(by_netem, &mut failures);
        let disk = bed.full_disk().unwrap_or_default();
        let (settled, socket_drops) = (bed.settled(), bed.socket_drops());
        let Remains { design, mut outcome, frame_path, uncounted, shortened } = bed.down()?;
        let intervals = outcome.observer.take_intervals().map(IntervalLog::end);
        let captured = outcome.observer.take_capture();
        let captured = captured.map(|capture| or_failure(capture.end(), &mut failures));
        let decisions = outcome.observer.take_decisions();
        let decisions_missed = decisions.map(|decisions| decisions.end()).transpose()?;
        Ok(Measured {
            design,
            phases,
            start,
            jobs,
            failures,
            faults,
            changes,
            usage: if options.is_costless() { usage.without_cpu() } else { usage },
            scheduled,
            backlog_drops,
            by_netem,
            settled,
            socket_drops,
            uncounted,
            frame_path,
            outcome,
            captured: captured.unwrap_or_default(),
            decisions_missed: decisions_missed.unwrap_or_default(),
            intervals: intervals.unwrap_or_default(),
            disk,
            shortened,
        })
    }
}

/// The result; a failure of the bed and nothing, if there is none.
fn or_failure<T: Default>(
    result: Result<T, impl std::error::Error>,
    failures: &mut Vec<Failure>,
) -> T {
    result.unwrap_or_else(|error| {
        failures.push(Failure::Bed(error.to_string()));
        T::default()
    })
}
