//! Results of contention probes.

use super::page::{Page, View};
use super::table::{Place, Table};
use crate::format;
use record::ProbeStatistics;

/// A row per core and mode; nothing without probes.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    let runs = view.cells.iter().flat_map(|cell| cell.runs.iter().map(move |run| (cell, run)));
    if runs.clone().all(|(_, run)| run.summary.probed().is_empty()) {
        return;
    }
    page.section("contention", "Contention");
    page.paragraph(
        "Probes send requests with a known service time, one after the other. The excess over \
         that time, as a share of it, is contention on this machine. Sleeping probes show the \
         wait for a CPU after wake-up, busy probes the sharing of a CPU.",
    );
    let axes = view.sweep.axes();
    let mut table = axes.iter().fold(Table::default(), |table, axis| table.text(axis));
    table = table.text("probe").text("core").text("mode").numbers("service", "ms");
    table = ProbeStatistics::FIGURES
        .iter()
        .fold(table, |table, figure| table.numbers(figure.head, "%"));
    for (cell, run) in runs {
        for probed in run.summary.probed() {
            let mut row: Vec<Place> = axes
                .iter()
                .map(|axis| cell.cell.get(axis).unwrap_or(format::NONE).into())
                .collect();
            row.extend([probed.name.into(), probed.core.to_string().into(), probed.mode.into()]);
            row.push(Place::number(format::number(probed.service_ms)));
            let statistics = probed.deviation.map_or([None; 5], |found| {
                let ProbeStatistics { mean, p50, p95, p99, max } = found;
                [mean, p50, p95, p99, max].map(Some)
            });
            row.extend(statistics.map(|share| {
                let text = share.map(|share| format::number(100.0 * share));
                Place::number(text.unwrap_or_else(|| format::NONE.into()))
            }));
            table.row(row);
        }
    }
    page.table(&table);
}
