//! The findings that an experiment was expected to show.

use serde::Deserialize;

/// What came of an expected finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// It was so.
    Pass,
    /// It was not so.
    Fail,
    /// A figure that it needs is missing.
    #[default]
    #[serde(other)]
    NotMeasured,
}

/// An expected finding, from `expect.json`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Check {
    /// The finding in words.
    pub say: String,
    /// What came of it.
    pub status: CheckStatus,
    /// The left side of the comparison.
    pub left: Option<f64>,
    /// The right side of it.
    pub right: Option<f64>,
    /// The comparison with its figures, or what is missing.
    pub text: String,
    /// `not run` where its cell was not; other reasons are in the text.
    pub missing: String,
}

impl Check {
    /// Whether it is about a cell that was not run, as with `--only`.
    pub(crate) fn is_not_run(&self) -> bool {
        self.status == CheckStatus::NotMeasured && self.missing == "not run"
    }
}

impl CheckStatus {
    /// In words, with a sign that needs no colour.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Pass => "✓ pass",
            Self::Fail => "✗ fail",
            Self::NotMeasured => "– not measured",
        }
    }
}

/// How many passed, failed and were not measured, in a sentence.
pub(crate) fn tally(checks: &[Check]) -> String {
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let mut text = format!("{} of {} hold", count(CheckStatus::Pass), checks.len());
    let missing = count(CheckStatus::NotMeasured);
    if missing > 0 {
        text += &format!(", {missing} not measured");
    }
    text
}
