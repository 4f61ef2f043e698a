//! Compares exchanges: the best value of an axis, by how much, and the payload sizes at which the
//! order changes.

use crate::exchanges::Exchanges;
use crate::format::{self, number};
use crate::markdown::{plain, table};
use crate::{Cell, CellRuns, Spread, Sweep};
use record::{Figure, SizeFigures};

/// Medians closer than this share count as equal, whatever their confidence intervals: the
/// difference is irrelevant for applications.
const EQUAL_SHARE: f64 = 0.02;
/// Payload sizes in the table of medians, in bytes.
const SHOWN: [u64; 6] = [0, 100, 1_000, 2_500, 5_000, 10_000];

/// Compared metric of exchanges; less is always better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareFigure {
    /// Time of an exchange.
    Time,
    /// Time until the payload has arrived.
    Received,
    /// Bytes on the wire, at the node that starts the exchange.
    Bytes,
}

impl CompareFigure {
    /// The rows of the median and of the ends of its confidence interval.
    fn rows(self) -> [Figure; 3] {
        type Of = SizeFigures;
        match self {
            Self::Time => [Of::time_ms, Of::time_low_ms, Of::time_high_ms],
            Self::Received => [Of::received_ms, Of::received_low_ms, Of::received_high_ms],
            Self::Bytes => [Of::bytes, Of::bytes_low, Of::bytes_high],
        }
    }

    fn unit(self) -> &'static str {
        if self == Self::Bytes { "B" } else { "ms" }
    }
}

/// One value of the axis at one size.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    name: String,
    median: f64,
    low: f64,
    high: f64,
}

impl Entry {
    /// Whether the difference to `other`, which is not smaller, is insignificant.
    fn is_equal_to(&self, other: &Self) -> bool {
        // Overlapping intervals are treated as equal, which is stricter than a test at 95 %.
        other.low <= self.high || other.median <= self.median * (1.0 + EQUAL_SHARE)
    }
}

/// All values at one payload size, best first.
#[derive(Debug, Clone)]
struct Ranking {
    size: u64,
    entries: Vec<Entry>,
}

impl Ranking {
    /// The order, such as `coap = opcua < mqtt`; equal ones are sorted by name, so that the order
    /// is not random.
    fn order(&self) -> String {
        let mut levels: Vec<Vec<&Entry>> = Vec::new();
        for entry in &self.entries {
            // Compared with the best of the level: equality of neighbours is not transitive, and a
            // chain could join unequal ends.
            match levels.last_mut() {
                Some(level) if level[0].is_equal_to(entry) => level.push(entry),
                _ => levels.push(vec![entry]),
            }
        }
        let level = |mut level: Vec<&Entry>| {
            level.sort_by(|a, b| a.name.cmp(&b.name));
            level.iter().map(|entry| plain(&entry.name)).collect::<Vec<_>>().join(" = ")
        };
        levels.into_iter().map(level).collect::<Vec<_>>().join(" < ")
    }

    /// Ratio of the metric of `name` to the best one.
    fn times(&self, name: &str) -> Option<f64> {
        let best = self.entries.first()?.median;
        let own = self.entries.iter().find(|entry| entry.name == name)?.median;
        (best > 0.0).then_some(own / best)
    }
}

/// Compares the exchanges of `sweep` by the values of `axis`, as Markdown: the best value per range
/// of payload sizes, and by how much; then the medians with their confidence intervals.
///
/// # Errors
/// If no run has the axis, or none has exchanges.
pub fn compare(sweep: &Sweep, axis: &str, figure: CompareFigure) -> Result<String, String> {
    let axes = sweep.axes();
    if !axes.contains(&axis) {
        let text = format!("no axis `{axis}` in these runs; the axes are: {}", axes.join(", "));
        return Err(format::plain(&text));
    }
    let others: Vec<&str> = axes.iter().copied().filter(|other| *other != axis).collect();
    let mut orders = Vec::new();
    let mut figures = Vec::new();
    for (group, cells) in groups(sweep, axis) {
        let place: Vec<String> =
            others.iter().map(|other| plain(group.get(other).unwrap_or("–"))).collect();
        let rankings = rankings(&cells, axis, figure);
        for stretch in size_ranges(&rankings) {
            let text = [stretch.sizes(), stretch.order.clone(), stretch.slowdowns()];
            orders.push(place.iter().cloned().chain(text).collect::<Vec<String>>());
        }
        figures.extend(cells.iter().filter_map(|cell| medians(cell, axis, &place, figure)));
    }
    if orders.is_empty() {
        return Err("no exchanges in these runs".to_owned());
    }
    let places: Vec<String> = others.iter().map(|other| plain(other)).collect();
    let head = |more: &[&str]| -> Vec<String> {
        places.iter().cloned().chain(more.iter().map(|head| (*head).to_owned())).collect()
    };
    let orders =
        table(&head(&["payload", "best first", "slower than the best"]), orders.into_iter());
    let mut sizes = vec![plain(axis)];
    let unit = figure.unit();
    sizes.extend(SHOWN.iter().map(|size| format!("{size} B, {unit}")));
    sizes.push("failed".to_owned());
    let sizes: Vec<&str> = sizes.iter().map(String::as_str).collect();
    Ok(format!("{orders}\n{}", table(&head(&sizes), figures.into_iter())))
}

