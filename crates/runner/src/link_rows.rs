//! Configured and measured impairments of each link direction, as table rows.

use crate::bed::Topology;
use crate::bed::netem::Done;
use experiment::Plan;
use lab::Direction;
use link::{Channel, Interval, Totals};
use measure::LinkRow;

/// Configured and measured impairments of each direction, for the whole run and by intervals.
pub(crate) fn link_rows(
    plan: &Plan,
    topology: &Topology,
    totals: &[Vec<[Totals; 2]>],
    intervals: &[Vec<[Vec<Interval>; 2]>],
    start_ns: u64,
) -> (Vec<LinkRow>, Vec<LinkRow>) {
    let (mut whole, mut cut) = (Vec::new(), Vec::new());
    let since = |ns: u64| (ns as f64 - start_ns as f64) / 1e9;
    for (segment, spec) in topology.segments.iter().enumerate() {
        for (endpoint, link) in spec.endpoints.iter().enumerate() {
            let name = &topology.names[segment][endpoint];
            let (node, interface) = name.split_once(':').unwrap_or((name, ""));
            for (way, asked, direction) in [(0, &link.up, "up"), (1, &link.down, "down")] {
                let parts = &intervals[segment][endpoint][way];
                let row = LinkRow {
                    node: node.to_owned(),
                    interface: interface.to_owned(),
                    network: plan.networks[segment].name.clone(),
                    direction,
                    start_s: parts.first().map_or(0.0, |part| since(part.from)),
                    end_s: parts.last().map_or(0.0, |part| since(part.to)),
                    configured: asked.clone().into(),
                    changing: parts.iter().any(|part| part.changing || *part.asked != *asked),
                    measured: totals[segment][endpoint][way],
                    by_netem: false,
                    sends_again: direction == "up"
                        && matches!(&spec.channel, Channel::Csma(csma) if csma.retries > 0),
                };
                cut.extend(parts.iter().map(|part| LinkRow {
                    start_s: since(part.from),
                    end_s: since(part.to),
                    configured: part.asked.clone(),
                    changing: part.changing,
                    measured: part.got,
                    ..row.clone()
                }));
                whole.push(row);
            }
        }
    }
    (whole, cut)
}

/// Replaces the rows of links that netem impairs, where the medium only forwards frames, by rows
/// from netem's own counters for the whole run.
pub(crate) fn with_netem(
    mut whole: Vec<LinkRow>,
    mut cut: Vec<LinkRow>,
    topology: &Topology,
    done: &[Done],
) -> (Vec<LinkRow>, Vec<LinkRow>) {
    for done in done {
        let name = &topology.names[done.place.segment][done.place.endpoint];
        let (node, interface) = name.split_once(':').unwrap_or((name, ""));
        let direction = if done.way == Direction::Up { "up" } else { "down" };
        let is_it = |row: &LinkRow| {
            row.node == node && row.interface == interface && row.direction == direction
        };
        cut.retain(|row| !is_it(row));
        if let Some(row) = whole.iter_mut().find(|row| is_it(row)) {
            let (passed, outage, rejected) =
                (done.passed, row.measured.outage, row.measured.rejected);
            // Netem does not separate random loss from overflow.
            let (lost, overflow) = match done.asked.mean_loss() > 0.0 {
                true => (passed.dropped, 0),
                false => (0, passed.dropped),
            };
            row.measured = Totals {
                frames: passed.frames + passed.dropped + outage,
                bytes: passed.bytes,
                passed: passed.frames,
                lost,
                overflow,
                outage,
                rejected,
                ..Totals::default()
            };
            row.configured = done.asked.clone();
            // Counters of super-frames cannot be compared with the configuration.
            row.changing = !done.counted;
            row.by_netem = true;
            cut.push(row.clone());
        }
    }
    (whole, cut)
}
