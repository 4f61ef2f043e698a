//! The verdict: whether a run's figures can be trusted, and why.

use crate::evidence::Subject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How far a run can be trusted, best first.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(from = "String", rename_all = "lowercase")]
pub enum Status {
    /// The machine kept up.
    Valid,
    /// The machine may have changed the results.
    Suspect,
    /// There is no verdict, or one that this version does not know.
    #[default]
    Unknown,
    /// The machine kept up, but a program did not do what the experiment says.
    Failed,
    /// The results describe the machine, or the run did not go as planned.
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
    pub fn sign(self) -> char {
        match self {
            Self::Valid => '✓',
            Self::Suspect => '!',
            Self::Unknown => '?',
            Self::Failed | Self::Invalid => '✗',
        }
    }
}

/// One measured property of the test bed itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Evidence {
    /// What was measured.
    pub name: Subject,
    /// Measured value, in `unit`.
    pub value: Option<f64>,
    /// The unit of value and limits.
    pub unit: String,
    /// Above this a run is suspect; `None` for informational evidence.
    pub limit_suspect: Option<f64>,
    /// Above this it is invalid.
    pub limit_invalid: Option<f64>,
    /// The resulting status.
    pub status: Status,
    /// What it means for the results.
    pub meaning: String,
    /// Where it was worst in this run; may be empty.
    pub detail: String,
}

impl Evidence {
    /// Compares `value` with its two limits; without limits it is informational.
    pub fn new(name: Subject, value: f64, limits: Option<(f64, f64)>) -> Self {
        let status = match limits {
            // The higher limit first: a value above it is above both.
            Some((_, invalid)) if value > invalid => Status::Invalid,
            Some((suspect, _)) if value > suspect => Status::Suspect,
            _ => Status::Valid,
        };
        Self {
            value: Some(value),
            unit: name.unit().to_owned(),
            limit_suspect: limits.map(|(suspect, _)| suspect),
            limit_invalid: limits.map(|(_, invalid)| invalid),
            status,
            meaning: name.meaning().to_owned(),
            detail: String::new(),
            name,
        }
    }

    /// The reason that it gives; `None` if it is below its limits.
    pub fn reason(&self) -> Option<Reason> {
        let limit = match self.status {
            Status::Valid => return None,
            Status::Invalid => self.limit_invalid,
            _ => self.limit_suspect,
        };
        Some(Reason {
            status: self.status,
            name: self.name.clone(),
            value: self.value,
            limit,
            unit: self.unit.clone(),
            meaning: self.meaning.clone(),
            detail: self.detail.clone(),
        })
    }
}

/// Why a run is not valid: a piece of evidence over its limit, or a failure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "AnyReason")]
pub struct Reason {
    /// The status that this reason alone gives the run.
    pub status: Status,
    /// The evidence, or the type of failure. Empty in runs of versions that wrote reasons as text.
    pub name: Subject,
    /// Measured value, in `unit`; `None` for failures.
    pub value: Option<f64>,
    /// The exceeded limit, in `unit`.
    pub limit: Option<f64>,
    /// The unit of both.
    pub unit: String,
    /// What it means for the results.
    pub meaning: String,
    /// Where and what exactly.
    pub detail: String,
}

