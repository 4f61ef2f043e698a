//! Estimates the remaining time of a sweep.

use std::time::Duration;

/// Time of a run in addition to its schedule, until the first run has ended: nodes and programs
/// start and stop.
// Only a first guess: measured overhead replaces it.
const OVERHEAD: Duration = Duration::from_secs(4);

/// The schedules of the remaining runs, and the measured overhead of completed runs.
#[derive(Debug)]
pub struct RemainingTime {
    /// In reverse order: the next run is the last element.
    schedules: Vec<Duration>,
    overhead: Duration,
    ended: u32,
    /// Number of parallel runs.
    jobs: u32,
    /// Whether the runs are in real time, so that schedules are wall-clock time.
    real: bool,
}

impl RemainingTime {
    /// Runs in real time with these schedules, in the order of execution.
    pub fn real(schedules: impl IntoIterator<Item = Duration>) -> Self {
        let mut schedules: Vec<Duration> = schedules.into_iter().collect();
        schedules.reverse();
        Self { schedules, overhead: Duration::ZERO, ended: 0, jobs: 1, real: true }
    }

    /// `runs` runs in virtual time, `jobs` in parallel. Their duration is unknown until one has
    /// ended.
    pub fn virtual_time(runs: usize, jobs: usize) -> Self {
        let jobs = jobs.max(1) as u32;
        Self { jobs, real: false, ..Self::real(vec![Duration::ZERO; runs]) }
    }

    /// Estimated time until the last run ends; `None` while unknown.
    pub fn left(&self) -> Option<Duration> {
        let overhead = match (self.ended, self.real) {
            (0, true) => OVERHEAD,
            // In virtual time the speed depends on the programs and the CPU, so nothing is known
            // before the first end.
            (0, false) => return None,
            (ended, _) => self.overhead / ended,
        };
        let sum: Duration = self.schedules.iter().map(|schedule| *schedule + overhead).sum();
        // As if all parallel runs were busy until the end; the last ones are not, so this is a
        // little early.
        Some(sum / self.jobs)
    }

    /// Records that the next run took `took`, including its retries.
    pub fn ended(&mut self, took: Duration) {
        let Some(schedule) = self.schedules.pop() else { return };
        // Retries count as overhead too: a busy machine is likely to need more of them.
        self.overhead += took.saturating_sub(schedule);
        self.ended += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_took_beyond_their_schedules_is_learnt() {
        let s = Duration::from_secs;
        let mut outlook = RemainingTime::real([s(6), s(60), s(10)]);
        assert_eq!(outlook.left(), Some(s(76) + 3 * OVERHEAD));
        outlook.ended(s(16));
        assert_eq!(outlook.left(), Some(s(70) + 2 * s(10)));
        outlook.ended(s(5));
        assert_eq!(outlook.left(), Some(s(10) + s(5)));
        outlook.ended(s(5));
        assert_eq!(outlook.left(), Some(Duration::ZERO));
    }

    #[test]
    fn a_virtual_schedule_says_nothing_of_what_it_takes() {
        let s = Duration::from_secs;
        let mut outlook = RemainingTime::virtual_time(5, 2);
        assert_eq!(outlook.left(), None);
        outlook.ended(s(10));
        assert_eq!(outlook.left(), Some(s(20)));
    }
}
