//! The table of results, one row per cell.

use super::page::{Page, View};
use super::table::{Place, Table};
use crate::attribution::Attribution;
use crate::figures::columns;
use crate::format;

/// The metrics of all cells.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    page.section("results", "Results");
    page.paragraph(
        "Medians over the repeats of a cell; the range is below where the repeats differ. Round \
         trips start at the scheduled time of a message, so that a late sender adds to the delay. \
         Bytes are counted on the wire, including Ethernet headers.",
    );
    let axes = view.sweep.axes();
    let columns = columns(view.sweep);
    let mut table = axes.iter().fold(Table::default(), |table, axis| table.text(axis)).text("runs");
    for column in &columns {
        table = table.numbers(&column.head, &column.unit);
    }
    for (place, cell) in view.cells.iter().enumerate() {
        let mut row: Vec<Place> =
            axes.iter().map(|axis| cell.cell.get(axis).unwrap_or(format::NONE).into()).collect();
        row.push(Place::Status(cell.status(), cell.runs.len().to_string()));
        for column in &columns {
            let (median, range) = column.texts(cell.spread(|run| column.figure(run)));
            row.push(Place::Number(median, range));
        }
        table.row_of(place, row);
    }
    page.table(&table);
    if let Some(found) = Attribution::of(view.sweep) {
        by_cpu(page, &found);
    }
}

/// Metrics that depend on the CPU in virtual time.
fn by_cpu(page: &mut Page, found: &Attribution) {
    page.paragraph(&found.explanation());
    let table = found.axes.iter().fold(Table::default(), |table, axis| table.text(axis));
    let mut table = found.heads.iter().fold(table, |table, (head, unit)| table.numbers(head, unit));
    for (values, marks) in &found.rows {
        let values = values.iter().map(|value| value.clone().into());
        let marks = marks.iter().map(|mark| Place::number(mark.text(" / ")));
        table.row(values.chain(marks).collect());
    }
    page.table(&table);
}
