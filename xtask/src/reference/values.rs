//! The type of a value in words.

use serde_json::Value;
use std::collections::BTreeMap;

/// Names of quantities, by the last of their units.
const QUANTITIES: [(&str, &str); 8] = [
    ("h", "time"),
    ("GiB", "size"),
    ("KiB", "size"),
    ("Tbit/s", "rate"),
    ("%", "share"),
    ("A", "current"),
    ("V", "voltage"),
    ("Ah", "charge"),
];
/// Definitions whose name is no plain word.
const NAMES: [(&str, &str); 8] = [
    ("ConsoleStep", "step"),
    ("EdgeKeys", "edge"),
    ("Expect", "check"),
    ("FanOut", "change"),
    ("OutputKeys", "map"),
    ("ProgramExpect", "conditions"),
    ("Ready", "condition"),
    ("TlsFiles", "PEM files"),
];
/// Definitions that are things; others are maps of keys.
const THINGS: [&str; 17] = [
    "Change",
    "Channel",
    "Distribution",
    "Fault",
    "Group",
    "Impairment",
    "Interaction",
    "Link",
    "Metric",
    "Model",
    "Network",
    "Outage",
    "Profile",
    "RadioService",
    "RadioState",
    "Sweep",
    "Workload",
];

/// What links from one page need.
#[derive(Debug, Clone, Copy)]
pub struct Links<'a> {
    pub schema: &'a Value,
    /// Page and anchor of the table of each definition.
    pub sections: &'a BTreeMap<String, String>,
    /// The page.
    pub page: &'a str,
}

impl Links<'_> {
    /// Link from the page to the table of `name`.
    fn to(&self, name: &str) -> Option<String> {
        let (page, anchor) = self.sections.get(name)?.split_once('#')?;
        Some(match page == self.page {
            true => format!("#{anchor}"),
            false => format!("{}#{anchor}", relative(self.page, page)),
        })
    }
}

/// The path of `to`, relative to the folder of `from`.
fn relative(from: &str, to: &str) -> String {
    let (mut from, mut to): (Vec<_>, Vec<_>) = (from.split('/').collect(), to.split('/').collect());
    from.pop();
    // The file's name stays, even if all folders are the same.
    while from.first().is_some_and(|first| to.len() > 1 && *first == to[0]) {
        from.remove(0);
        to.remove(0);
    }
    "../".repeat(from.len()) + &to.join("/")
}

