//! Reads foreign YAML: by key, with merge keys (`<<`), and with notes about unknown keys.

use super::imported::Note;
use super::text::line;
use super::variables::{Expanded, expanded};
use crate::source::{Place, Source};
use crate::tree::{Content, Key, Node};
use std::sync::Arc;

/// Collects notes.
pub(super) struct Reader {
    source: Arc<Source>,
    notes: Vec<Note>,
}

impl Reader {
    pub fn new(source: Arc<Source>) -> Self {
        Self { source, notes: Vec::new() }
    }

    /// Adds a note about the text at `place`.
    pub fn note(&mut self, place: Place, text: impl Into<String>) {
        let note = Note { line: self.source.excerpt(place).line, text: line(&text.into()) };
        // Several services may merge the same part of the file.
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes the keys of `node`, which is `what`, that are not in `known`.
    pub fn unknown(&mut self, node: &Node, what: &str, known: &[&str]) {
        for (key, _) in entries(node) {
            // Keys with `x-` are extensions (Compose specification), which mean nothing to the
            // tool.
            let is_known = known.contains(&key.text.as_str()) || key.text.starts_with("x-");
            if !is_known {
                self.note(key.place, format!("`{}` of {what}", key.text));
            }
        }
    }

    /// The text, which is `what`, with variables in the syntax of experiment files.
    pub fn with_variables(&mut self, text: &str, what: &str, place: Place) -> String {
        let expanded = expanded(text);
        self.lost(&expanded, what, place);
        expanded.text
    }

    /// Notes the variables that the syntax of experiment files cannot refer to.
    pub fn lost(&mut self, expanded: &Expanded, what: &str, place: Place) {
        for variable in &expanded.lost {
            let text = format!("the variable {variable} in {what}: its value if it is not set");
            self.note(place, text);
        }
    }

    /// The text, which is `what`, with the defaults of its variables: where an experiment file cannot
    /// have variables.
    pub fn with_defaults(&mut self, text: &str, what: &str, place: Place) -> String {
        let expanded = expanded(text);
        if expanded.refers || !expanded.lost.is_empty() {
            let text =
                format!("the variables in {what}: it is `{}`, as without them", expanded.plain);
            self.note(place, text);
        }
        expanded.plain
    }

    /// A number, which is `what`, possibly with variables; none if it is not `fit`.
    pub fn number(
        &mut self,
        node: &Node,
        what: &str,
        fit: impl Fn(&str) -> bool,
    ) -> Option<Expanded> {
        let expanded = expanded(text(node).unwrap_or_default());
        if !fit(&expanded.plain) {
            let shown = text(node).unwrap_or("no number");
            self.note(node.place, format!("{what}: `{shown}` is left out"));
            return None;
        }
        self.lost(&expanded, what, node.place);
        if expanded.refers {
            let text = format!("{what}: variables of the environment change it, as there");
            self.note(node.place, text);
        }
        Some(expanded)
    }

    /// All notes, in the order of the file.
    pub fn notes(mut self) -> Vec<Note> {
        self.notes.sort_by_key(|note| note.line);
        self.notes
    }
}

/// Entries of a map, and of those that it merges; its own win.
pub(super) fn entries(node: &Node) -> Vec<(&Key, &Node)> {
    let mut all: Vec<(&Key, &Node)> = Vec::new();
    let Content::Map(own) = &node.content else { return all };
    all.extend(own.iter().filter(|(key, _)| key.text != "<<").map(|(key, value)| (key, value)));
    for (_, merged) in own.iter().filter(|(key, _)| key.text == "<<") {
        for part in list(merged) {
            for (key, value) in entries(part) {
                if !all.iter().any(|(known, _)| known.text == key.text) {
                    all.push((key, value));
                }
            }
        }
    }
    all
}

/// The value of `key`; none if it is empty.
pub(super) fn get<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let found = entries(node).into_iter().find(|(own, _)| own.text == key);
    found.map(|(_, value)| value).filter(|value| value.content != Content::Nothing)
}

/// The items of a list, or the only value.
pub(super) fn list(node: &Node) -> Vec<&Node> {
    match &node.content {
        Content::List(items) => items.iter().collect(),
        Content::Nothing => Vec::new(),
        _ => vec![node],
    }
}

/// A text or number.
pub(super) fn text(node: &Node) -> Option<&str> {
    match &node.content {
        Content::Scalar(text) => Some(text),
        _ => None,
    }
}

/// The text of `key`.
pub(super) fn text_of<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    text(get(node, key)?)
}

/// Whether `key` is `true`.
pub(super) fn is(node: &Node, key: &str) -> bool {
    matches!(text_of(node, key), Some("true" | "True" | "yes"))
}

/// Variables, as a map or as a list of `NAME=VALUE`; none for a variable without a value.
pub(super) fn variables(node: &Node) -> Vec<(String, Option<String>, Place)> {
    match &node.content {
        Content::List(items) => items
            .iter()
            .filter_map(|item| {
                let text = text(item)?;
                Some(match text.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned()), item.place),
                    None => (text.to_owned(), None, item.place),
                })
            })
            .collect(),
        _ => entries(node)
            .into_iter()
            .map(|(key, value)| (key.text.clone(), text(value).map(str::to_owned), key.place))
            .collect(),
    }
}
