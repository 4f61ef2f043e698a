//! Counts of operations by outcome, and of observations.

use serde::Serialize;

/// Operations by outcome. `scheduled` is the sum of `unsent`, `answered`, `timed_out`,
/// `unreachable` and `without_answer`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All operations of the schedule.
    pub scheduled: u64,
    /// Handed to the kernel.
    pub sent: u64,
    /// Not sent: the run ended first, or this machine fell too far behind the schedule.
    pub unsent: u64,
    /// Answered in time, with any code.
    pub answered: u64,
    /// Of these, error responses (4.xx, 5.xx).
    pub errors: u64,
    /// Without an answer within the timeout.
    pub timed_out: u64,
    /// Of these, requests that were never sent: no connection to their target became free
    /// within the timeout.
    pub no_connection: u64,
    /// The kernel, the network or the target reported that the target is unreachable.
    pub unreachable: u64,
    /// Sent without waiting for an answer.
    pub without_answer: u64,
}

impl Counts {
    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.sent += other.sent;
        self.unsent += other.unsent;
        self.answered += other.answered;
        self.errors += other.errors;
        self.timed_out += other.timed_out;
        self.no_connection += other.no_connection;
        self.unreachable += other.unreachable;
        self.without_answer += other.without_answer;
    }
}

/// Counts of observations (RFC 7641).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Observed {
    /// Registrations that the target accepted.
    pub registered: u64,
    /// Registrations that the target answered without observing: the resource is not
    /// observable.
    pub refused: u64,
    /// Notifications with a newer representation.
    pub notifications: u64,
    /// Notifications that arrived after a newer one (section 3.4).
    pub outdated: u64,
    /// Notifications that arrived when the previous representation was no longer fresh
    /// (Max-Age).
    pub stale: u64,
    /// Cancelled by the load generator and confirmed by the target.
    pub deregistered: u64,
    /// Cancelled by the load generator; the target did not answer in time.
    pub unanswered: u64,
    /// Ended by the target.
    pub ended: u64,
}

impl Observed {
    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        self.registered += other.registered;
        self.refused += other.refused;
        self.notifications += other.notifications;
        self.outdated += other.outdated;
        self.stale += other.stale;
        self.deregistered += other.deregistered;
        self.unanswered += other.unanswered;
        self.ended += other.ended;
    }
}
