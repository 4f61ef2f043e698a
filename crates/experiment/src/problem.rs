//! Problems of a file, shown with their line.

use crate::source::{Place, Source};
use std::fmt;
use std::sync::Arc;

/// A problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub(crate) place: Option<Place>,
    pub(crate) message: String,
    pub(crate) label: String,
    pub(crate) notes: Vec<String>,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { place: None, message: message.into(), label: String::new(), notes: Vec::new() }
    }

    pub(crate) fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Adds a short text next to the marks.
    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds a separate line below.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The problem in one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The expected value, the nearest known word, and where else to look.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        let label = (!self.label.is_empty()).then_some(self.label.as_str());
        label.into_iter().chain(self.notes.iter().map(String::as_str))
    }
}

/// All problems of an experiment file; never empty.
///
/// Its text shows each problem with file, line, column and the line's text.
#[derive(Debug, Clone)]
pub struct Errors {
    source: Option<Arc<Source>>,
    problems: Vec<Problem>,
}

/// Maximum number of problems to show; further ones are only counted.
const MAX_SHOWN: usize = 20;

impl Errors {
    /// Problems of `source`, in the order of its text.
    pub(crate) fn new(source: Arc<Source>, mut problems: Vec<Problem>) -> Self {
        // They are found in several passes over the file.
        problems.sort_by_key(|problem| problem.place.map_or(0, |place| place.start));
        Self { source: Some(source), problems }
    }

    /// A problem without a position in a file.
    pub(crate) fn bare(problem: Problem) -> Self {
        Self { source: None, problems: vec![problem] }
    }

    /// Problems, in the order of the file.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Line and column of a problem, both from 1. `None` without a position.
    pub fn position(&self, problem: &Problem) -> Option<(usize, usize)> {
        let excerpt = self.source.as_ref()?.excerpt(problem.place?);
        Some((excerpt.line, excerpt.column))
    }

    /// Formats one problem as several lines.
    fn show(&self, problem: &Problem) -> String {
        let mut lines = vec![format!("error: {}", problem.message)];
        let mut pad = " ".to_owned();
        if let (Some(source), Some(place)) = (&self.source, problem.place) {
            let excerpt = source.excerpt(place);
            let (line, column, file) = (excerpt.line, excerpt.column, source.file.display());
            pad = " ".repeat(line.to_string().len());
            lines.push(format!("{pad}--> {file}:{line}:{column}"));
            lines.push(format!("{pad} |"));
            lines.push(format!("{line} | {}", excerpt.text));
            let (indent, marks) = (" ".repeat(excerpt.indent), "^".repeat(excerpt.marks));
            lines.push(format!("{pad} | {indent}{marks} {}", problem.label));
        } else if !problem.label.is_empty() {
            lines.push(format!("{pad} = {}", problem.label));
        }
        lines.extend(problem.notes.iter().map(|note| format!("{pad} = {note}")));
        lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, all) = (self.problems.iter().take(MAX_SHOWN), self.problems.len());
        let mut parts: Vec<String> = shown.map(|problem| self.show(problem)).collect();
        if all > MAX_SHOWN {
            parts.push(format!("... and {} more", all - MAX_SHOWN));
        }
        if let Some(source) = &self.source {
            let s = if all == 1 { "" } else { "s" };
            parts.push(format!("{all} error{s} in {}", source.file.display()));
        }
        f.write_str(&parts.join("\n\n"))
    }
}

impl std::error::Error for Errors {}
