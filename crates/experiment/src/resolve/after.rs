//! The order in which nodes' programs start.

use super::machine;
use crate::file::Group;
use crate::problem::Problem;
use crate::read::{At, Named, Sink};
use crate::resolve::nodes::Nodes;
use std::collections::HashSet;

/// Reports unknown names, nodes without programs, and programs that wait for each other.
pub(super) fn check(nodes: &Nodes<'_>, sink: &mut Sink) {
    let Some(groups) = nodes.groups else { return };
    // One circle is reported at a time: each of its members is in it, and circles may overlap.
    let mut is_circular = false;
    for (name, _, group) in groups.iter() {
        let Some(after) = &group.after else { continue };
        if !has_program(group) {
            let problem = Problem::new("`after` without `run`").at(after.place);
            sink.add(problem.label("add the program that starts then: `run: [PROGRAM, ...]`"));
        }
        for other in &after.value.0 {
            let Some((awaited, _)) = nodes.find(other, sink) else { continue };
            if groups.get(awaited).is_some_and(|group| !has_program(group)) {
                let text = format!("`{}` has no program to wait for", other.value);
                let problem = Problem::new(text).at(other.place);
                sink.add(problem.label("give it `run`, or remove it here"));
            }
            if !is_circular && let Some(way) = way(nodes, groups, awaited, name) {
                is_circular = true;
                let circle = [name].into_iter().chain(way).map(|name| format!("`{name}`"));
                let text = circle.collect::<Vec<_>>().join(" after ");
                let problem = Problem::new(format!("programs wait for each other: {text}"));
                sink.add(problem.at(other.place).label("remove one `after` of them"));
            }
        }
    }
}

/// The nodes that `group` waits for.
pub(super) fn of(group: &Group, nodes: &Nodes<'_>) -> Vec<String> {
    let names = group.after.iter().flat_map(|after| &after.value.0);
    // Unknown names were reported with the group.
    let found = names.filter_map(|name| nodes.find(name, &mut Sink::default()));
    let mut seen = HashSet::new();
    found.flat_map(|(_, nodes)| nodes).filter(|node| seen.insert(node.clone())).collect()
}

/// The groups from `from` to `to`, each after the next one, if there is such a way.
fn way<'f>(
    nodes: &Nodes<'f>,
    groups: &'f Named<Group>,
    from: &str,
    to: &str,
) -> Option<Vec<&'f str>> {
    let mut ways: Vec<Vec<&str>> = vec![vec![group_of(nodes, groups, from)?]];
    let mut seen = HashSet::new();
    while let Some(way) = ways.pop() {
        let last = *way.last()?;
        if last == to {
            return Some(way);
        }
        if !seen.insert(last) {
            continue;
        }
        let after = groups.get(last).and_then(|group| group.after.as_ref());
        let names = after.iter().flat_map(|after| &after.value.0);
        let next = names.filter_map(|name: &At<String>| group_of(nodes, groups, &name.value));
        ways.extend(next.map(|next| [way.as_slice(), &[next]].concat()));
    }
    None
}

/// The group of this name, or of the node of this name.
fn group_of<'f>(nodes: &Nodes<'f>, groups: &'f Named<Group>, name: &str) -> Option<&'f str> {
    let group = groups.iter().map(|(group, ..)| group).find(|group| *group == name);
    group.or_else(|| Some(nodes.place(name)?.0))
}

/// Whether the nodes of a group have a program, as far as the file says: an image may have one.
fn has_program(group: &Group) -> bool {
    !group.is_idle() && (group.run.is_some() || group.root.is_some() || machine::is_one(group))
}

#[cfg(test)]
mod tests {
    use crate::test_plan::plan;

    const TEXT: &str = "experiment: order
nodes:
  broker: {run: [mosquitto], ready: {tcp: 1883}}
  bridge: {count: 2, run: [bridge], after: broker}
  meter: {run: [meter], after: [bridge-2, broker]}
networks: {lan: {attach: [broker, bridge, meter], subnet: 10.0.0.0/24}}
duration: 1 s
";

    fn after(text: &str) -> Result<Vec<(String, Vec<String>)>, String> {
        let plan = plan(text)?;
        let of = |node: crate::PlannedNode| Some((node.name, node.program?.after));
        Ok(plan.nodes.into_iter().filter_map(of).collect())
    }

    #[test]
    fn groups_and_nodes_are_waited_for() {
        let expected = [
            ("broker", &[][..]),
            ("bridge-1", &["broker"]),
            ("bridge-2", &["broker"]),
            ("meter", &["bridge-2", "broker"]),
        ];
        let expected = expected.map(|(name, after)| {
            (name.to_owned(), after.iter().map(|name| (*name).to_owned()).collect())
        });
        assert_eq!(after(TEXT).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_waited_for_is_an_error_with_its_place() {
        let circle = "programs wait for each other: `broker` after `meter` after `broker`";
        for (old, new, text) in [
            ("after: broker}", "after: brocker}", "unknown group `brocker`"),
            ("run: [bridge], ", "", "`after` without `run`"),
            ("run: [mosquitto], ready: {tcp: 1883}", "", "`broker` has no program to wait for"),
            ("tcp: 1883}}", "tcp: 1883}, after: meter}", circle),
            ("after: broker}", "after: bridge-1}", "`bridge` after `bridge`"),
        ] {
            let changed = TEXT.replace(old, new);
            assert_ne!(changed, TEXT);
            let error = after(&changed).expect_err(new);
            assert!(error.contains(text), "{new}: {error}");
        }
    }
}
