//! Metrics that programs printed.

use super::chart::{self, Axis, Line, colour};
use super::delay::key;
use super::page::{Page, View};
use super::table::{Place, Table};
use crate::format;
use crate::stats::POINTS;
use record::Samples;
use std::collections::BTreeMap;

/// The statistics shown, in order.
const SHOWN: [record::Figure; 8] = [
    Samples::mean,
    Samples::min,
    Samples::p50,
    Samples::p90,
    Samples::p95,
    Samples::p99,
    Samples::max,
    Samples::last,
];

/// A row per run and metric; nothing without metrics.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    let cells = view.cells.iter().enumerate();
    let runs = cells.flat_map(|(place, cell)| cell.runs.iter().map(move |run| (place, cell, run)));
    if runs.clone().all(|(_, _, run)| run.summary.programs().is_empty()) {
        return;
    }
    page.section("programs", "Programs");
    page.paragraph(
        "Values that programs printed, found by the metrics of the experiment file. Several nodes \
         that run the same program count together; `metrics.parquet` has each value with its node. \
         Percentiles are values that were printed.",
    );
    let axes = view.sweep.axes();
    let mut table = axes.iter().fold(Table::default(), |table, axis| table.text(axis));
    table = table.text("program").text("metric").text("unit").numbers("values", "");
    table = SHOWN.iter().fold(table, |table, figure| table.numbers(figure.head, ""));
    for (place, cell, run) in runs {
        for found in run.summary.programs() {
            let mut row: Vec<Place> = axes
                .iter()
                .map(|axis| cell.cell.get(axis).unwrap_or(format::NONE).into())
                .collect();
            row.extend([found.program.into(), found.metric.into()]);
            row.push(found.samples.unit.as_str().into());
            row.push(Place::number(format::count(found.samples.count as f64)));
            row.extend(SHOWN.map(|figure| {
                let value = run.summary.program(found.program, found.metric, figure);
                Place::number(value.map_or_else(|| format::NONE.to_owned(), format::number))
            }));
            table.row_of(place, row);
        }
    }
    page.table(&table);
    over_time(page, view);
}

/// A metric: program, name and unit.
type Name = (String, String, String);
/// Seconds from the start, and values.
type Points = Vec<(f64, f64)>;

/// The values of metrics that have times, in the first repeat of each cell.
fn over_time(page: &mut Page, view: &View<'_>) {
    let mut charts: Vec<(Name, Vec<(usize, Points)>)> = Vec::new();
    let mut untimed = 0;
    for (place, cell) in view.cells.iter().enumerate() {
        let Some(run) = cell.runs.iter().find(|run| run.has_program_values()) else { continue };
        let rows = match run.program_values() {
            Ok(rows) => rows,
            Err(error) => {
                page.note(error.to_string());
                continue;
            }
        };
        let mut own: BTreeMap<Name, Points> = BTreeMap::new();
        for row in rows {
            match row.time_s {
                Some(time) => own
                    .entry((row.program, row.metric, row.unit))
                    .or_default()
                    .push((time, row.value)),
                None => untimed += 1,
            }
        }
        for (name, values) in own {
            let points = (place, means(values));
            match charts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(points),
                None => charts.push((name, vec![points])),
            }
        }
    }
    for ((program, metric, unit), all) in &charts {
        page.heading(&format!("{program} {metric} over time"));
        page.paragraph(
            "The first repeat of each cell. Values close together, of one or several nodes, are \
             shown as their mean.",
        );
        page.begin_charts(&key(view));
        let values: Vec<f64> =
            all.iter().flat_map(|(_, points)| points.iter().map(|point| point.1)).collect();
        for panel in &view.panels.panels {
            let mut cells = Vec::new();
            let mut lines = Vec::new();
            for (cell, series) in &panel.cells {
                let Some((_, points)) = all.iter().find(|(of, _)| of == cell) else { continue };
                cells.push(*cell);
                let (name, points) = (view.panels.series[*series].clone(), points.clone());
                let colour = colour(*series);
                lines.push(Line { name, colour, dashed: false, steps: false, points });
            }
            if lines.is_empty() {
                continue;
            }
            let x = Axis::linear("time from the start", "s");
            let y = Axis::fitting(metric, unit, &values);
            let label = format!("{program} {metric} over time, {}", panel.name);
            page.chart(&panel.name, chart::lines(&label, lines, x, y).of_cells(cells));
        }
        page.end_charts();
    }
    if untimed > 0 {
        let values = format::things(untimed, "value");
        page.paragraph(&format!(
            "{values} without a time, from programs' output, not shown over time. Metrics by \
             StatsD and Prometheus have times."
        ));
    }
}

/// Means of values in equal spans of time, so that a chart has at most [`POINTS`] points.
fn means(mut values: Points) -> Points {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return values };
    let (start, span) = (first.0, (last.0 - first.0).max(1e-9));
    // Values of several nodes at one time would be a vertical line.
    let same_time = values.windows(2).any(|pair| pair[1].0 - pair[0].0 < span / 1e4);
    if values.len() <= POINTS && !same_time {
        return values;
    }
    // Two values per span at least, so that the mean smooths.
    let bins = POINTS.min(values.len() / 2).max(1);
    let mut sums = vec![[0.0; 3]; bins];
    for (time, value) in values {
        let bin = ((time - start) / span * bins as f64) as usize;
        let sum = &mut sums[bin.min(bins - 1)];
        *sum = [sum[0] + time, sum[1] + value, sum[2] + 1.0];
    }
    let means = sums.into_iter().filter(|sum| sum[2] > 0.0);
    means.map(|[time, value, count]| (time / count, value / count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_close_together_become_their_mean() {
        let few = vec![(2.0, 5.0), (0.0, 1.0), (1.0, 3.0)];
        assert_eq!(means(few), [(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]);
        let many: Vec<(f64, f64)> = (0..6000).map(|k| (f64::from(k), f64::from(k % 2))).collect();
        let drawn = means(many);
        assert_eq!(drawn.len(), POINTS);
        assert!(drawn.iter().all(|(_, value)| (*value - 0.5).abs() < 0.01));
        assert!(means(Vec::new()).is_empty());
    }
}
