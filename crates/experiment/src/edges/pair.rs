//! The edges of a file, two nodes each.

use crate::tree::{Content, Node};
use std::collections::{HashMap, HashSet};

/// An edge between two nodes.
pub(super) struct Pair<'a> {
    /// Its entry in the file, which may be a row of edges.
    pub edge: &'a Node,
    pub ends: &'a [Node],
    /// Names of both nodes.
    pub names: [&'a str; 2],
    /// Name of its network.
    pub name: String,
    /// Its subnet, if the file has one.
    pub subnet: Option<Node>,
}

/// All edges of two nodes; a row of more becomes several.
pub(super) fn pairs<'a>(edges: &'a [Node], names: &mut HashSet<String>) -> Vec<Pair<'a>> {
    let (mut found, mut numbers) = (Vec::new(), HashMap::new());
    for edge in edges {
        let ends = edge.get("between").unwrap_or(edge);
        let Content::List(ends) = &ends.content else { continue };
        // Several networks cannot share a subnet.
        let subnet = edge.get("subnet").filter(|_| ends.len() == 2);
        for pair in ends.windows(2) {
            let [
                Node { content: Content::Scalar(a), .. },
                Node { content: Content::Scalar(b), .. },
            ] = pair
            else {
                continue;
            };
            if a != b {
                let number = numbers.entry([a.as_str(), b]).or_insert(1);
                let (name, subnet) = (name(a, b, number, names), subnet.cloned());
                found.push(Pair { edge, ends: pair, names: [a, b], name, subnet });
            }
        }
    }
    found
}

/// A free name for an edge; `next` is the next number of edges between these nodes.
fn name(a: &str, b: &str, next: &mut u64, names: &mut HashSet<String>) -> String {
    loop {
        let name = match *next {
            1 => format!("{a}-{b}"),
            number => format!("{a}-{b}-{number}"),
        };
        *next += 1;
        if names.insert(name.clone()) {
            return name;
        }
    }
}
