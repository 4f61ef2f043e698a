//! Metrics that programs printed.

use super::page::{Page, View};
use super::table::{Place, Table};
use crate::format;
use record::Samples;

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
    let runs = view.cells.iter().flat_map(|cell| cell.runs.iter().map(move |run| (cell, run)));
    if runs.clone().all(|(_, run)| run.summary.programs().is_empty()) {
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
    for (cell, run) in runs {
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
            table.row(row);
        }
    }
    page.table(&table);
}
