//! Edits of a YAML text at the places of its tree. The rest of the text, with its comments, stays.

use crate::problem::Problem;
use crate::source::Place;
use crate::tree::{Content, Key, Node};

/// The entry `name` of a map.
pub(crate) fn entry<'n>(node: &'n Node, name: &str) -> Option<(&'n Key, &'n Node)> {
    let Content::Map(entries) = &node.content else { return None };
    entries.iter().find(|(key, _)| key.text == name).map(|(key, value)| (key, value))
}

/// The item of a list with this number (from 0), or the one whose only entry has this `name`, such
/// as `- load: {name: http}`.
pub(crate) fn item<'n>(items: &'n [Node], step: &str) -> Option<&'n Node> {
    if let Ok(number) = step.parse::<usize>() {
        return items.get(number);
    }
    items.iter().filter_map(only_value).find(|value| name_of(value).as_deref() == Some(step))
}

/// Names of the entries of a map, or of the items of a list.
pub(crate) fn names(node: &Node) -> Vec<String> {
    match &node.content {
        Content::Map(entries) => entries.iter().map(|(key, _)| key.text.clone()).collect(),
        Content::List(items) => {
            items.iter().filter_map(|item| name_of(only_value(item)?)).collect()
        }
        _ => Vec::new(),
    }
}

fn only_value(item: &Node) -> Option<&Node> {
    let Content::Map(entries) = &item.content else { return None };
    entries.first().map(|(_, value)| value)
}

fn name_of(node: &Node) -> Option<String> {
    match &node.get("name")?.content {
        Content::Scalar(name) => Some(name.clone()),
        _ => None,
    }
}

/// `value` inside of maps with one key each.
pub(crate) fn nested(path: &[&str], value: &str) -> String {
    path.iter().rev().fold(value.to_owned(), |inner, key| format!("{{{}: {inner}}}", plain(key)))
}

/// A key as YAML.
fn plain(key: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    match !key.is_empty() && key.chars().all(word) {
        true => key.to_owned(),
        false => serde_json::to_string(key).unwrap_or_default(),
    }
}

/// The text with `value` in place of `node`, the value of `key` or the item of a list, which
/// [`check_alias`] accepts.
pub(crate) fn replace(text: &str, key: Option<&Key>, node: &Node, value: &str) -> String {
    let Some(key) = key else {
        let start = header(text, node.place).unwrap_or(node.place.start);
        return splice(text, start, end(text, node), value);
    };
    // A block list may be indented as its key, where a value in one line may not be: so all after
    // the colon is replaced.
    let colon = text[key.place.end..].find(':').map_or(key.place.end, |at| key.place.end + at + 1);
    if node.content == Content::Nothing {
        let written = text[colon..].trim_start_matches([' ', '\t']);
        let start = text.len() - written.len();
        // The forms of null in the core schema (YAML 1.2.2, 10.3.2).
        let word = ["null", "Null", "NULL", "~"].into_iter().find(|word| written.starts_with(word));
        return splice(text, colon, start + word.map_or(0, str::len), &format!(" {value} "));
    }
    let anchor = anchor(text.get(colon..node.place.start).unwrap_or_default());
    splice(text, colon, end(text, node), &format!("{anchor} {value}"))
}

/// Checks that the value `node` in `parent` is written there. `step` is its key or number.
///
/// # Errors
/// It is an alias: it has the place of its anchor, where a change would also affect other uses.
pub(crate) fn check_alias(parent: &Node, step: &str, node: &Node) -> Result<(), Problem> {
    // What is before it in the text: its key, or the start of the list and the items before it.
    let before = match &parent.content {
        Content::List(items) => {
            let is_it = |item: &Node| {
                std::ptr::eq(item, node)
                    || only_value(item).is_some_and(|value| std::ptr::eq(value, node))
            };
            let before = items.iter().take_while(|item| !is_it(item));
            before.map(|item| item.place.end).max().unwrap_or(0).max(parent.place.start)
        }
        _ => entry(parent, step).map_or(0, |(key, _)| key.place.end),
    };
    if node.place.start >= before || node.content == Content::Nothing {
        return Ok(());
    }
    let place = entry(parent, step).map_or(parent.place, |(key, _)| key.place);
    let problem = Problem::new(format!("the value of `{step}` is an alias")).at(place);
    Err(problem.label("change it where its anchor (`&`) is"))
}

