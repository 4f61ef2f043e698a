//! CPU and traffic of a broker and its clients by number of clients.

use super::chart::{self, Axis, Line, colour};
use super::delay::key;
use super::page::{Page, View};
use crate::{ClientRow, Run};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum number of points of a line.
const BINS: f64 = 60.0;

/// Roles of nodes.
const ROLES: [&str; 3] = ["broker", "subscriber", "publisher"];

/// Sum and count of a metric, by number of clients.
type Bins = BTreeMap<u64, (f64, f64)>;

/// The curves of a cell by role: CPU in % of one, received and sent traffic in kB/s, means per
/// node.
#[derive(Default)]
struct Curves([[Bins; 3]; 3]);

/// Charts by number of clients; nothing if no run has clients.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    let curves: Vec<Option<Curves>> =
        view.cells.iter().map(|cell| cell.runs.iter().find_map(|run| curves(run))).collect();
    if curves.iter().all(Option::is_none) {
        return;
    }
    page.section("clients", "Usage by number of clients");
    page.paragraph(
        "The first repeat of each cell with clients of a broker: CPU and traffic of a node per \
         role against the number of connected clients, mean over the nodes of the role. The \
         points at the right end are from after the last client connected.",
    );
    for (role, name) in ROLES.iter().enumerate() {
        page.heading(&format!("CPU of a {name}"));
        charts(page, view, &curves, role, &[(0, false)], ("CPU", "% of one"));
        page.heading(&format!("Traffic of a {name}"));
        page.paragraph("Solid is received, dashed is sent; bytes on the wire.");
        charts(page, view, &curves, role, &[(1, false), (2, true)], ("traffic", "kB/s"));
    }
}

fn charts(
    page: &mut Page,
    view: &View<'_>,
    curves: &[Option<Curves>],
    role: usize,
    figures: &[(usize, bool)],
    (name, unit): (&str, &str),
) {
    let all = curves
        .iter()
        .flatten()
        .flat_map(|curves| figures.iter().flat_map(|(figure, _)| curves.0[role][*figure].values()));
    let most = all.fold(0.0_f64, |most, (sum, n)| most.max(sum / n));
    page.begin_charts(&key(view));
    for panel in &view.panels.panels {
        let mut lines = Vec::new();
        for (cell, series) in &panel.cells {
            let Some(curves) = &curves[*cell] else { continue };
            for (figure, dashed) in figures {
                let bins = &curves.0[role][*figure];
                lines.push(Line {
                    name: view.panels.series[*series].clone(),
                    colour: colour(*series),
                    dashed: *dashed,
                    steps: false,
                    points: bins.iter().map(|(x, (sum, n))| (*x as f64, sum / n)).collect(),
                });
            }
        }
        let x = Axis::linear("clients", "");
        let y = Axis::linear(name, unit).shared(0.0, most);
        let label = format!("{name} of a {} by number of clients, {}", ROLES[role], panel.name);
        page.chart(&panel.name, chart::lines(&label, lines, x, y));
    }
    page.end_charts();
}

/// The curves of a run; `None` without clients.
fn curves(run: &Run) -> Option<Curves> {
    // Most runs have no clients, and no file.
    let clients = run.clients().ok().filter(|clients| !clients.is_empty())?;
    let mut joined: Vec<f64> = clients.iter().filter_map(|client| client.connected_s).collect();
    joined.sort_by(f64::total_cmp);
    let step = (joined.len() as f64 / BINS).ceil().max(1.0);
    let at = |second: f64| {
        let there = joined.partition_point(|at| *at <= second);
        // The last bin is the total number of clients, whatever the step.
        if there == joined.len() {
            there as u64
        } else {
            ((there as f64 / step).floor() * step) as u64
        }
    };
    let roles = roles(run, &clients);
    let mut curves = Curves::default();
    let start = |phase: &str| Some(run.facts.as_ref()?.phase(phase)?.start_s);
    let (load, end) = (start("load").unwrap_or(0.0), start("drain").unwrap_or(f64::INFINITY));
    let mut add = |node: &str, figure: usize, from: f64, to: f64, value: f64| {
        if from < 0.0 || to > end + 0.5 {
            return;
        }
        for role in roles.get(node).into_iter().flatten() {
            // By the middle of the interval, since clients join during it.
            let bin = curves.0[*role][figure].entry(at(f64::midpoint(from, to))).or_default();
            bin.0 += value;
            bin.1 += 1.0;
        }
    };
    for row in run.usage().unwrap_or_default() {
        // Seconds in `nodes.parquet` count from the start of the load phase.
        let from = f64::from(row.second) + load;
        // ms per second are tenths of a per cent of one CPU.
        add(&row.node, 0, from, from + 1.0, row.cpu_ms / 10.0);
    }
    for row in run.intervals().unwrap_or_default() {
        let figure = if row.direction == "down" { 1 } else { 2 };
        let rate = row.bytes / 1e3 / (row.end_s - row.start_s).max(1e-3);
        add(&row.node, figure, row.start_s, row.end_s, rate);
    }
    Some(curves)
}

/// Roles by node.
fn roles(run: &Run, clients: &[ClientRow]) -> HashMap<String, HashSet<usize>> {
    let mut roles: HashMap<String, HashSet<usize>> = HashMap::new();
    for broker in &run.topology.brokers {
        roles.entry(broker.clone()).or_default().insert(0);
    }
    for client in clients {
        for (is, role) in [(client.subscribes, 1), (client.publishes, 2)] {
            if is {
                roles.entry(client.client.clone()).or_default().insert(role);
            }
        }
    }
    roles
}
