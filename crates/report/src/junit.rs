//! The results as JUnit XML, for continuous integration.

use crate::{CheckStatus, Reason, Run, Status, Sweep, format};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// A test case for each run and each expectation.
///
/// An invalid run is an error: it tells nothing about the system under test. A failed run and an
/// expectation that does not hold are failures. What was not measured is skipped.
pub fn junit(sweep: &Sweep) -> String {
    let name = text(sweep.experiment());
    let mut report = Report::new(name.clone());
    let mut runs = TestSuite::new(format!("{name} runs"));
    runs.add_test_cases(sweep.runs.iter().map(|run| case(&name, run)));
    report.add_test_suite(runs);
    if !sweep.checks.is_empty() {
        let mut expectations = TestSuite::new(format!("{name} expectations"));
        expectations.add_test_cases(sweep.checks.iter().map(|check| {
            let detail = text(&check.text);
            let mut status = match check.status {
                CheckStatus::Pass => TestCaseStatus::success(),
                CheckStatus::Fail => TestCaseStatus::non_success(NonSuccessKind::Failure),
                CheckStatus::NotMeasured => TestCaseStatus::skipped(),
            };
            if check.status != CheckStatus::Pass {
                status.set_message(detail.clone());
            }
            let mut case = TestCase::new(text(&check.say), status);
            case.set_classname(format!("{name}.expectations"));
            case.set_system_out(detail);
            case
        }));
        report.add_test_suite(expectations);
    }
    // The writer is a string, which takes all.
    report.to_string().unwrap_or_default()
}

/// Text without characters that XML lacks: most control characters, U+FFFE and U+FFFF (XML 1.0,
/// production 2).
fn text(text: &str) -> String {
    format::plain(text).replace(['\u{fffe}', '\u{ffff}'], " ")
}

fn case(experiment: &str, run: &Run) -> TestCase {
    let verdict = &run.summary.verdict;
    let reasons: Vec<String> = verdict
        .reasons
        .iter()
        .map(|Reason { name, detail, meaning, .. }| {
            let parts = [&name.to_string(), detail, meaning].map(|part| text(part));
            let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            parts.join(": ")
        })
        .collect();
    let mut status = match verdict.status {
        // Suspect is a warning: the exit status of `thingbed run` is 0 for it, too.
        Status::Valid | Status::Suspect => TestCaseStatus::success(),
        Status::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Status::Unknown | Status::Invalid => TestCaseStatus::non_success(NonSuccessKind::Error),
    };
    if verdict.status > Status::Suspect {
        status.set_type(verdict.status.to_string());
        status.set_message(reasons.first().cloned().unwrap_or_default());
        status.set_description(reasons.join("\n"));
    }
    let name = run.summary.cell.folder(run.summary.repeat);
    let mut case = TestCase::new(text(&name), status);
    case.set_classname(format!("{experiment}.runs"));
    if verdict.status == Status::Suspect {
        case.set_system_out(format!("suspect\n{}", reasons.join("\n")));
    }
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Check, Summary};
    use std::path::Path;

    fn run(repeat: u64, status: &str, reason: &str) -> Run {
        let text = format!(
            r#"{{"experiment": "e", "cell": {{"loss": "1 %"}}, "repeat": {repeat},
                "verdict": {{"status": "{status}", "reasons": ["{reason}"]}}}}"#
        );
        Run::with_summary(Path::new("r"), Summary::from_json(&text).unwrap())
    }

    #[test]
    fn runs_and_expectations_are_cases() {
        let check = |say: &str, status| Check {
            say: say.to_owned(),
            status,
            text: "3 < 2 & <more>".to_owned(),
            ..Check::default()
        };
        let sweep = Sweep {
            runs: vec![
                run(0, "valid", ""),
                run(1, "suspect", "a stall"),
                run(2, "failed", "exit status 1"),
                run(3, "invalid", "CPUs saturated"),
            ],
            checks: vec![
                check("fast", CheckStatus::Fail),
                check("small", CheckStatus::Pass),
                check("cheap", CheckStatus::NotMeasured),
            ],
            ..Sweep::default()
        };
        let xml = junit(&sweep);
        let has = |text: &str| assert!(xml.contains(text), "no {text} in {xml}");
        has(r#"<testsuite name="e runs" tests="4" skipped="0" errors="1" failures="1">"#);
        has(r#"<testsuite name="e expectations" tests="3" skipped="1" errors="0" failures="1">"#);
        has(r#"<failure message="exit status 1" type="failed">"#);
        has(r#"<error message="CPUs saturated" type="invalid">"#);
        has("3 &lt; 2 &amp; &lt;more&gt;");
        has("a stall");
    }
}
