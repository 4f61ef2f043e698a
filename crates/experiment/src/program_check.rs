//! What a program must do, so that it has not failed: exit statuses, output, time.

use crate::program_metric::{Pattern, Stream};
use serde::{Deserialize, Serialize};
use std::fmt;
use units::Span;

/// Conditions that a program must meet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramCheck {
    /// Exit statuses that mean success; empty for 0 only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exit: Vec<i32>,
    /// Texts in its output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<OutputCheck>,
    /// Time from its start within which it must end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Span>,
}

impl ProgramCheck {
    /// Whether it demands nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a program that ends with this status by itself has succeeded.
    pub fn accepts(&self, status: i32) -> bool {
        if self.exit.is_empty() { status == 0 } else { self.exit.contains(&status) }
    }
}

/// A condition on an output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputCheck {
    /// Which output.
    pub from: Stream,
    /// What a line of it must have.
    pub rule: OutputRule,
}

/// What a line of an output must have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputRule {
    /// This text.
    Contains(String),
    /// A match of this regular expression.
    Matches(String),
}

impl OutputRule {
    /// A function that tells whether a line meets the condition. A pattern that the plan accepted
    /// compiles; another one has no match.
    pub fn test(&self) -> impl Fn(&str) -> bool + '_ {
        let pattern = match self {
            Self::Contains(_) => None,
            Self::Matches(pattern) => Some(Pattern::new(pattern).ok()),
        };
        move |line| match (self, &pattern) {
            (Self::Contains(text), _) => line.contains(text.as_str()),
            (Self::Matches(_), Some(Some(pattern))) => pattern.matches(line),
            (Self::Matches(_), _) => false,
        }
    }
}

impl fmt::Display for OutputRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contains(text) => write!(f, "no line with `{text}`"),
            Self::Matches(pattern) => write!(f, "no line that matches `{pattern}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statuses_replace_zero() {
        let check = |exit: &[i32]| ProgramCheck { exit: exit.to_vec(), ..ProgramCheck::default() };
        assert!(check(&[]).accepts(0) && !check(&[]).accepts(3));
        assert!(check(&[0, 3]).accepts(3) && !check(&[3]).accepts(0));
    }

    #[test]
    fn a_line_has_a_text_or_a_match() {
        let contains = OutputRule::Contains("0 lost".to_owned());
        assert!(contains.test()("12 sent, 0 lost") && !contains.test()("0  lost"));
        let matches = OutputRule::Matches(r"^\d+ sent".to_owned());
        assert!(matches.test()("12 sent") && !matches.test()("x12 sent"));
        assert!(!OutputRule::Matches("(".to_owned()).test()("("));
    }
}
