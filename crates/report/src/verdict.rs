//! Whether a run's numbers can be trusted, as the run itself says.

use serde::Deserialize;
use std::fmt;

/// How far a run can be trusted, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(from = "String")]
pub enum Status {
    /// The machine kept up.
    Valid,
    /// Something was near its limit; read the reasons before the figures.
    Suspect,
    /// No verdict was written, or none that is known here.
    #[default]
    Unknown,
    /// The figures say more of the machine than of the experiment.
    Invalid,
}

impl From<String> for Status {
    fn from(word: String) -> Self {
        match word.as_str() {
            "valid" => Self::Valid,
            "suspect" => Self::Suspect,
            "invalid" => Self::Invalid,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Valid => "valid",
            Self::Suspect => "suspect",
            Self::Unknown => "unknown",
            Self::Invalid => "invalid",
        })
    }
}

impl Status {
    /// A sign that needs no colour.
    pub(crate) fn sign(self) -> char {
        match self {
            Self::Valid => '✓',
            Self::Suspect => '!',
            Self::Unknown => '?',
            Self::Invalid => '✗',
        }
    }
}

/// One thing that was measured about the test bed itself.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// What was measured.
    pub name: String,
    /// What it came to.
    pub value: Option<f64>,
    /// In which unit.
    pub unit: String,
    /// From here on the run is suspect.
    pub limit_suspect: Option<f64>,
    /// From here on it is invalid.
    pub limit_invalid: Option<f64>,
    /// What that makes of the run.
    pub status: Status,
    /// Why it matters.
    pub meaning: String,
}

/// A run's verdict with what it was drawn from.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Verdict {
    /// In a word.
    pub status: Status,
    /// Why it is not valid.
    pub reasons: Vec<String>,
    /// What it was drawn from.
    pub evidence: Vec<Evidence>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_not_valid() {
        let verdict: Verdict = serde_json::from_str(r#"{"status":"splendid"}"#).unwrap();
        assert_eq!(verdict.status, Status::Unknown);
        assert!(Status::Unknown > Status::Suspect);
        assert_eq!(Verdict::default().status, Status::Unknown);
    }
}
