//! Text form of the routes in a plan.

use crate::plan::PlannedNode;
use std::fmt;

/// Largest number of routes and of nodes that the text of a plan lists.
const LISTED: usize = 20;

/// Writes the routes of a group's nodes: those of routers may differ.
pub(crate) fn write_routes(f: &mut fmt::Formatter<'_>, nodes: &[PlannedNode]) -> fmt::Result {
    let Some(first) = nodes.first() else { return Ok(()) };
    let learned: Vec<_> =
        first.learned_gateways.iter().map(|via| format!("default via {via}")).collect();
    if !learned.is_empty() {
        let is_slaac = first.links.iter().any(|link| link.by_slaac);
        let from = if is_slaac { "router advertisements" } else { "DHCP" };
        writeln!(f, "    routes by {from}: {}", learned.join(", "))?;
    }
    let is_same = nodes.iter().all(|node| node.routes == first.routes);
    let shown = if is_same { &nodes[..1] } else { nodes };
    for node in shown.iter().take(LISTED).filter(|node| !node.routes.is_empty()) {
        match is_same {
            true => write!(f, "    routes: ")?,
            false => write!(f, "    routes of {}: ", node.name)?,
        }
        let routes: Vec<_> = node.routes.iter().take(LISTED).map(ToString::to_string).collect();
        write!(f, "{}", routes.join(", "))?;
        match node.routes.len().saturating_sub(LISTED) {
            0 => writeln!(f)?,
            more => writeln!(f, " and {more} more")?,
        }
    }
    match shown.len().saturating_sub(LISTED) {
        0 => Ok(()),
        more => writeln!(f, "    and routes of {more} more nodes"),
    }
}
