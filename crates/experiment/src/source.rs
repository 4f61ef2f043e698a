//! Text of a file, and positions in it.

use std::path::PathBuf;

/// A range of the text, in bytes; the end is exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Place {
    pub start: usize,
    pub end: usize,
}

/// A file as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Name of the file in errors.
    pub file: PathBuf,
    pub text: String,
}

/// One line of the text, and the part of it that a range covers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Text of the line, with control characters replaced.
    pub text: String,
    /// Number of characters before the marks.
    pub indent: usize,
    /// Number of characters to mark, at least one.
    pub marks: usize,
}

/// Maximum width of an excerpt; longer lines are shown in part.
const MAX_WIDTH: usize = 140;

impl Source {
    /// Returns the line on which `place` starts. A range over several lines is cut at the end of
    /// the first.
    pub fn excerpt(&self, place: Place) -> Excerpt {
        let text = self.text.as_str();
        let start = floor(text, place.start);
        let end = floor(text, place.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = text[..start].matches('\n').count() + 1;
        let before = text[line_start..start].chars().count();
        let chars: Vec<char> =
            text[line_start..line_end].trim_end_matches('\r').chars().map(printable).collect();
        let marks = text[start..end.min(line_end)].trim_end().chars().count().max(1);
        // The marked part stays in the middle of a cut line.
        let skip = if chars.len() > MAX_WIDTH { before.saturating_sub(MAX_WIDTH / 2) } else { 0 };
        let mut shown: String = chars.iter().skip(skip).take(MAX_WIDTH).collect();
        let mut indent = before - skip;
        if skip > 0 {
            shown.insert_str(0, "... ");
            indent += 4;
        }
        if chars.len() > skip + MAX_WIDTH {
            shown.push_str(" ...");
        }
        let marks = marks.min(MAX_WIDTH);
        Excerpt { line, column: before + 1, text: shown, indent, marks }
    }
}

/// The nearest character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Replaces tabs by one space, so that marks line up with the text.
fn printable(c: char) -> char {
    match c {
        '\t' => ' ',
        // Files may be those of others: an escape sequence would reach the terminal.
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excerpt(text: &str, start: usize, end: usize) -> Excerpt {
        Source { file: "f".into(), text: text.into() }.excerpt(Place { start, end })
    }

    #[test]
    fn counts_lines_and_characters_from_one() {
        let found = excerpt("a: 1\nµs: béta x\n", 10, 15);
        assert_eq!((found.line, found.column, found.marks), (2, 5, 4));
        assert_eq!(found.text, "µs: béta x");
    }

    #[test]
    fn a_place_past_the_end_is_the_end() {
        let found = excerpt("a: 1", 90, 99);
        assert_eq!((found.line, found.column, found.marks), (1, 5, 1));
        assert_eq!(excerpt("", 0, 0).line, 1);
    }

    #[test]
    fn a_long_line_is_shown_round_the_place() {
        let text = format!("{}here{}", "x".repeat(300), "y".repeat(300));
        let found = excerpt(&text, 300, 304);
        assert_eq!(found.column, 301);
        let marked: String = found.text.chars().skip(found.indent).take(found.marks).collect();
        assert_eq!(marked, "here");
    }
}
