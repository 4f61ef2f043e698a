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
}

impl Outlook {
    /// Of runs with these schedules, in the order in which they run, `jobs` at once.
    pub fn new(schedules: impl IntoIterator<Item = Duration>, jobs: usize) -> Self {
        let mut schedules: Vec<Duration> = schedules.into_iter().collect();
        schedules.reverse();
        Self { schedules, beyond: Duration::ZERO, ended: 0, jobs: jobs.max(1) as u32 }
    }

    /// An estimate of the time until the last run has ended.
    pub fn left(&self) -> Duration {
        let beyond = if self.ended > 0 { self.beyond / self.ended } else { OVERHEAD };
        let sum: Duration = self.schedules.iter().map(|schedule| *schedule + beyond).sum();
        sum / self.jobs
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
        let mut outlook = Outlook::new([s(6), s(60), s(10)], 1);
        assert_eq!(outlook.left(), s(76) + 3 * OVERHEAD);
        outlook.ended(s(16));
        assert_eq!(outlook.left(), s(70) + 2 * s(10));
        outlook.ended(s(5));
        assert_eq!(outlook.left(), s(10) + s(5));
        outlook.ended(s(5));
        assert_eq!(outlook.left(), Duration::ZERO);
        assert_eq!(Outlook::new([s(6), s(10)], 2).left(), s(8) + OVERHEAD);
    }
}
