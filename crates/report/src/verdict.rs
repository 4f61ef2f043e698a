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
    /// The machine kept up, and a program did not do what the experiment says.
    Failed,
    /// The figures are the machine's, or the run did not go as planned.
    Invalid,
}

impl From<String> for Status {
    fn from(word: String) -> Self {
        match word.as_str() {
            "valid" => Self::Valid,
            "suspect" => Self::Suspect,
            "failed" => Self::Failed,
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
            Self::Failed => "failed",
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
            Self::Failed | Self::Invalid => '✗',
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
    /// What it means for the figures.
    pub meaning: String,
    /// Where it was worst in this run.
    pub detail: String,
}

/// Why a run is not valid.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, from = "AnyReason")]
pub struct Reason {
    /// What this reason alone makes of the run.
    pub status: Status,
    /// The evidence's name, or what kind of failure it is; empty in runs of versions
    /// that wrote reasons as one text.
    pub name: String,
    /// What was measured, in `unit`; none for failures.
    pub value: Option<f64>,
    /// The limit that it is over, in `unit`.
    pub limit: Option<f64>,
    /// The unit of both.
    pub unit: String,
    /// What it means for the figures.
    pub meaning: String,
    /// Where, and what exactly.
    pub detail: String,
}

/// A reason as it is written now, and as earlier versions wrote it.
#[derive(Deserialize)]
#[serde(untagged)]
enum AnyReason {
    Text(String),
    Parts {
        #[serde(default)]
        status: Status,
        #[serde(default)]
        name: String,
        value: Option<f64>,
        limit: Option<f64>,
        #[serde(default)]
        unit: String,
        #[serde(default)]
        meaning: String,
        #[serde(default)]
        detail: String,
    },
}

impl From<AnyReason> for Reason {
    fn from(reason: AnyReason) -> Self {
        match reason {
            AnyReason::Text(detail) => Self { detail, ..Self::default() },
            AnyReason::Parts { status, name, value, limit, unit, meaning, detail } => {
                Self { status, name, value, limit, unit, meaning, detail }
            }
        }
    }
}

/// A run's verdict with what it was drawn from.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Verdict {
    /// In a word.
    pub status: Status,
    /// Why it is not valid.
    pub reasons: Vec<Reason>,
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
        assert!(Status::Invalid > Status::Failed && Status::Failed > Status::Unknown);
        assert_eq!(Verdict::default().status, Status::Unknown);
    }
}
