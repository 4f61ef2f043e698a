//! Changes of an experiment file for one command: `--set` and environment variables.
//!
//! They change the file's text at the places that the tree knows, so the text that a run used is
//! an experiment file again: it is stored with the results, and guests and later checks read it.

use crate::edit;
use crate::nearest::advice;
use crate::problem::Problem;
use crate::source::Place;
use crate::tree::{self, Content, Node};
use record::selection::Setting;
use std::collections::BTreeMap;

/// Maps of named things: `--set` changes their entries and does not add any, because a misspelt
/// name would be a new thing.
const NAMED: [&str; 6] = ["nodes", "networks", "profiles", "models", "workloads", "matrix"];
/// Keys of the file that `--set` may add.
const TOP: [&str; 8] =
    ["repeats", "seed", "clock", "duration", "drain", "setup_limit", "affinity", "defaults"];
/// Start of a reference to an environment variable.
const ENV: &str = "${env:";
/// Separates the variable from its default.
const DEFAULT: &str = ":-";

/// What a command changes in an experiment file.
#[derive(Clone, Copy)]
pub struct Overrides<'a> {
    /// Settings such as `loss=5 %` for an axis, or `nodes.meter.count=20` for a key.
    pub set: &'a [String],
    /// The value of an environment variable.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
}

/// A changed text.
#[derive(Debug, Default)]
pub(crate) struct Overridden {
    pub text: String,
    /// The variables that the file reads and that are set.
    pub environment: BTreeMap<String, String>,
    /// Names of all variables that the file reads, set or not.
    pub variables: Vec<String>,
    /// Whether an axis has other values than in the file.
    pub other_axes: bool,
}

/// Applies `overrides` to `text`.
///
/// # Errors
/// Problems with places in the text that comes with them.
pub(crate) fn apply(
    text: &str,
    overrides: Overrides<'_>,
) -> Result<Overridden, (String, Vec<Problem>)> {
    let mut result = Overridden { text: text.to_owned(), ..Overridden::default() };
    for setting in overrides.set {
        let changed = set(&result.text, setting, &mut result.other_axes);
        result.text = changed.map_err(|problem| (result.text.clone(), vec![problem]))?;
    }
    fill(&mut result, overrides.environment)?;
    if result.text != text {
        if !result.text.ends_with('\n') {
            result.text.push('\n');
        }
        for setting in overrides.set {
            result.text += &format!("# Changed by --set {}\n", line(setting));
        }
        for (name, value) in &result.environment {
            result.text += &format!("# Environment: {name}={}\n", line(value));
        }
    }
    Ok(result)
}

/// The text without characters that would end a comment.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Applies one setting.
fn set(text: &str, setting: &str, other_axes: &mut bool) -> Result<String, Problem> {
    let Setting { key, is_quoted, value } = Setting::parse(setting).map_err(|why| {
        let problem = Problem::new(format!("--set {setting}: {why}"));
        problem.label("write for example `--set loss='5 %'` for an axis, or `--set nodes.meter.count=20` for a key")
    })?;
    // The reader reports a text that is not YAML.
    let Ok((root, _)) = tree::parse(text) else { return Ok(text.to_owned()) };
    let axis = key.strip_prefix("matrix.").unwrap_or(&key);
    if let Some(matrix) = root.get("matrix")
        && let Some((name, values)) = edit::entry(matrix, axis)
    {
        *other_axes = true;
        let list = match value.starts_with('[') {
            true => value.to_owned(),
            false => {
                let values = record::selection::values(value).map_err(|why| {
                    Problem::new(format!("--set {setting}: {why}"))
                        .label("write for example `--set 'loss=\"a|b\"|c'`")
                })?;
                let list: Vec<String> = values.iter().map(|value| quoted(value)).collect();
                format!("[{}]", list.join(", "))
            }
        };
        edit::check_alias(matrix, axis, values)?;
        return Ok(edit::replace(text, Some(name), values, &list));
    }
    let path: Vec<&str> = match is_quoted {
        true => vec![&key],
        false => key.split('.').collect(),
    };
    if let [only] = path.as_slice()
        && root.get(only).is_none()
        && !TOP.contains(only)
    {
        let axes = root.get("matrix").map(edit::names).unwrap_or_default();
        let known: Vec<String> = axes.into_iter().chain(TOP.map(str::to_owned)).collect();
        let problem = Problem::new(format!("--set {setting}: no axis and no key is `{only}`"));
        return Err(problem.label(advice(only, &known)));
    }
    change(text, &root, &path, &literal(value), setting)
}

/// Sets the value at `path`.
fn change(
    text: &str,
    root: &Node,
    path: &[&str],
    value: &str,
    setting: &str,
) -> Result<String, Problem> {
    let mut at = root;
    for (depth, step) in path.iter().enumerate() {
        let last = depth + 1 == path.len();
        let found = match &at.content {
            Content::List(items) => edit::item(items, step).map(|node| (None, node)),
            _ => edit::entry(at, step).map(|(key, node)| (Some(key), node)),
        };
        if let Some((_, node)) = found {
            edit::check_alias(at, step, node)?;
        }
        match found {
            Some((key, node)) if last => return Ok(edit::replace(text, key, node, value)),
            Some((Some(key), node)) if node.content == Content::Nothing => {
                let nested = edit::nested(&path[depth + 1..], value);
                return Ok(edit::replace(text, Some(key), node, &nested));
            }
            Some((_, node)) => at = node,
            None if depth == 1 && NAMED.contains(&path[0]) => {
                let text = format!("--set {setting}: `{}` has no entry `{step}`", path[0]);
                return Err(Problem::new(text).label(advice(step, &edit::names(at))));
            }
            None => {
                let rest = edit::nested(&path[depth + 1..], value);
                return edit::insert(text, at, step, &rest).map_err(|why| {
                    let place = path[..depth].join(".");
                    Problem::new(format!("--set {setting}: `{place}` {why}")).at(at.place)
                });
            }
        }
    }
    Ok(text.to_owned())
}