/// A reason as in files of this version, and of earlier ones.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum AnyReason {
    Text(String),
    Parts {
        #[serde(default)]
        status: Status,
        #[serde(default)]
        name: Subject,
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

impl Reason {
    /// A failure, with what failed exactly.
    pub fn failure(status: Status, name: Subject, detail: &str) -> Self {
        let meaning = name.meaning().to_owned();
        Self { status, name, meaning, detail: detail.to_owned(), ..Self::default() }
    }

    /// The name with value and limit, without the explanation.
    pub fn headline(&self) -> String {
        match (self.value, self.limit) {
            (Some(value), Some(limit)) => {
                let (value, limit) = (quantity(value, &self.unit), quantity(limit, &self.unit));
                format!("{}: {value} (limit {limit})", self.name)
            }
            _ if self.detail.is_empty() => self.name.to_string(),
            _ => format!("{}: {}", self.name, self.detail),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.headline())?;
        let detail = if self.value.is_some() { self.detail.as_str() } else { "" };
        let mut rest = [self.meaning.as_str(), detail].into_iter().filter(|text| !text.is_empty());
        rest.try_for_each(|text| write!(f, "; {text}"))
    }
}

/// The outcome with all evidence.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Verdict {
    /// The worst status of evidence and failures.
    pub status: Status,
    /// Why it is not valid, worst first; empty if it is.
    pub reasons: Vec<Reason>,
    /// All evidence; only in `run.json`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
}

impl crate::Part for Verdict {}

impl Verdict {
    /// The verdict of `evidence` and of failures.
    pub fn of(evidence: Vec<Evidence>, failures: Vec<Reason>) -> Self {
        let mut reasons = failures;
        reasons.extend(evidence.iter().filter_map(Evidence::reason));
        // The sort is stable: within a status failures come first, then the evidence's order.
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.status));
        let status = reasons.first().map_or(Status::Valid, |worst| worst.status);
        Self { status, reasons, evidence }
    }

    /// Status and reasons, as in `summary.json`.
    pub fn without_evidence(&self) -> Self {
        Self { status: self.status, reasons: self.reasons.clone(), evidence: Vec::new() }
    }
}

/// A value with its unit, scaled to a number of few digits.
fn quantity(value: f64, unit: &str) -> String {
    let (value, unit) = match unit {
        "us" if value >= 1_000.0 => (value / 1e3, "ms"),
        other => (value, other),
    };
    format!("{} {unit}", short(value))
}

/// A number with about three significant digits.
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == v.round() => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_unknown_word_is_not_valid() {
        let verdict: Verdict = serde_json::from_str(r#"{"status":"splendid"}"#).unwrap();
        assert_eq!(verdict.status, Status::Unknown);
        assert!(Status::Unknown > Status::Suspect);
        assert!(Status::Invalid > Status::Failed && Status::Failed > Status::Unknown);
        assert_eq!(Verdict::default().status, Status::Unknown);
    }

    /// No reason can get the name, unit or meaning of another piece of evidence.
    #[test]
    fn each_reason_has_the_label_of_its_evidence() {
        let names: BTreeSet<&str> = Subject::ALL.iter().map(Subject::name).collect();
        assert_eq!(names.len(), Subject::ALL.len(), "two subjects have the same name");
        let evidence = Subject::ALL.iter().map(|subject| {
            let mut evidence = Evidence::new(subject.clone(), 2.0, Some((1.0, 3.0)));
            evidence.detail = format!("of {subject}");
            evidence
        });
        let verdict = Verdict::of(evidence.collect(), Vec::new());
        let file = serde_json::to_string(&verdict).unwrap();
        let read: Verdict = serde_json::from_str(&file).unwrap();
        assert_eq!(read, verdict);
        for (subject, reason) in Subject::ALL.iter().zip(&read.reasons) {
            assert_eq!(&reason.name, subject);
            assert_eq!((&*reason.unit, &*reason.meaning), (subject.unit(), subject.meaning()));
            assert_eq!((&*reason.detail, reason.limit), (&*format!("of {subject}"), Some(1.0)));
        }
    }

    #[test]
    fn reasons_of_other_versions_keep_their_names() {
        let text = r#"["steal: 12 %", {"name": "longest stall", "value": 3, "unit": "us"}]"#;
        let reasons: Vec<Reason> = serde_json::from_str(text).unwrap();
        assert_eq!((reasons[0].name.name(), &*reasons[0].detail), ("", "steal: 12 %"));
        assert_eq!((reasons[1].name.name(), reasons[1].value), ("longest stall", Some(3.0)));
        assert!(!reasons[1].name.is_of_machine());
    }
}
