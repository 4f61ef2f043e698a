//! Resolves faults injected into nodes' programs.

use crate::fault::{PlannedFault, PlannedFaultKind as Kind};
use crate::file::{Fault, File, Group};
use crate::problem::Problem;
use crate::read::Sink;
use crate::resolve::nodes::Nodes;
use crate::resolve::root::is_plain_folder;
use std::path::Path;

/// Faults of a file, ordered by time.
pub(super) fn of(
    file: &File,
    nodes: &Nodes<'_>,
    base: &Path,
    sink: &mut Sink,
) -> Vec<PlannedFault> {
    let faults = file.faults.iter().flatten();
    let mut planned: Vec<_> =
        faults.flat_map(|fault| one(file, nodes, fault, base, sink)).collect();
    // A stable sort: faults at one time stay in the order of the file.
    planned.sort_by_key(|fault| fault.at);
    planned
}

/// Whether a group's nodes run nothing: neither a program, nor a machine, nor what an image says.
fn has_no_program(group: &Group, base: &Path) -> bool {
    let device = group.qemu.is_some() || group.firmware.is_some();
    let image = group.root.as_ref().is_some_and(|root| !is_plain_folder(&base.join(&root.value)));
    group.is_idle() || group.run.is_none() && !device && !image
}

fn one(
    file: &File,
    nodes: &Nodes<'_>,
    fault: &Fault,
    base: &Path,
    sink: &mut Sink,
) -> Vec<PlannedFault> {
    let Some(at) = &fault.at else { return Vec::new() };
    let mut kinds =
        fault.kinds().into_iter().filter_map(|(word, names)| Some((word, names.as_ref()?)));
    let (Some((word, names)), None) = (kinds.next(), kinds.next()) else {
        let problem = Problem::new(
            "a fault is one of `kill`, `stop`, `start`, `restart`, `pause` and `resume`",
        );
        sink.add(
            problem.at(at.place).label("keep one of them here, and add an entry for each other"),
        );
        return Vec::new();
    };
    let (kind, after) = match word {
        "kill" => (Kind::Kill, Some(Kind::Start)),
        "stop" => (Kind::Stop, Some(Kind::Start)),
        "start" => (Kind::Start, None),
        "restart" => (Kind::Restart, None),
        "pause" => (Kind::Pause, Some(Kind::Resume)),
        _ => (Kind::Resume, None),
    };
    let (found, groups) = nodes.find_all(&names.value, sink);
    let lasts = fault.lasts.as_ref();
    // The end of `kill` or `stop` starts a program, too.
    if kind.starts() || (lasts.is_some() && after.is_some_and(Kind::starts)) {
        let groups_of = file.nodes.as_ref();
        for group in groups {
            if groups_of
                .and_then(|all| all.get(&group))
                .is_some_and(|group| has_no_program(group, base))
            {
                let problem = Problem::new(format!("the nodes of `{group}` have no program"));
                sink.add(
                    problem
                        .at(names.place)
                        .label(format!("add `run: [PROGRAM, ...]` to `{group}`")),
                );
            }
        }
    }
    let mut planned = vec![PlannedFault { at: at.value, what: kind, nodes: found.clone() }];
    match (lasts, after) {
        (Some(lasts), Some(what)) => {
            let at = at.value + lasts.value;
            planned.push(PlannedFault { at, what, nodes: found });
        }
        (Some(lasts), None) => {
            let problem = Problem::new(format!("`{word}` has no duration")).at(lasts.place);
            sink.add(problem.label("`lasts` needs `kill`, `stop` or `pause`"));
        }
        (None, _) => {}
    }
    planned
}
