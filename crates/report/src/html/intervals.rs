//! Links outside tolerance, and link settings that change during a run.

use super::chart::{self, Axis, Line, colour};
use super::page::{Page, View};
use super::table::{Place, Table};
use crate::{IntervalRow, Run, format};
use std::collections::BTreeMap;

/// Maximum number of listed intervals outside tolerance.
const LISTED: usize = 10;

/// A metric of a group's direction by the middle of an interval, in ms: configured, measured, and
/// the number of frames as weight.
type Points = BTreeMap<u64, [f64; 3]>;

/// Part of the links section: intervals outside tolerance, and metrics over time if the
/// configuration changed.
pub(super) fn part(page: &mut Page, view: &View<'_>) {
    let mut broken: Vec<(String, IntervalRow)> = Vec::new();
    let (mut all, mut changed) = (0, None);
    for run in view.cells.iter().flat_map(|cell| &cell.runs) {
        // Runs of earlier versions have no intervals.
        let Ok(rows) = run.intervals() else { continue };
        all += rows.len();
        // The first run with changes; each further one would repeat the charts.
        if changed.is_none() && changes(&rows) {
            changed = Some((run, rows.clone()));
        }
        broken.extend(rows.into_iter().filter(|row| !row.kept).map(|row| (run.name(), row)));
    }
    if all == 0 {
        return;
    }
    page.heading("Links outside tolerance");
    let count = broken.len();
    page.paragraph(&format!(
        "{count} of {all} link intervals: delay, loss or rate differ from the configured values \
         by more than chance and the allowed lateness explain."
    ));
    if count > 0 {
        let off = |row: &IntervalRow| {
            // In multiples of the tolerance, so that delays and losses can be sorted together.
            let far = |[configured, measured, most]: [f64; 3]| {
                // A tolerance of 0 would divide by 0.
                (measured - configured).abs() / most.max(1e-9)
            };
            far(row.delay_ms).max(far(row.loss_pct))
        };
        broken.sort_by(|a, b| off(&b.1).total_cmp(&off(&a.1)));
        page.table(&listed(&broken[..count.min(LISTED)]));
    }
    if let Some((run, rows)) = changed {
        over_time(page, run, &rows);
    }
}

/// Whether the configuration of any link changes.
fn changes(rows: &[IntervalRow]) -> bool {
    let mut configured: BTreeMap<(&str, &str, &str), [f64; 3]> = BTreeMap::new();
    rows.iter().any(|row| {
        let now = [row.delay_ms[0], row.loss_pct[0], row.rate_bit_s[0]];
        let link = (row.node.as_str(), row.interface.as_str(), row.direction.as_str());
        *configured.entry(link).or_insert(now) != now
    })
}

fn over_time(page: &mut Page, run: &Run, rows: &[IntervalRow]) {
    page.heading("Links over time");
    page.paragraph(&format!(
        "The configuration of links changed during the run. This shows {}, by group and \
         direction: dashed is configured, solid is measured.",
        run.name()
    ));
    let (mut delays, mut losses): (BTreeMap<String, Points>, BTreeMap<String, Points>) =
        Default::default();
    for row in rows {
        let name = format!("{} {}", run.topology.group_of(&row.node), row.direction);
        // ms, because floating-point numbers are no keys.
        let middle = (500.0 * (row.start_s + row.end_s)).max(0.0) as u64;
        // Weights: a delay is measured on frames that arrive, a loss on all that could be lost.
        let passed = row.at_risk - row.lost;
        for (all, [configured, measured, _], weight) in
            [(&mut delays, row.delay_ms, passed), (&mut losses, row.loss_pct, row.at_risk)]
        {
            let point = all.entry(name.clone()).or_default().entry(middle).or_default();
            point[0] += configured * weight;
            point[1] += measured * weight;
            point[2] += weight;
        }
    }
    let keys: Vec<(String, &str)> =
        delays.keys().enumerate().map(|(place, name)| (name.clone(), colour(place))).collect();
    page.begin_charts(&keys);
    for (title, unit, all) in [("delay", "ms", delays), ("loss", "%", losses)] {
        let mut lines = Vec::new();
        for (place, (name, points)) in all.iter().enumerate() {
            for (which, dashed) in [(0, true), (1, false)] {
                let points = points.iter().filter(|(_, point)| point[2] > 0.0);
                let points =
                    points.map(|(ms, point)| (*ms as f64 / 1e3, point[which] / point[2])).collect();
                let (name, colour) = (name.clone(), colour(place));
                lines.push(Line { name, colour, dashed, steps: false, points });
            }
        }
        let (x, y) = (Axis::linear("time", "s"), Axis::linear(title, unit));
        let label = format!("{title} over time, configured and measured");
        page.chart(title, chart::lines(&label, lines, x, y));
    }
    page.end_charts();
}

fn listed(broken: &[(String, IntervalRow)]) -> Table {
    let mut table = Table::default()
        .text("run")
        .text("link")
        .text("direction")
        .numbers("from", "s")
        .numbers("to", "s")
        .numbers("frames", "")
        .numbers("delay configured", "ms")
        .numbers("measured", "ms")
        .numbers("tolerance", "ms")
        .numbers("loss configured", "%")
        .numbers("measured", "%")
        .numbers("tolerance", "%");
    for (run, row) in broken {
        let number = |value: f64| Place::number(format::number(value));
        let mut places = vec![
            run.clone().into(),
            format!("{}:{}", row.node, row.interface).into(),
            row.direction.clone().into(),
            number(row.start_s),
            number(row.end_s),
            Place::number(format::count(row.at_risk)),
        ];
        places.extend(row.delay_ms.iter().chain(&row.loss_pct).map(|value| number(*value)));
        table.row(places);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(node: &str, start_s: f64, delay_ms: f64) -> IntervalRow {
        IntervalRow {
            node: node.to_owned(),
            interface: "eth0".to_owned(),
            direction: "up".to_owned(),
            start_s,
            end_s: start_s + 10.0,
            delay_ms: [delay_ms, delay_ms, 0.5],
            kept: true,
            ..IntervalRow::default()
        }
    }

    #[test]
    fn a_change_is_one_of_the_same_link() {
        // Links may differ from each other without any change during the run.
        assert!(!changes(&[row("a", 0.0, 5.0), row("b", 0.0, 9.0), row("a", 10.0, 5.0)]));
        assert!(changes(&[row("a", 0.0, 5.0), row("b", 0.0, 9.0), row("a", 10.0, 6.0)]));
        assert!(!changes(&[]));
        let mut down = row("a", 0.0, 9.0);
        down.direction = "down".to_owned();
        assert!(!changes(&[row("a", 0.0, 5.0), down]));
        let mut loss = row("a", 10.0, 5.0);
        loss.loss_pct[0] = 1.0;
        assert!(changes(&[row("a", 0.0, 5.0), loss]));
        let mut measured = row("a", 10.0, 5.0);
        (measured.delay_ms[1], measured.loss_pct[1]) = (77.0, 50.0);
        assert!(!changes(&[row("a", 0.0, 5.0), measured]), "only measured otherwise");
    }

    #[test]
    fn a_listed_interval_has_its_link_and_both_values() {
        let mut off = row("<meter>", 20.0, 5.0);
        (off.delay_ms, off.at_risk) = ([5.0, 7.25, 0.5], 40.0);
        let html = listed(&[("udp #0".to_owned(), off)]).to_html();
        for text in ["udp #0", "&lt;meter&gt;:eth0", ">20.0<", ">30.0<", ">40<", ">5.00<", ">7.25<"]
        {
            assert!(html.contains(text), "{text} is not in {html}");
        }
    }
}
