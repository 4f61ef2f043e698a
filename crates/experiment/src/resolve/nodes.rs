//! Resolves groups to nodes.

use crate::board::Board;
use crate::file::{File, Group, Limits};
use crate::limits::{LEAST_CPUS, NODES};
use crate::nearest::advice;
use crate::plan::{PlannedCpu, PlannedRoot};
use crate::problem::Problem;
use crate::read::{At, Named, OneOrMore, Sink};
use crate::resolve::{board, boundary, cores, root};
use crate::source::Place;
use indexmap::IndexMap;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The groups of a file and their number of nodes.
pub(super) struct Nodes<'f> {
    pub(super) groups: Option<&'f Named<Group>>,
    pub(super) counts: IndexMap<&'f str, u32>,
    pub(super) roots: HashMap<&'f str, PlannedRoot>,
    pub(super) boards: HashMap<&'f str, Board>,
    pub(super) cpus: HashMap<&'f str, PlannedCpu>,
}

impl<'f> Nodes<'f> {
    pub fn of(file: &'f File, base: &Path, sink: &mut Sink) -> Self {
        let groups = file.nodes.as_ref();
        let mut nodes = Self {
            groups,
            counts: IndexMap::new(),
            roots: HashMap::new(),
            boards: HashMap::new(),
            cpus: HashMap::new(),
        };
        let mut all = 0;
        for (name, place, group) in groups.into_iter().flat_map(Named::iter) {
            let count = group.count.as_ref().map_or(1, |count| count.value);
            let count_place = group.count.as_ref().map_or(place, |count| count.place);
            check_host_name(name, place, count, sink);
            check_limits(group, sink);
            check_program(group, sink);
            boundary::check(group, sink);
            cores::check(group, sink);
            nodes.boards.extend(board::of(group, sink).map(|board| (name, board)));
            nodes.cpus.extend(board::cpu(group, sink).map(|cpu| (name, cpu)));
            nodes.roots.extend(root::of(group, base, sink).map(|root| (name, root)));
            if count < *NODES.start() {
                let problem = Problem::new(format!("the group `{name}` has no nodes"));
                sink.add(problem.at(count_place).label("use 1 or more"));
                continue;
            }
            all += u64::from(count);
            if all > u64::from(*NODES.end()) {
                let problem = Problem::new(format!("more than {} nodes", NODES.end()));
                sink.add(problem.at(count_place));
                break;
            }
            nodes.counts.insert(name, count);
        }
        // After all groups: a name may be that of a node of a later one.
        nodes.check_names(sink);
        if groups.is_some_and(Named::is_empty) {
            sink.add(
                Problem::new("the experiment has no nodes").label("add a group under `nodes`"),
            );
        }
        nodes
    }

    /// Reports equal names of nodes, as in a group `meter-1` of one and a group `meter` of two.
    fn check_names(&self, sink: &mut Sink) {
        let Some(groups) = self.groups else { return };
        for (name, place, _) in groups.iter().filter(|(name, ..)| self.count(name) == Some(1)) {
            if self.node(name).is_some_and(|group| group != name) {
                let problem = Problem::new(format!("two nodes have the name `{name}`"));
                sink.add(problem.at(place).label("rename this group"));
            }
        }
    }

    pub fn count(&self, group: &str) -> Option<u32> {
        self.counts.get(group).copied()
    }

    /// Whether the group, or the node of a group, exists, valid or not.
    pub fn has(&self, name: &str) -> bool {
        self.groups.is_none_or(|groups| groups.has(name)) || self.node(name).is_some()
    }

    /// Whether the group exists, with its number of nodes.
    pub fn has_group(&self, name: &str) -> bool {
        self.counts.contains_key(name)
    }

    /// Names of the nodes of `group`.
    pub fn names(&self, group: &str) -> Vec<String> {
        match self.count(group) {
            None => Vec::new(),
            Some(1) => vec![group.to_owned()],
            Some(count) => (1..=count).map(|index| format!("{group}-{index}")).collect(),
        }
    }

