//! Verdict: whether the results describe the system under test or the limits of the test machine.
//!
//! Each piece of evidence has two limits that were set before any run: above the first the machine
//! may have changed a result, above the second the result is the machine's. The worst piece
//! decides. Failures of programs are judged separately: a program that failed stays a failure even
//! if the machine kept up.

use crate::evidence::{OF_MACHINE, evidence};
use crate::facts::{Facts, Failure};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How far a run can be trusted, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The machine kept up.
    Valid,
    /// The machine may have changed the results.
    Suspect,
    /// The machine kept up, but a program did not do what the experiment says.
    Failed,
    /// The results describe the machine, or the run did not go as planned.
    Invalid,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Valid => "valid",
            Self::Suspect => "suspect",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
        })
    }
}

/// One measured property of the test bed itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Its name, the same in all runs.
    pub name: String,
    /// Measured value, in `unit`.
    pub value: f64,
    /// The unit of value and limits.
    pub unit: String,
    /// Above this a run is suspect; `None` for informational evidence.
    pub limit_suspect: Option<f64>,
    /// Above this it is invalid.
    pub limit_invalid: Option<f64>,
    /// The resulting status.
    pub status: Status,
    /// What it means for the results, the same in all runs.
    pub meaning: String,
    /// Where it was worst in this run; may be empty.
    #[serde(default)]
    pub detail: String,
}

/// Why a run is not valid: a piece of evidence over its limit, or a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// The status that this reason alone gives the run.
    pub status: Status,
    /// The evidence's name, or the type of failure.
    pub name: String,
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

impl Reason {
    /// Whether a busy or slow machine causes it.
    pub fn is_of_machine(&self) -> bool {
        OF_MACHINE.iter().any(|name| self.name.starts_with(name))
    }

    /// The name with value and limit, without the explanation.
    pub fn headline(&self) -> String {
        match (self.value, self.limit) {
            (Some(value), Some(limit)) => {
                let (value, limit) = (quantity(value, &self.unit), quantity(limit, &self.unit));
                format!("{}: {value} (limit {limit})", self.name)
            }
            _ if self.detail.is_empty() => self.name.clone(),
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The worst status of evidence and failures.
    pub status: Status,
    /// Why it is not valid, worst first; empty if it is.
    pub reasons: Vec<Reason>,
    /// All evidence.
    pub evidence: Vec<Evidence>,
}

/// Computes the verdict.
pub fn judge(facts: &Facts) -> Verdict {
    let evidence = evidence(facts);
    let mut reasons: Vec<Reason> = facts.failures.iter().map(Failure::reason).collect();
    reasons.extend(evidence.iter().filter(|e| e.status != Status::Valid).map(|found| Reason {
        status: found.status,
        name: found.name.clone(),
        value: Some(found.value),
        limit: match found.status {
            Status::Invalid => found.limit_invalid,
            _ => found.limit_suspect,
        },
        unit: found.unit.clone(),
        meaning: found.meaning.clone(),
        detail: found.detail.clone(),
    }));
    // The sort is stable: within a status failures come first, then the evidence's order.
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.status));
    let status = reasons.first().map_or(Status::Valid, |worst| worst.status);
    Verdict { status, reasons, evidence }
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
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == v.round() => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
