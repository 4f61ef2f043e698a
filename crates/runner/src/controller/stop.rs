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
        // The last round only waits until killed programs have ended: signal 0 does nothing.
        for (limit, signal) in [(STOP, libc::SIGTERM), (TERM, libc::SIGKILL), (TERM, 0)] {
            let deadline = self.bed.now() + limit;
            while self.jobs.iter().any(is_selected) && self.bed.now() < deadline {
                self.look()?;
            }
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
