//! How many operations came to what, and what came of observations.

use serde::Serialize;

/// How many operations came to what. `scheduled` is the sum of `unsent`, `answered`,
/// `timed_out`, `unreachable` and `without_answer`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All that the schedule asked for.
    pub scheduled: u64,
    /// Handed to the kernel.
    pub sent: u64,
    /// Not sent: the run ended before, or this machine fell too far behind the schedule.
    pub unsent: u64,
    /// Answered in time, whatever the answer says.
    pub answered: u64,
    /// Of these, answers that say that something went wrong (4.xx, 5.xx).
    pub errors: u64,
    /// Without an answer in time.
    pub timed_out: u64,
    /// Of these, requests that were never sent: no connection to their target became free
    /// within the timeout.
    pub no_connection: u64,
    /// The kernel, the network or the target said that nobody takes them.
    pub unreachable: u64,
    /// Sent where no answer is waited for.
    pub without_answer: u64,
}

impl Counts {
    /// Takes others in.
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

/// What came of observations (RFC 7641).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Observed {
    /// Accepted by the target.
    pub registered: u64,
    /// Asked for, and answered without: the target does not let the resource be observed.
    pub refused: u64,
    /// Notifications with a newer representation.
    pub notifications: u64,
    /// Notifications that a newer one had overtaken (section 3.4).
    pub outdated: u64,
    /// Notifications that came when the representation before was no longer fresh (Max-Age).
    pub stale: u64,
    /// Ended by the load, and confirmed by the target.
    pub deregistered: u64,
    /// Ended by the load; the target did not answer in time.
    pub unanswered: u64,
    /// Ended by the target.
    pub ended: u64,
}

impl Observed {
    /// Takes others in.
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
