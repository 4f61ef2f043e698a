//! Delay and loss of messages.

use super::chart::{self, Axis, Bars, Line, colour};
use super::page::{Page, View};
use crate::stats::distribution;
use record::{Messages, Summary};

/// Distribution of the round-trip time, and loss.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    page.section("delay", "Delay and loss");
    distributions(page, view);
    loss(page, view);
}

fn distributions(page: &mut Page, view: &View<'_>) {
    let (mut curves, mut least, mut most) = (Vec::new(), f64::INFINITY, 0.0_f64);
    for cell in &view.cells {
        let (mut round_trips, mut total) = (Vec::new(), 0);
        for run in &cell.runs {
            match run.messages() {
                Ok(messages) => {
                    total += messages.len();
                    // A logarithmic axis has no zero; round trips below 1 us do not occur.
                    let times = messages.iter().filter_map(|message| message.round_trip_ms());
                    let before = round_trips.len();
                    round_trips.extend(times.map(|ms| ms.max(1e-3)));
                    // Without answers, use the time of receipt.
                    if round_trips.len() == before {
                        let times = messages.iter().filter_map(|message| message.one_way_ms());
                        round_trips.extend(times.map(|ms| ms.max(1e-3)));
                    }
                }
                Err(error) => page.note(error.to_string()),
            }
        }
        let points = distribution(&mut round_trips, total);
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            least = least.min(first.0);
            most = most.max(last.0);
        }
        curves.push(points);
    }
    if most == 0.0 {
        page.paragraph("No run has messages with a round trip.");
        return;
    }
    page.heading("Round trip, all repeats together");
    page.paragraph(
        "Cumulative distribution (CDF): the share of messages answered within a time. Further \
         left is faster, steeper is steadier. A curve that ends below 100 % shows the unanswered \
         share. Without answers, as with MQTT, the time ends at the receipt of the message. The \
         time axis is logarithmic and the same in all panels.",
    );
    page.begin_charts(&key(view));
    for panel in &view.panels.panels {
        let drawn = panel.cells.iter().filter(|(cell, _)| !curves[*cell].is_empty());
        let cells = drawn.clone().map(|(cell, _)| *cell).collect();
        let lines = drawn
            .map(|(cell, series)| {
                let mut points = curves[*cell].clone();
                // Start at 0 %, so that a curve with a single point is visible.
                points.insert(0, (points[0].0, 0.0));
                let name = view.panels.series[*series].clone();
                Line { name, colour: colour(*series), dashed: false, steps: true, points }
            })
            .collect();
        let x = Axis::linear("round trip", "ms").log(least, most);
        let y = Axis::linear("messages answered", "%").hundred();
        let label = format!("Distribution of the round trip, {}", panel.name);
        page.chart(&panel.name, chart::lines(&label, lines, x, y).of_cells(cells));
    }
    page.end_charts();
}

fn loss(page: &mut Page, view: &View<'_>) {
    page.heading("Loss");
    page.paragraph("Share of unanswered messages, median over the repeats.");
    let loss = |cell: &usize| {
        let path = [Summary::messages, Messages::loss_pct];
        view.cells[*cell].spread(|run| run.figure(&path)).map(|spread| spread.median)
    };
    per_cell(page, view, "loss", "%", "messages unanswered", loss);
}

/// One bar per cell, in the colour of its series.
pub(super) fn per_cell(
    page: &mut Page,
    view: &View<'_>,
    name: &str,
    unit: &str,
    label: &str,
    figure: impl Fn(&usize) -> Option<f64>,
) {
    let all: Vec<f64> = (0..view.cells.len()).filter_map(|cell| figure(&cell)).collect();
    let axis = Axis::fitting(name, unit, &all);
    page.begin_charts(&[]);
    for panel in &view.panels.panels {
        let names: Vec<_> =
            panel.cells.iter().map(|(_, series)| view.panels.series[*series].clone()).collect();
        let bars = Bars {
            name: name.to_owned(),
            colours: panel.cells.iter().map(|(_, series)| colour(*series)).collect(),
            values: panel.cells.iter().map(|(cell, _)| figure(cell)).collect(),
            stack: None,
            texts: None,
        };
        let label = format!("{label}, {}", panel.name);
        let chart = chart::bars(&label, &names, vec![bars], axis.clone());
        let cells = panel.cells.iter().map(|(cell, _)| *cell).collect();
        page.chart(&panel.name, chart.of_cells(cells));
    }
    page.end_charts();
}

/// The colour key of the series.
pub(super) fn key(view: &View<'_>) -> Vec<(String, &'static str)> {
    let names = view.panels.series.iter().enumerate();
    names.map(|(place, name)| (name.clone(), colour(place))).collect()
}
