//! Verdicts of runs, as written by the runs.

use serde::Deserialize;
use std::fmt;

/// Verdict of a run, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(from = "String")]
pub enum Status {
    /// The machine kept up.
    Valid,
    /// A measurement is near its limit; read the reasons before you use the results.
    Suspect,
    /// There is no verdict, or an unknown one.
    #[default]
    Unknown,
    /// The machine kept up, but a program failed.
    Failed,
    /// The results may show the machine instead of the system, or the run deviated from its plan.
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
    /// Symbol of the status, for output without colour.
    pub(crate) fn sign(self) -> char {
        match self {
            Self::Valid => '✓',
            Self::Suspect => '!',
            Self::Unknown => '?',
            Self::Failed | Self::Invalid => '✗',
        }
    }
}

/// One measurement of the test bed itself.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// Name of the measurement.
    pub name: String,
    /// Measured value.
    pub value: Option<f64>,
    /// Unit of value and limits.
    pub unit: String,
    /// From this value on, the run is suspect.
    pub limit_suspect: Option<f64>,
    /// From this value on, the run is invalid.
    pub limit_invalid: Option<f64>,
    /// Resulting status of the run.
    pub status: Status,
    /// What it means for the results.
    pub meaning: String,
    /// The worst case in this run.
    pub detail: String,
}

/// A reason why a run is not valid.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, from = "AnyReason")]
pub struct Reason {
    /// Status of the run by this reason alone.
    pub status: Status,
    /// Name of the evidence, or kind of the failure; empty in runs of versions that wrote reasons
    /// as plain text.
    pub name: String,
    /// Measured value, in `unit`; `None` for failures.
    pub value: Option<f64>,
    /// Exceeded limit, in `unit`.
    pub limit: Option<f64>,
    /// The unit of both.
    pub unit: String,
    /// What it means for the results.
    pub meaning: String,
    /// Details: where, and what exactly.
    pub detail: String,
}

/// The current format of a reason, and the format of earlier versions.
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

/// Verdict of a run with its evidence.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Verdict {
    /// The verdict.
    pub status: Status,
    /// Reasons why the run is not valid.
    pub reasons: Vec<Reason>,
    /// Evidence for the verdict.
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
