//! Links: configured against measured.

use super::page::{Page, View};
use super::table::{Place, Table};
use crate::{LinkRow, format};

/// Number of links shown in the tables of deviations.
const WORST: usize = 10;

/// Sum over the links of a cell's group in one direction.
#[derive(Default)]
struct Sum {
    cell: String,
    group: String,
    direction: String,
    links: u64,
    frames: f64,
    lost: f64,
    overflow: f64,
    contention: f64,
    gateway_busy: f64,
    weak_signal: f64,
    too_long: f64,
    /// Frames with a random loss decision.
    drawn: f64,
    lost_configured: f64,
    delay_configured: f64,
    delay_measured: f64,
    delayed: f64,
    delay_max: f64,
    rate: f64,
}

/// A link and its run.
struct Found {
    run: String,
    row: LinkRow,
}

/// Sums by group and direction, and the largest deviations from the configuration.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    page.section("links", "Links: configured and measured");
    let (mut sums, mut by_loss, mut by_delay) = (Vec::new(), Vec::new(), Vec::new());
    for cell in &view.cells {
        let begin = sums.len();
        for run in &cell.runs {
            let rows = match run.links() {
                Ok(rows) => rows,
                Err(error) => {
                    page.note(error.to_string());
                    continue;
                }
            };
            for row in rows {
                let group = run.topology.group_of(&row.node);
                add(&mut sums, begin, &cell.cell.label(), group, &row);
                if row.frames > 0.0 {
                    let found = || Found { run: run.name(), row: row.clone() };
                    if row.loss_deviations().is_some() {
                        by_loss.push(found());
                    }
                    if row.delay_excess_ms().is_some_and(|ms| ms > 0.0) {
                        by_delay.push(found());
                    }
                }
            }
            // After each cell, so that the lists stay short in sweeps with many links.
            keep_worst(&mut by_loss, |found| found.row.loss_deviations().unwrap_or(0.0).abs());
            keep_worst(&mut by_delay, |found| found.row.delay_excess_ms().unwrap_or(0.0));
        }
    }
    if sums.is_empty() {
        page.paragraph("No run has measurements of its links.");
        return;
    }
    page.paragraph(
        "“Up” is from a node into the network, “down” from the network to a node. The measured \
         delay starts at the end of a frame's serialisation and does not include the wait for the \
         rate limit.",
    );
    page.collapsed_table("All links by cell, group and direction", &summed(&sums));
    super::intervals::part(page, view);
    if !by_loss.is_empty() {
        page.heading("Largest deviations from the configured loss");
        page.paragraph(&format!(
            "The {WORST} links with the least likely loss, in standard deviations of independent \
             frame losses. Among hundreds of links, three to four are normal; loss by train \
             varies several times as much."
        ));
        page.table(&listed(&by_loss, ("deviation", "deviations"), |row| row.loss_deviations()));
    }
    if !by_delay.is_empty() {
        page.heading("Largest deviations from the configured delay");
        page.paragraph("The mean over the delivered frames of a link.");
        page.table(&listed(&by_delay, ("excess", "ms"), |row| row.delay_excess_ms()));
    }
}

fn add(sums: &mut Vec<Sum>, begin: usize, cell: &str, group: &str, row: &LinkRow) {
    // Other cells have groups of the same name.
    let known = sums[begin..].iter().position(|s| s.group == group && s.direction == row.direction);
    let place = known.map_or(sums.len(), |place| begin + place);
    if known.is_none() {
        let (cell, group) = (cell.to_owned(), group.to_owned());
        sums.push(Sum { cell, group, direction: row.direction.clone(), ..Sum::default() });
    }
    let sum = &mut sums[place];
    sum.links += 1;
    sum.frames += row.frames;
    sum.lost += row.lost;
    sum.overflow += row.overflow;
    sum.contention += row.contention;
    sum.gateway_busy += row.gateway_busy;
    sum.weak_signal += row.weak_signal;
    sum.too_long += row.too_long;
    let drawn = row.drawn();
    sum.drawn += drawn;
    sum.lost_configured += drawn * row.loss_configured_pct.unwrap_or(0.0);
    sum.rate = sum.rate.max(row.rate_configured_bit_s);
    // Weigh delays by the frames that were delayed.
    let through = (drawn - row.lost).max(0.0);
    if let (Some(configured), Some(measured)) = (row.delay_configured_ms, row.delay_measured_ms) {
        sum.delayed += through;
        sum.delay_configured += configured * through;
        sum.delay_measured += measured * through;
    }
    sum.delay_max = sum.delay_max.max(row.delay_max_ms.unwrap_or(0.0));
}

