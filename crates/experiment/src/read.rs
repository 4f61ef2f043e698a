//! Reads typed values from the tree, and collects problems instead of stopping at the first.

use crate::nearest::{advice, key_advice, list};
use crate::problem::Problem;
use crate::source::Place;
use crate::tree::{Content, Key, Node};
use indexmap::IndexMap;
use std::collections::HashMap;

/// Replaced texts by position, for notes on later errors.
pub(crate) type Replaced = HashMap<usize, (String, String)>;

/// Collects problems.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub problems: Vec<Problem>,
    /// Replacements of `${axis}` in this cell.
    pub replaced: Replaced,
    /// Name of this cell.
    pub cell: String,
}

impl Sink {
    /// Adds a problem. At a replaced text, the problem gets a note with the replacement.
    pub fn add(&mut self, mut problem: Problem) {
        let replaced = problem.place.and_then(|place| self.replaced.get(&place.start));
        if let Some((template, value)) = replaced {
            problem.notes.push(format!("`{template}` is `{value}` in the cell {}", self.cell));
        }
        self.problems.push(problem);
    }

    /// Whether there are no problems so far. Otherwise a missing value may be an invalid one, which
    /// was reported already.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Adds `expected ..., found ...`.
    pub fn expected(&mut self, what: &str, node: &Node) {
        // Broken content was reported when the tree was read or a value was substituted.
        if node.content != Content::Broken {
            let text = format!("expected {what}, found {}", node.kind());
            self.add(Problem::new(text).at(node.place));
        }
    }
}

/// A value that can be read from a node. `None`: the problem is in the sink.
pub(crate) trait Read: Sized {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self>;

    /// How to write `text` as a list of such values, if that is what a user may have meant.
    fn as_list(_text: &str) -> Option<String> {
        None
    }
}

/// A value and its position in the file. `AXIS`: whether the schema allows an axis there.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct At<T, const AXIS: bool = true> {
    pub value: T,
    pub place: Place,
}

/// A value that is the same in all cells.
pub(crate) type Fixed<T> = At<T, false>;

impl<T: Read, const AXIS: bool> Read for At<T, AXIS> {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        T::read(node, sink).map(|value| Self { value, place: node.place })
    }

    fn as_list(text: &str) -> Option<String> {
        T::as_list(text)
    }
}

/// A value that other code reads later.
impl Read for Node {
    fn read(node: &Node, _: &mut Sink) -> Option<Self> {
        Some(node.clone())
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        match &node.content {
            Content::List(items) => {
                Some(items.iter().filter_map(|item| T::read(item, sink)).collect())
            }
            Content::Scalar(text) => {
                let problem = Problem::new(format!("expected a list, found {}", node.kind()));
                let list = T::as_list(text).map(|list| format!("write a list: `{list}`"));
                sink.add(problem.at(node.place).label(list.unwrap_or_default()));
                None
            }
            _ => {
                sink.expected("a list", node);
                None
            }
        }
    }
}

/// One value, or a list of values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OneOrMore<T>(pub Vec<T>);

impl<T: Read> Read for OneOrMore<T> {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        match &node.content {
            Content::Nothing => Some(Self(Vec::new())),
            Content::List(_) => Vec::read(node, sink).map(Self),
            _ => T::read(node, sink).map(|value| Self(vec![value])),
        }
    }
}

/// Values by name, in the order of the file.
#[derive(Debug, Clone)]
pub(crate) struct Named<T>(IndexMap<String, (Place, Option<T>)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(IndexMap::new())
    }
}

