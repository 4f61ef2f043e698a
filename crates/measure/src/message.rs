//! A message of a run.

use record::event::FailureReason;
use std::sync::Arc;

/// One message to one receiver. Times are in ns since the run's start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Its number in the schedule, from 0.
    pub message: u64,
    /// The name of the workload that it belongs to.
    pub interaction: Arc<str>,
    /// The sender.
    pub sender: Arc<str>,
    /// The receiver.
    pub peer: Arc<str>,
    /// Scheduled send time.
    pub intended_ns: i64,
    /// Actual send time; `None` if it was never sent.
    pub sent_ns: Option<i64>,
    /// When the receiver received it.
    pub received_ns: Option<i64>,
    /// When the receiver answered.
    pub reply_sent_ns: Option<i64>,
    /// When the sender received the answer.
    pub reply_received_ns: Option<i64>,
    /// When the broker acknowledged it to the sender: MQTT's PUBACK or PUBCOMP.
    pub acknowledged_ns: Option<i64>,
    /// Whether it has no answer, so that it is complete with its receipt.
    pub one_way: bool,
    /// For an exchange: whether it only warms up its connection and is left out of all statistics.
    pub warmup: bool,
    /// For an exchange: delay of its start behind the schedule, because the previous one was still
    /// in flight.
    pub held_ns: i64,
    /// For an exchange: why it failed, if it did.
    pub failed: Option<Box<Failed>>,
    /// Number of extra copies of it or its answer.
    pub duplicates: u32,
    /// Its length in bytes.
    pub bytes: u32,
}

/// Why an exchange failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Failed {
    /// Class of the failure.
    pub reason: FailureReason,
    /// Details; may be empty.
    pub detail: String,
}

impl Message {
    /// Completion time: that of the answer, or of the receipt if one-way.
    pub(crate) fn over_ns(&self) -> Option<i64> {
        if self.one_way { self.received_ns } else { self.reply_received_ns }
    }
}
