//! Complete messages and their answers.

use crate::Instant;
use crate::fec::answer::Answer;
use crate::fec::plan::{ResponseKind, Schedule};

/// A complete message and its answer.
#[derive(Debug)]
pub(super) struct Complete {
    pub schedule: Schedule,
    /// Start of the first member's slot.
    pub slots_at: Instant,
    pub answer: Option<Answer>,
    /// Length of a frame of the answer, in bytes.
    pub frame: usize,
    /// Whether the hub has the answer, or no longer waits for it.
    pub is_over: bool,
    pub until: Option<Instant>,
    /// The last request for the answer before the application has given one, and when to say so.
    pub asked: Option<u8>,
    pub say_at: Option<Instant>,
}

impl Complete {
    /// One whose slots begin at a time.
    pub fn new(schedule: Schedule, slots_at: Instant, frame: usize) -> Self {
        let (is_over, until) = (false, None);
        Self { schedule, slots_at, answer: None, frame, is_over, until, asked: None, say_at: None }
    }

    /// Whether it can be dropped: the hub has the answer, or it has only been acknowledged, which a request
    /// makes again.
    pub fn is_spare(&self) -> bool {
        let is_acknowledged = self.schedule.response == ResponseKind::Acknowledgements;
        self.is_over || is_acknowledged && self.next_at().is_none()
    }

    /// The next transmission.
    pub fn next_at(&self) -> Option<(Instant, Due)> {
        let answer = self.answer.as_ref().and_then(Answer::next_at);
        let answer = answer.filter(|at| *at != Instant::NEVER).map(|at| (at, Due::Answer));
        let received = self.say_at.filter(|_| self.answer.is_none());
        answer.or(received.map(|at| (at, Due::Received)))
    }
}

/// What is to be sent for a complete message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scheduled {
    pub due: Due,
    /// When the hub no longer waits for it.
    pub until: Option<Instant>,
}

/// What a member sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Answer,
    /// The message has arrived, but the application has not answered it yet.
    Received,
    Nack,
}
