//! Results of checks.

use serde::Serialize;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Grade {
    /// The feature works.
    Good,
    /// The feature is missing or degraded.
    Lacking,
    /// Required: without it, no experiment can run.
    Missing,
}

/// Result of one check.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    pub(super) what: &'static str,
    pub(super) grade: Grade,
    pub(super) found: String,
    /// Effect of the missing feature; empty if it works.
    // The names that the first version wrote; scripts read this JSON.
    #[serde(rename = "costs")]
    pub(super) effect: String,
    /// Command that fixes it; empty if there is nothing to fix.
    #[serde(rename = "mend")]
    pub(super) fix: String,
}

impl Finding {
    pub(super) fn good(what: &'static str, found: impl Into<String>) -> Self {
        let (effect, fix) = (String::new(), String::new());
        Self { what, grade: Grade::Good, found: found.into(), effect, fix }
    }

    pub(super) fn bad(
        what: &'static str,
        grade: Grade,
        found: impl Into<String>,
        effect: &str,
        fix: &str,
    ) -> Self {
        let (effect, fix) = (effect.to_owned(), fix.to_owned());
        Self { what, grade, found: found.into(), effect, fix }
    }
}