/// The anchor between a key and its value, with a blank in front; empty without one. Other values may
/// be aliases of it.
fn anchor(between: &str) -> String {
    let line = between.split(" #").next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let found = words.find(|word| word.len() > 1 && word.starts_with('&'));
    found.map(|anchor| format!(" {anchor}")).unwrap_or_default()
}

/// The text with the entry `key: value` in the map `node`.
///
/// # Errors
/// If `node` is no map.
pub(crate) fn insert(text: &str, node: &Node, key: &str, value: &str) -> Result<String, String> {
    let Content::Map(entries) = &node.content else {
        return Err(format!("has no keys: it is {}", node.kind()));
    };
    let key = plain(key);
    if text[node.place.start..].starts_with('{') {
        let comma = if entries.is_empty() { "" } else { ", " };
        let at = node.place.start + 1;
        return Ok(splice(text, at, at, &format!("{key}: {value}{comma}")));
    }
    let Some((first, _)) = entries.first() else {
        return Err("has no keys".to_owned());
    };
    // In front of the first entry, whose indentation is known: comments may follow the last one.
    let at = first.place.start;
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let indent = " ".repeat(text[line..at].chars().count());
    Ok(splice(text, at, at, &format!("{key}: {value}\n{indent}")))
}

/// The text with the scalar at `place` changed to `new`.
pub(crate) fn scalar(text: &str, place: Place, new: &str) -> String {
    splice(text, place.start, place.end, &serde_json::to_string(new).unwrap_or_default())
}

/// The text with the lines at `place` changed to `new`, of a text in several lines (`|` or `>`).
pub(crate) fn lines(text: &str, place: Place, new: &str) -> String {
    splice(text, place.start, place.end, new)
}

/// Whether a scalar is a text in several lines, whose place has only the lines.
pub(crate) fn is_block(text: &str, place: Place) -> bool {
    header(text, place).is_some()
}

/// Position of the `|` or `>` in front of a scalar that is a text in several lines.
fn header(text: &str, place: Place) -> Option<usize> {
    let before = &text[..place.start];
    let head = before.trim_end_matches([' ', '\t', '\n', '\r']);
    if !before[head.len()..].contains('\n') {
        return None;
    }
    let start = head.rfind('\n').map_or(0, |newline| newline + 1);
    // A comment may follow the header, and in a comment there may be a `|` as well.
    let line = head[start..].split(" #").next().unwrap_or_default().trim_end();
    // The header may have indentation and chomping indicators, as in `|2-` (YAML 1.2.2, 8.1.1).
    let indicator = line.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
    indicator.ends_with(['|', '>']).then(|| start + indicator.len() - 1)
}

fn splice(text: &str, start: usize, end: usize, value: &str) -> String {
    format!("{}{value}{}", &text[..start], &text[end.max(start)..])
}

/// The end of a value, with the brackets of lists and maps in one line, which its place lacks.
fn end(text: &str, node: &Node) -> usize {
    let last = match &node.content {
        Content::List(items) => items.last(),
        Content::Map(entries) => entries.last().map(|(_, value)| value),
        // The place of a text in several lines reaches to the next token, which stays in its line.
        _ => return text[..node.place.end].trim_end().len().max(node.place.start),
    };
    let flow = text[node.place.start..].starts_with(['[', '{']);
    let inner = last.map_or(node.place.start + usize::from(flow), |last| end(text, last));
    match flow {
        true => closing(text, inner.max(node.place.start + 1)),
        false => inner,
    }
}

/// The position after the next closing bracket; comments are skipped.
fn closing(text: &str, from: usize) -> usize {
    // `from` is behind the last item, so a bracket can only be in a comment, not in a text.
    let mut comment = false;
    for (at, c) in text[from..].char_indices() {
        match c {
            '\n' => comment = false,
            '#' => comment = true,
            ']' | '}' if !comment => return from + at + 1,
            _ => {}
        }
    }
    text.len()
}
