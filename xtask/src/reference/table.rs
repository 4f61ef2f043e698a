//! Tables of keys, and of values.

use crate::reference::pages::{Key, Marker};
use crate::reference::values::{self, Links};
use serde_json::Value;

/// The keys of a definition, required ones first; none if it is no map of keys.
pub fn keys(definition: &Value) -> Vec<String> {
    let required: Vec<String> = required(definition).map(str::to_owned).collect();
    let all = definition["properties"].as_object().into_iter().flatten().map(|(key, _)| key);
    let optional = all.filter(|key| !required.contains(key)).cloned();
    required.iter().cloned().chain(optional).collect()
}

fn required(definition: &Value) -> impl Iterator<Item = &str> {
    definition["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The table of a definition: its keys, or its values.
///
/// # Errors
/// If it has no description of a key, or a key is of an unknown type.
pub fn table(definition: &Value, marker: &Marker, links: &Links<'_>) -> Result<String, String> {
    if let Some(values) = definition["oneOf"].as_array() {
        return table_of_values(values, links);
    }
    let all = keys(definition).into_iter().map(|name| Key { name, link: None }).collect();
    let keys = if marker.keys.is_empty() { &all } else { &marker.keys };
    let mut rows = "| key | type | default | meaning |\n| --- | --- | --- | --- |\n".to_owned();
    for key in keys {
        let value = &definition["properties"][&key.name];
        let text = description(value, &key.name)?;
        let about = About::of(&text);
        let kind = match about.values {
            Some(values) => values.to_owned(),
            None => values::kind(value, links).map_err(|e| format!("{}: {e}", key.name))?,
        };
        let kind = about.range.map_or(kind.clone(), |range| format!("{kind}, {range}"));
        let is_required = required(definition).any(|name| name == key.name);
        let default = about.default.unwrap_or(if is_required { "required" } else { "none" });
        let name = format!("`{}`", key.name);
        let name = key.link.as_ref().map_or(name.clone(), |link| format!("[{name}]({link})"));
        rows += &row(&[&name, &kind, default, &about.meaning]);
    }
    Ok(rows)
}

fn table_of_values(values: &[Value], links: &Links<'_>) -> Result<String, String> {
    let mut rows = "| value | meaning |\n| --- | --- |\n".to_owned();
    for value in values {
        let value_text = match value["const"].as_str() {
            Some(word) => format!("`{word}`"),
            None => {
                let keys = value["properties"].as_object().into_iter().flatten();
                let key = |(key, value): (&String, &Value)| match values::link(value, links) {
                    Some(link) => Ok(format!("[`{key}:`]({link})")),
                    None => values::kind(value, links).map(|kind| format!("`{key}:` {kind}")),
                };
                keys.map(key).collect::<Result<Vec<_>, _>>()?.join(", ")
            }
        };
        let about = description(value, &value_text)?;
        rows += &row(&[&value_text, about.trim_end_matches('.')]);
    }
    Ok(rows)
}

fn row(cells: &[&str]) -> String {
    // A bar in a cell would end it.
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// The description in one line.
fn description(value: &Value, name: &str) -> Result<String, String> {
    let text = value["description"].as_str().ok_or(format!("no description of `{name}`"))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A description: sentences about the values, their range and the default, and the others.
#[derive(Debug, PartialEq)]
struct About<'t> {
    values: Option<&'t str>,
    range: Option<&'t str>,
    default: Option<&'t str>,
    meaning: String,
}

impl<'t> About<'t> {
    fn of(text: &'t str) -> Self {
        let mut about = Self { values: None, range: None, default: None, meaning: String::new() };
        let mut meaning = Vec::new();
        for sentence in sentences(text) {
            let parts = [
                ("Values: ", &mut about.values),
                ("Range: ", &mut about.range),
                ("Default: ", &mut about.default),
            ];
            let part = parts.into_iter().find_map(|(begin, part)| {
                sentence.strip_prefix(begin).map(|rest| (part, rest.trim_end_matches('.')))
            });
            match part {
                Some((part, rest)) => *part = Some(rest),
                None => meaning.push(sentence),
            }
        }
        about.meaning = meaning.join(" ");
        if meaning.len() == 1 {
            about.meaning = about.meaning.trim_end_matches('.').to_owned();
        }
        about
    }
}

/// Splits after a full stop that a new sentence follows.
fn sentences(text: &str) -> Vec<&str> {
    let (mut found, mut rest) = (Vec::new(), text);
    let mut from = 0;
    while let Some(at) = rest[from..].find(". ").map(|at| from + at) {
        let next = rest[at + 2..].chars().next();
        // A full stop in code does not end a sentence.
        let is_open = rest[..at].matches('`').count() % 2 == 1;
        if !is_open && next.is_some_and(|c| c.is_uppercase() || c == '`') {
            found.push(&rest[..=at]);
            rest = &rest[at + 2..];
            from = 0;
        } else {
            from = at + 2;
        }
    }
    if !rest.is_empty() {
        found.push(rest);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_about_values_have_columns() {
        let about =
            About::of("Size of a log. Range: 64 KiB or more. Default: 64 MiB, e.g. so. It counts.");
        assert_eq!(about.range, Some("64 KiB or more"));
        assert_eq!(about.default, Some("64 MiB, e.g. so"));
        assert_eq!(about.meaning, "Size of a log. It counts.");
        let about = About::of("Version `a. B`. Values: `3.1.1` or `5`. Default: 3.1.1.");
        assert_eq!((about.values, about.default), (Some("`3.1.1` or `5`"), Some("3.1.1")));
        assert_eq!(about.meaning, "Version `a. B`");
    }
}
