//! The measurement of a run in steps: prepare, start, wait, stop, collect. Each knows the bed only
//! by an interface, so that tests run them on a bed that does not exist.

mod capture;
mod collect;
mod idle;
mod meters;
mod prepare;
#[cfg(test)]
mod step_tests;
#[cfg(test)]
mod tests;
mod wait;

pub(crate) use collect::Measured;

use self::idle::IdleTimeouts;
use self::meters::Metered;
use crate::bed::faults::InjectedFault;
use crate::bed::jobs::Job;
use crate::controller::Controller;
use crate::error::Error;
use crate::progress::{Begun, Phase};
use measure::Failure;
use units::{Instant, Span};

/// Durations of a run's phases.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// Time limit for programs to become ready.
    set_up: Span,
    duration: Span,
    /// Longest time after `duration` to wait for answers.
    drain: Span,
    idle: IdleTimeouts,
}

/// A run's programs on a bed, not yet started.
pub(crate) struct Measurement<'a, B> {
    controller: Controller<'a, B>,
    times: Times,
    phases: Vec<Begun>,
}

/// A measurement whose schedule runs.
pub(crate) struct Started<'a, B: Metered> {
    controller: Controller<'a, B>,
    times: Times,
    phases: Vec<Begun>,
    /// Time of offset 0.
    start: Instant,
    meters: B::Meters,
}

/// A measurement whose programs have ended; the bed still exists.
pub(crate) struct Stopped<B: Metered> {
    bed: B,
    phases: Vec<Begun>,
    start: Instant,
    jobs: Vec<Job>,
    failures: Vec<Failure>,
    faults: Vec<InjectedFault>,
    readings: B::Readings,
}

impl<'a, B: Metered> Measurement<'a, B> {
    /// Starts the programs, and when all are ready, the schedule.
    ///
    /// # Errors
    /// When a program fails or is not ready in time.
    pub fn start(self) -> Result<Started<'a, B>, Error> {
        let Self { mut controller, times, mut phases } = self;
        phases.push(("set-up", controller.bed.now()));
        controller.set_up(times.set_up)?;
        // Only now: the set-up is no part of the figures.
        let meters = controller.bed.begin_metering()?;
        phases.push(("load", controller.bed.now()));
        let start = controller.begin()?;
        Ok(Started { controller, times, phases, start, meters })
    }
}

impl<B: Metered> Started<'_, B> {
    /// Reads the meters, then stops all programs.
    ///
    /// # Errors
    /// When the bed fails meanwhile.
    pub fn stop(self) -> Result<Stopped<B>, Error> {
        let Self { mut controller, times, mut phases, start, meters } = self;
        let over = start + times.duration;
        // A run that ended before its schedule has a drain phase of no length.
        phases.push(("drain", over.min(controller.bed.now())));
        // Before the first program stops: what programs do at their end is no part of the figures.
        let readings = controller.bed.end_metering(meters);
        phases.push(("stop", controller.bed.now()));
        controller.stop()?;
        phases.push(("write", controller.bed.now()));
        controller.phase = Phase::Write;
        let Controller { bed, jobs, failures, faults, .. } = controller;
        Ok(Stopped { bed, phases, start, jobs, failures, faults: faults.made, readings })
    }
}
