//! Resolves changes on a network during a run.

use crate::file::{Change, Channel, Directions, Impairment, Link};
use crate::plan::{PlannedChange, PlannedChangeKind};
use crate::problem::Problem;
use crate::read::{At, Named, OneOrMore, Sink};
use crate::resolve::directions::channel_wait;
use crate::resolve::members::Members;
use crate::resolve::nodes::Nodes;
use crate::source::Place;
use link::{Direction, Keys};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;
use units::{Bytes, Span};

/// Context of a timetable.
struct Scope<'a, 'f> {
    nodes: &'a Nodes<'f>,
    links: Option<&'a Named<Link>>,
    members: &'a Members<'f>,
    network: &'a str,
    channel: Option<&'a Channel>,
    mtu: Bytes,
}

/// Configured impairments of each direction after the entries so far.
type State = HashMap<(String, Direction), Impairment>;

/// Changes of the network `name`, ordered by time. `links` are its groups' impairments at the
/// start.
pub(super) fn of<'f, 'e>(
    (name, entries): (&str, impl Iterator<Item = &'e Change>),
    links: Option<&Named<Link>>,
    members: &Members<'f>,
    nodes: &Nodes<'f>,
    (channel, mtu): (Option<&Channel>, Bytes),
    sink: &mut Sink,
) -> Vec<PlannedChange> {
    let scope = Scope { nodes, links, members, network: name, channel, mtu };
    // Each entry is checked together with the effect of the earlier ones.
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(|entry| entry.at.as_ref().map(|at| at.value));
    let mut state = State::new();
    let mut changes: Vec<_> =
        entries.iter().flat_map(|entry| scope.entry(entry, &mut state, sink)).collect();
    // Again, since the end of an entry may be after the begin of later ones.
    changes.sort_by_key(|change| change.at);
    changes
}

impl Scope<'_, '_> {
    fn entry(&self, entry: &Change, state: &mut State, sink: &mut Sink) -> Vec<PlannedChange> {
        let Some(at) = &entry.at else { return Vec::new() };
        let kinds = [
            entry.set.is_some(),
            entry.down.is_some(),
            entry.partition.is_some(),
            entry.multicast.is_some(),
        ];
        if kinds.iter().filter(|kind| **kind).count() != 1 {
            let problem = Problem::new(
                "a timetable entry is one of `set`, `down`, `partition` and \
                              `multicast`",
            );
            let label = "keep one of them here, and add an entry for each other";
            sink.add(problem.at(at.place).label(label));
            return Vec::new();
        }
        let only_with_set = [
            ("links", entry.links.as_ref().map(|at| at.place)),
            ("way", entry.way.as_ref().map(|at| at.place)),
            ("over", entry.over.as_ref().map(|at| at.place)),
        ];
        for (key, place) in only_with_set {
            if let Some(place) = place.filter(|_| entry.set.is_none()) {
                let problem = Problem::new(format!("`{key}` needs `set`"));
                sink.add(problem.at(place).label("remove it here"));
            }
        }
        if let Some(lasts) = entry.lasts.as_ref().filter(|_| entry.set.is_some()) {
            let problem = Problem::new("`lasts` needs `down`, `partition` or `multicast`");
            let label = "`set` lasts until another entry changes the value";
            sink.add(problem.at(lasts.place).label(label));
        }
        let lasts = entry.lasts.as_ref().map(|lasts| lasts.value);
        let (what, end) = if let Some(set) = &entry.set {
            let Some(what) = self.set((entry, at.place), set, state, sink) else {
                return Vec::new();
            };
            (what, None)
        } else if let Some(down) = &entry.down {
            let nodes = self.named(&down.value, sink);
            let again = PlannedChangeKind::Down { nodes: nodes.clone(), down: false };
            (PlannedChangeKind::Down { nodes, down: true }, Some(again))
        } else if let Some(passes) = &entry.multicast {
            let passes = passes.value;
            (
                PlannedChangeKind::Multicast { passes },
                Some(PlannedChangeKind::Multicast { passes: !passes }),
            )
        } else {
            let Some(parts) = self.parts(entry, sink) else { return Vec::new() };
            let complete = PlannedChangeKind::Partition { parts: Vec::new() };
            (PlannedChangeKind::Partition { parts }, Some(complete))
        };
        let mut changes = vec![PlannedChange { at: at.value, what }];
        if let (Some(what), Some(lasts)) = (end, lasts) {
            let at = at.value + lasts;
            changes.push(PlannedChange { at, what });
        }
        changes
    }

    fn set(
        &self,
        (entry, place): (&Change, Place),
        set: &Impairment,
        state: &mut State,
        sink: &mut Sink,
    ) -> Option<PlannedChangeKind> {
        let Some(links) = &entry.links else {
            let problem = Problem::new("a `set` without `links`").at(place);
            sink.add(
                problem.label("add the links: `links: meter`, or `links: [meter-1, meter-2]`"),
            );
            return None;
        };
        // Problems of other entries must not make this one look invalid.
        let known = sink.problems.len();
        let overlay = changed_keys(set, sink);
        if sink.problems.len() > known {
            return None;
        }
        let directions = match entry.way.as_ref().map(|at| at.value) {
            Some(Directions::Up) => vec![Direction::Up],
            Some(Directions::Down) => vec![Direction::Down],
            Some(Directions::Both) | None => vec![Direction::Up, Direction::Down],
        };
        for (group, node) in self.members_of(&links.value) {
            for way in &directions {
                let before = state.entry((node.clone(), *way)).or_insert_with(|| {
                    let link = |name| self.links.and_then(|links| links.get(name));
                    let link = link(&node).or_else(|| link(&group));
                    let base = link.and_then(|link| match way {
                        Direction::Up => link.up.as_ref(),
                        Direction::Down => link.down.as_ref(),
                    });
                    base.cloned().unwrap_or_default()
                });
                let complete = set.after(before);
                let channel_wait = channel_wait(self.channel, *way == Direction::Up);
                complete.check(channel_wait, sink);
                complete.check_mtu(self.mtu, sink);
                if sink.problems.len() > known {
                    return None;
                }
                *before = complete;
            }
        }
        let nodes = self.named(&links.value, sink);
        let over = entry.over.as_ref().map_or(Span::ZERO, |over| over.value);
        Some(PlannedChangeKind::Set { nodes, ways: directions, set: overlay, over })
    }

    fn parts(&self, entry: &Change, sink: &mut Sink) -> Option<Vec<Vec<String>>> {
        let parts = entry.partition.as_ref()?;
        let named: Vec<Vec<String>> =
            parts.value.iter().map(|part| self.named(&part.value, sink)).collect();
        let mut seen = std::collections::HashSet::new();
        for name in named.iter().flatten() {
            if !seen.insert(name) {
                let problem = Problem::new(format!("`{name}` is in two parts")).at(parts.place);
                sink.add(problem.label("put each node into one part"));
                return None;
            }
        }
        if named.iter().all(Vec::is_empty) {
            let problem = Problem::new("a partition without parts").at(parts.place);
            sink.add(problem.label("write for example `[[gateway, meter-1], meter-2]`"));
            return None;
        }
        Some(named)
    }

    /// Known nodes of `names`, each with its group.
    fn members_of(&self, names: &OneOrMore<At<String>>) -> Vec<(String, String)> {
        let found = names.0.iter().filter_map(|name| self.nodes.find(name, &mut Sink::default()));
        let each = found
            .flat_map(|(group, nodes)| nodes.into_iter().map(move |node| (group.to_owned(), node)));
        each.collect()
    }

    /// Nodes of `names`; they must be attached to this network.
    fn named(&self, names: &OneOrMore<At<String>>, sink: &mut Sink) -> Vec<String> {
        let mut all = Vec::new();
        for name in &names.0 {
            let Some((_, nodes)) = self.nodes.find(name, sink) else { continue };
            if !self.members.includes(&name.value, self.nodes) {
                let text = format!("`{}` is not on the network `{}`", name.value, self.network);
                sink.add(Problem::new(text).at(name.place).label("`attach` lists the nodes on it"));
                continue;
            }
            all.extend(nodes);
        }
        all
    }
}

/// The changed keys with complete values, and those that they replace or reset. Values from files cannot
/// change during a run.
pub(crate) fn changed_keys(set: &Impairment, sink: &mut Sink) -> Keys {
    let files = ["trace", "cellular_trace", "distribution.table"];
    if let Some(path) = files.into_iter().find(|path| set.has(path)) {
        let problem = Problem::new("values from a file cannot change during a run");
        let key = path.split('.').next().unwrap_or(path);
        sink.add(problem.at(set.place(key)).label("set it on the link from the start"));
        return Keys::default();
    }
    let complete = set.resolve(Path::new(""), &mut Sink::default()).keys();
    let named = set.keys.0.keys();
    // A default value is not among the complete keys.
    let value = |key: &str| complete.0.get(key).or(set.keys.0.get(key)).cloned();
    let mut changed: Map<_, _> =
        named.map(|key| (key.clone(), value(key).unwrap_or_default())).collect();
    changed.extend(set.removed().into_iter().map(|key| (key.to_owned(), Value::Null)));
    Keys(changed)
}
