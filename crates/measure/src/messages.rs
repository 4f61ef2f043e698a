//! Results of messages.

use crate::message::{Message, MessageTable};
use record::{Messages, Timeline, Times};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use units::Histogram;

/// The statistics of `messages` without warm-ups; `schedule_ns` is the end of the schedule.
///
/// # Errors
/// When rows cannot be read.
pub fn outcomes(messages: &MessageTable, schedule_ns: i64) -> io::Result<Messages> {
    let mut sums = Sums::default();
    for message in messages.iter() {
        let message = message?;
        if !message.warmup {
            sums.add(&message, schedule_ns);
        }
    }
    Ok(sums.outcomes(reordered(messages)?, schedule_ns))
}

/// Counts and times of messages.
#[derive(Default)]
struct Sums {
    scheduled: u64,
    sent: u64,
    received: u64,
    answered: u64,
    /// Sent messages that need an answer, and those without one.
    asking: u64,
    unanswered: u64,
    /// Sent messages that were received, and that are complete.
    arrived: u64,
    good: u64,
    acknowledged: u64,
    acknowledged_lost: u64,
    duplicates: u64,
    late: u64,
    rtd: Histogram,
    rtd_from_sent: Histogram,
    down: Histogram,
    until_acknowledged: Histogram,
    slip: Histogram,
    timeline: Timeline,
}

impl Sums {
    fn add(&mut self, m: &Message, schedule_ns: i64) {
        let is_sent = m.sent_ns.is_some();
        self.scheduled += 1;
        self.sent += u64::from(is_sent);
        self.received += u64::from(m.received_ns.is_some());
        self.answered += u64::from(m.reply_received_ns.is_some());
        self.asking += u64::from(is_sent && !m.one_way);
        self.unanswered += u64::from(is_sent && !m.one_way && m.reply_received_ns.is_none());
        self.arrived += u64::from(is_sent && m.received_ns.is_some());
        self.good += u64::from(is_sent && m.over_ns().is_some());
        self.acknowledged += u64::from(m.acknowledged_ns.is_some());
        self.acknowledged_lost += u64::from(m.acknowledged_ns.is_some() && m.received_ns.is_none());
        self.duplicates += u64::from(m.duplicates);
        self.late += u64::from(m.over_ns().is_some_and(|end| end > schedule_ns));
        let due = Some(m.intended_ns);
        record(&mut self.rtd, due, m.reply_received_ns);
        record(&mut self.rtd_from_sent, m.sent_ns, m.reply_received_ns);
        record(&mut self.down, due, m.received_ns);
        record(&mut self.until_acknowledged, m.sent_ns, m.acknowledged_ns);
        record(&mut self.slip, due, m.sent_ns);
        let due = u64::try_from(m.intended_ns).unwrap_or(0);
        self.timeline.offered(due);
        if let Some(over) = m.over_ns() {
            self.timeline.answered(due, u64::try_from(over).unwrap_or(0));
        }
    }

    fn outcomes(self, reordered: u64, schedule_ns: i64) -> Messages {
        let share = |part: u64, of: u64| part as f64 * 100.0 / of.max(1) as f64;
        let times = |of: &Histogram| -> Option<Times> { crate::times(of, 1e6) };
        Messages {
            sent: self.sent,
            received: self.received,
            answered: self.answered,
            delivered: self.received,
            replies: self.answered,
            unsent: self.scheduled - self.sent,
            acknowledged: self.acknowledged,
            acknowledged_lost: self.acknowledged_lost,
            reordered,
            lost_pct: share(self.sent - self.arrived, self.sent),
            unanswered_pct: (self.asking > 0).then(|| share(self.unanswered, self.asking)),
            loss_pct: share(self.sent - self.good, self.sent),
            duplicates: self.duplicates,
            late: self.late,
            rtd_ms: times(&self.rtd),
            rtd_from_sent_ms: times(&self.rtd_from_sent),
            down_ms: times(&self.down),
            acknowledged_ms: times(&self.until_acknowledged),
            slip_ms: times(&self.slip),
            quarters: self.timeline.quarters(u64::try_from(schedule_ns).unwrap_or(0)),
        }
    }
}