/// The type of a value, such as `time` or "text, or list of texts". An axis and no value are left out:
/// all keys may have them.
///
/// # Errors
/// If the schema has a construct that is not known here.
pub fn kind(value: &Value, links: &Links<'_>) -> Result<String, String> {
    let all = alternatives(value);
    let mut kinds: Vec<String> = Vec::new();
    for one in &all {
        let items = (one["type"] == "array").then(|| alternatives(&one["items"]));
        let is_more = items.is_some_and(|items| items.iter().all(|item| all.contains(item)));
        let kind = match is_more {
            true => "list of these".to_owned(),
            false => single(one, links)?,
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    match &kinds[..] {
        [] => Err(format!("a value without type: {value}")),
        [one] => Ok(one.clone()),
        [begin @ .., last] => Ok(format!("{}, or {last}", begin.join(", "))),
    }
}

/// The alternatives, without an axis and without null.
fn alternatives(value: &Value) -> Vec<&Value> {
    let nested = value["anyOf"].as_array().or(value["oneOf"].as_array());
    let is_axis = value["$ref"] == "#/$defs/Axis";
    match nested {
        _ if is_axis || value["type"] == "null" => Vec::new(),
        Some(nested) => nested.iter().flat_map(alternatives).collect(),
        None => vec![value],
    }
}

fn single(value: &Value, links: &Links<'_>) -> Result<String, String> {
    if let Some(name) = value["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return reference(name, false, links);
    }
    if let Some(word) = value["const"].as_str() {
        return Ok(format!("`{word}`"));
    }
    if let Some(words) = value["enum"].as_array() {
        let mut words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        let last = words.pop().ok_or("no values")?;
        let begin: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        return Ok(match begin.is_empty() {
            true => format!("`{last}`"),
            false => format!("{} or `{last}`", begin.join(", ")),
        });
    }
    match types(value)[..] {
        // A text that YAML may read as a number or a truth value.
        ["string", "number", "boolean"] => Ok("text".to_owned()),
        ["string"] => Ok(text(value)),
        ["integer"] => Ok("whole number".to_owned()),
        ["number"] => Ok("number".to_owned()),
        ["boolean"] => Ok("true or false".to_owned()),
        ["array"] => Ok(format!("list of {}", plural(&value["items"], links)?)),
        ["object"] if value.get("properties").is_some() => Ok("map".to_owned()),
        ["object"] if value["additionalProperties"].is_object() => {
            Ok(format!("map of {}", plural(&value["additionalProperties"], links)?))
        }
        ["object"] => Ok("map".to_owned()),
        _ => Err(format!("unknown type: {value}")),
    }
}

fn types(value: &Value) -> Vec<&str> {
    let types = match &value["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect::<Vec<_>>(),
    };
    types.into_iter().filter(|kind| *kind != "null").collect()
}

/// A quantity, by the units in its pattern, or a text.
fn text(value: &Value) -> String {
    let pattern = value["pattern"].as_str().unwrap_or_default();
    let units = pattern.rsplit_once('(').and_then(|(before, rest)| {
        // `100/s` is no time.
        rest.split_once(')').filter(|_| !before.ends_with('/'))
    });
    let last = units.and_then(|(units, _)| units.rsplit('|').next());
    let quantity = QUANTITIES.iter().find(|(unit, _)| Some(*unit) == last);
    let example = value["examples"][0].as_str();
    match (quantity, example) {
        (Some((_, name)), _) => (*name).to_owned(),
        (None, Some(example)) => format!("text such as `{example}`"),
        (None, None) => "text".to_owned(),
    }
}

/// Link to the table of a definition, if the value is nothing else.
pub fn link(value: &Value, links: &Links<'_>) -> Option<String> {
    let [one] = alternatives(value)[..] else { return None };
    links.to(one["$ref"].as_str()?.strip_prefix("#/$defs/")?)
}

fn plural(value: &Value, links: &Links<'_>) -> Result<String, String> {
    if let Some(name) = value["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
        return reference(name, true, links);
    }
    let one = kind(value, links)?;
    // Only a word takes an `s`: the plural of `map of texts` has it elsewhere.
    let is_word = one.chars().all(|c| c.is_alphabetic() || c == ' ') && !one.contains(" of ");
    Ok(if is_word { format!("{one}s") } else { format!("values: {one}") })
}

/// A link to the table of a definition; without one, what the definition is.
fn reference(name: &str, is_plural: bool, links: &Links<'_>) -> Result<String, String> {
    let Some(link) = links.to(name) else {
        let definition = links.schema["$defs"].get(name).ok_or(format!("no `{name}`"))?;
        return kind(definition, links);
    };
    let word = NAMES.iter().find(|(own, _)| *own == name).map(|(_, word)| (*word).to_owned());
    let mut word = word.unwrap_or_else(|| match THINGS.contains(&name) {
        true => words(name),
        false => "map".to_owned(),
    });
    if is_plural {
        word.push('s');
    }
    Ok(format!("[{word}]({link})"))
}

/// `OneTwo` as "one two".
fn words(name: &str) -> String {
    let mut words = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_are_in_words() {
        let schema = json!({ "$defs": { "TlsFiles": {}, "Axis": {} } });
        let sections = BTreeMap::from([("TlsFiles".to_owned(), "docs/a/tls.md#files".to_owned())]);
        let links = Links { schema: &schema, sections: &sections, page: "docs/b.md" };
        let kind = |value| kind(&value, &links).unwrap();
        let text = json!({ "type": ["string", "number", "boolean", "null"] });
        assert_eq!(kind(text.clone()), "text");
        let time = json!({ "type": "string", "pattern": r"^\s*[0-9.]+\s*(ns|us|ms|s|min|h)\s*$" });
        let axis = json!({ "$ref": "#/$defs/Axis" });
        assert_eq!(kind(json!({ "anyOf": [time, axis, { "type": "null" }] })), "time");
        let more =
            json!({ "anyOf": [time, { "type": "array", "items": { "anyOf": [time, axis] } }] });
        assert_eq!(kind(more), "time, or list of these");
        let per_time = json!({ "type": "string", "pattern": r"^[0-9.]+\s*/(s|min|h)\s*$", "examples": ["9/s"] });
        assert_eq!(kind(per_time), "text such as `9/s`");
        let files = json!({ "anyOf": [{ "const": "generated" }, { "$ref": "#/$defs/TlsFiles" }] });
        assert_eq!(kind(files), "`generated`, or [PEM files](a/tls.md#files)");
        assert_eq!(kind(json!({ "enum": ["3.1.1", "5", 5, null] })), "`3.1.1` or `5`");
        assert_eq!(kind(json!({ "type": "array", "items": text })), "list of texts");
    }

    #[test]
    fn links_are_relative_to_the_page() {
        assert_eq!(relative("docs/a/b.md", "docs/c.md"), "../c.md");
        assert_eq!(relative("docs/a/b.md", "docs/a/c.md"), "c.md");
        assert_eq!(relative("docs/c.md", "docs/a/b.md"), "a/b.md");
    }
}