impl<T> Named<T> {
    /// Name, position of the name, and value of each entry without errors.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Place, &T)> {
        self.0.iter().filter_map(|(name, (place, value))| {
            value.as_ref().map(|value| (name.as_str(), *place, value))
        })
    }

    pub fn names(&self) -> impl Iterator<Item = &String> + Clone {
        self.0.keys()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the entry `name`. An unknown name is reported as an unknown `what`; an invalid entry
    /// was reported before.
    pub fn find(&self, name: &At<String>, what: &str, sink: &mut Sink) -> Option<&T> {
        match self.0.get(&name.value) {
            Some((_, value)) => value.as_ref(),
            None => {
                let problem = Problem::new(format!("unknown {what} `{}`", name.value))
                    .at(name.place)
                    .label(advice(&name.value, self.names()));
                sink.add(problem);
                None
            }
        }
    }

    /// Whether the name exists, valid or not.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the entry `name`, if it is valid.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.get(name).and_then(|(_, value)| value.as_ref())
    }
}

impl<T: Read> Read for Named<T> {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        match &node.content {
            Content::Nothing => Some(Self::default()),
            Content::Map(entries) => Some(Self(
                entries
                    .iter()
                    // An invalid entry keeps its name, so references to it are no further errors.
                    .map(|(key, value)| (key.text.clone(), (key.place, T::read(value, sink))))
                    .collect(),
            )),
            _ => {
                sink.expected("a map of names and values", node);
                None
            }
        }
    }
}

/// The keys of one map, read one by one; the remaining ones are unknown.
pub(crate) struct Fields<'n, 's> {
    place: Place,
    entries: Vec<&'n (Key, Node)>,
    known: Vec<&'static str>,
    pub sink: &'s mut Sink,
}

impl<'n, 's> Fields<'n, 's> {
    /// The keys of `node`, which should be `what`; a missing value counts as an empty map.
    pub fn of(node: &'n Node, what: &str, sink: &'s mut Sink) -> Option<Self> {
        let entries = match &node.content {
            Content::Map(entries) => entries.iter().collect(),
            Content::Nothing => Vec::new(),
            _ => {
                sink.expected(&format!("{what}, a map of keys and values"), node);
                return None;
            }
        };
        Some(Self { place: node.place, entries, known: Vec::new(), sink })
    }

    fn take(&mut self, key: &'static str) -> Option<&'n (Key, Node)> {
        self.known.push(key);
        self.entries.iter().find(|(k, _)| k.text == key).copied()
    }

    /// Accepts `key` without reading it.
    pub fn known(&mut self, key: &'static str) {
        self.known.push(key);
    }

    /// Whether the map has `key`.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|(k, _)| k.text == key)
    }

    /// Value of an optional key.
    pub fn optional<T: Read>(&mut self, key: &'static str) -> Option<T> {
        let node = self.value(key, false)?;
        T::read(node, self.sink)
    }

    /// Value of a required key.
    pub fn required<T: Read>(&mut self, key: &'static str) -> Option<T> {
        let node = self.value(key, true)?;
        T::read(node, self.sink)
    }

    /// Unread value of a key; a missing one is reported if it is required.
    pub fn value(&mut self, key: &'static str, is_required: bool) -> Option<&'n Node> {
        match self.take(key) {
            Some((_, node)) if node.content != Content::Nothing => Some(node),
            _ if !is_required => None,
            Some((k, _)) => {
                let problem = Problem::new(format!("`{key}` has no value")).at(k.place);
                self.sink.add(problem);
                None
            }
            None => {
                let start = self.place.start;
                let problem = Problem::new(format!("the key `{key}` is missing"))
                    .at(Place { start, end: start })
                    .label(format!("add the key `{key}` here"));
                self.sink.add(problem);
                None
            }
        }
    }

    /// Reports the unknown keys.
    pub fn finish(self) {
        let unknown = self.entries.iter().filter(|(key, _)| !self.known.contains(&&*key.text));
        for (key, _) in unknown {
            let mut problem = Problem::new(format!("unknown key `{}`", key.text))
                .at(key.place)
                .label(key_advice(&key.text, &self.known));
            if !problem.label.starts_with("known") {
                problem = problem.note(format!("known: {}", list(&self.known)));
            }
            self.sink.add(problem);
        }
    }
}
