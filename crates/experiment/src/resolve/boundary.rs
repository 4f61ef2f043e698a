//! Resolves what a node's programs may do to the machine: `capabilities` and `privileged`.

use crate::file::Group;
use crate::limits::FEWEST_PROCESSES;
use crate::nearest::nearest;
use crate::problem::Problem;
use crate::read::Sink;

/// Least storage: the files that Thingbed writes into each root fit with room to spare.
const LEAST_STORAGE: u64 = 1 << 20;

/// Capabilities of a group's nodes, without `CAP_`, each once.
pub(super) fn capabilities(group: &Group) -> Vec<String> {
    let named = group.capabilities.iter().flat_map(|names| &names.value.0);
    let mut names: Vec<String> = named.filter_map(|name| known(&name.value)).collect();
    names.sort();
    names.dedup();
    names
}

/// Whether a group's nodes are privileged.
pub(super) fn is_privileged(group: &Group) -> bool {
    group.privileged.as_ref().is_some_and(|at| at.value)
}

/// The name of a capability without `CAP_`, if the kernel has it.
fn known(name: &str) -> Option<String> {
    let name = name.to_ascii_uppercase();
    let name = name.strip_prefix("CAP_").unwrap_or(&name).to_owned();
    all().any(|known| known == name).then_some(name)
}

/// The names of all capabilities, without `CAP_` (capabilities(7)).
fn all() -> impl Iterator<Item = String> {
    // All of these names begin with `CAP_`.
    caps::all().into_iter().map(|capability| capability.to_string()[4..].to_owned())
}

/// Least size of a log: the beginning and the end that it keeps are some hundred lines.
const LEAST_OUTPUT: u64 = 64 << 10;

/// Reports unknown capabilities, and limits of processes, storage and output that are too low.
pub(super) fn check(group: &Group, sink: &mut Sink) {
    for name in group.capabilities.iter().flat_map(|names| &names.value.0) {
        if known(&name.value).is_none() {
            let text = format!("`{}` is not a capability", name.value);
            let names: Vec<String> = all().collect();
            let near = nearest(&name.value, &names);
            let label = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "use a name of capabilities(7), for example `SYS_TIME`".to_owned(),
            };
            sink.add(Problem::new(text).at(name.place).label(label));
        }
    }
    let Some(limits) = &group.limits else { return };
    if let Some(at) = limits.processes.as_ref().filter(|at| at.value < FEWEST_PROCESSES) {
        let problem = Problem::new(format!("a limit of {} processes", at.value)).at(at.place);
        sink.add(problem.label(format!("use {FEWEST_PROCESSES} or more")));
    }
    if let Some(at) = limits.output.as_ref().filter(|at| at.value.get() < LEAST_OUTPUT) {
        let problem = Problem::new(format!("a limit of {} of output", at.value)).at(at.place);
        sink.add(problem.label("use 64 KiB or more"));
    }
    if let Some(at) = limits.storage.as_ref() {
        let text = format!("a limit of {} of storage", at.value);
        if group.root.is_none() {
            let problem = Problem::new("`storage` without `root`").at(at.place);
            sink.add(problem.label("a node without a root writes to the host's files"));
        } else if at.value.get() < LEAST_STORAGE {
            sink.add(Problem::new(text).at(at.place).label("use 1 MiB or more"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_kernel_in_any_case() {
        assert_eq!(known("sys_time").as_deref(), Some("SYS_TIME"));
        assert_eq!(known("CAP_SYS_TIME").as_deref(), Some("SYS_TIME"));
        assert_eq!(known("SYS_TIMES"), None);
        assert_eq!(known(""), None);
    }
}
