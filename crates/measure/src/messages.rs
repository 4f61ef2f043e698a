//! Results of messages.

use record::event::FailureReason;
use record::{Messages, Quarter, Timeline, Times};
use std::collections::HashMap;
use std::sync::Arc;
use units::Histogram;

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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failed {
    /// Class of the failure.
    pub reason: FailureReason,
    /// Details; may be empty.
    pub detail: String,
}

impl Message {
    /// Completion time: that of the answer, or of the receipt if one-way.
    fn over_ns(&self) -> Option<i64> {
        if self.one_way { self.received_ns } else { self.reply_received_ns }
    }
}

/// The statistics of `messages` without warm-ups; `schedule_ns` is the end of the schedule.
pub fn outcomes(messages: &[Message], schedule_ns: i64) -> Messages {
    let messages: Vec<&Message> = messages.iter().filter(|m| !m.warmup).collect();
    let span = |from: i64, to: i64| u64::try_from(to - from).unwrap_or(0);
    let count = |is: &dyn Fn(&Message) -> bool| messages.iter().filter(|m| is(m)).count() as u64;
    let times = |of: &dyn Fn(&Message) -> Option<u64>| -> Option<Times> {
        crate::times(&messages.iter().filter_map(|m| of(m)).collect::<Histogram>(), 1e6)
    };
    let sent = count(&|m| m.sent_ns.is_some());
    let delivered = count(&|m| m.received_ns.is_some());
    let replies = count(&|m| m.reply_received_ns.is_some());
    let asking = count(&|m| m.sent_ns.is_some() && !m.one_way);
    let unanswered = count(&|m| m.sent_ns.is_some() && !m.one_way && m.reply_received_ns.is_none());
    let arrived = count(&|m| m.sent_ns.is_some() && m.received_ns.is_some());
    let share = |part: u64, of: u64| part as f64 * 100.0 / of.max(1) as f64;
    let good = count(&|m| m.sent_ns.is_some() && m.over_ns().is_some());
    Messages {
        sent,
        received: delivered,
        answered: replies,
        delivered,
        replies,
        unsent: messages.len() as u64 - sent,
        acknowledged: count(&|m| m.acknowledged_ns.is_some()),
        acknowledged_lost: count(&|m| m.acknowledged_ns.is_some() && m.received_ns.is_none()),
        reordered: reordered(&messages),
        lost_pct: share(sent - arrived, sent),
        unanswered_pct: (asking > 0).then(|| share(unanswered, asking)),
        loss_pct: share(sent - good, sent),
        duplicates: messages.iter().map(|m| u64::from(m.duplicates)).sum(),
        late: count(&|m| m.over_ns().is_some_and(|end| end > schedule_ns)),
        rtd_ms: times(&|m| Some(span(m.intended_ns, m.reply_received_ns?))),
        rtd_from_sent_ms: times(&|m| Some(span(m.sent_ns?, m.reply_received_ns?))),
        down_ms: times(&|m| Some(span(m.intended_ns, m.received_ns?))),
        acknowledged_ms: times(&|m| Some(span(m.sent_ns?, m.acknowledged_ns?))),
        slip_ms: times(&|m| Some(span(m.intended_ns, m.sent_ns?))),
        quarters: quarters(&messages, schedule_ns),
    }
}

fn quarters(messages: &[&Message], schedule_ns: i64) -> [Quarter; 4] {
    let mut timeline = Timeline::default();
    for message in messages {
        let due = u64::try_from(message.intended_ns).unwrap_or(0);
        timeline.offered(due);
        if let Some(over) = message.over_ns() {
            timeline.answered(due, u64::try_from(over).unwrap_or(0));
        }
    }
    timeline.quarters(u64::try_from(schedule_ns).unwrap_or(0))
}

/// Number of messages received after one that the same sender had sent to the same receiver later.
/// Rows are in the order of their sending.
fn reordered(messages: &[&Message]) -> u64 {
    let mut latest: HashMap<(&str, &str, &str), i64> = HashMap::new();
    let mut count = 0;
    // From last to first: a message received after one of those was overtaken.
    for m in messages.iter().rev() {
        let Some(at) = m.received_ns else { continue };
        let earliest = latest.entry((&m.interaction, &m.sender, &m.peer)).or_insert(at);
        count += u64::from(at > *earliest);
        *earliest = at.min(*earliest);
    }
    count
}

/// The spans in which messages were in flight, merged and in order, in ns since the run's start. A
/// message that was never completed counts as long as the longest completed one.
pub fn under_way(messages: &[Message]) -> Vec<(i64, i64)> {
    let end = |m: &Message| m.reply_received_ns.or(m.received_ns);
    let longest = messages.iter().filter_map(|m| Some(end(m)? - m.sent_ns?)).max().unwrap_or(0);
    let mut spans: Vec<(i64, i64)> = messages
        .iter()
        .filter_map(|m| {
            let sent = m.sent_ns?;
            Some((sent, end(m).unwrap_or(sent + longest)))
        })
        .collect();
    spans.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sent: i64, back: Option<i64>) -> Message {
        Message {
            intended_ns: 0,
            sent_ns: Some(sent),
            received_ns: Some(sent + 1_000_000),
            reply_received_ns: back,
            ..Message::default()
        }
    }

    #[test]
    fn counts_from_the_intended_time_and_from_the_real_one() {
        let messages = [
            message(2_000_000, Some(5_000_000)),
            message(0, None),
            Message { sent_ns: None, ..Message::default() },
            message(0, Some(200_000_000)),
        ];
        let figures = outcomes(&messages, 100_000_000);
        assert_eq!((figures.sent, figures.received, figures.answered), (3, 3, 2));
        assert_eq!((figures.delivered, figures.replies), (3, 2));
        assert_eq!((figures.unsent, figures.late), (1, 1));
        assert_eq!(figures.lost_pct, 0.0, "all that was sent was received");
        assert!((figures.unanswered_pct.unwrap() - 33.333).abs() < 0.01);
        assert!((figures.loss_pct - 33.333).abs() < 0.01);
        assert_eq!(figures.rtd_ms.unwrap().mean, 102.5);
        assert_eq!(figures.rtd_from_sent_ms.unwrap().mean, 101.5);
    }

    #[test]
    fn one_way_messages_are_over_when_they_have_come() {
        let came = |sent, received: Option<i64>| Message {
            sent_ns: Some(sent),
            received_ns: received,
            acknowledged_ns: Some(sent + 4_000_000),
            one_way: true,
            ..Message::default()
        };
        let messages = [came(0, Some(9)), came(1, Some(7)), came(2, Some(8)), came(3, None)];
        let figures = outcomes(&messages, 8);
        assert_eq!((figures.sent, figures.received, figures.answered), (4, 3, 0));
        assert_eq!((figures.loss_pct, figures.late), (25.0, 1));
        assert_eq!((figures.lost_pct, figures.unanswered_pct), (25.0, None));
        assert_eq!((figures.acknowledged, figures.acknowledged_lost), (4, 1));
        assert_eq!(figures.reordered, 1, "the first came after both others");
        assert_eq!(figures.acknowledged_ms.unwrap().mean, 4.0);
    }

    #[test]
    fn spans_under_way_are_merged() {
        let messages = [message(0, Some(10)), message(5, Some(20)), message(30, None)];
        assert_eq!(under_way(&messages), [(0, 20), (30, 1_000_030)]);
    }

    #[test]
    fn no_messages_no_figures() {
        let figures = outcomes(&[], 0);
        assert_eq!((figures.sent, figures.loss_pct, figures.rtd_ms), (0, 0.0, None));
    }
}
