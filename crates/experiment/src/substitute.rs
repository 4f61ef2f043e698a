//! Replaces `${axis}` by a cell's values.

use crate::matrix::Matrix;
use crate::nearest::advice;
use crate::problem::Problem;
use crate::read::Replaced;
use crate::source::Place;
use crate::tree::{Content, Node};
use record::Cell;
use std::collections::HashSet;

/// Keys that all cells share, so that they cannot contain an axis.
const FIXED: [&str; 4] = ["experiment", "repeats", "seed", "reference"];
/// Keys whose text is not replaced.
const NOT_REPLACED: [&str; 3] = ["description", "matrix", "expect"];

/// Maximum length of all replaced texts of a cell together, in bytes: as of the file itself.
const MAX_REPLACED: usize = 8 << 20;

/// The replacements of one cell.
pub(crate) struct Substitution<'a> {
    matrix: &'a Matrix,
    cell: &'a Cell,
    /// Axes that the file uses.
    pub used: HashSet<String>,
    pub replaced: Replaced,
    /// Bytes of replaced texts so far.
    bytes: usize,
    pub problems: Vec<Problem>,
}

/// A piece of a text.
enum Piece<'t> {
    Text(&'t str),
    Axis(&'t str),
    /// `${` without closing brace.
    Open,
}

impl<'a> Substitution<'a> {
    pub fn new(matrix: &'a Matrix, cell: &'a Cell) -> Self {
        let (used, replaced) = (HashSet::new(), Replaced::new());
        Self { matrix, cell, used, replaced, bytes: 0, problems: Vec::new() }
    }

    /// Returns the file with every `${axis}` replaced.
    pub fn file(&mut self, root: &Node) -> Node {
        let Content::Map(entries) = &root.content else { return root.clone() };
        let entries = entries.iter().map(|(key, value)| {
            let name = key.text.as_str();
            // `expect` names cells by their values, and the matrix defines the values.
            if NOT_REPLACED.contains(&name) {
                return (key.clone(), value.clone());
            }
            if FIXED.contains(&name) {
                return (key.clone(), self.fixed(name, value));
            }
            (key.clone(), self.node(value))
        });
        Node { place: root.place, content: Content::Map(entries.collect()) }
    }

    /// The value of a key that is the same in all cells.
    fn fixed(&mut self, name: &str, value: &Node) -> Node {
        let Content::Scalar(text) = &value.content else { return value.clone() };
        if !pieces(text).iter().any(|piece| matches!(piece, Piece::Axis(_))) {
            return value.clone();
        }
        let problem = Problem::new(format!("`{name}` cannot contain an axis"))
            .at(value.place)
            .label("it applies to all cells of the matrix");
        self.problems.push(problem);
        // Its reader would report the text with `${` as a second problem.
        Node { place: value.place, content: Content::Broken }
    }

    fn node(&mut self, node: &Node) -> Node {
        let content = match &node.content {
            Content::Scalar(text) => self.text(text, node.place),
            Content::List(items) => {
                Content::List(items.iter().map(|item| self.node(item)).collect())
            }
            Content::Map(entries) => Content::Map(
                entries.iter().map(|(key, value)| (key.clone(), self.node(value))).collect(),
            ),
            other => other.clone(),
        };
        Node { place: node.place, content }
    }

    fn text(&mut self, text: &str, place: Place) -> Content {
        if !text.contains("${") {
            return Content::Scalar(text.to_owned());
        }
        let mut result = Some(String::new());
        let mut any = false;
        for piece in pieces(text) {
            let part = match piece {
                Piece::Text(part) => Some(part),
                Piece::Axis(axis) => {
                    any = true;
                    self.axis(axis, place)
                }
                Piece::Open => {
                    let problem = Problem::new("`${` without `}`")
                        .at(place)
                        .label("write `${axis}`, or `$${` for the literal characters");
                    self.problems.push(problem);
                    None
                }
            };
            // Many references to one long value would expand a small file to gigabytes. Text
            // without an axis is no longer than the file.
            if any && !self.has_room(part.map_or(0, str::len), place) {
                return Content::Broken;
            }
            result = result.zip(part).map(|(result, part)| result + part);
        }
        match result {
            Some(result) => {
                if any {
                    self.replaced.insert(place.start, (text.to_owned(), result.clone()));
                }
                Content::Scalar(result)
            }
            None => Content::Broken,
        }
    }

    /// Counts text of replaced values; reports once if it is too much.
    fn has_room(&mut self, bytes: usize, place: Place) -> bool {
        if self.bytes > MAX_REPLACED {
            return false;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        let has = self.bytes <= MAX_REPLACED;
        if !has {
            let problem = Problem::new("the values of axes expand to too much text")
                .at(place)
                .label("over 8 MiB with those before; use shorter values, or fewer of them");
            self.problems.push(problem);
        }
        has
    }

    fn axis(&mut self, axis: &str, place: Place) -> Option<&'a str> {
        self.used.insert(axis.to_owned());
        if !self.matrix.has(axis) {
            let problem = Problem::new(format!("the matrix has no axis `{axis}`"))
                .at(place)
                .label(advice(axis, self.matrix.axes()))
                .note("write `$${` for the literal characters `${`");
            self.problems.push(problem);
        }
        // A known axis without values was reported with the matrix.
        self.cell.get(axis)
    }
}

/// Splits `text` at each `${axis}`; `$${` is a literal `${`.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            pieces.push(Piece::Text(&rest[..at - 1]));
            pieces.push(Piece::Text("${"));
            rest = &rest[at + 2..];
            continue;
        }
        pieces.push(Piece::Text(&rest[..at]));
        let Some(end) = rest[at..].find('}') else {
            pieces.push(Piece::Open);
            return pieces;
        };
        pieces.push(Piece::Axis(rest[at + 2..at + end].trim()));
        rest = &rest[at + end + 1..];
    }
    pieces.push(Piece::Text(rest));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    fn replace(text: &str) -> (String, usize) {
        let matrix = Matrix::from_pairs([("n", vec!["3", "4"]), ("who", vec!["you"])]);
        let cell = Cell::from_iter([("n", "3"), ("who", "you")]);
        let (node, _) = tree::parse(text).unwrap();
        let mut substitution = Substitution::new(&matrix, &cell);
        let node = substitution.node(&node);
        (node.kind(), substitution.problems.len())
    }

    #[test]
    fn an_axis_is_replaced_anywhere_in_a_text() {
        assert_eq!(replace("'${n} ms for ${ who }'"), ("`3 ms for you`".to_owned(), 0));
    }

    /// What failed before: 116 kB of YAML took 1.9 GB.
    #[test]
    fn replaced_texts_are_limited_together() {
        let long = "x".repeat(60_000);
        let matrix = Matrix::from_pairs([("n", vec![long.as_str(), "4"])]);
        let cell = Cell::from_iter([("n", long.as_str())]);
        for text in ["${n}".repeat(10_000), format!("[{}]", "'${n}', ".repeat(10_000))] {
            let (node, _) = tree::parse(&text).unwrap();
            let mut substitution = Substitution::new(&matrix, &cell);
            substitution.node(&node);
            assert_eq!(substitution.problems.len(), 1, "said once");
            assert!(substitution.replaced.len() <= MAX_REPLACED / 60_000);
            assert!(substitution.bytes <= MAX_REPLACED + 60_000);
        }
    }

    #[test]
    fn two_dollars_stand_for_themselves() {
        assert_eq!(replace("'$${HOME} ${n}'"), ("`${HOME} 3`".to_owned(), 0));
    }

    #[test]
    fn unknown_and_unfinished_axes_are_reported() {
        assert_eq!(replace("'${whom}'").1, 1);
        assert_eq!(replace("'${who'").1, 1);
    }
}
