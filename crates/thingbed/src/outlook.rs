//! How long the rest of a sweep takes.

use std::time::Duration;

/// What a run takes beyond its schedule, before one has ended: nodes come up, programs start and
/// stop.
const OVERHEAD: Duration = Duration::from_secs(4);

/// The schedules of runs that are still to come, and what those before took beyond theirs.
#[derive(Debug)]
pub struct Outlook {
    /// The next one is the last.
    schedules: Vec<Duration>,
    beyond: Duration,
    ended: u32,
    /// How many runs there are at once.
    jobs: u32,
    /// Whether schedules are of this machine's time.
    real: bool,
}

impl Outlook {
    /// Of runs with these schedules, in the order in which they run.
    pub fn real(schedules: impl IntoIterator<Item = Duration>) -> Self {
        let mut schedules: Vec<Duration> = schedules.into_iter().collect();
        schedules.reverse();
        Self { schedules, beyond: Duration::ZERO, ended: 0, jobs: 1, real: true }
    }

    /// Of so many runs in virtual time, `jobs` at once. What they take is known when one has
    /// ended.
    pub fn virtual_time(runs: usize, jobs: usize) -> Self {
        let jobs = jobs.max(1) as u32;
        Self { jobs, real: false, ..Self::real(vec![Duration::ZERO; runs]) }
    }

    /// An estimate of the time until the last run has ended; none while nothing is known.
    pub fn left(&self) -> Option<Duration> {
        let beyond = match (self.ended, self.real) {
            (0, true) => OVERHEAD,
            (0, false) => return None,
            (ended, _) => self.beyond / ended,
        };
        let sum: Duration = self.schedules.iter().map(|schedule| *schedule + beyond).sum();
        Some(sum / self.jobs)
    }

    /// The next run took this long, with its repetitions.
    pub fn ended(&mut self, took: Duration) {
        let Some(schedule) = self.schedules.pop() else { return };
        self.beyond += took.saturating_sub(schedule);
        self.ended += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_took_beyond_their_schedules_is_learnt() {
        let s = Duration::from_secs;
        let mut outlook = Outlook::real([s(6), s(60), s(10)]);
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
        let mut outlook = Outlook::virtual_time(5, 2);
        assert_eq!(outlook.left(), None);
        outlook.ended(s(10));
        assert_eq!(outlook.left(), Some(s(20)));
    }
}
