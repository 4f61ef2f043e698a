//! Facts about the runs, and each run in detail.

use super::escape::escape;
use super::page::{Page, View};
use super::table::{Place, Table, badge};
use crate::figures::columns;
use crate::{Run, Sweep, format};
use record::RunFacts;
use std::fmt::Write as _;

/// Facts about machine and version.
const FACTS: [Fact; 8] = [
    Fact { name: "clock", value: |run| run.clock.to_string() },
    Fact { name: "version", value: |run| run.thingbed.clone() },
    Fact { name: "commit", value: |run| run.commit.clone() },
    Fact { name: "kernel", value: |run| run.machine.kernel.clone() },
    Fact { name: "CPU", value: |run| run.machine.cpu.clone() },
    Fact { name: "cores", value: |run| run.machine.cores.to_string() },
    Fact { name: "seed", value: |run| run.seed.to_string() },
    Fact { name: "started", value: |run| run.started.clone() },
];

/// A fact about a run, as text; empty if it is unknown.
struct Fact {
    name: &'static str,
    value: fn(&RunFacts) -> String,
}

impl Fact {
    fn of(&self, run: &Run) -> Option<String> {
        run.facts.as_ref().map(self.value).filter(|text| !text.is_empty())
    }

    /// All distinct values, in the order of the runs.
    fn values(&self, sweep: &Sweep) -> Vec<String> {
        let mut all = Vec::new();
        for value in sweep.runs.iter().filter_map(|run| self.of(run)) {
            if !all.contains(&value) {
                all.push(value);
            }
        }
        all
    }
}

/// The facts below the title, as HTML.
pub(super) fn headline(sweep: &Sweep) -> String {
    let mut parts = Vec::new();
    // Facts that all runs share are said once; runs of one sweep may be from several machines or
    // versions.
    for fact in FACTS {
        let mut values = fact.values(sweep);
        let text = match (fact.name, values.as_slice()) {
            (_, []) => continue,
            // Real time is what a reader expects.
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
    page.folded_section("runs", "Runs");
    page.paragraph("Each run with its evidence.");
    let columns = columns(view.sweep);
    for run in &view.sweep.runs {
        let cell = view.cells.iter().position(|cell| *cell.cell == run.summary.cell);
        let summary = &run.summary;
        // The page of a single run does not name its folder, which contains the time: so identical
        // runs have identical pages.
        let folder = run.folder.file_name().filter(|_| run.folder != view.sweep.folder);
        let folder = folder.map(|name| name.to_string_lossy()).unwrap_or_default();
        let status = summary.verdict.status;
        let _ = write!(
            page.body,
            "<details class=\"run\" data-cell=\"{}\"><summary>{} {} <small>{}</small></summary>",
            cell.unwrap_or_default(),
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
    let mut facts: Vec<String> =
        FACTS.iter().filter_map(|fact| Some(format!("{} {}", fact.name, fact.of(run)?))).collect();
    for phase in run.facts.iter().flat_map(|facts| &facts.phases) {
        let (start, end) = (format::number(phase.start_s), format::number(phase.end_s));
        facts.push(format!("{} {start} to {end} s", phase.name));
    }
    let facts: String = facts.iter().map(|fact| format!("<span>{}</span>", escape(fact))).collect();
    let _ = writeln!(page.body, "<p class=\"facts\">{facts}</p>");
}
