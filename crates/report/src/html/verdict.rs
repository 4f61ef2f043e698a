//! Whether the figures can be trusted, first of all, and what was expected.

use super::table::{Place, Table, badge};
use super::{Page, View, escape};
use crate::check::{CheckStatus, tally};
use crate::sweep::some_of;
use crate::{Evidence, Status, Sweep, format};
use std::fmt::Write as _;

/// The verdict on the whole, with the reasons of the runs that are not valid.
pub(super) fn banner(sweep: &Sweep) -> String {
    let status = sweep.status();
    let word = match status {
        Status::Valid => "Every run is valid",
        Status::Suspect => "Some runs are suspect",
        Status::Unknown => "Some runs have no verdict",
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
        for (status, reason, runs) in &reasons {
            let badge = badge(*status, &status.to_string());
            let runs = escape(&some_of(runs, 6));
            let _ = write!(html, "<li>{badge} {} <small>{runs}</small></li>", escape(reason));
        }
        html += "</ul>";
    }
    html + "</div>\n"
}

/// The evidence of all runs, a row a measurement.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    page.section("verdict", "Evidence");
    let mut table = Table::default()
        .text("measured on the test bed itself")
        .numbers("median", "")
        .numbers("worst", "")
        .numbers("suspect from", "")
        .numbers("invalid from", "")
        .text("status")
        .text("worst in");
    for (worst, values, run) in gathered(view.sweep) {
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
            Place::Explained(worst.name.clone(), worst.meaning.clone()),
            Place::number(unit(median)),
            share,
            Place::number(unit(worst.limit_suspect)),
            Place::number(unit(worst.limit_invalid)),
            Place::Status(worst.status, worst.status.to_string()),
            run.into(),
        ]);
    }
    if table.is_empty() {
        page.say("No run wrote down what its verdict was drawn from.");
        return;
    }
    page.say(
        "A figure is worth as much as the machine that made it. Each row is one thing that was \
         measured about the test bed during every run: its median over the runs and the run where \
         it was worst. The bar is the worst as a share of the limit from which a run is suspect.",
    );
    page.table(&table);
}

/// Each kind of evidence with its worst case, all its values and the worst run.
fn gathered(sweep: &Sweep) -> Vec<(&Evidence, Vec<f64>, String)> {
    let mut all: Vec<(&Evidence, Vec<f64>, String)> = Vec::new();
    for run in &sweep.runs {
        for evidence in &run.summary.verdict.evidence {
            let same =
                |known: &Evidence| known.name == evidence.name && known.unit == evidence.unit;
            match all.iter_mut().find(|(known, _, _)| same(known)) {
                Some((worst, values, name)) => {
                    values.extend(evidence.value);
                    if weight(evidence) > weight(worst) {
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

/// How bad it is: by status, then by its share of the limit, since limits may
/// differ between runs. Where the limits fall, less is worse.
fn weight(evidence: &Evidence) -> (Status, f64) {
    let value = evidence.value.unwrap_or(0.0);
    let falling = matches!((evidence.limit_suspect, evidence.limit_invalid),
        (Some(suspect), Some(invalid)) if invalid < suspect);
    let share = match evidence.limit_suspect {
        Some(limit) if limit > 0.0 => value / limit,
        _ => value,
    };
    (evidence.status, if falling { -share } else { share })
}

/// What the experiment was expected to show.
pub(super) fn checks(page: &mut Page, view: &View<'_>) {
    let checks = &view.sweep.checks;
    if checks.is_empty() {
        return;
    }
    page.section("findings", "Expected findings");
    page.say(&format!(
        "{}. A finding that fails is a result, not an error: nothing is tuned to make it pass.",
        tally(checks)
    ));
    let mut table = Table::default().text("").text("finding").text("measured");
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
