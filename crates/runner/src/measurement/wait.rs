//! The wait for the end of a run.

use super::Started;
use super::idle::IdleTimer;
use super::meters::Metered;
use crate::bed::jobs::{Job, Role, State};
use crate::error::Error;
use crate::progress::Phase;
use measure::Failure;
use std::collections::BTreeSet;
use units::Instant;

impl<B: Metered> Started<'_, B> {
    /// Waits until the schedule is done, no more answers can arrive, or the drain time is over.
    ///
    /// # Errors
    /// When a program cannot be started, or names cannot be published.
    pub fn wait(&mut self) -> Result<(), Error> {
        let over = self.start + self.times.duration;
        let latest = over + self.times.drain;
        self.controller.until = Some(over);
        let mut idle_timer = IdleTimer::new(over);
        let mut done_at = None;
        loop {
            self.controller.look()?;
            self.controller.inject_due_faults()?;
            let now = self.controller.bed.now();
            if now >= over {
                self.controller.phase = Phase::Drain;
                self.controller.until = Some(latest);
            }
            if let Some(why) = self.abort_reason(now) {
                self.controller.failures.push(Failure::Bed(why));
                return Ok(());
            }
            let is_done = self.is_done(now >= over);
            if is_done {
                done_at.get_or_insert(now);
            }
            // A broker may have lost the rest, so the drain time limits this wait too.
            let is_late = |done: Instant| now > done + self.times.drain;
            let has_ended = is_done && (self.has_arrived() || done_at.is_some_and(is_late));
            if has_ended || now > latest || self.is_idle(&mut idle_timer, now, over) {
                return Ok(());
            }
        }
    }

    /// Whether sinks behind a broker have received all that their sources sent successfully. The
    /// broker passes messages on after it has acknowledged them.
    fn has_arrived(&self) -> bool {
        let jobs = &self.controller.jobs;
        let sinks = jobs.iter().filter(|job| job.received.is_some() && job.is_alive());
        let workloads: BTreeSet<_> = sinks.map(|job| job.workload).collect();
        workloads.into_iter().all(|workload| {
            let own = || jobs.iter().filter(|job| job.workload == workload);
            let received: u64 = own().filter_map(|job| job.received).sum();
            received >= own().map(|job| job.progress.1).sum()
        })
    }

    /// Why the run ends early, if it does.
    fn abort_reason(&mut self, now: Instant) -> Option<String> {
        if self.controller.is_interrupted() {
            let at = (now - self.start).as_s();
            return Some(format!(
                "the user stopped it after {at:.1} s; the figures cover the time until then"
            ));
        }
        if let Some(why) = self.controller.contended.take() {
            return Some(format!(
                "Thingbed stopped it because of contention (`contention: abort`): {why}; use fewer \
                 nodes, a lower rate or a machine with more cores"
            ));
        }
        let failed = "the forwarding thread failed; no frames were forwarded after that";
        self.controller.bed.frames().have_failed.then(|| failed.to_owned())
    }

    /// Whether no program and no fault has work left. With background programs only, the schedule
    /// decides.
    fn is_done(&self, is_schedule_over: bool) -> bool {
        let awaited = |job: &&Job| matches!(job.role, Role::Source | Role::Mqtt | Role::Command);
        let mut awaited = self.controller.jobs.iter().filter(awaited).peekable();
        let is_done = match awaited.peek() {
            Some(_) => awaited.all(|job| job.state == State::Done || !job.is_alive()),
            None => is_schedule_over,
        };
        // A fault that is still to come is part of the experiment.
        is_done && self.controller.faults.is_over()
    }

    /// Whether the schedule is over and no more answers can arrive.
    fn is_idle(&self, idle_timer: &mut IdleTimer, now: Instant, over: Instant) -> bool {
        let frames = self.controller.bed.frames();
        idle_timer.saw(now, frames.sent, frames.in_flight, self.controller.messages());
        // A user's program may compute for long without sending a frame.
        let computes = |job: &Job| job.role == Role::Command && job.is_alive();
        now >= over
            && !self.controller.jobs.iter().any(computes)
            && self.controller.faults.is_over()
            && idle_timer.is_over(now, self.times.idle)
    }
}
