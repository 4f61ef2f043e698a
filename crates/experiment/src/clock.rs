//! Whose time a run has.

use crate::read::{Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::Node;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The clock of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The machine's: figures contain what the machine takes.
    #[default]
    Real,
    /// That of a guest kernel, in which programs cost no time.
    Virtual,
}

impl Word for Clock {
    const WHAT: &'static str = "a clock";
    const WORDS: &'static [(&'static str, Self)] =
        &[("real", Self::Real), ("virtual", Self::Virtual)];
}

impl Read for Clock {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Self::WORDS.iter().find(|(_, clock)| clock == self);
        f.pad(word.map_or("", |(word, _)| word))
    }
}

impl FromStr for Clock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::WORDS.iter().find(|(word, _)| *word == text);
        found.map(|(_, clock)| *clock).ok_or(format!("`{text}` is no clock; use real or virtual"))
    }
}
