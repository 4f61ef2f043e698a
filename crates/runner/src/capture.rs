//! Starts a run's capture: selects the frames to keep and adds comments to the file.

use crate::error::Error;
use crate::folder::Folder;
use crate::run::Options;
use crate::topology::Topology;
use experiment::{Plan, PlannedCapture, PlannedChangeKind};
use measure::{Capture, Filter, Selection};

/// Starts the capture that the plan or the user requests.
pub(crate) fn begin(
    plan: &Plan,
    options: &Options<'_>,
    topology: &Topology,
    folder: &Folder,
) -> Result<Option<Capture>, Error> {
    if plan.capture.is_none() && !options.capture {
        return Ok(None);
    }
    let wanted = plan.capture.clone().unwrap_or_default();
    let selection = select(plan, &wanted, &topology.owners)?;
    let path = folder.path().join("capture.pcapng");
    let mut capture = Capture::begin(&path, &topology.names, selection)?;
    for network in &plan.networks {
        for change in &network.timetable {
            capture.plan(change.at.as_ns(), describe(&network.name, &change.what));
        }
    }
    Ok(Some(capture))
}

/// A short description of a network change.
fn describe(network: &str, what: &PlannedChangeKind) -> String {
    match what {
        PlannedChangeKind::Set { nodes, .. } => {
            format!("{network}: links of {} change", some(nodes))
        }
        PlannedChangeKind::Down { nodes, down: true } => format!("{network}: {} down", some(nodes)),
        PlannedChangeKind::Down { nodes, down: false } => format!("{network}: {} up", some(nodes)),
        PlannedChangeKind::Multicast { passes: true } => format!("{network}: multicast on"),
        PlannedChangeKind::Multicast { passes: false } => format!("{network}: multicast off"),
        PlannedChangeKind::Partition { parts } if parts.is_empty() => {
            format!("{network}: partition ends")
        }
        PlannedChangeKind::Partition { parts } => format!("{network}: {} parts", parts.len() + 1),
    }
}

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
