//! Resource usage of the nodes.

use super::chart::{self, Axis, Line, colour};
use super::delay::{key, per_cell};
use super::page::{Page, View};
use super::table::{Place, Table};
use crate::stats::thin;
use crate::{CellRuns, format};
use record::Group;
use std::collections::BTreeMap;

/// CPU time of a group by second, in ms: sum over its nodes, and the busiest node.
#[derive(Default)]
struct Busy {
    sum: BTreeMap<u32, f64>,
    max: BTreeMap<u32, f64>,
}

/// Usage over time, totals and memory.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    page.section("usage", "CPU and memory");
    over_time(page, view);
    page.heading("CPU time of a whole run, all nodes");
    page.paragraph("The median over the repeats, in CPU seconds.");
    let total = |cell: &usize| {
        let spread = view.cells[*cell].spread(|run| run.all_groups(Group::cpu_ms));
        spread.map(|spread| spread.median / 1e3)
    };
    per_cell(page, view, "CPU", "s", "CPU time", total);
    page.heading("CPU and memory, numbers");
    page.paragraph(
        "Memory is the maximum of a single program of the group. CPU and energy per message count \
         the messages that the group sent or received; energy and battery life are for groups \
         with a `board`, by the model in docs/energy.md.",
    );
    page.table(&numbers(view));
}

fn over_time(page: &mut Page, view: &View<'_>) {
    let groups = view.sweep.groups();
    let busy: Vec<BTreeMap<String, Busy>> =
        view.cells.iter().map(|cell| busy_of(page, cell)).collect();
    if busy.iter().all(BTreeMap::is_empty) {
        page.paragraph("No run has resource usage per second.");
        return;
    }
    for group in groups {
        let nodes =
            view.cells.iter().find_map(|cell| cell.spread(|run| run.group(group, Group::nodes)));
        let nodes = nodes.map_or(1.0, |nodes| nodes.max).max(1.0);
        page.heading(&format!("CPU over time, group {group}"));
        page.paragraph(if nodes > 1.0 {
            "The first repeat of each cell. Solid is the mean of the group's nodes, dashed the \
             busiest node of that second; 100 % is one CPU."
        } else {
            "The first repeat of each cell; 100 % is one CPU."
        });
        let highest = |busy: &BTreeMap<String, Busy>| {
            // ms per second are tenths of a per cent.
            let seconds = busy.get(group).into_iter().flat_map(|busy| busy.max.values());
            seconds.fold(0.0, |most: f64, ms| most.max(ms / 10.0))
        };
        let most = busy.iter().map(highest).fold(0.0, f64::max);
        page.begin_charts(&key(view));
        for panel in &view.panels.panels {
            let (mut lines, mut cells) = (Vec::new(), Vec::new());
            for (cell, series) in &panel.cells {
                let Some(busy) = busy[*cell].get(group) else { continue };
                let name = &view.panels.series[*series];
                let line = |name: String, dashed, points| Line {
                    name,
                    colour: colour(*series),
                    dashed,
                    steps: false,
                    points,
                };
                // The sum over the nodes by their number is the mean.
                lines.push(line(name.clone(), false, percent(&busy.sum, nodes)));
                cells.push(*cell);
                if nodes > 1.0 {
                    cells.push(*cell);
                    lines.push(line(format!("{name}, busiest"), true, percent(&busy.max, 1.0)));
                }
            }
            let x = Axis::linear("time from the start", "s");
            let y = Axis::linear("CPU", "% of one").shared(0.0, most);
            let label = format!("CPU of {group} over time, {}", panel.name);
            page.chart(&panel.name, chart::lines(&label, lines, x, y).of_cells(cells));
        }
        page.end_charts();
    }
}

/// The usage in the cell's first run that has any.
fn busy_of(page: &mut Page, cell: &CellRuns<'_>) -> BTreeMap<String, Busy> {
    for run in &cell.runs {
        let rows = match run.usage() {
            Ok(rows) => rows,
            Err(error) => {
                page.note(error.to_string());
                continue;
            }
        };
        let mut groups: BTreeMap<String, Busy> = BTreeMap::new();
        for row in rows {
            let group = run.topology.group_of(&row.node);
            // Look up by reference first, without an allocation: there are many rows and few
            // groups.
            if !groups.contains_key(group) {
                groups.insert(group.to_owned(), Busy::default());
            }
            if let Some(busy) = groups.get_mut(group) {
                *busy.sum.entry(row.second).or_default() += row.cpu_ms;
                let most = busy.max.entry(row.second).or_default();
                *most = most.max(row.cpu_ms);
            }
        }
        if !groups.is_empty() {
            return groups;
        }
    }
    BTreeMap::new()
}

/// Converts milliseconds per second to percent of a CPU, thinned for a chart.
fn percent(by_second: &BTreeMap<u32, f64>, nodes: f64) -> Vec<(f64, f64)> {
    let all: Vec<_> =
        by_second.iter().map(|(second, ms)| (f64::from(*second), ms / 10.0 / nodes)).collect();
    thin(all.len()).into_iter().map(|place| all[place]).collect()
}

fn numbers(view: &View<'_>) -> Table {
    let mut table = Table::default()
        .text("cell")
        .text("group")
        .numbers("nodes", "")
        .numbers("CPU", "")
        .numbers("CPU a node", "")
        .numbers("CPU a message", "")
        .numbers("memory max", "")
        .numbers("energy", "")
        .numbers("energy per message", "")
        .numbers("battery", "days")
        .numbers("off a node", "s");
    for (place, cell) in view.cells.iter().enumerate() {
        for group in view.sweep.groups() {
            let median = |key| cell.spread(|run| run.group(group, key)).map(|spread| spread.median);
            let text = |value: Option<f64>, show: fn(f64) -> String| {
                Place::number(value.map_or_else(|| format::NONE.to_owned(), show))
            };
            let (nodes, cpu) = (median(Group::nodes), median(Group::cpu_ms));
            let off = median(Group::off_s);
            let each = cpu.zip(nodes).filter(|(_, n)| *n > 0.0).map(|(cpu, n)| cpu / n);
            table.row_of(
                place,
                vec![
                    cell.cell.label().into(),
                    group.into(),
                    text(nodes, format::count),
                    text(cpu, format::cpu),
                    text(each, format::cpu),
                    text(median(Group::cpu_us_per_message), format::cpu_us),
                    text(median(Group::rss_max_bytes), format::bytes),
                    text(median(Group::energy_j), format::joules),
                    text(median(Group::energy_j_per_message), format::joules),
                    text(median(Group::battery_days), format::number),
                    text(off.zip(nodes).map(|(off, n)| off / n.max(1.0)), format::number),
                ],
            );
        }
    }
    table
}
