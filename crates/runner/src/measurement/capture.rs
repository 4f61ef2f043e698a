//! Starts a run's capture, with the changes of the timetable as comments.

use crate::bed::{Topology, select, some};
use crate::error::Error;
use crate::folder::Folder;
use crate::options::Options;
use experiment::{Plan, PlannedChangeKind};
use measure::{Capture, FullDisk};
use std::sync::Arc;

/// Starts the capture that the plan or the user requests.
pub(crate) fn begin(
    plan: &Plan,
    options: &Options<'_>,
    topology: &Topology,
    folder: &Folder,
    disk: &Arc<FullDisk>,
) -> Result<Option<Capture>, Error> {
    if plan.capture.is_none() && !options.capture {
        return Ok(None);
    }
    let requested = plan.capture.clone().unwrap_or_default();
    let selection = select(plan, &requested, &topology.owners)?;
    let path = folder.path().join("capture.pcapng");
    let mut capture = Capture::begin(&path, &topology.names, selection, disk.clone())?;
    for network in &plan.networks {
        for change in &network.timetable {
            capture.plan(change.at, describe(&network.name, &change.what));
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
        // The nodes that are not named form one more.
        PlannedChangeKind::Partition { parts } => format!("{network}: {} parts", parts.len() + 1),
    }
}
