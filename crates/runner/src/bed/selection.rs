//! Selects the frames of a capture, and names nodes in short.

use experiment::{Plan, PlannedCapture};
use measure::{Filter, Selection};

/// A few nodes by name, the others by number.
pub(crate) fn some(nodes: &[String]) -> String {
    match nodes {
        [one, two, _, rest @ ..] => format!("{one}, {two} and {} more", rest.len() + 1),
        few => few.join(", "),
    }
}

/// Selects what to capture; `owners` lists the node at each endpoint of each segment.
///
/// # Errors
/// When the filter is invalid.
pub(crate) fn select(
    plan: &Plan,
    wanted: &PlannedCapture,
    owners: &[Vec<usize>],
) -> Result<Selection, measure::FilterError> {
    let all = wanted.nodes.is_empty() && wanted.networks.is_empty();
    let named = |names: &[String], name: &String| names.is_empty() || names.contains(name);
    let links = owners.iter().enumerate().map(|(segment, nodes)| {
        let network = named(&wanted.networks, &plan.networks[segment].name);
        let node = |node: &usize| network && named(&wanted.nodes, &plan.nodes[*node].name);
        nodes.iter().map(node).collect()
    });
    Ok(Selection {
        links: (!all).then(|| links.collect()),
        filter: wanted.filter.as_deref().map(Filter::compile).transpose()?,
        snap: wanted.snap.map(|snap| snap.get() as usize),
    })
}
