//! Bytes on the wire, by layer.

use super::chart::{self, Axis, Bars};
use super::page::{Page, View};
use super::table::{Place, Table};
use crate::{CellRuns, format};
use record::{Figure, Group};

/// A part of what a group sent.
struct Part {
    name: &'static str,
    colour: &'static str,
    stack: &'static str,
    bytes: fn(&CellRuns<'_>, &str) -> Option<f64>,
}

fn median(cell: &CellRuns<'_>, group: &str, figure: Figure) -> Option<f64> {
    cell.spread(|run| run.group(group, figure)).map(|spread| spread.median)
}

/// The top part of the stack; it carries the label with the sum.
const TOPMOST: &str = "Ethernet and IP headers";

/// The first four add up to all bytes. Control and retransmitted frames are already in them,
/// including headers, so they have a separate bar.
const PARTS: [Part; 6] = [
    Part {
        name: "payload",
        colour: "#3a7bd5",
        stack: "all",
        // Payload that never left the node's queue is not on the wire.
        bytes: |cell, group| {
            let payload = median(cell, group, Group::payload_bytes)?;
            Some(median(cell, group, Group::carried_bytes).map_or(payload, |all| payload.min(all)))
        },
    },
    Part {
        name: "messaging protocol and repeats",
        colour: "#4fb3bf",
        stack: "all",
        bytes: |cell, group| {
            let carried = median(cell, group, Group::carried_bytes)?;
            // Never below 0, for payload that never left the node.
            Some((carried - median(cell, group, Group::payload_bytes)?).max(0.0))
        },
    },
    Part {
        name: "transport headers",
        colour: "#e0a23c",
        stack: "all",
        bytes: |cell, group| median(cell, group, Group::transport_bytes),
    },
    Part {
        name: TOPMOST,
        colour: "#a3abb5",
        stack: "all",
        bytes: |cell, group| median(cell, group, Group::lower_bytes),
    },
    Part {
        name: "of these: control frames",
        colour: "#b562c4",
        stack: "share",
        bytes: |cell, group| median(cell, group, Group::control_bytes),
    },
    Part {
        name: "of these: retransmitted frames",
        colour: "#c94f5d",
        stack: "share",
        bytes: |cell, group| median(cell, group, Group::retransmitted_bytes),
    },
];

/// Stacked bars per group, and the numbers.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    page.section("wire", "On the wire");
    page.paragraph(
        "Bytes that each group sent, medians over the repeats. The left bar of a pair is the \
         total by layer. The right bar is the part in frames without payload (acknowledgements, \
         repair requests) and in retransmitted frames, including headers.",
    );
    for group in view.sweep.groups() {
        page.heading(&format!("Sent by group {group}"));
        let sent = view.cells.iter().filter_map(|cell| median(cell, group, Group::tx_bytes));
        let largest = sent.fold(0.0, f64::max);
        let (unit, factor) = format::byte_unit(largest);
        let key: Vec<_> = PARTS.iter().map(|part| (part.name.to_owned(), part.colour)).collect();
        page.begin_charts(&key);
        for panel in &view.panels.panels {
            let names: Vec<_> =
                panel.cells.iter().map(|(_, series)| view.panels.series[*series].clone()).collect();
            let total = |(cell, _): &(usize, usize)| {
                median(&view.cells[*cell], group, Group::tx_bytes)
                    .map(format::bytes)
                    .unwrap_or_default()
            };
            let totals: Vec<String> = panel.cells.iter().map(total).collect();
            let series = PARTS.iter().map(|part| {
                let cells = panel.cells.iter().map(|(cell, _)| &view.cells[*cell]);
                Bars {
                    name: part.name.to_owned(),
                    colours: vec![part.colour],
                    values: cells.map(|c| (part.bytes)(c, group).map(|b| b / factor)).collect(),
                    stack: Some(part.stack),
                    // The bars of a stack have one label, with its sum.
                    texts: (part.name == TOPMOST).then(|| totals.clone()),
                }
            });
            let axis = Axis::linear("sent", unit).shared(0.0, largest / factor);
            let label = format!("Bytes sent by {group} by layer, {}", panel.name);
            let cells = panel.cells.iter().map(|(cell, _)| *cell).collect();
            let chart = chart::bars(&label, &names, series.collect(), axis);
            page.chart(&panel.name, chart.of_cells(cells));
        }
        page.end_charts();
    }
    page.collapsed_table("Numbers by cell and group", &numbers(view));
}

fn numbers(view: &View<'_>) -> Table {
    let mut table = Table::default().text("cell").text("group").numbers("all", "");
    for part in &PARTS {
        table = table.numbers(part.name, "");
    }
    table = table.numbers("frames", "").numbers("overhead to payload", "");
    for (place, cell) in view.cells.iter().enumerate() {
        for group in view.sweep.groups() {
            let show = |value: Option<f64>| {
                Place::number(value.map_or_else(|| format::NONE.to_owned(), format::bytes))
            };
            let mut row = vec![cell.cell.label().into(), group.into()];
            row.push(show(median(cell, group, Group::tx_bytes)));
            row.extend(PARTS.iter().map(|part| show((part.bytes)(cell, group))));
            let frames = median(cell, group, Group::tx_frames).map(format::count);
            row.push(Place::number(frames.unwrap_or_default()));
            let payload = median(cell, group, Group::payload_bytes).filter(|bytes| *bytes > 0.0);
            let share = median(cell, group, Group::overhead_bytes).zip(payload);
            let share = share
                .map(|(over, payload)| format!("{} %", format::number(100.0 * over / payload)));
            row.push(Place::number(share.unwrap_or_else(|| format::NONE.to_owned())));
            table.row_of(place, row);
        }
    }
    table
}
