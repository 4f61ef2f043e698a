//! The values of a profile, with quality and source.

use crate::nearest::advice;
use crate::problem::Problem;
use crate::read::{At, Fields, Named, OneOrMore, Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::{Content, Node};
use serde::Serialize;

/// Quality of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// From a standard, or set by the paper that the profile follows.
    Standard,
    /// The default of public code.
    Code,
    /// Measured, with a citation.
    Measured,
    /// Fitted to reproduce a paper's results; not validated against a link.
    Fitted,
    /// Computed from other values.
    Computed,
    /// A guess, or from a source without a reason.
    Uncertain,
}

impl Word for Quality {
    const WHAT: &'static str = "a quality";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("standard", Self::Standard),
        ("code", Self::Code),
        ("measured", Self::Measured),
        ("fitted", Self::Fitted),
        ("computed", Self::Computed),
        ("uncertain", Self::Uncertain),
    ];
}

impl Quality {
    /// Its word in the file.
    pub fn text(self) -> &'static str {
        Self::WORDS.iter().find(|(_, quality)| *quality == self).map_or("", |(word, _)| word)
    }
}

impl Read for Quality {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

/// One value of a profile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Value {
    /// Its key, such as `up.grant.cycle`.
    pub key: String,
    /// The value with its unit.
    pub value: String,
    /// Known range of the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Quality.
    pub quality: Quality,
    /// Names of its sources.
    pub sources: Vec<String>,
    /// A remark; for a value that the medium cannot model, the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Keys with a word as value, which need no source.
const WORD_KEYS: [&str; 4] = ["name", "to", "service", "initial"];

/// Adds the values below `node`, at `key`, to `values`, and returns the tree as an experiment would
/// write it.
pub(super) fn strip(
    node: &Node,
    key: &str,
    named: &Named<String>,
    values: &mut Vec<Value>,
    sink: &mut Sink,
) -> Node {
    let content = match &node.content {
        Content::Map(_) if node.get("value").is_some() => {
            values.extend(value(node, key, false, named, sink));
            return node.get("value").cloned().unwrap_or_else(|| node.clone());
        }
        Content::Map(entries) => {
            let inner = entries.iter().map(|(name, inner)| {
                let below =
                    if key.is_empty() { name.text.clone() } else { format!("{key}.{}", name.text) };
                (name.clone(), strip(inner, &below, named, values, sink))
            });
            Content::Map(inner.collect())
        }
        Content::List(items) => {
            let items = items.iter().map(|item| {
                let name = item.get("name").and_then(|name| match &name.content {
                    Content::Scalar(name) => Some(name.as_str()),
                    _ => None,
                });
                // States have their names in keys, as in `states.idle.loss`, not their list.
                let key = key.strip_suffix(".states").unwrap_or(key);
                strip(item, &format!("{key}.{}", name.unwrap_or("?")), named, values, sink)
            });
            Content::List(items.collect())
        }
        Content::Scalar(_) if !WORD_KEYS.contains(&key.rsplit('.').next().unwrap_or(key)) => {
            let problem = Problem::new(format!("`{key}` has no source"));
            sink.add(
                problem.at(node.place).label("write `{value: ..., quality: ..., source: ...}`"),
            );
            node.content.clone()
        }
        other => other.clone(),
    };
    Node { place: node.place, content }
}

/// Reads one value; `unmodelled` values have a reason.
pub(super) fn value(
    node: &Node,
    key: &str,
    unmodelled: bool,
    named: &Named<String>,
    sink: &mut Sink,
) -> Option<Value> {
    let mut fields = Fields::of(node, "a value of a profile", sink)?;
    let value: Option<Node> = fields.required("value");
    let range: Option<Node> = fields.optional("range");
    let quality = fields.required("quality");
    let sources: Option<OneOrMore<At<String>>> = fields.required("source");
    let note: Option<String> = match unmodelled {
        true => fields.required("why"),
        false => fields.optional("note"),
    };
    fields.finish();
    let sources = sources?.0;
    for source in sources.iter().filter(|source| !named.has(&source.value)) {
        let problem = Problem::new(format!("unknown source `{}`", source.value)).at(source.place);
        sink.add(problem.label(advice(&source.value, named.names())));
    }
    Some(Value {
        key: key.to_owned(),
        value: text(&value?),
        range: range.map(|range| text(&range)),
        quality: quality?,
        sources: sources.into_iter().map(|source| source.value).collect(),
        note,
    })
}

/// Text form of a value.
fn text(node: &Node) -> String {
    match &node.content {
        Content::Scalar(text) => text.clone(),
        Content::List(items) if items.len() == 2 => {
            format!("{} to {}", text(&items[0]), text(&items[1]))
        }
        Content::List(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        Content::Map(entries) => {
            let entries =
                entries.iter().map(|(key, value)| format!("{} {}", key.text, text(value)));
            entries.collect::<Vec<_>>().join(", ")
        }
        Content::Nothing | Content::Broken => String::new(),
    }
}
