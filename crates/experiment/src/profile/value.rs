//! The values of a profile: what is known, how well, and from where.

use crate::nearest::advice;
use crate::problem::Problem;
use crate::read::{At, Fields, Named, OneOrMore, Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::{Content, Node};
use serde::Serialize;

/// How good a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// A standard says so, or the paper that the profile is after set it.
    Standard,
    /// The default of public code.
    Code,
    /// Somebody measured it, and is cited.
    Measured,
    /// What makes a model give a paper's figures. Nobody held it against a link.
    Fitted,
    /// Follows from other values.
    Computed,
    /// A guess, or from a source that does not say why.
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
    /// Where it stands, such as `up.grant.cycle`.
    pub key: String,
    /// The value with its unit.
    pub value: String,
    /// What else it may be, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// How good it is.
    pub quality: Quality,
    /// Names of the sources that it is from.
    pub sources: Vec<String>,
    /// What there is to say of it; of a value that the medium cannot have, why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Keys whose words say what there is, and need no source.
const WORDS: [&str; 4] = ["name", "to", "service", "initial"];

/// The values below `node`, which stands at `key`, are added to `values`; what
/// is left is the tree as an experiment would have it.
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
                let key = key.strip_suffix(".states").unwrap_or(key);
                strip(item, &format!("{key}.{}", name.unwrap_or("?")), named, values, sink)
            });
            Content::List(items.collect())
        }
        Content::Scalar(_) if !WORDS.contains(&key.rsplit('.').next().unwrap_or(key)) => {
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

/// One value as typed; `unmodelled` ones say why.
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

/// A value for people to read.
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
