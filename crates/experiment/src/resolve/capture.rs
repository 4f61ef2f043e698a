//! Resolves frame capture.

use crate::file::File;
use crate::nearest::advice;
use crate::plan::PlannedCapture;
use crate::problem::Problem;
use crate::read::{Named, Sink};
use crate::resolve::nodes::Nodes;

/// Minimum snapshot length, B: an Ethernet header.
const MIN_SNAP: u64 = 14;

/// The capture of a file, if it has one.
pub(super) fn of(file: &File, nodes: &Nodes<'_>, sink: &mut Sink) -> Option<PlannedCapture> {
    let capture = file.capture.as_ref()?;
    let known = file.networks.as_ref();
    let mut networks = Vec::new();
    for name in capture.networks.iter().flat_map(|names| &names.value.0) {
        let typed = known.and_then(|known| known.get(&name.value));
        if let Some(switch) = typed.and_then(|typed| typed.switch.as_ref()) {
            let text =
                format!("`{}` is a VLAN of `{}`, which has its links", name.value, switch.value);
            let label = format!("write `{}`; `nodes` selects those of the VLAN", switch.value);
            sink.add(Problem::new(text).at(name.place).label(label));
        } else if known.is_some_and(|known| known.has(&name.value)) {
            networks.push(name.value.clone());
        } else {
            let problem = Problem::new(format!("unknown network `{}`", name.value));
            let names: Vec<&String> = known.into_iter().flat_map(Named::names).collect();
            let label = advice(&name.value, names.iter().map(|name| name.as_str()));
            sink.add(problem.at(name.place).label(label));
        }
    }
    let lists = [
        ("nodes", capture.nodes.as_ref().map(|at| (at.place, at.value.0.is_empty()))),
        ("networks", capture.networks.as_ref().map(|at| (at.place, at.value.0.is_empty()))),
    ];
    for (key, list) in lists {
        if let Some((place, true)) = list {
            let problem = Problem::new(format!("`{key}` is an empty list")).at(place);
            sink.add(problem.label("without the key, all are captured: remove it, or name some"));
        }
    }
    if let Some(snap) = capture.snap.as_ref().filter(|snap| snap.value.get() < MIN_SNAP) {
        let problem = Problem::new(format!("a snapshot length of {}", snap.value));
        sink.add(problem.at(snap.place).label("use 14 B, an Ethernet header, or more"));
    }
    Some(PlannedCapture {
        nodes: capture
            .nodes
            .as_ref()
            .map_or(Vec::new(), |names| nodes.find_all(&names.value, sink).0),
        networks,
        filter: capture.filter.as_ref().map(|filter| filter.value.clone()),
        snap: capture.snap.as_ref().map(|snap| snap.value),
    })
}
