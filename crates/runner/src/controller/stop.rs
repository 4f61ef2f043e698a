//! Stops the programs of a bed.

use super::Controller;
use crate::bed::environment::Environment;
use crate::bed::jobs::{Job, Role};
use crate::error::Error;
use crate::progress::Phase;
use measure::Failure;
use record::control::Command;
use units::{Instant, Span};

/// Grace period for programs after the stop message, and again after SIGTERM.
const STOP: Span = Span::from_s(10);
const TERM: Span = Span::from_s(2);
/// Grace period of Thingbed's own programs after the stop message on a full disk, where they wait for
/// the space of logs that were given up: longer than they wait (`WAIT` in `workloads/src/events.rs`).
const FULL_DISK: Span = Span::from_s(60);

impl<B: Environment> Controller<'_, B> {
    /// Stops all programs: with a stop message, then SIGTERM, then SIGKILL.
    ///
    /// # Errors
    /// When the names of the remaining nodes cannot be published.
    pub(crate) fn stop(&mut self) -> Result<(), Error> {
        self.record_unfinished();
        self.phase = Phase::Stop;
        self.until = None;
        // Services stop after the workloads.
        self.stop_all(|job| !job.is_of_the_lab())?;
        self.stop_all(|job| !job.serves())?;
        self.stop_all(|_| true)
    }

    /// Records the commands that still run at the end of the run. A run that ended early records
    /// that instead.
    fn record_unfinished(&mut self) {
        if self.failures.iter().any(|failure| matches!(failure, Failure::Bed(_))) {
            return;
        }
        let after = (self.bed.now() - self.start.unwrap_or(Instant::NEVER)).as_s();
        let cut = |job: &&Job| job.role == Role::Command && job.is_alive() && !job.asked_to_end;
        let cut = self.jobs.iter().filter(cut).map(|job| {
            Failure::Program(format!(
                "`{}` on {} was still running when the run ended after {after:.1} s, and was \
                 stopped: its results are incomplete. Make `duration` longer, or write \
                 `background: true` if it is meant to run until the end",
                job.argv.join(" "),
                job.name
            ))
        });
        self.failures.extend(cut);
    }

    /// Stops the programs that `these` selects.
    fn stop_all(&mut self, these: impl Fn(&Job) -> bool) -> Result<(), Error> {
        let is_selected = |job: &Job| these(job) && job.is_alive();
        for (id, job) in self.jobs.iter_mut().enumerate().filter(|(_, job)| is_selected(job)) {
            job.is_stopped = true;
            match job.has_control() {
                true => self.bed.send(id, Command::Stop {}),
                false => self.bed.signal(job.node, id, libc::SIGTERM),
            }
            // A paused program handles neither messages nor SIGTERM.
            if std::mem::take(&mut job.is_paused) {
                self.bed.signal(job.node, id, libc::SIGCONT);
            }
        }
        let stopped = self.bed.now();
        self.wait_until(stopped + STOP, &is_selected)?;
        let waits_for_space = |job: &Job| is_selected(job) && job.has_control();
        if self.jobs.iter().any(waits_for_space) && self.bed.is_disk_full() {
            // The space of a removed log becomes free when its program ends.
            let is_user = |job: &Job| job.is_of_the_user() && job.is_alive();
            self.jobs.iter_mut().filter(|job| is_user(job)).for_each(|job| job.is_stopped = true);
            self.force(&is_user)?;
            self.wait_until(stopped + FULL_DISK, &is_selected)?;
        }
        self.force(&is_selected)
    }

    /// Waits until a time, or until none of these programs is left.
    fn wait_until(
        &mut self,
        deadline: Instant,
        is_selected: &dyn Fn(&Job) -> bool,
    ) -> Result<(), Error> {
        while self.jobs.iter().any(is_selected) && self.bed.now() < deadline {
            self.look()?;
        }
        Ok(())
    }

    /// Ends these programs with SIGTERM, then SIGKILL.
    fn force(&mut self, is_selected: &dyn Fn(&Job) -> bool) -> Result<(), Error> {
        for signal in [libc::SIGTERM, libc::SIGKILL] {
            let remaining = self.jobs.iter().enumerate().filter(|(_, job)| is_selected(job));
            let remaining: Vec<(usize, usize)> =
                remaining.map(|(id, job)| (id, job.node)).collect();
            let Some((first, _)) = remaining.first() else { break };
            if signal == libc::SIGKILL {
                self.record_kill(*first, remaining.len() - 1);
            }
            for (id, node) in remaining {
                self.jobs[id].is_killed |= signal == libc::SIGKILL;
                self.bed.signal(node, id, signal);
            }
            self.wait_until(self.bed.now() + TERM, is_selected)?;
        }
        Ok(())
    }

    /// Records that job `first` and `more` others are killed.
    fn record_kill(&mut self, first: usize, more: usize) {
        let name = &self.jobs[first].name;
        let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
        self.failures.push(Failure::Program(format!(
            "the program of {name}{more} ignored SIGTERM and was killed; what it had not yet \
             written is missing"
        )));
    }
}
