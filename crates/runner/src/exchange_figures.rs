//! The figures of exchanges in `summary.json`: by size, and by section.

use crate::exchange::workloads;
use crate::results::{Results, rows_of};
use experiment::Exchange;
use measure::{Message, OrderStatistics, SectionRow};
use record::event::Section;
use record::{Exchanges, SectionFigures, SizeFigures};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// The results of each exchange workload by name; `None` without any. Values beyond a number are in
/// a file in `folder`.
///
/// # Errors
/// When rows cannot be read.
pub(crate) fn exchanges(
    results: &Results<'_>,
    folder: &Path,
) -> io::Result<Option<BTreeMap<String, Exchanges>>> {
    let mut all = BTreeMap::new();
    for (_, exchange) in workloads(results.plan) {
        let mut figures = Figures::new(exchange, folder);
        for row in rows_of(results, &exchange.name) {
            figures.add(&row?);
        }
        for row in results.sections.iter() {
            let row = row?;
            if *row.interaction == *exchange.name {
                figures.add_section(&row);
            }
        }
        all.insert(exchange.name.clone(), figures.end()?);
    }
    Ok((!all.is_empty()).then_some(all))
}

/// Counts of a workload, and values whose medians are wanted.
struct Figures {
    counts: Exchanges,
    values: OrderStatistics<Key>,
    /// The sections that occurred, by size.
    sections: BTreeMap<u64, BTreeSet<Section>>,
    /// The exchange of the last section.
    last: Option<Sum>,
}

/// Bytes of an exchange's sections so far.
struct Sum {
    message: u64,
    size: u64,
    bytes: u64,
}

/// What is measured of an exchange of a size, or of one of its sections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    size: u64,
    section: Option<Section>,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    TimeMs,
    ReceivedMs,
    Bytes,
    OutBytes,
    InBytes,
}

impl Figures {
    fn new(exchange: &Exchange, folder: &Path) -> Self {
        let sizes = exchange.sizes.iter().map(|size| (*size, SizeFigures::default())).collect();
        let protocol = exchange.protocol.name().to_owned();
        let counts = Exchanges { protocol, sizes, ..Exchanges::default() };
        Self { counts, values: OrderStatistics::new(folder), sections: BTreeMap::new(), last: None }
    }

    /// Adds an exchange with one receiver.
    fn add(&mut self, row: &Message) {
        let is_sent = u64::from(row.sent_ns.is_some());
        let all = &mut self.counts;
        if row.warmup {
            all.warmup += is_sent;
            return;
        }
        all.exchanges += is_sent;
        all.failed += u64::from(row.failed.is_some());
        all.late += u64::from(row.held_ns > 0);
        all.undelivered += u64::from(row.reply_received_ns.is_some() && row.received_ns.is_none());
        if let Some(failed) = &row.failed {
            *all.failures.entry(failed.reason.to_string()).or_default() += 1;
        }
        let size = u64::from(row.bytes);
        let Some(own) = all.sizes.get_mut(&size) else { return };
        own.exchanges += is_sent;
        own.failed += u64::from(row.failed.is_some());
        let since_sent = |at: Option<i64>| Some((at? - row.sent_ns?) as f64 / 1e6);
        for (what, at) in
            [(What::TimeMs, row.reply_received_ns), (What::ReceivedMs, row.received_ns)]
        {
            if let Some(ms) = since_sent(at) {
                self.values.push(Key { size, section: None, what }, ms);
            }
        }
    }

    /// Adds a section of an exchange, if that succeeded and is no warm-up. The sections of an exchange follow each other.
    fn add_section(&mut self, row: &SectionRow) {
        let size = u64::from(row.payload_bytes);
        if !row.answered || row.warmup || !self.counts.sizes.contains_key(&size) {
            return;
        }
        if self.last.as_ref().is_none_or(|last| last.message != row.message) {
            self.end_exchange();
            self.last = Some(Sum { message: row.message, size, bytes: 0 });
        }
        if let Some(last) = &mut self.last {
            last.bytes += row.bytes();
        }
        for (what, value) in [
            (What::TimeMs, (row.end_ns - row.begin_ns) as f64 / 1e6),
            (What::Bytes, row.bytes() as f64),
            (What::OutBytes, row.out_bytes as f64),
            (What::InBytes, row.in_bytes as f64),
        ] {
            self.values.push(Key { size, section: Some(row.section), what }, value);
        }
        self.sections.entry(size).or_default().insert(row.section);
    }

    /// The last exchange has no more sections.
    fn end_exchange(&mut self) {
        if let Some(Sum { size, bytes, .. }) = self.last.take() {
            self.values.push(Key { size, section: None, what: What::Bytes }, bytes as f64);
        }
    }

    fn end(mut self) -> io::Result<Exchanges> {
        self.end_exchange();
        let mut all = std::mem::take(&mut self.counts);
        for (size, own) in &mut all.sizes {
            let middle = |what| self.middle(Key { size: *size, section: None, what });
            [own.time_ms, own.time_low_ms, own.time_high_ms] = middle(What::TimeMs)?;
            [own.received_ms, own.received_low_ms, own.received_high_ms] =
                middle(What::ReceivedMs)?;
            [own.bytes, own.bytes_low, own.bytes_high] = middle(What::Bytes)?;
            for section in self.sections.get(size).into_iter().flatten() {
                own.sections.insert(section.to_string(), self.of_section(*size, *section)?);
            }
        }
        Ok(all)
    }

