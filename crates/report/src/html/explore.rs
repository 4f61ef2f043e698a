//! A figure against an axis of the matrix, and the data for the page's filter.

use super::page::{Page, View};
use crate::axis_values::numbers;
use crate::figures::columns;
use serde_json::{Value, json};

/// Leaves the figures of all cells for the page's script, which draws the one that the reader
/// selects; nothing unless cells differ on an axis.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    let axes: Vec<(&str, Vec<&str>)> = view
        .sweep
        .axes()
        .into_iter()
        .map(|axis| (axis, values(view, axis)))
        .filter(|(_, values)| values.len() > 1)
        .collect();
    if axes.is_empty() {
        return;
    }
    page.section("axes", "Figures by axis");
    page.paragraph(
        "One figure against one axis of the experiment's matrix, with a line for each combination \
         of the other axes. Points are medians over the repeats, vertical lines their range.",
    );
    page.body += "<div id=\"explore\"></div><noscript><p class=\"say\">This chart needs \
                  JavaScript; the table of results has its numbers.</p></noscript>\n";
    // Figures of all cells, not charts: all figures on all axes would be dozens of charts (decision
    // 91).
    page.cells = data(view, &axes);
}

/// The distinct values of an axis, in the order of the cells.
fn values<'a>(view: &View<'a>, axis: &str) -> Vec<&'a str> {
    let mut values = Vec::new();
    for value in view.cells.iter().filter_map(|cell| cell.cell.get(axis)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

fn data(view: &View<'_>, axes: &[(&str, Vec<&str>)]) -> Value {
    let described = |(axis, values): &(&str, Vec<&str>)| {
        // Without numbers, values are categories, between which a line would mean nothing.
        let found = numbers(values);
        let (numbers, unit) = found.map_or((None, String::new()), |(all, unit)| (Some(all), unit));
        json!({"name": axis, "values": values, "numbers": numbers, "unit": unit})
    };
    let columns = columns(view.sweep);
    let cell = |cell: &crate::CellRuns<'_>| {
        let place = |(axis, values): &(&str, Vec<&str>)| {
            let own = cell.cell.get(axis)?;
            values.iter().position(|value| *value == own)
        };
        let figure = |column: &crate::figures::Column| {
            let spread = cell.spread(|run| column.figure(run))?;
            Some([spread.median, spread.min, spread.max])
        };
        json!({"at": axes.iter().map(place).collect::<Vec<_>>(),
               "figures": columns.iter().map(figure).collect::<Vec<_>>()})
    };
    let figures =
        columns.iter().map(|column| json!({"name": column.head, "unit": column.base_unit}));
    json!({"axes": axes.iter().map(described).collect::<Vec<_>>(),
           "figures": figures.collect::<Vec<_>>(),
           "cells": view.cells.iter().map(cell).collect::<Vec<_>>()})
}