fn keep_worst(found: &mut Vec<Found>, weight: impl Fn(&Found) -> f64) {
    found.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    found.truncate(WORST);
}

fn rate(bit_s: f64) -> String {
    match bit_s {
        rate if rate <= 0.0 => "none".to_owned(),
        rate if rate < 1e6 => format!("{} kbit/s", format::number(rate / 1e3)),
        rate if rate < 1e9 => format!("{} Mbit/s", format::number(rate / 1e6)),
        rate => format!("{} Gbit/s", format::number(rate / 1e9)),
    }
}

fn optional(value: Option<f64>) -> Place {
    Place::number(value.map_or_else(|| format::NONE.to_owned(), format::number))
}

fn summed(sums: &[Sum]) -> Table {
    let mut table = Table::default()
        .text("cell")
        .text("group")
        .text("direction")
        .numbers("links", "")
        .numbers("frames", "")
        .numbers("delay configured", "ms")
        .numbers("measured", "ms")
        .numbers("most", "ms")
        .numbers("loss configured", "%")
        .numbers("measured", "%")
        .numbers("queue drops", "frames")
        .numbers("collisions, no access", "frames")
        .numbers("of these, LoRa gateway busy", "frames")
        .numbers("weak signal", "frames")
        .numbers("above path MTU", "frames")
        .numbers("rate configured", "");
    for sum in sums {
        let mean = |total: f64, count: f64| optional((count > 0.0).then(|| total / count));
        table.row(vec![
            sum.cell.clone().into(),
            sum.group.clone().into(),
            sum.direction.clone().into(),
            Place::number(sum.links.to_string()),
            Place::number(format::count(sum.frames)),
            mean(sum.delay_configured, sum.delayed),
            mean(sum.delay_measured, sum.delayed),
            Place::number(format::number(sum.delay_max)),
            mean(sum.lost_configured, sum.drawn),
            mean(100.0 * sum.lost, sum.drawn),
            Place::number(format::count(sum.overflow)),
            Place::number(format::count(sum.contention)),
            Place::number(format::count(sum.gateway_busy)),
            Place::number(format::count(sum.weak_signal)),
            Place::number(format::count(sum.too_long)),
            Place::number(rate(sum.rate)),
        ]);
    }
    table
}

fn listed(
    found: &[Found],
    (head, unit): (&str, &str),
    weight: impl Fn(&LinkRow) -> Option<f64>,
) -> Table {
    let mut table = Table::default()
        .text("run")
        .text("node")
        .text("direction")
        .numbers(head, unit)
        .numbers("frames", "")
        .numbers("delay configured", "ms")
        .numbers("measured", "ms")
        .numbers("most", "ms")
        .numbers("loss configured", "%")
        .numbers("measured", "%")
        .numbers("queue drops", "frames");
    for Found { run, row } in found {
        table.row(vec![
            run.clone().into(),
            row.node.clone().into(),
            row.direction.clone().into(),
            Place::number(weight(row).map(format::signed).unwrap_or_default()),
            Place::number(format::count(row.frames)),
            optional(row.delay_configured_ms),
            optional(row.delay_measured_ms),
            optional(row.delay_max_ms),
            optional(row.loss_configured_pct),
            optional(row.loss_measured_pct),
            Place::number(format::count(row.overflow)),
        ]);
    }
    table
}
