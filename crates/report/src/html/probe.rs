//! Results of contention probes.

use super::page::{Page, View};
use super::table::{Place, Table};
use crate::format;

const SHOWN: [&str; 5] = ["mean", "p50", "p95", "p99", "max"];

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
    table = SHOWN.iter().fold(table, |table, name| table.numbers(name, "%"));
    for (cell, run) in runs {
        for probed in run.summary.probed() {
            let mut row: Vec<Place> = axes
                .iter()
                .map(|axis| cell.cell.get(axis).unwrap_or(format::NONE).into())
                .collect();
            row.extend([probed.name.into(), probed.core.into(), probed.mode.into()]);
            row.push(Place::number(format::number(probed.service_ms)));
            for name in SHOWN {
                let share = probed.deviation(name).map(|share| 100.0 * share);
                row.push(Place::number(share.map_or_else(|| format::NONE.into(), format::number)));
            }
            table.row(row);
        }
    }
    page.table(&table);
}
