//! The figures of exchanges in `summary.json`: by size, and by section.

use crate::exchange::workloads;
use crate::folder::Results;
use measure::{Message, SectionRow};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};

/// The results of each exchange workload by name; null without any.
pub(crate) fn exchanges(results: &Results<'_>) -> Value {
    let mut all = Map::new();
    for (_, exchange) in workloads(results.plan) {
        let (warmup, rows): (Vec<&Message>, Vec<&Message>) = results
            .messages
            .iter()
            .filter(|m| *m.interaction == *exchange.name)
            .partition(|m| m.warmup);
        let mut sections: HashMap<u64, Vec<&SectionRow>> = HashMap::new();
        for row in results.sections.iter().filter(|row| *row.interaction == *exchange.name) {
            sections.entry(row.message).or_default().push(row);
        }
        let mut failures: BTreeMap<&str, u64> = BTreeMap::new();
        for failed in rows.iter().filter_map(|row| row.failed.as_ref()) {
            *failures.entry(&failed.reason).or_default() += 1;
        }
        let mut sizes = Map::new();
        for size in &exchange.sizes {
            let own: Vec<&Message> =
                rows.iter().copied().filter(|row| u64::from(row.bytes) == *size).collect();
            sizes.insert(size.to_string(), of_a_size(&own, &sections));
        }
        let figures = json!({
            "protocol": exchange.protocol.name(),
            "exchanges": count(&rows, |row| row.sent_ns.is_some()),
            "warmup": count(&warmup, |row| row.sent_ns.is_some()),
            "failed": count(&rows, |row| row.failed.is_some()),
            "late": count(&rows, |row| row.held_ns > 0),
            "undelivered": count(&rows, |row| {
                row.reply_received_ns.is_some() && row.received_ns.is_none()
            }),
            "failures": failures,
            "sizes": sizes,
        });
        all.insert(exchange.name.clone(), figures);
    }
    if all.is_empty() { Value::Null } else { Value::Object(all) }
}

fn count(rows: &[&Message], is: impl Fn(&Message) -> bool) -> usize {
    rows.iter().filter(|row| is(row)).count()
}

/// The results of the exchanges of one size: those that succeeded, and the number that did not.
fn of_a_size(rows: &[&Message], sections: &HashMap<u64, Vec<&SectionRow>>) -> Value {
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
    let mut figures = Map::new();
    figures.insert("exchanges".to_owned(), json!(count(rows, |row| row.sent_ns.is_some())));
    figures.insert("failed".to_owned(), json!(count(rows, |row| row.failed.is_some())));
    put(&mut figures, "time", "_ms", times);
    put(&mut figures, "received", "_ms", received);
    put(&mut figures, "bytes", "", bytes);
    figures.insert("sections".to_owned(), of_sections(&parts));
    Value::Object(figures)
}

fn of_sections(exchanges: &[&[&SectionRow]]) -> Value {
    let mut names: Vec<&str> = Vec::new();
    for row in exchanges.iter().copied().flatten() {
        if !names.contains(&&*row.section) {
            names.push(&row.section);
        }
    }
    let rows = exchanges.iter().copied().flatten();
    let mut all = Map::new();
    for name in names {
        let own: Vec<&&SectionRow> = rows.clone().filter(|row| *row.section == *name).collect();
        let each = |of: &dyn Fn(&SectionRow) -> f64| own.iter().map(|row| of(row)).collect();
        let mut figures = Map::new();
        figures.insert("exchanges".to_owned(), json!(own.len()));
        put(&mut figures, "time", "_ms", each(&|row| (row.end_ns - row.begin_ns) as f64 / 1e6));
        put(&mut figures, "bytes", "", each(&|row| row.bytes() as f64));
        for (way, values) in [
            ("out_bytes", each(&|row| row.out_bytes as f64)),
            ("in_bytes", each(&|row| row.in_bytes as f64)),
        ] {
            figures.insert(way.to_owned(), json!(middle(values).map(|m| m.median)));
        }
        all.insert(name.to_owned(), Value::Object(figures));
    }
    Value::Object(all)
}

/// Adds a median and its interval, as `time_ms`, `time_low_ms`, `time_high_ms`.
fn put(figures: &mut Map<String, Value>, name: &str, unit: &str, values: Vec<f64>) {
    let middle = middle(values);
    let mut put = |what: &str, value: Option<f64>| {
        figures.insert(format!("{name}{what}{unit}"), json!(value));
    };
    put("", middle.map(|m| m.median));
    put("_low", middle.map(|m| m.low));
    put("_high", middle.map(|m| m.high));
}

/// A median with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Middle {
    median: f64,
    low: f64,
    high: f64,
}

/// The median of `values`, with an interval of order statistics: from the k-th least to the k-th
/// greatest value. k is the largest number for which P(Binomial(n, 1/2) < k) is at most 2.5 %. With
/// five values or fewer the interval is from least to greatest, which is less than 95 %.
fn middle(mut values: Vec<f64>) -> Option<Middle> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    if n == 0 {
        return None;
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
    Some(Middle { median, low: values[place], high: values[n - 1 - place] })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(n: u32) -> Vec<f64> {
        (1..=n).rev().map(f64::from).collect()
    }

    #[test]
    fn intervals_are_those_of_published_tables() {
        // Ranks for 95 %: 2 and 9 of 10 values, 8 and 18 of 25, 40 and 61 of 100.
        for (n, low, high) in
            [(3, 1.0, 3.0), (6, 1.0, 6.0), (10, 2.0, 9.0), (25, 8.0, 18.0), (100, 40.0, 61.0)]
        {
            let found = middle(to(n)).unwrap();
            assert_eq!((found.low, found.high), (low, high), "{n}");
        }
        assert_eq!(middle(to(4)).unwrap().median, 2.5);
        assert_eq!(middle(Vec::new()), None);
        assert!(middle(to(5000)).unwrap().low > 2400.0);
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
        let part = |message, section: &str, bytes| SectionRow {
            message,
            section: section.into(),
            end_ns: 500_000,
            out_bytes: bytes,
            in_bytes: 1,
            ..SectionRow::default()
        };
        let (a, b) = (row(0, Some(4_000_000)), row(1, None));
        let parts = [part(0, "payload", 10), part(0, "transport_close", 5), part(1, "payload", 99)];
        let mut sections: HashMap<u64, Vec<&SectionRow>> = HashMap::new();
        for part in &parts {
            sections.entry(part.message).or_default().push(part);
        }
        let found = of_a_size(&[&a, &b], &sections);
        assert_eq!((&found["exchanges"], &found["failed"]), (&json!(2), &json!(1)));
        assert_eq!((&found["time_ms"], &found["bytes"]), (&json!(3.0), &json!(17.0)));
        assert_eq!(found["sections"]["payload"]["out_bytes"], json!(10.0));
        assert_eq!(found["sections"]["payload"]["time_ms"], json!(0.5));
    }
}
