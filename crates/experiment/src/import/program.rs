//! Images and programs of foreign services and nodes.

use super::command::split;
use super::reader::{Reader, list, text};
use super::text::scalar;
use super::variables::{Expanded, expanded, is_name};
use super::writer::{Draft, Group};
use crate::source::Place;
use crate::tree::{Content, Node};

/// Whether an image can have this name (the grammar of references of container registries, roughly).
fn is_image(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._/:@-".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(fits)
}

/// Gives `group`, which is `what`, the image as root file system.
pub(super) fn root(
    image: &str,
    what: &str,
    place: Place,
    group: &mut Group,
    draft: &mut Draft,
    reader: &mut Reader,
) {
    let text = reader.with_defaults(image, &format!("the image of {what}"), place);
    // What remains if a variable has the tag.
    let image = text.trim().trim_end_matches(':');
    if !is_image(image) {
        reader.note(place, format!("the image of {what}: no image has the name `{image}`"));
        if image.is_empty() {
            return;
        }
    }
    let archive = draft.archive(image);
    group.keys.push(("root", scalar(&archive)));
}

/// The words of a command: a text as for a shell, or a list.
pub(super) fn words(node: &Node, what: &str, reader: &mut Reader) -> Vec<Expanded> {
    match &node.content {
        Content::Scalar(command) => split(command, what, node.place, reader),
        _ => list(node).into_iter().filter_map(text).map(expanded).collect(),
    }
}

/// Sets the program of `group`, which is `what`.
pub(super) fn run(
    group: &mut Group,
    mut words: Vec<Expanded>,
    what: &str,
    place: Place,
    reader: &mut Reader,
) {
    let skip = words.iter().take_while(|word| word.plain.is_empty() && !word.must).count();
    if skip > 0 && (skip < words.len() || words.iter().any(|word| word.refers)) {
        reader.note(place, format!("the program of {what}: empty words in front of it"));
    }
    for word in words.drain(skip..) {
        reader.lost(&word, what, place);
        group.run.push(word.text);
    }
}

/// A variable of the environment of a program.
pub(super) struct Variable<'n> {
    pub name: &'n str,
    /// None if it has the value of the other tool's environment.
    pub value: Option<&'n str>,
    pub place: Place,
}

/// Adds a variable to the environment of `group`, which is `what`; the last of a name wins.
pub(super) fn variable(
    group: &mut Group,
    variable: &Variable<'_>,
    what: &str,
    reader: &mut Reader,
) {
    let Variable { name, value, place } = *variable;
    let passed = value.is_none();
    if name.is_empty() || name.contains(['=', '\0']) || passed && !is_name(name) {
        reader.note(place, format!("the variable `{name}` of {what}: no variable has this name"));
        return;
    }
    let value = match value {
        Some(value) => {
            reader.with_variables(value, &format!("the variable {name} of {what}"), place)
        }
        None => format!("${{env:{name}:-}}"),
    };
    group.env.insert(name.to_owned(), value);
}

/// Removes from `group`, which is `what`, the environment of a program that it does not have.
pub(super) fn without_program(group: &mut Group, what: &str, place: Place, reader: &mut Reader) {
    if group.run.is_empty() && !group.has("root") && !group.env.is_empty() {
        reader.note(place, format!("`env` of {what}: it has no program"));
        group.env.clear();
    }
}
