//! Exchanges: time and bytes by payload size, and the sections of an exchange.

use super::chart::{self, Axis, Line, colour};
use super::page::{Page, View};
use super::table::{Place, Table};
use crate::exchanges::{Exchanges, MedianInterval, SizeResults};
use crate::{CellRuns, format};

/// Maximum number of sizes shown by section.
const SHOWN: usize = 6;

/// A line of a chart: cell, workload, colour and name.
struct Series {
    cell: usize,
    workload: String,
    colour: &'static str,
    name: String,
}

/// Charts and tables; nothing without exchanges.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    let exchanges: Vec<Vec<Exchanges>> = view.cells.iter().map(of_cell).collect();
    if exchanges.iter().all(Vec::is_empty) {
        return;
    }
    page.section("exchanges", "Exchanges");
    let panels = panels(view, &exchanges);
    page.heading("Time of an exchange by payload size");
    page.paragraph(
        "Medians of the successful exchanges from start to end, including connecting and closing; \
         dashed lines are the 95 % confidence interval of the median.",
    );
    let lines = |of: fn(&SizeResults) -> Option<MedianInterval>| (of, true);
    charts(page, &exchanges, &panels, lines(|size| size.time_ms), ("time", "ms"));
    page.heading("Bytes of an exchange by payload size");
    page.paragraph(
        "Medians; frames in both directions at the node that starts the exchange, including \
         Ethernet.",
    );
    charts(page, &exchanges, &panels, (|size| size.bytes, false), ("bytes", "B"));
    tables(page, view, &exchanges);
}

/// The exchanges of the cell's first run that has any.
fn of_cell(cell: &CellRuns<'_>) -> Vec<Exchanges> {
    let found = cell.runs.iter().map(|run| run.summary.exchanges());
    found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

/// The lines of each panel.
fn panels(view: &View<'_>, exchanges: &[Vec<Exchanges>]) -> Vec<(String, Vec<Series>)> {
    let mut names: Vec<String> = Vec::new();
    let mut panels = Vec::new();
    for panel in &view.panels.panels {
        let mut all = Vec::new();
        for (cell, series) in &panel.cells {
            for workload in &exchanges[*cell] {
                let series = &view.panels.series[*series];
                let name = match (series.is_empty(), exchanges[*cell].len()) {
                    (true, _) => workload.name.clone(),
                    (false, 1) => series.clone(),
                    (false, _) => format!("{series} · {}", workload.name),
                };
                // One colour for a name in all panels.
                let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                    names.push(name.clone());
                    names.len() - 1
                });
                let workload = workload.name.clone();
                all.push(Series { cell: *cell, workload, colour: colour(place), name });
            }
        }
        panels.push((panel.name.clone(), all));
    }
    panels
}

fn charts(
    page: &mut Page,
    exchanges: &[Vec<Exchanges>],
    panels: &[(String, Vec<Series>)],
    (of, interval): (fn(&SizeResults) -> Option<MedianInterval>, bool),
    (name, unit): (&str, &str),
) {
    let mut key: Vec<(String, &str)> = Vec::new();
    let (mut least, mut most, mut widest) = (f64::INFINITY, 0.0_f64, 0.0_f64);
    for series in panels.iter().flat_map(|(_, all)| all) {
        if !key.iter().any(|(known, _)| *known == series.name) {
            key.push((series.name.clone(), series.colour));
        }
        for size in sizes(exchanges, series) {
            widest = widest.max(size.payload as f64);
            let Some(middle) = of(size) else { continue };
            // Only medians set the ends of the axis: a wide interval must not shrink the lines.
            (least, most) = (least.min(middle.median), most.max(middle.median));
        }
    }
    page.begin_charts(&key);
    for (panel, all) in panels {
        let mut lines = Vec::new();
        for series in all {
            let mut line = |dashed: bool, value: fn(&MedianInterval) -> f64| {
                let points = sizes(exchanges, series)
                    .filter_map(|size| Some((size.payload as f64, value(&of(size)?))));
                lines.push(Line {
                    name: series.name.clone(),
                    colour: series.colour,
                    dashed,
                    steps: false,
                    points: points.collect(),
                });
            };
            line(false, |middle| middle.median);
            if interval {
                line(true, |middle| middle.low);
                line(true, |middle| middle.high);
            }
        }
        let x = Axis::linear("payload", "B").shared(0.0, widest);
        let y = Axis::fitting(name, unit, &[least, most]);
        let label = format!("{name} of an exchange by payload size, {panel}");
        page.chart(panel, chart::lines(&label, lines, x, y));
    }
    page.end_charts();
}

fn sizes<'a>(
    exchanges: &'a [Vec<Exchanges>],
    series: &Series,
) -> impl Iterator<Item = &'a SizeResults> {
    // Only the cell and the workload together name a line's exchanges.
    let own = exchanges[series.cell].iter().find(|own| own.name == series.workload);
    own.into_iter().flat_map(|own| &own.sizes)
}

/// Failures, and the sections of some sizes.
fn tables(page: &mut Page, view: &View<'_>, exchanges: &[Vec<Exchanges>]) {
    let mut counts =
        Table::default().text("cell").text("workload").text("protocol").numbers("exchanges", "");
    counts = counts.numbers("failed", "").text("why");
    let mut parts = Table::default().text("cell").text("workload").numbers("payload", "B");
    parts = parts.text("section").numbers("time", "ms").numbers("bytes", "B");
    for (cell, own) in view.cells.iter().zip(exchanges) {
        for exchanges in own {
            let cell = cell.cell.label();
            let why = exchanges.failures.iter().map(|(reason, count)| format!("{reason} {count}"));
            counts.row(vec![
                cell.clone().into(),
                exchanges.name.clone().into(),
                exchanges.protocol.clone().into(),
                Place::number(exchanges.count.to_string()),
                Place::number(exchanges.failed.to_string()),
                why.collect::<Vec<_>>().join(", ").into(),
            ]);
            for size in some(&exchanges.sizes) {
                let mut row = |section: &str, time: Option<f64>, bytes: Option<f64>| {
                    let number = |value: Option<f64>| {
                        Place::number(value.map_or(format::NONE.to_owned(), format::number))
                    };
                    parts.row(vec![
                        cell.clone().into(),
                        exchanges.name.clone().into(),
                        Place::number(size.payload.to_string()),
                        section.into(),
                        number(time),
                        number(bytes),
                    ]);
                };
                for (section, time, bytes) in &size.sections {
                    row(section, *time, *bytes);
                }
                let median = |middle: Option<MedianInterval>| middle.map(|middle| middle.median);
                row("whole", median(size.time_ms), median(size.bytes));
            }
        }
    }
    page.table(&counts);
    page.collapsed_table("Sections of an exchange: medians for some sizes", &parts);
}

/// Some sizes, evenly selected, including the smallest and the largest.
fn some(sizes: &[SizeResults]) -> Vec<&SizeResults> {
    if sizes.len() <= SHOWN {
        return sizes.iter().collect();
    }
    (0..SHOWN).map(|k| &sizes[k * (sizes.len() - 1) / (SHOWN - 1)]).collect()
}
