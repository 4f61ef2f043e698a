//! Loads: schedule accuracy of the senders, and statistics.

use super::page::{Page, View};
use super::table::{Place, Table};
use crate::format;
use record::Sender;

/// Statistics shown of the interarrival time.
const SHOWN: [&str; 4] = ["mean", "p50", "p90", "p99"];

/// Scheduled against submitted, and counts; nothing without loads.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    let runs = view.cells.iter().flat_map(|cell| cell.runs.iter().map(move |run| (cell, run)));
    if runs.clone().all(|(_, run)| run.summary.loads().is_empty()) {
        return;
    }
    page.section("loads", "Loads");
    page.paragraph(
        "The interarrival time of a sender's requests, scheduled and submitted, and the distance \
         of the two distributions (Kolmogorov-Smirnov, 0 to 1). Response starts at the scheduled \
         time of a request, service at the time of sending. The difference is the wait for a free \
         connection to the target, and slip, the lateness of the sender's machine. Requests \
         without an answer count as slower than any answer.",
    );
    let axes = view.sweep.axes();
    let head = || axes.iter().fold(Table::default(), |table, axis| table.text(axis));
    let mut table = head().text("load").text("loop").text("sender").text("schedule");
    for name in SHOWN {
        table = table.numbers(&format!("{name} scheduled"), "us");
        table = table.numbers(&format!("{name} submitted"), "us");
    }
    table = table.numbers("distance", "");
    let mut counted = head().text("load").text("what").numbers("count", "");
    for (cell, run) in runs {
        let own = || -> Vec<Place> {
            axes.iter().map(|axis| cell.cell.get(axis).unwrap_or(format::NONE).into()).collect()
        };
        for load in run.summary.loads() {
            for (node, sender) in load.senders() {
                let mut row = own();
                row.push(load.name.into());
                row.push(if load.closed { "closed" } else { "open" }.into());
                row.push(node.into());
                row.push(sender.pace().into());
                for key in SHOWN {
                    for figure in [Sender::between_expected_us, Sender::between_submitted_us] {
                        row.push(number(sender.statistic(figure, key)));
                    }
                }
                row.push(number(sender.figure(Sender::between_distance)));
                table.row(row);
            }
            for (what, count) in load.counts() {
                let mut row = own();
                row.extend([Place::from(load.name), what.into()]);
                row.push(Place::number(format::count(count as f64)));
                counted.row(row);
            }
        }
    }
    page.table(&table);
    page.heading("Answers and failures");
    page.table(&counted);
}

fn number(value: Option<f64>) -> Place {
    Place::number(value.map_or_else(|| format::NONE.to_owned(), format::number))
}
