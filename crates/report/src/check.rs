//! Expectations of an experiment.

use serde::Deserialize;

/// Result of an expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// It holds.
    Pass,
    /// It does not hold.
    Fail,
    /// A required metric is missing.
    #[default]
    // Words of later versions: an unknown result must not look like a pass.
    #[serde(other)]
    NotMeasured,
}

/// An expectation, from `expect.json`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Check {
    /// The expectation in words.
    pub say: String,
    /// Its result.
    pub status: CheckStatus,
    /// Left side of the comparison.
    pub left: Option<f64>,
    /// Right side of the comparison.
    pub right: Option<f64>,
    /// The comparison with its values, or what is missing.
    pub text: String,
    /// `not run` if the cell was not run; the text has other reasons.
    pub missing: String,
}

impl Check {
    /// Whether its cell was not run, as with `--only`.
    pub(crate) fn is_not_run(&self) -> bool {
        self.status == CheckStatus::NotMeasured && self.missing == "not run"
    }
}

impl CheckStatus {
    /// Label of the status, with a symbol for output without colour.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Pass => "✓ pass",
            Self::Fail => "✗ fail",
            Self::NotMeasured => "– not measured",
        }
    }
}

/// Number of expectations that hold and that were not measured, as text.
pub(crate) fn tally(checks: &[Check]) -> String {
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let mut text = format!("{} of {} hold", count(CheckStatus::Pass), checks.len());
    let missing = count(CheckStatus::NotMeasured);
    if missing > 0 {
        text += &format!(", {missing} not measured");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_holds_counts_as_held() {
        let check = |text: &str| serde_json::from_str::<Check>(text).unwrap();
        let checks = [
            check(r#"{"status": "pass"}"#),
            check(r#"{"status": "fail", "left": 3.0, "right": null}"#),
            check(r#"{"status": "not measured", "missing": "not run"}"#),
            // A word of a later version, and none.
            check(r#"{"status": "probably"}"#),
            check("{}"),
        ];
        assert_eq!(tally(&checks), "1 of 5 hold, 3 not measured");
        assert_eq!(tally(&checks[..2]), "1 of 2 hold");
        assert_eq!(tally(&[]), "0 of 0 hold");
        let not_run: Vec<bool> = checks.iter().map(Check::is_not_run).collect();
        assert_eq!(not_run, [false, false, true, false, false]);
    }
}
