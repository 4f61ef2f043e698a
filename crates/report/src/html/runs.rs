//! Facts about the runs, and each run in detail.

use super::escape::escape;
use super::page::{Page, View};
use super::table::{Place, Table, badge};
use crate::figures::columns;
use crate::{Run, Sweep, format};
use std::fmt::Write as _;

/// Facts about machine and version, with their possible keys in `run.json`.
const FACTS: [(&str, &[&str]); 8] = [
    ("clock", &["clock"]),
    ("version", &["version", "thingbed_version", "thingbed version", "thingbed"]),
    ("commit", &["commit"]),
    ("kernel", &["kernel"]),
    ("CPU", &["cpu"]),
    ("cores", &["cores"]),
    ("seed", &["seed"]),
    ("started", &["started"]),
];

fn fact(run: &Run, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| run.facts.text(key))
}

/// All distinct values of a fact, in the order of the runs.
fn values(sweep: &Sweep, keys: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for value in sweep.runs.iter().filter_map(|run| fact(run, keys)) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// The facts below the title, as HTML.
pub(super) fn headline(sweep: &Sweep) -> String {
    let mut parts = Vec::new();
    for (name, keys) in FACTS {
        let mut values = values(sweep, keys);
        let text = match (name, values.as_slice()) {
            (_, []) => continue,
            ("clock", [one]) if one == "real" => continue,
            ("clock", [one]) => format!("{one} time"),
            ("started", _) => {
                values.sort();
                match values.as_slice() {
                    [first, .., last] => format!("from {first} to {last}"),
                    _ => values.concat(),
                }
            }
            ("version", _) => format!("Thingbed {}", values.join(", ")),
            ("cores", [one]) => format!("{one} cores"),
            ("CPU", [one]) => one.clone(),
            (name, few) if few.len() <= 3 => format!("{name} {}", few.join(", ")),
            (name, many) => format!("{} different values of {name}", many.len()),
        };
        parts.push(format!("<span>{}</span>", escape(&text)));
    }
    parts.concat()
}

/// A collapsed part per run.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    page.section("runs", "Runs");
    page.paragraph("Each run with its evidence.");
    let columns = columns(view.sweep);
    for run in &view.sweep.runs {
        let summary = &run.summary;
        // The page of a single run does not name its folder, which contains the time: so identical
        // runs have identical pages.
        let folder = run.folder.file_name().filter(|_| run.folder != view.sweep.folder);
        let folder = folder.map(|name| name.to_string_lossy()).unwrap_or_default();
        let status = summary.verdict.status;
        let _ = write!(
            page.body,
            "<details class=\"run\"><summary>{} {} <small>{}</small></summary>",
            badge(status, &status.to_string()),
            escape(&run.name()),
            escape(&folder)
        );
        for reason in &summary.verdict.reasons {
            let headline = match reason.name.name() {
                "" => reason.detail.clone(),
                name => format!("{name}: {}", reason.detail),
            };
            page.paragraph(&headline);
        }
        let mut figures = Table::default();
        for column in &columns {
            figures = figures.numbers(&column.head, &column.unit);
        }
        let place =
            |column: &crate::figures::Column| Place::number(column.show(column.figure(summary)));
        figures.row(columns.iter().map(place).collect());
        page.table(&figures);
        evidence(page, run);
        facts(page, run);
        page.body += "</details>\n";
    }
}

fn evidence(page: &mut Page, run: &Run) {
    let mut table = Table::default()
        .text("evidence")
        .numbers("value", "")
        .numbers("suspect from", "")
        .numbers("invalid from", "")
        .text("status");
    for evidence in &run.summary.verdict.evidence {
        let unit = |value: Option<f64>| {
            let text = value.map(|value| format!("{} {}", format::number(value), evidence.unit));
            Place::number(text.unwrap_or_else(|| format::NONE.to_owned()))
        };
        table.row(vec![
            evidence.name.name().into(),
            unit(evidence.value),
            unit(evidence.limit_suspect),
            unit(evidence.limit_invalid),
            Place::Status(evidence.status, evidence.status.to_string()),
        ]);
    }
    if !table.is_empty() {
        page.table(&table);
    }
}

fn facts(page: &mut Page, run: &Run) {
    let mut facts: Vec<String> = FACTS
        .iter()
        .filter_map(|(name, keys)| fact(run, keys).map(|value| format!("{name} {value}")))
        .collect();
    for phase in run.facts.phases() {
        let end = |s: Option<f64>| s.map_or_else(|| format::NONE.to_owned(), format::number);
        facts.push(format!("{} {} to {} s", phase.name, end(phase.start_s), end(phase.end_s)));
    }
    let facts: String = facts.iter().map(|fact| format!("<span>{}</span>", escape(fact))).collect();
    let _ = writeln!(page.body, "<p class=\"facts\">{facts}</p>");
}