/// Adds the time between two events, if there were both.
fn record(to: &mut Histogram, from: Option<i64>, until: Option<i64>) {
    if let (Some(from), Some(until)) = (from, until) {
        to.record(u64::try_from(until - from).unwrap_or(0));
    }
}

/// Number of messages received after one that the same sender had sent to the same receiver later.
/// Rows are in the order of their sending.
fn reordered(messages: &MessageTable) -> io::Result<u64> {
    let mut latest: HashMap<[Arc<str>; 3], i64> = HashMap::new();
    let mut count = 0;
    // From last to first: a message received after one of those was overtaken.
    for m in messages.backwards() {
        let m = m?;
        let Some(at) = m.received_ns.filter(|_| !m.warmup) else { continue };
        let earliest = latest.entry([m.interaction, m.sender, m.peer]).or_insert(at);
        count += u64::from(at > *earliest);
        *earliest = at.min(*earliest);
    }
    Ok(count)
}

/// The spans in which messages were in flight, merged and in order, in ns since the run's start. A
/// message that was never completed counts as long as the longest completed one. With more than
/// [`SPANS`] spans, the shortest gaps between them count as part of them.
///
/// # Errors
/// When rows cannot be read.
pub fn under_way(messages: &MessageTable) -> io::Result<Vec<(i64, i64)>> {
    let end = |m: &Message| m.reply_received_ns.or(m.received_ns);
    let mut longest = 0;
    for m in messages.iter() {
        let m = m?;
        longest = longest.max(end(&m).zip(m.sent_ns).map_or(0, |(end, sent)| end - sent));
    }
    let (mut spans, mut gap) = (Vec::new(), 0);
    for m in messages.iter() {
        let m = m?;
        let Some(sent) = m.sent_ns else { continue };
        spans.push((sent, end(&m).unwrap_or(sent + longest)));
        if spans.len() == 2 * SPANS {
            spans = merged(spans, gap);
            while spans.len() > SPANS {
                // Starts at 1 us, since doubling 0 has no effect.
                gap = (2 * gap).max(1_000);
                spans = merged(spans, gap);
            }
        }
    }
    Ok(merged(spans, gap))
}

/// Most spans that are kept, 1 MB.
const SPANS: usize = 65_536;

/// Merges spans that overlap, or that are at most `gap` apart.
fn merged(mut spans: Vec<(i64, i64)>, gap: i64) -> Vec<(i64, i64)> {
    spans.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1.saturating_add(gap) => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn table(rows: &[Message]) -> MessageTable {
        let mut table = MessageTable::new(Path::new("/nowhere"));
        table.extend(rows.iter().cloned());
        table
    }

    fn outcomes(rows: &[Message], schedule_ns: i64) -> Messages {
        super::outcomes(&table(rows), schedule_ns).unwrap()
    }

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
        assert_eq!(under_way(&table(&messages)).unwrap(), [(0, 20), (30, 1_000_030)]);
    }

    #[test]
    fn spans_of_a_long_run_are_few_and_cover_all_messages() {
        // Each message is in flight for a second, in gaps of 2 s, from last to first.
        let count = 5 * SPANS as i64;
        let at = |number: i64| number * 3_000_000_000;
        let mut messages = MessageTable::new(Path::new("/nowhere"));
        messages.extend((0..count).rev().map(|n| message(at(n), Some(at(n) + 1_000_000_000))));
        let spans = under_way(&messages).unwrap();
        assert!(spans.len() <= 2 * SPANS, "{}", spans.len());
        assert!(spans.is_sorted() && spans.windows(2).all(|pair| pair[0].1 < pair[1].0));
        let covers = |from: i64| {
            let place = spans.partition_point(|span| span.0 <= from);
            spans[place - 1].1 >= from + 1_000_000_000
        };
        assert!((0..count).all(|number| covers(at(number))));
    }

    #[test]
    fn no_messages_no_figures() {
        let figures = outcomes(&[], 0);
        assert_eq!((figures.sent, figures.loss_pct, figures.rtd_ms), (0, 0.0, None));
    }
}
