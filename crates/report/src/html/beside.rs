//! The figures of the reference, ours beside them.

use super::chart::{self, Axis, Bars, OURS, THEIRS};
use super::table::{Place, Table};
use super::{Page, View};
use crate::figures::range;
use crate::{Comparison, Figure, format};

/// A row of charts and a table for each figure.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    let Some(reference) = &view.sweep.reference else { return };
    page.section("reference", "Beside the reference");
    page.say(&format!(
        "Theirs are from: {}. Ours are medians over the repeats. Where values are far apart the \
         axis is logarithmic, and the height of a bar is not its share.",
        reference.source
    ));
    for figure in &reference.figures {
        draw(page, view, figure);
    }
}

fn draw(page: &mut Page, view: &View<'_>, figure: &Figure) {
    let rows = figure.compare(view.sweep);
    page.heading(&format!("{}: {}", figure.name, figure.title));
    if let Some(base) = &figure.relative_to {
        page.say(&format!("Percentage more (or, below zero, less) than {base}."));
    }
    page.body += "<div class=\"beside\"><div>";
    if rows.iter().any(|row| row.ours.is_some()) {
        charts(page, view, figure, &rows);
    } else {
        page.say("None of these cells was run.");
    }
    page.body += "</div>";
    page.table(&table(figure, &rows));
    page.body += "</div>\n";
}

fn charts(page: &mut Page, view: &View<'_>, figure: &Figure, rows: &[Comparison]) {
    let values = rows.iter().flat_map(|row| [row.ours.map(|ours| ours.median), row.theirs]);
    let axis = Axis::fitting("", &figure.unit, &values.flatten().collect::<Vec<_>>());
    let divider = view.panels.axis.as_deref();
    let panel_of = |row: &Comparison| {
        divider.and_then(|axis| row.cell.get(axis)).unwrap_or_default().to_owned()
    };
    let mut panels: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row.ours.is_some()) {
        if !panels.contains(&panel_of(row)) {
            panels.push(panel_of(row));
        }
    }
    page.begin_charts(&[("ours".to_owned(), OURS), ("theirs".to_owned(), THEIRS)]);
    for panel in panels {
        let rows: Vec<_> = rows.iter().filter(|row| panel_of(row) == panel).collect();
        let names: Vec<_> = rows.iter().map(|row| row.cell.label_without(divider)).collect();
        let bars = |name: &str, colour, values| Bars {
            name: name.to_owned(),
            colours: vec![colour],
            values,
            stack: None,
            texts: None,
        };
        let ours = rows.iter().map(|row| row.ours.map(|ours| ours.median)).collect();
        let theirs = rows.iter().map(|row| row.theirs).collect();
        let series = vec![bars("ours", OURS, ours), bars("theirs", THEIRS, theirs)];
        let label = format!("{} {panel}, ours and theirs", figure.name);
        page.chart(&panel, chart::bars(&label, &names, series, axis.clone()));
    }
    page.end_charts();
}

fn table(figure: &Figure, rows: &[Comparison]) -> Table {
    let mut table = Table::default()
        .text("cell")
        .numbers("ours", &figure.unit)
        .numbers("range", "")
        .numbers("theirs", &figure.unit)
        .numbers(figure.difference_head(), "");
    for row in rows {
        let (ours, range) = range(row.ours, format::number);
        table.row(vec![
            row.cell.to_string().into(),
            Place::number(ours),
            Place::Small(range.unwrap_or_default()),
            Place::number(row.theirs.map_or_else(|| format::NONE.to_owned(), format::number)),
            Place::number(figure.difference(row)),
        ]);
    }
    table
}
