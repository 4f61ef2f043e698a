//! What was asked of each direction of a link and got, as rows of tables.

use crate::topology::Topology;
use experiment::Plan;
use measure::LinkRow;
use medium::{Interval, Totals};

/// What was asked of each direction and got, over the whole run and by
/// intervals.
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
                    asked: asked.clone().into(),
                    changing: parts.iter().any(|part| part.changing || *part.asked != *asked),
                    got: totals[segment][endpoint][way],
                };
                cut.extend(parts.iter().map(|part| LinkRow {
                    start_s: since(part.from),
                    end_s: since(part.to),
                    asked: part.asked.clone(),
                    changing: part.changing,
                    got: part.got,
                    ..row.clone()
                }));
                whole.push(row);
            }
        }
    }
    (whole, cut)
}
