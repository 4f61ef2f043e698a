//! Progress of a run, for the user.

use serde::{Deserialize, Serialize};
use units::{Instant, Span};

/// The phase of a run, for progress output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Creates nodes and links.
    Up,
    /// Programs start and connect.
    SetUp,
    /// Runs the schedule.
    Load,
    /// The schedule is over; waits for outstanding answers.
    Drain,
    /// Stops the programs.
    Stop,
    /// Writes the results.
    Write,
}

/// Progress of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Current phase.
    pub phase: Phase,
    /// Time since the start signal; 0 before it.
    pub elapsed: Span,
    /// Upper bound of the phase's remaining time, if known.
    pub most: Option<Span>,
    /// Number of ready programs, and of all programs.
    pub ready: (usize, usize),
    /// Names of the first programs that are not ready, e.g. `meter-3, meter-4, ...`.
    pub missing: String,
    /// Messages sent so far.
    pub sent: u64,
    /// Answers received so far.
    pub replies: u64,
    /// Answers expected in all.
    pub expected: u64,
    /// Frames that the medium has forwarded.
    pub frames: u64,
}

impl Progress {
    /// The progress at the beginning of a run.
    pub(crate) fn creating() -> Self {
        Self {
            phase: Phase::Up,
            elapsed: Span::ZERO,
            most: None,
            ready: (0, 0),
            missing: String::new(),
            sent: 0,
            replies: 0,
            expected: 0,
            frames: 0,
        }
    }
}

/// Receives a run's progress.
pub trait ProgressSink {
    /// Called a few times a second.
    fn progress(&mut self, progress: &Progress);

    /// Called once, when the start signal is given: the schedule begins at `start`, in
    /// the future.
    fn begun(&mut self, _start: Instant) {}
}

/// No-op sink.
impl ProgressSink for () {
    fn progress(&mut self, _: &Progress) {}
}

/// A phase of a run: its name and start time.
pub(crate) type Begun = (&'static str, Instant);