    /// Group of the single node `name`, such as `meter-7`.
    fn node(&self, name: &str) -> Option<&'f str> {
        self.place(name).map(|(group, _)| group)
    }

    /// Group of the single node `name`, such as `meter-7`, and its index there, from 0.
    pub fn place(&self, name: &str) -> Option<(&'f str, u64)> {
        let (group, index) = name.rsplit_once('-')?;
        let (group, count) = self.counts.get_key_value(group)?;
        // `meter-07` and `meter-+7` parse as numbers, but no node has such a name.
        let index: u32 =
            index.parse().ok().filter(|n: &u32| !index.starts_with(['0', '+']) && *n > 0)?;
        (*count > 1 && index <= *count).then(|| (*group, u64::from(index) - 1))
    }

    /// The nodes of `name` and their group: a whole group, or one node. Reports an unknown name.
    pub fn find(&self, name: &At<String>, sink: &mut Sink) -> Option<(&str, Vec<String>)> {
        if let Some((group, _)) = self.counts.get_key_value(name.value.as_str()) {
            return Some((group, self.names(group)));
        }
        if let Some(group) = self.node(&name.value) {
            return Some((group, vec![name.value.clone()]));
        }
        self.report_unknown(name, sink);
        None
    }

    /// Reports an unknown name, unless its group is invalid.
    pub fn report_unknown(&self, name: &At<String>, sink: &mut Sink) {
        if let Some(groups) = self.groups.filter(|groups| !groups.has(&name.value)) {
            let problem = Problem::new(format!("unknown group `{}`", name.value)).at(name.place);
            sink.add(problem.label(advice(&name.value, groups.names())));
        }
    }

    /// The nodes of several names, without duplicates, and their groups.
    pub fn find_all(
        &self,
        names: &OneOrMore<At<String>>,
        sink: &mut Sink,
    ) -> (Vec<String>, Vec<String>) {
        let (mut found, mut groups, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for name in &names.0 {
            let Some((group, nodes)) = self.find(name, sink) else { continue };
            if !groups.iter().any(|known| known == group) {
                groups.push(group.to_owned());
            }
            if nodes.iter().any(|node| !seen.insert(node.clone())) {
                let text = format!("`{}` matches nodes that are already in the list", name.value);
                sink.add(Problem::new(text).at(name.place));
                continue;
            }
            found.extend(nodes);
        }
        (found, groups)
    }
}

/// Reports names that cannot be host names of a group of `count` nodes.
pub(crate) fn check_host_name(name: &str, place: Place, count: u32, sink: &mut Sink) {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let length = name.len() + if count > 1 { count.to_string().len() + 1 } else { 0 };
    let edge = name.is_empty() || name.starts_with('-') || name.ends_with('-');
    // 63 characters are the limit of a DNS label (RFC 1035, 2.3.4).
    if edge || !name.chars().all(fits) || length > 63 {
        let problem = Problem::new(format!("`{name}` is not a valid host name")).at(place);
        sink.add(problem.label(
            "use lower-case letters, digits and `-` between them, at most 63 \
                                characters",
        ));
    } else if name == "localhost" {
        let problem = Problem::new("a node cannot have the name `localhost`").at(place);
        sink.add(problem.label("each node already has it"));
    }
}

fn check_program(group: &Group, sink: &mut Sink) {
    super::metrics::of(&group.metrics, sink);
    super::program_check::of(&group.expect, sink);
    let is_idle = group.is_idle();
    let has_image = group.root.is_some() && !is_idle;
    match &group.run {
        Some(run)
            if !is_idle && run.value.first().is_none_or(|program| program.value.is_empty()) =>
        {
            let problem = Problem::new("`run` has no program").at(run.place);
            sink.add(problem.label("write for example `[mosquitto, -p, 1883]`"));
        }
        Some(_) if !is_idle => {}
        // A machine's program is checked with the machine.
        None if group.qemu.is_some() || group.firmware.is_some() => {}
        _ => {
            if let Some(ready) = group.ready.as_ref().filter(|_| !has_image) {
                let problem = Problem::new("`ready` without `run`").at(ready.place);
                sink.add(problem.label("add the program to wait for: `run: [PROGRAM, ...]`"));
            }
            if let Some(expect) = group.expect.as_ref().filter(|_| !has_image) {
                let problem = Problem::new("`expect` without `run`").at(expect.place);
                sink.add(problem.label("add the program that it is for: `run: [PROGRAM, ...]`"));
            }
            let first = group.metrics.iter().flat_map(Named::iter).next();
            if let Some((_, place, _)) = first.filter(|_| !has_image) {
                let problem = Problem::new("`metrics` without `run`").at(place);
                sink.add(problem.label("add the program that prints them: `run: [PROGRAM, ...]`"));
            }
        }
    }
}

fn check_limits(group: &Group, sink: &mut Sink) {
    if let Some(cpus) = group.reserve.as_ref().and_then(|reserve| reserve.cpus.as_ref())
        && cpus.value < LEAST_CPUS
    {
        let problem = Problem::new(format!("a reservation of {} CPUs", cpus.value));
        sink.add(
            problem
                .at(cpus.place)
                .label(format!("use {LEAST_CPUS} or more; 0.5 is half of one CPU's time")),
        );
    }
    if let Some(limits) = &group.limits {
        check_limits_of(limits, sink);
    }
}

/// Reports limits that are too low for any program.
pub(crate) fn check_limits_of(limits: &Limits, sink: &mut Sink) {
    if let Some(cpus) = limits.cpus.as_ref().filter(|cpus| cpus.value < LEAST_CPUS) {
        let problem = Problem::new(format!("a limit of {} CPUs", cpus.value)).at(cpus.place);
        sink.add(problem.label(format!("use {LEAST_CPUS} or more; 0.5 is half of one CPU's time")));
    }
    const LEAST: u64 = 1 << 20;
    if let Some(memory) = limits.memory.as_ref().filter(|memory| memory.value.get() < LEAST) {
        let problem = Problem::new(format!("a limit of {} of memory", memory.value));
        sink.add(problem.at(memory.place).label("use 1 MiB or more"));
    }
}