    fn of_section(&self, size: u64, section: Section) -> io::Result<SectionFigures> {
        let key = |what| Key { size, section: Some(section), what };
        let [time_ms, time_low_ms, time_high_ms] = self.middle(key(What::TimeMs))?;
        let [bytes, bytes_low, bytes_high] = self.middle(key(What::Bytes))?;
        Ok(SectionFigures {
            exchanges: self.values.count(&key(What::TimeMs)),
            time_ms,
            time_low_ms,
            time_high_ms,
            bytes,
            bytes_low,
            bytes_high,
            out_bytes: self.middle(key(What::OutBytes))?[0],
            in_bytes: self.middle(key(What::InBytes))?[0],
        })
    }

    /// The median of a series and the ends of its confidence interval; see [`ranks`].
    fn middle(&self, key: Key) -> io::Result<[Option<f64>; 3]> {
        let found = self.values.ranks(&key, &ranks(self.values.count(&key)))?;
        let [low, below, above, high] = found[..] else { return Ok([None; 3]) };
        Ok([f64::midpoint(below, above), low, high].map(Some))
    }
}

/// Ranks among `n` values, from 0 for the least: the lower end of the 95 % confidence interval of
/// order statistics for the median, the two values around the middle, and the upper end. The
/// interval is from the k-th least to the k-th greatest value; k is the largest number for which
/// P(Binomial(n, 1/2) < k) is at most 2.5 %. With five values or fewer the interval is from least to
/// greatest, which is less than 95 %.
fn ranks(n: u64) -> [u64; 4] {
    // Log of the probability of exactly i: 0.5^n alone may underflow.
    let mut log_chance = -(n as f64) * std::f64::consts::LN_2;
    let (mut sum, mut k) = (0.0, 0);
    while k < n / 2 {
        sum += log_chance.exp();
        if sum > 0.025 {
            break;
        }
        log_chance += ((n - k) as f64 / (k + 1) as f64).ln();
        k += 1;
    }
    let place = k.saturating_sub(1);
    let last = n.saturating_sub(1);
    [place, last / 2, n / 2, last - place.min(last)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn middle(values: impl Iterator<Item = u32>) -> [Option<f64>; 3] {
        let mut figures = Figures {
            counts: Exchanges::default(),
            values: OrderStatistics::new(Path::new("/nowhere")),
            sections: BTreeMap::new(),
            last: None,
        };
        let key = Key { size: 0, section: None, what: What::Bytes };
        values.for_each(|value| figures.values.push(key, value.into()));
        figures.middle(key).unwrap()
    }

    #[test]
    fn intervals_are_those_of_published_tables() {
        // Ranks for 95 %: 2 and 9 of 10 values, 8 and 18 of 25, 40 and 61 of 100.
        for (n, low, high) in
            [(3, 1.0, 3.0), (6, 1.0, 6.0), (10, 2.0, 9.0), (25, 8.0, 18.0), (100, 40.0, 61.0)]
        {
            let [_, from, to] = middle((1..=n).rev());
            assert_eq!((from, to), (Some(low), Some(high)), "{n}");
        }
        assert_eq!(middle(1..5)[0], Some(2.5));
        assert_eq!(middle(std::iter::once(7)), [Some(7.0); 3]);
        assert_eq!(middle(std::iter::empty()), [None; 3]);
        assert!(middle(1..5001)[1] > Some(2400.0));
    }

    #[test]
    fn failures_count_and_are_in_no_median() {
        let row = |message, end: Option<i64>| Message {
            message,
            bytes: 9,
            sent_ns: Some(1_000_000),
            reply_received_ns: end,
            failed: end.is_none().then(Box::default),
            ..Message::default()
        };
        let part = |message, section, bytes| SectionRow {
            message,
            section,
            payload_bytes: 9,
            end_ns: 500_000,
            out_bytes: bytes,
            in_bytes: 1,
            answered: message == 0,
            ..SectionRow::default()
        };
        let plan = crate::test_plan::plan(
            "experiment: e
nodes: {a: {count: 1}, b: {count: 1}}
networks: {air: {attach: [a, b], subnet: 10.0.0.0/24}}
workloads:
  - exchange: {sources: b, sinks: a, protocol: udp, payload: 9 B, repetitions: 2, every: 10 ms}
",
        );
        let (_, exchange) = workloads(&plan).next().unwrap();
        let mut figures = Figures::new(exchange, Path::new("/nowhere"));
        figures.add(&row(0, Some(4_000_000)));
        figures.add(&row(1, None));
        figures.add(&Message { warmup: true, ..row(2, Some(90_000_000)) });
        let (payload, close) = (Section::Payload, Section::TransportClose);
        figures.add_section(&part(0, payload, 10));
        figures.add_section(&part(0, close, 5));
        figures.add_section(&part(1, payload, 99));
        figures.add_section(&SectionRow { warmup: true, ..part(0, payload, 900) });
        let all = figures.end().unwrap();
        assert_eq!((all.exchanges, all.failed, all.warmup), (2, 1, 1));
        let found = &all.sizes[&9];
        assert_eq!((found.exchanges, found.failed), (2, 1));
        assert_eq!((found.time_ms, found.bytes), (Some(3.0), Some(17.0)));
        let payload = &found.sections["payload"];
        assert_eq!((payload.out_bytes, payload.time_ms), (Some(10.0), Some(0.5)));
        assert_eq!((payload.exchanges, found.sections.len()), (1, 2));
    }
}