/// Groups of cells that differ only in the axis, in the order of the sweep.
fn groups<'s>(sweep: &'s Sweep, axis: &str) -> Vec<(Cell, Vec<CellRuns<'s>>)> {
    let mut groups: Vec<(Cell, Vec<CellRuns<'s>>)> = Vec::new();
    for cell in sweep.cells() {
        let rest = cell.cell.without(axis);
        match groups.iter_mut().find(|(known, _)| *known == rest) {
            Some((_, cells)) => cells.push(cell),
            None => groups.push((rest, vec![cell])),
        }
    }
    groups
}

/// The ranking at each payload size for which several values of the axis have results.
fn rankings(cells: &[CellRuns<'_>], axis: &str, figure: CompareFigure) -> Vec<Ranking> {
    let mut sizes: Vec<u64> = cells.iter().flat_map(sizes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let of = |size: u64| {
        let mut entries: Vec<Entry> = cells
            .iter()
            .filter_map(|cell| {
                let [median, low, high] = figure.rows().map(|figure| at(cell, size, figure));
                let median = median?.median;
                let name = cell.cell.get(axis)?.to_owned();
                // Without an interval, the median is both of its ends.
                let end = |end: Option<Spread>| end.map_or(median, |spread| spread.median);
                Some(Entry { name, median, low: end(low), high: end(high) })
            })
            .collect();
        entries.sort_by(|a, b| a.median.total_cmp(&b.median));
        Ranking { size, entries }
    };
    // A size with one value of the axis has no order.
    sizes.into_iter().map(of).filter(|ranking| ranking.entries.len() > 1).collect()
}

/// The payload sizes of a cell's exchanges.
fn sizes(cell: &CellRuns<'_>) -> Vec<u64> {
    cell.runs.iter().flat_map(|run| run.summary.exchanged_sizes()).map(|(_, size)| size).collect()
}

/// A metric of the exchanges of one payload size, over repeats and workloads.
fn at(cell: &CellRuns<'_>, size: u64, figure: Figure) -> Option<Spread> {
    cell.spread(|summary| {
        let names = summary.exchanged_sizes().into_iter().filter(|(_, own)| *own == size);
        let found = names.filter_map(|(name, _)| summary.exchanged(name, size, figure));
        Spread::of(found).map(|spread| spread.median)
    })
}

/// Consecutive payload sizes with the same order.
struct SizeRange<'r> {
    order: String,
    rankings: Vec<&'r Ranking>,
}

impl SizeRange<'_> {
    fn sizes(&self) -> String {
        let (first, last) = (self.rankings.first(), self.rankings.last());
        match (first.map(|r| r.size), last.map(|r| r.size)) {
            (Some(first), Some(last)) if first != last => format!("{first} to {last} B"),
            (Some(first), _) => format!("{first} B"),
            _ => String::new(),
        }
    }

    /// Ratio of each other value to the best: minimum to maximum.
    fn slowdowns(&self) -> String {
        let Some(last) = self.rankings.last() else { return String::new() };
        let names = last.entries.iter().map(|entry| entry.name.as_str());
        let texts = names.filter_map(|name| {
            let all = self.rankings.iter().filter_map(|ranking| ranking.times(name));
            let spread = Spread::of(all)?;
            let [min, max] = [spread.min, spread.max].map(|times| format!("{times:.2}"));
            // A value that is the best at all sizes needs no ratio.
            match (min == max, max == "1.00") {
                (true, true) => None,
                (true, false) => Some(format!("{} {min} times", plain(name))),
                _ => Some(format!("{} {min} to {max} times", plain(name))),
            }
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// Splits the rankings where the order changes. A single size that differs from equal neighbours
/// counts as an outlier and joins them.
fn size_ranges(rankings: &[Ranking]) -> Vec<SizeRange<'_>> {
    let mut orders: Vec<String> = rankings.iter().map(Ranking::order).collect();
    for middle in 1..orders.len().saturating_sub(1) {
        if orders[middle - 1] == orders[middle + 1] {
            orders[middle] = orders[middle - 1].clone();
        }
    }
    let mut size_ranges: Vec<SizeRange<'_>> = Vec::new();
    for (ranking, order) in rankings.iter().zip(orders) {
        match size_ranges.last_mut() {
            Some(stretch) if stretch.order == order => stretch.rankings.push(ranking),
            _ => size_ranges.push(SizeRange { order, rankings: vec![ranking] }),
        }
    }
    size_ranges
}

/// A row of medians with their confidence intervals, at some payload sizes.
fn medians(
    cell: &CellRuns<'_>,
    axis: &str,
    place: &[String],
    figure: CompareFigure,
) -> Option<Vec<String>> {
    if sizes(cell).is_empty() {
        return None;
    }
    let mut row = place.to_vec();
    row.push(plain(cell.cell.get(axis).unwrap_or("–")));
    for size in SHOWN {
        let [median, low, high] = figure.rows().map(|figure| at(cell, size, figure));
        row.push(match (median, low, high) {
            (Some(median), Some(low), Some(high)) if low.median != high.median => format!(
                "{} ({} to {})",
                number(median.median),
                number(low.median),
                number(high.median)
            ),
            (Some(median), ..) => number(median.median),
            _ => "–".to_owned(),
        });
    }
    let all: Vec<Exchanges> = cell.runs.iter().flat_map(|run| run.summary.exchanges()).collect();
    let sum = |of: fn(&Exchanges) -> u64| -> u64 { all.iter().map(of).sum() };
    row.push(format!("{} of {}", sum(|own| own.failed), sum(|own| own.count)));
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Run, Summary};
    use serde_json::{Value, json};

    /// A run of `protocol` that takes `times` ms at 0 B, 100 B and so on.
    fn run(protocol: &str, network: &str, times: &[f64]) -> Run {
        let size = |(step, time): (usize, &f64)| {
            let figures = json!({
                "time_ms": time, "time_low_ms": time - 0.1, "time_high_ms": time + 0.1,
                "bytes": 100, "bytes_low": 100, "bytes_high": 100,
            });
            ((step * 100).to_string(), figures)
        };
        let sizes: serde_json::Map<String, Value> = times.iter().enumerate().map(size).collect();
        let summary = json!({
            "experiment": "e", "seed": 1, "repeat": 0,
            "cell": {"protocol": protocol, "network": network},
            "verdict": {"status": "valid", "reasons": []},
            "exchanges": {"transfer": {"exchanges": times.len(), "failed": 1, "sizes": sizes}},
        });
        Run { summary: Summary::from_json(&summary.to_string()).unwrap(), ..Run::default() }
    }

    fn compared(runs: Vec<Run>) -> String {
        let sweep = Sweep { runs, ..Sweep::default() };
        compare(&sweep, "protocol", CompareFigure::Time).unwrap()
    }

    #[test]
    fn the_order_and_where_it_changes() {
        let text = compared(vec![
            run("coap", "edge", &[10.0, 10.0, 20.0, 20.0]),
            run("opcua", "edge", &[10.1, 10.1, 15.0, 15.0]),
            run("mqtt", "edge", &[30.0, 30.0, 30.0, 60.0]),
        ]);
        let rows = [
            "| edge | 0 to 100 B | coap = opcua < mqtt | opcua 1.01 times, mqtt 3.00 times |",
            "| edge | 200 to 300 B | opcua < coap < mqtt | coap 1.33 times, mqtt 2.00 to 4.00 times |",
        ];
        for row in rows {
            assert!(text.contains(row), "{row}\n{text}");
        }
        assert!(text.contains("| edge | coap | 10.0 (9.90 to 10.1) |"), "{text}");
        assert!(text.contains("| 1 of 4 |"), "{text}");
    }

    #[test]
    fn one_spike_is_no_change_of_order() {
        let times = |spike| [10.0, 10.0, spike, 10.0, 10.0];
        let text = compared(vec![
            run("a", "x", &times(10.0)),
            run("b", "x", &[12.0, 12.0, 9.0, 12.0, 12.0]),
        ]);
        assert!(text.contains("| x | 0 to 400 B | a < b |"), "{text}");
    }

    #[test]
    fn what_cannot_be_told_apart_is_level() {
        let wide = |name, median: f64| Entry {
            name: String::from(name),
            median,
            low: median - 2.0,
            high: median + 2.0,
        };
        let ranking =
            Ranking { size: 0, entries: vec![wide("b", 10.0), wide("a", 13.0), wide("c", 17.5)] };
        assert_eq!(ranking.order(), "a = b < c");
    }

    #[test]
    fn an_axis_that_is_not_there_is_said_so() {
        let sweep = Sweep { runs: vec![run("a", "x", &[1.0])], ..Sweep::default() };
        let error = compare(&sweep, "protocl", CompareFigure::Bytes).unwrap_err();
        assert_eq!(error, "no axis `protocl` in these runs; the axes are: network, protocol");
    }
}
