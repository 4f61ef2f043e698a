//! A message of a run.

use crate::row_code::{Get, Put, Row};
use crate::row_table::RowTable;
use record::event::FailureReason;
use std::io;
use std::sync::Arc;

/// The rows of all messages of a run.
pub type MessageTable = RowTable<Message>;

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

impl Row for Message {
    const BYTES: usize = 13 * 8 + 2 * 4 + 3;

    fn put(&self, to: &mut Put<'_>) {
        [&self.interaction, &self.sender, &self.peer].into_iter().for_each(|name| to.text(name));
        to.whole(self.message);
        to.signed(self.intended_ns);
        to.signed(self.held_ns);
        [
            self.sent_ns,
            self.received_ns,
            self.reply_sent_ns,
            self.reply_received_ns,
            self.acknowledged_ns,
        ]
        .into_iter()
        .for_each(|time| to.maybe(time));
        to.short(self.duplicates);
        to.short(self.bytes);
        to.flag(self.one_way);
        to.flag(self.warmup);
        to.flag(self.failed.is_some());
        let failed = self.failed.as_deref();
        to.whole(failed.map_or(0, |failed| number(failed.reason)));
        to.text(failed.map_or("", |failed| &failed.detail));
    }

    fn get(from: &mut Get<'_>) -> io::Result<Self> {
        let mut row = Self {
            interaction: from.text()?,
            sender: from.text()?,
            peer: from.text()?,
            message: from.whole(),
            intended_ns: from.signed(),
            held_ns: from.signed(),
            sent_ns: from.maybe(),
            received_ns: from.maybe(),
            reply_sent_ns: from.maybe(),
            reply_received_ns: from.maybe(),
            acknowledged_ns: from.maybe(),
            duplicates: from.short(),
            bytes: from.short(),
            one_way: from.flag(),
            warmup: from.flag(),
            failed: None,
        };
        let has_failed = from.flag();
        let (reason, detail) = (reason(from.whole()), from.text()?);
        row.failed = has_failed.then(|| Box::new(Failed { reason, detail: (*detail).to_owned() }));
        Ok(row)
    }
}

/// The number of a reason in the file.
fn number(reason: FailureReason) -> u64 {
    let mut words = FailureReason::WORDS.iter();
    words.position(|(_, known)| *known == reason).unwrap_or_default() as u64
}

/// The reason with a number.
fn reason(number: u64) -> FailureReason {
    FailureReason::WORDS.get(number as usize).map_or_else(Default::default, |(_, reason)| *reason)
}
