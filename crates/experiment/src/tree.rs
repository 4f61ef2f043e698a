//! A YAML document as a tree with positions.
//!
//! It is built from the parser's events instead of serde, which stops at the first error and cannot
//! replace `${axis}` before it assigns types.

use crate::problem::Problem;
use crate::source::Place;
use granit_parser::{Event, Marker, Options, Parser, ScalarStyle, Span, StrInput, Tag};
use std::borrow::Cow;
use std::collections::HashMap;

/// A value and its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub place: Place,
    pub content: Content,
}

/// Content of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    /// No value after a key, `~` or `null`.
    Nothing,
    /// A text, number or boolean; its reader decides which.
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
    /// Invalid content, already reported.
    Broken,
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub text: String,
    pub place: Place,
}

impl Node {
    /// Value of `key`, if this is a map with that key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.content {
            Content::Map(entries) => {
                entries.iter().find(|(k, _)| k.text == key).map(|(_, node)| node)
            }
            _ => None,
        }
    }

    /// Describes the value in words.
    pub fn kind(&self) -> String {
        match &self.content {
            Content::Nothing => "nothing".to_owned(),
            Content::Scalar(text) => format!("`{}`", shorten(text)),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a map of keys and values".to_owned(),
            Content::Broken => "something unreadable".to_owned(),
        }
    }
}

/// First line of a text, truncated.
fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(40).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

/// Maximum nesting depth.
const MAX_DEPTH: usize = 64;
/// Maximum number of values; an alias counts each time it is used.
const MAX_VALUES: usize = 200_000;

/// Parses the document in `text`, and returns it with its duplicate keys as problems.
pub(crate) fn parse(text: &str) -> Result<(Node, Vec<Problem>), Problem> {
    let mut options = Options::default();
    // The reader below and all that walk the tree recurse: depth is stack.
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    let mut builder = Builder {
        text,
        parser: Parser::new_from_str_with_options(text, options),
        anchors: HashMap::new(),
        nodes: 0,
        problems: Vec::new(),
    };
    let root = builder.document()?;
    Ok((root, builder.problems))
}

struct Builder<'t> {
    text: &'t str,
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    problems: Vec<Problem>,
}

