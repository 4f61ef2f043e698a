//! The order in which the services of a compose file start.

use super::reader::{Reader, entries, get, list, text, text_of};
use super::text::list as yaml_list;
use super::writer::Group;
use crate::source::Place;
use crate::tree::{Content, Key, Node};
use std::collections::HashMap;

/// A service that another one depends on.
pub(super) struct Dependency<'n> {
    pub name: &'n str,
    /// Whether the other waits for its end, and not for its start.
    pub is_end: bool,
    place: Place,
}

/// The services in a `depends_on`, a list or a map.
pub(super) fn dependencies(depends: &Node) -> Vec<Dependency<'_>> {
    if let Content::Map(_) = &depends.content {
        let is_end = |how| text_of(how, "condition") == Some("service_completed_successfully");
        let all = entries(depends).into_iter();
        return all
            .map(|(key, how)| Dependency { name: &key.text, is_end: is_end(how), place: key.place })
            .collect();
    }
    let named = list(depends).into_iter().filter_map(|node| Some((text(node)?, node.place)));
    named.map(|(name, place)| Dependency { name, is_end: false, place }).collect()
}

/// Lets programs of nodes start after those that they depend on, and notes what is not carried over.
/// The groups are those of the services, in their order.
pub(super) fn set(services: &[(&Key, &Node)], groups: &mut [Group], reader: &mut Reader) {
    let places: HashMap<&str, usize> =
        services.iter().enumerate().map(|(at, (key, _))| (key.text.as_str(), at)).collect();
    let mut after: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
    for (at, (key, node)) in services.iter().enumerate() {
        let Some(depends) = get(node, "depends_on") else { continue };
        let what = format!("`depends_on` of the service {}", key.text);
        for other in dependencies(depends) {
            let known = places.get(other.name).copied();
            if other.is_end {
                let text = format!("{what}: it does not wait for the end of {}", other.name);
                reader.note(other.place, text);
            } else if !runs(&groups[at]) {
                let text = format!("{what}: it starts when all nodes are `ready`");
                reader.note(other.place, text);
            } else if let Some(other) = known.filter(|other| runs(&groups[*other])) {
                // A circle, which compose refuses too, would be no experiment.
                if !reaches(&after, other, at) && !after[at].contains(&other) {
                    after[at].push(other);
                }
            } else {
                let text = format!("{what}: {} is not a program of a node", other.name);
                reader.note(other.place, text);
            }
        }
    }
    for (at, after) in after.iter().enumerate().filter(|(_, after)| !after.is_empty()) {
        let names: Vec<String> = after.iter().map(|other| groups[*other].name.clone()).collect();
        groups[at].keys.push(("after", yaml_list(&names)));
    }
}

/// Whether a group has a program that runs as long as the node.
fn runs(group: &Group) -> bool {
    !group.ends && (group.has("root") || !group.run.is_empty())
}

/// Whether `from` starts, over others, after `to`.
fn reaches(after: &[Vec<usize>], from: usize, to: usize) -> bool {
    let (mut next, mut seen) = (vec![from], vec![false; after.len()]);
    while let Some(at) = next.pop() {
        if at == to {
            return true;
        }
        if !std::mem::replace(&mut seen[at], true) {
            next.extend(&after[at]);
        }
    }
    false
}
