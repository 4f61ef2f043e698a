//! Strongly connected components of a small graph.

use std::collections::{BTreeMap, BTreeSet};

/// A file, and the files to which it refers.
pub type References = BTreeMap<String, BTreeSet<String>>;

/// The components of more than one file, sorted.
pub fn circles(references: &References) -> Vec<Vec<String>> {
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        references.keys().map(|file| (file, reached(references, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, there) in &reach {
        // A file of a circle also reaches itself, so the circle has it too.
        let back = |other: &&&String| reach.get(**other).is_some_and(|from| from.contains(file));
        let circle: Vec<String> = there.iter().filter(back).map(|other| (*other).clone()).collect();
        if circle.len() > 1 {
            // Each file of a circle finds the same one, and the set keeps it once.
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

/// The files that `file` refers to, in one step or several.
fn reached<'a>(references: &'a References, file: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut todo: Vec<&String> = references.get(file).into_iter().flatten().collect();
    while let Some(next) = todo.pop() {
        // A file that was seen before is not followed again, so circles end.
        if reached.insert(next) {
            todo.extend(references.get(next).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_found() {
        let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "d"), ("e", "a")];
        let mut references = References::new();
        for (from, to) in edges {
            references.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
        assert_eq!(circles(&references), [["a", "b", "c"].map(str::to_owned).to_vec()]);
    }
}
