//! The verdict with its evidence, and the expectations.

use super::escape::escape;
use super::page::{Page, View};
use super::table::{Place, Table, badge};
use crate::check::{CheckStatus, tally};
use crate::{Evidence, Status, Sweep, format};
use std::fmt::Write as _;

/// The overall verdict, with the reasons of runs that are not valid.
pub(super) fn banner(sweep: &Sweep) -> String {
    let status = sweep.status();
    let word = match status {
        Status::Valid => "Every run is valid",
        Status::Suspect => "Some runs are suspect",
        Status::Unknown => "Some runs have no verdict",
        Status::Failed => "Programs failed in some runs",
        Status::Invalid => "Some runs are invalid",
    };
    let mut html = format!(
        "<div class=\"banner {status}\"><strong>{} {word}</strong><span>{}</span>",
        status.sign(),
        escape(&sweep.tally())
    );
    let reasons = sweep.reasons();
    if !reasons.is_empty() {
        html += "<ul>";
        for reason in &reasons {
            let badge = badge(reason.status, &reason.status.to_string());
            let headline = escape(&reason.headline);
            let rest = [reason.explanation.clone(), reason.place(sweep.runs.len(), 6)];
            let rest = rest.iter().filter(|part| !part.is_empty());
            let rest: String =
                rest.map(|part| format!("<small>{}</small>", escape(part))).collect();
            let _ = write!(html, "<li>{badge} <span>{headline}{rest}</span></li>");
        }
        html += "</ul>";
    }
    html + "</div>\n"
}

/// The evidence of all runs, one row per measurement.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    let title = "Evidence";
    match view.sweep.status() {
        // Readers of valid runs do not need it (decision 91).
        Status::Valid => page.folded_section("verdict", title),
        _ => page.section("verdict", title),
    }
    let mut table = Table::default()
        .text("evidence about the test bed")
        .numbers("median", "")
        .numbers("worst", "")
        .numbers("suspect from", "")
        .numbers("invalid from", "")
        .text("status")
        .text("worst in");
    for (worst, values, run) in worst_cases(view.sweep) {
        let unit = |value: Option<f64>| match value {
            Some(value) => format!("{} {}", format::number(value), worst.unit),
            None => format::NONE.to_owned(),
        };
        let median = crate::Spread::of(values).map(|spread| spread.median);
        let share = match (worst.value, worst.limit_suspect) {
            (Some(value), Some(limit)) if limit > 0.0 => {
                Place::Share(unit(Some(value)), value / limit)
            }
            (value, _) => Place::number(unit(value)),
        };
        table.row(vec![
            Place::Explained(worst.name.to_string(), worst.meaning.clone()),
            Place::number(unit(median)),
            share,
            Place::number(unit(worst.limit_suspect)),
            Place::number(unit(worst.limit_invalid)),
            Place::Status(worst.status, worst.status.to_string()),
            run.into(),
        ]);
    }
    if table.is_empty() {
        page.paragraph("No run has evidence for its verdict.");
        return;
    }
    page.paragraph(
        "Evidence shows whether the machine kept up. Each row is one measurement of the test bed \
         itself: the median over the runs and the worst run. The bar is the worst value as a \
         share of the limit for suspect.",
    );
    page.table(&table);
}

/// Each kind of evidence: its worst case, all its values, and the worst run.
fn worst_cases(sweep: &Sweep) -> Vec<(&Evidence, Vec<f64>, String)> {
    let mut all: Vec<(&Evidence, Vec<f64>, String)> = Vec::new();
    for run in &sweep.runs {
        for evidence in &run.summary.verdict.evidence {
            let same =
                |known: &Evidence| known.name == evidence.name && known.unit == evidence.unit;
            match all.iter_mut().find(|(known, _, _)| same(known)) {
                Some((worst, values, name)) => {
                    values.extend(evidence.value);
                    if severity(evidence) > severity(worst) {
                        *worst = evidence;
                        *name = run.name();
                    }
                }
                None => all.push((evidence, evidence.value.into_iter().collect(), run.name())),
            }
        }
    }
    all
}

/// Severity: by status, then by share of the limit, because limits may differ between runs. If the
/// invalid limit is below the suspect limit, smaller values are worse.
fn severity(evidence: &Evidence) -> (Status, f64) {
    let value = evidence.value.unwrap_or(0.0);
    let falling = matches!((evidence.limit_suspect, evidence.limit_invalid),
        (Some(suspect), Some(invalid)) if invalid < suspect);
    let share = match evidence.limit_suspect {
        Some(limit) if limit > 0.0 => value / limit,
        _ => value,
    };
    (evidence.status, if falling { -share } else { share })
}

/// The experiment's expectations and their results.
pub(super) fn checks(page: &mut Page, view: &View<'_>) {
    let checks = &view.sweep.checks;
    if checks.is_empty() {
        return;
    }
    page.section("findings", "Expectations");
    page.paragraph(&format!(
        "{}. An expectation that does not hold is a result, not an error of Thingbed.",
        tally(checks)
    ));
    let mut table = Table::default().text("").text("expectation").text("measured");
    for check in checks {
        let status = match check.status {
            CheckStatus::Pass => Place::Status(Status::Valid, "pass".to_owned()),
            CheckStatus::Fail => Place::Status(Status::Invalid, "fail".to_owned()),
            CheckStatus::NotMeasured => Place::Status(Status::Unknown, "not measured".to_owned()),
        };
        table.row(vec![status, check.say.clone().into(), check.text.clone().into()]);
    }
    page.table(&table);
}