impl<'t> Builder<'t> {
    fn document(&mut self) -> Result<Node, Problem> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                Event::StreamEnd => break,
                _ if root.is_some() => {
                    return Err(Problem::new("a second document in the file")
                        .at(self.place(span))
                        .label("write one experiment per file"));
                }
                event => root = Some(self.node(event, span, 0)?),
            }
        }
        root.ok_or_else(|| Problem::new("the file is empty").at(Place::default()))
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Problem> {
        loop {
            return match self.parser.next_event() {
                Some(Ok((Event::Anchor(..), _))) => continue,
                Some(Ok(event)) => Ok(event),
                Some(Err(error)) => {
                    let start = self.offset(*error.marker());
                    let problem = Problem::new(format!("this is not YAML: {}", error.info()))
                        .at(Place { start, end: start });
                    Err(self.flow_hint(problem, start))
                }
                None => Ok((Event::StreamEnd, Span::default())),
            };
        }
    }

    /// Adds a note about `{model: ${model}}`, which looks right but is not YAML: braces have a
    /// meaning inside braces.
    fn flow_hint(&self, problem: Problem, at: usize) -> Problem {
        let start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text[start..].lines().next().unwrap_or_default();
        if line.contains("${") {
            problem.note("inside { } or [ ], put quotes around it: \"${axis}\"")
        } else {
            problem
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Problem> {
        let mut place = self.place(span);
        self.nodes += 1;
        if self.nodes > MAX_VALUES || depth > MAX_DEPTH {
            return Err(Problem::new("the file is too large or too deeply nested").at(place));
        }
        let before = self.nodes;
        let (content, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.report_tag(tag.as_ref(), place);
                // In quotes, these words are texts (YAML 1.2, 10.3.2).
                let plain = style == ScalarStyle::Plain;
                let nothing = plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let text = text.into_owned();
                (if nothing { Content::Nothing } else { Content::Scalar(text) }, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.report_tag(tag.as_ref(), place);
                (Content::List(self.list(depth)?), anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.report_tag(tag.as_ref(), place);
                (Content::Map(self.map(depth)?), anchor)
            }
            Event::Alias(id) => return self.alias(id, place),
            other => {
                let text = format!("this is not YAML: {other:?} in place of a value");
                return Err(Problem::new(text).at(place));
            }
        };
        // The parser's span of a collection is only that of its begin.
        place.end = place.end.max(end_of(&content));
        let node = Node { place, content };
        // 0 means no anchor.
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), self.nodes - before + 1));
        }
        Ok(node)
    }

    /// A copy of the anchored value, at the position of the alias.
    fn alias(&mut self, id: usize, place: Place) -> Result<Node, Problem> {
        let Some((node, size)) = self.anchors.get(&id) else {
            return Err(Problem::new("an alias inside its own anchor").at(place));
        };
        // Nested aliases multiply ("billion laughs"): each use counts before it is copied.
        self.nodes += size;
        if self.nodes > MAX_VALUES {
            return Err(Problem::new("the aliases expand to too many values").at(place));
        }
        Ok(node.clone())
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Problem> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(Key, Node)>, Problem> {
        let mut entries: Vec<(Key, Node)> = Vec::new();
        let mut seen: HashMap<String, Place> = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(entries);
            }
            // Both are read before either is reported, so that the events stay in step.
            let key = self.node(event, span, depth + 1)?;
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            let text = match key.content {
                Content::Scalar(text) => text,
                _ => {
                    let found = key.kind();
                    self.problems.push(
                        Problem::new(format!("expected a key, found {found}"))
                            .at(key.place)
                            .label("a key is a single word"),
                    );
                    continue;
                }
            };
            // YAML 1.2.2, 3.2.1.1 requires unique keys; taking the last one would hide a slip.
            if let Some(first) = seen.get(&text) {
                let line = self.text[..first.start].matches('\n').count() + 1;
                self.problems.push(
                    Problem::new(format!("duplicate key `{text}`"))
                        .at(key.place)
                        .label(format!("line {line} has it already")),
                );
                continue;
            }
            seen.insert(text.clone(), key.place);
            entries.push((Key { text, place: key.place }, value));
        }
    }

    /// Reports tags such as `!include`, which are not supported.
    fn report_tag(&mut self, tag: Option<&Cow<'_, Tag>>, place: Place) {
        if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema()) {
            let text = format!("unknown tag `{}`", tag.original());
            self.problems.push(Problem::new(text).at(place).label("experiment files have no tags"));
        }
    }

    fn place(&self, span: Span) -> Place {
        let (start, end) = (self.offset(span.start), self.offset(span.end));
        Place { start, end: end.max(start) }
    }

    fn offset(&self, marker: Marker) -> usize {
        let counted = || self.text.char_indices().nth(marker.index()).map(|(at, _)| at);
        marker.byte_offset().or_else(counted).unwrap_or(self.text.len()).min(self.text.len())
    }
}

/// End of the last part of `content`.
fn end_of(content: &Content) -> usize {
    match content {
        Content::List(items) => items.last().map_or(0, |item| item.place.end),
        Content::Map(entries) => entries.last().map_or(0, |(_, value)| value.place.end),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_knows_its_place() {
        let text = "a: [1, two]\nb:\n  c: µ\n";
        let (root, problems) = parse(text).unwrap();
        assert!(problems.is_empty());
        let Content::List(items) = &root.get("a").unwrap().content else { panic!() };
        assert_eq!(&text[items[1].place.start..items[1].place.end], "two");
        let deep = root.get("b").unwrap().get("c").unwrap();
        assert_eq!(&text[deep.place.start..deep.place.end], "µ");
    }

    #[test]
    fn aliases_are_what_they_name_and_bombs_are_refused() {
        let (root, _) = parse("a: &x {b: 1}\nc: *x\n").unwrap();
        assert_eq!(root.get("c").unwrap().get("b").unwrap().kind(), "`1`");
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let previous = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{previous}]\n"));
        }
        assert!(parse(&bomb).unwrap_err().message.contains("too many values"));
    }

    #[test]
    fn a_quoted_null_is_text() {
        let (root, _) = parse("a: null\nb: 'null'\nc:\n").unwrap();
        assert_eq!(root.get("a").unwrap().content, Content::Nothing);
        assert_eq!(root.get("b").unwrap().kind(), "`null`");
        assert_eq!(root.get("c").unwrap().content, Content::Nothing);
    }
}
