//! Measured values and reference values, side by side.

use super::chart::{self, Axis, Bars, MEASURED, REFERENCE};
use super::page::{Page, View};
use super::table::{Place, Table};
use crate::figures::range;
use crate::{Comparison, Figure, format};

/// A row of charts per figure of the reference, with a table below each chart.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    let Some(reference) = &view.sweep.reference else { return };
    page.section("reference", "Comparison with the reference");
    page.paragraph(&format!(
        "Reference values are from: {}. Measured values are medians over the repeats. Axes with a \
         wide range are logarithmic: there the height of a bar is not proportional.",
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
        page.paragraph(&format!("Difference from {base} in percent."));
    }
    let divider = view.panels.axis.as_deref();
    let (mut panels, mut not_run): (Vec<(&str, Vec<&Comparison>)>, usize) = (Vec::new(), 0);
    for row in &rows {
        let name = divider.and_then(|axis| row.cell.get(axis)).unwrap_or_default();
        // A bar without a measured one would look like a measurement of zero.
        if view.sweep.matching(&row.cell).runs.is_empty() {
            not_run += 1;
            continue;
        }
        match panels.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => rows.push(row),
            None => panels.push((name, vec![row])),
        }
    }
    // Values of cells that were not run do not widen the axis.
    let shown = panels.iter().flat_map(|(_, rows)| rows);
    let values =
        shown.flat_map(|row| [row.measured.map(|measured| measured.median), row.reference_value]);
    // One axis for all panels of a figure.
    let axis = Axis::fitting("", &figure.unit, &values.flatten().collect::<Vec<_>>());
    if !panels.is_empty() {
        page.begin_charts(&[
            ("measured".to_owned(), MEASURED),
            ("reference".to_owned(), REFERENCE),
        ]);
        for (name, rows) in panels {
            page.body += "<div>";
            panel(page, figure, (name, divider), &rows, axis.clone());
            page.table(&table(figure, divider, &rows));
            page.body += "</div>\n";
        }
        page.end_charts();
    }
    if not_run > 0 {
        let values = format::things(not_run, "value");
        page.paragraph(&format!("{values} of the reference not shown: the cells were not run."));
    }
}

fn panel(
    page: &mut Page,
    figure: &Figure,
    (name, divider): (&str, Option<&str>),
    rows: &[&Comparison],
    axis: Axis,
) {
    let names: Vec<_> = rows.iter().map(|row| row.cell.label_without(divider)).collect();
    let bars = |name: &str, colour, values| Bars {
        name: name.to_owned(),
        colours: vec![colour],
        values,
        stack: None,
        texts: None,
    };
    let measured = rows.iter().map(|row| row.measured.map(|measured| measured.median)).collect();
    let reference_value = rows.iter().map(|row| row.reference_value).collect();
    let series =
        vec![bars("measured", MEASURED, measured), bars("reference", REFERENCE, reference_value)];
    let label = format!("{} {name}, measured and reference", figure.name);
    page.chart(name, chart::bars(&label, &names, series, axis));
}

fn table(figure: &Figure, divider: Option<&str>, rows: &[&Comparison]) -> Table {
    let mut table = Table::default()
        .text("")
        .numbers("measured", "")
        .numbers("range", "")
        .numbers("reference", "")
        .numbers(figure.difference_head(), "");
    for row in rows {
        let (measured, range) = range(row.measured, format::number);
        table.row(vec![
            row.cell.label_without(divider).into(),
            Place::number(measured),
            Place::Small(range.unwrap_or_default()),
            Place::number(
                row.reference_value.map_or_else(|| format::NONE.to_owned(), format::number),
            ),
            Place::number(figure.difference(row)),
        ]);
    }
    table
}
