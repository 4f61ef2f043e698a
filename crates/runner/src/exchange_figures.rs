//! The figures of exchanges in `summary.json`: by size, and by section.

use crate::exchange::workloads;
use crate::results::{Results, rows_of};
use measure::{Message, SectionRow};
use record::{Exchanges, SectionFigures, SizeFigures};
use std::collections::{BTreeMap, HashMap};
use std::io;

/// The results of each exchange workload by name; `None` without any.
///
/// # Errors
/// When rows cannot be read.
pub(crate) fn exchanges(results: &Results<'_>) -> io::Result<Option<BTreeMap<String, Exchanges>>> {
    let mut all = BTreeMap::new();
    for (_, exchange) in workloads(results.plan) {
        // Medians need all rows of a workload at once.
        let own = rows_of(results, &exchange.name).collect::<io::Result<Vec<_>>>()?;
        let (warmup, rows): (Vec<&Message>, Vec<&Message>) = own.iter().partition(|m| m.warmup);
        let mut sections: HashMap<u64, Vec<&SectionRow>> = HashMap::new();
        for row in results.sections.iter().filter(|row| *row.interaction == *exchange.name) {
            sections.entry(row.message).or_default().push(row);
        }
        let mut failures: BTreeMap<String, u64> = BTreeMap::new();
        for failed in rows.iter().filter_map(|row| row.failed.as_ref()) {
            *failures.entry(failed.reason.to_string()).or_default() += 1;
        }
        let mut sizes = BTreeMap::new();
        for size in &exchange.sizes {
            let own: Vec<&Message> =
                rows.iter().copied().filter(|row| u64::from(row.bytes) == *size).collect();
            sizes.insert(*size, of_a_size(&own, &sections));
        }
        let figures = Exchanges {
            protocol: exchange.protocol.name().to_owned(),
            exchanges: count(&rows, |row| row.sent_ns.is_some()),
            warmup: count(&warmup, |row| row.sent_ns.is_some()),
            failed: count(&rows, |row| row.failed.is_some()),
            late: count(&rows, |row| row.held_ns > 0),
            undelivered: count(&rows, |row| {
                row.reply_received_ns.is_some() && row.received_ns.is_none()
            }),
            failures,
            sizes,
        };
        all.insert(exchange.name.clone(), figures);
    }
    Ok((!all.is_empty()).then_some(all))
}

fn count(rows: &[&Message], is: impl Fn(&Message) -> bool) -> u64 {
    rows.iter().filter(|row| is(row)).count() as u64
}

/// The results of the exchanges of one size: those that succeeded, and the number that did not.
fn of_a_size(rows: &[&Message], sections: &HashMap<u64, Vec<&SectionRow>>) -> SizeFigures {
    let ms = |from: Option<i64>, to: Option<i64>| Some((to? - from?) as f64 / 1e6);
    let times = rows.iter().filter_map(|row| ms(row.sent_ns, row.reply_received_ns)).collect();
    let received = rows.iter().filter_map(|row| ms(row.sent_ns, row.received_ns)).collect();
    let well = rows.iter().filter(|row| row.reply_received_ns.is_some());
    let mut parts: Vec<&[&SectionRow]> = Vec::new();
    let mut last = None;
    for row in well {
        // A one-to-many exchange has a row per receiver but counts once.
        if last.replace(row.message) != Some(row.message) {
            parts.extend(sections.get(&row.message).map(Vec::as_slice));
        }
    }
    let bytes = parts.iter().map(|own| own.iter().map(|row| row.bytes() as f64).sum()).collect();
    let [time_ms, time_low_ms, time_high_ms] = middle(times);
    let [received_ms, received_low_ms, received_high_ms] = middle(received);
    let [bytes, bytes_low, bytes_high] = middle(bytes);
    SizeFigures {
        exchanges: count(rows, |row| row.sent_ns.is_some()),
        failed: count(rows, |row| row.failed.is_some()),
        time_ms,
        time_low_ms,
        time_high_ms,
        received_ms,
        received_low_ms,
        received_high_ms,
        bytes,
        bytes_low,
        bytes_high,
        sections: of_sections(&parts),
    }
}

fn of_sections(exchanges: &[&[&SectionRow]]) -> BTreeMap<String, SectionFigures> {
    let mut sections: BTreeMap<String, Vec<&SectionRow>> = BTreeMap::new();
    for row in exchanges.iter().copied().flatten() {
        sections.entry(row.section.to_string()).or_default().push(row);
    }
    let of = |own: &[&SectionRow]| {
        let each = |of: fn(&SectionRow) -> f64| own.iter().map(|row| of(row)).collect();
        let [time_ms, time_low_ms, time_high_ms] =
            middle(each(|row| (row.end_ns - row.begin_ns) as f64 / 1e6));
        let [bytes, bytes_low, bytes_high] = middle(each(|row| row.bytes() as f64));
        SectionFigures {
            exchanges: own.len() as u64,
            time_ms,
            time_low_ms,
            time_high_ms,
            bytes,
            bytes_low,
            bytes_high,
            out_bytes: middle(each(|row| row.out_bytes as f64))[0],
            in_bytes: middle(each(|row| row.in_bytes as f64))[0],
        }
    };
    sections.into_iter().map(|(name, own)| (name, of(&own))).collect()
}

/// The median of `values` and the ends of its 95 % confidence interval of order statistics: from
/// the k-th least to the k-th greatest value. k is the largest number for which P(Binomial(n, 1/2) < k) is at most 2.5 %. With
/// five values or fewer the interval is from least to greatest, which is less than 95 %.
fn middle(mut values: Vec<f64>) -> [Option<f64>; 3] {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    if n == 0 {
        return [None; 3];
    }
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
    let median = f64::midpoint(values[(n - 1) / 2], values[n / 2]);
    [median, values[place], values[n - 1 - place]].map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::event::Section;

    fn to(n: u32) -> Vec<f64> {
        (1..=n).rev().map(f64::from).collect()
    }

    #[test]
    fn intervals_are_those_of_published_tables() {
        // Ranks for 95 %: 2 and 9 of 10 values, 8 and 18 of 25, 40 and 61 of 100.
        for (n, low, high) in
            [(3, 1.0, 3.0), (6, 1.0, 6.0), (10, 2.0, 9.0), (25, 8.0, 18.0), (100, 40.0, 61.0)]
        {
            let [_, from, to] = middle(to(n));
            assert_eq!((from, to), (Some(low), Some(high)), "{n}");
        }
        assert_eq!(middle(to(4))[0], Some(2.5));
        assert_eq!(middle(Vec::new()), [None; 3]);
        assert!(middle(to(5000))[1] > Some(2400.0));
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
            end_ns: 500_000,
            out_bytes: bytes,
            in_bytes: 1,
            ..SectionRow::default()
        };
        let (a, b) = (row(0, Some(4_000_000)), row(1, None));
        let (payload, close) = (Section::Payload, Section::TransportClose);
        let parts = [part(0, payload, 10), part(0, close, 5), part(1, payload, 99)];
        let mut sections: HashMap<u64, Vec<&SectionRow>> = HashMap::new();
        for part in &parts {
            sections.entry(part.message).or_default().push(part);
        }
        let found = of_a_size(&[&a, &b], &sections);
        assert_eq!((found.exchanges, found.failed), (2, 1));
        assert_eq!((found.time_ms, found.bytes), (Some(3.0), Some(17.0)));
        let payload = &found.sections["payload"];
        assert_eq!((payload.out_bytes, payload.time_ms), (Some(10.0), Some(0.5)));
    }
}