/// A value for the text: a list or map as typed, all else quoted.
fn literal(value: &str) -> String {
    let collection = value.starts_with(['[', '{']) && tree::parse(value).is_ok();
    if collection { value.to_owned() } else { quoted(value) }
}

/// A text in double quotes: JSON's escapes are YAML's.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// Replaces references to environment variables.
fn fill(
    result: &mut Overridden,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(), (String, Vec<Problem>)> {
    if !result.text.contains(ENV) {
        return Ok(());
    }
    // The reader reports a text that is not YAML.
    let Ok((root, _)) = tree::parse(&result.text) else { return Ok(()) };
    let mut found = BTreeMap::new();
    scalars(&root, &mut found);
    let mut problems = Vec::new();
    let mut text = result.text.clone();
    // From the last to the first, so that the places before stay right.
    for (place, scalar) in found.into_values().rev() {
        let lines = edit::is_block(&text, place);
        let raw = if lines { &text[place.start..place.end] } else { scalar.as_str() };
        match filled(raw, place, lines, environment, result) {
            Ok(value) if value == raw => {}
            Ok(value) if lines => text = edit::lines(&text, place, &value),
            Ok(value) => text = edit::scalar(&text, place, &value),
            Err(problem) => problems.push(problem),
        }
    }
    if !problems.is_empty() {
        return Err((result.text.clone(), problems));
    }
    result.text = text;
    Ok(())
}

/// Scalars with references, by their place: an alias has the place of its anchor.
fn scalars(node: &Node, found: &mut BTreeMap<usize, (Place, String)>) {
    match &node.content {
        Content::Scalar(text) if text.contains(ENV) => {
            found.insert(node.place.start, (node.place, text.clone()));
        }
        Content::List(items) => items.iter().for_each(|item| scalars(item, found)),
        Content::Map(entries) => {
            let values = entries.iter().filter(|(key, _)| key.text != "description");
            values.for_each(|(_, value)| scalars(value, found));
        }
        _ => {}
    }
}

/// The text with its references replaced. `lines`: a value must fit into a line.
fn filled(
    text: &str,
    place: Place,
    lines: bool,
    environment: &dyn Fn(&str) -> Option<String>,
    result: &mut Overridden,
) -> Result<String, Problem> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(ENV) {
        let before = &rest[..at];
        if before.ends_with('$') {
            // `$${` is a literal `${`, which the matrix's pass replaces.
            filled += &rest[..at + ENV.len()];
            rest = &rest[at + ENV.len()..];
            continue;
        }
        let reference = &rest[at + ENV.len()..];
        let Some(end) = reference.find('}') else {
            let problem = Problem::new(format!("`{ENV}` without `}}`")).at(place);
            return Err(problem.label("write `${env:NAME}` or `${env:NAME:-default}`"));
        };
        let (name, default) = match reference[..end].split_once(DEFAULT) {
            Some((name, default)) => (name.trim(), Some(default)),
            None => (reference[..end].trim(), None),
        };
        let value = variable(name, default, environment, result);
        let value = value.map_err(|problem| problem.at(place))?;
        if lines && value.contains(['\n', '\r']) {
            let text = format!("the value of the environment variable `{name}` has several lines");
            return Err(Problem::new(text)
                .at(place)
                .label("write the text in quotes, not with `|`"));
        }
        filled += before;
        filled += &value;
        rest = &reference[end + 1..];
    }
    Ok(filled + rest)
}

/// The value of a variable, or its default.
fn variable(
    name: &str,
    default: Option<&str>,
    environment: &dyn Fn(&str) -> Option<String>,
    result: &mut Overridden,
) -> Result<String, Problem> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(word) || name.starts_with(|c: char| c.is_ascii_digit())
    {
        let problem = Problem::new(format!("`{name}` is not the name of an environment variable"));
        return Err(problem.label("letters, digits and `_`, e.g. `${env:METERS:-5}`"));
    }
    if !result.variables.iter().any(|known| known == name) {
        result.variables.push(name.to_owned());
    }
    // As in shells, `:-` also replaces an empty value.
    let given = environment(name).filter(|value| default.is_none() || !value.is_empty());
    let Some(value) = given else {
        return default.map(str::to_owned).ok_or_else(|| {
            let problem = Problem::new(format!("the environment variable `{name}` is not set"));
            problem.label(format!(
                "set it: `{name}=... thingbed ...`; or write a default: `${{env:{name}:-value}}`"
            ))
        });
    };
    if value.contains("${") {
        let text = format!("the value of the environment variable `{name}` has `${{`");
        return Err(Problem::new(text).label("values of variables are not replaced again"));
    }
    result.environment.insert(name.to_owned(), value.clone());
    Ok(value)
}

#[cfg(test)]
#[path = "overrides_tests.rs"]
mod tests;
