//! Reasons why runs are not valid: equal reasons of several runs or nodes are one entry; worst first.

use crate::sweep::first_names;
use crate::{Reason, Run, Status, Sweep, format};
use std::collections::BTreeSet;

/// A reason of one or more runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grouped {
    /// Status that the reason gives to these runs.
    pub status: Status,
    /// Its name with the range of its values and its limit; failures have their text.
    pub headline: String,
    /// What it means for the results, and the worst case.
    pub explanation: String,
    /// The runs with this reason.
    pub runs: Vec<String>,
}

impl Grouped {
    /// Number of runs with the reason, and the first `most` names.
    pub fn place(&self, of: usize, most: usize) -> String {
        match self.runs.len() {
            _ if of == 1 => String::new(),
            1 => format!("in {}", self.runs[0]),
            n => format!("in {n} of {of} runs: {}", first_names(&self.runs, most)),
        }
    }
}

impl Sweep {
    /// All reasons, worst first, one entry per reason.
    pub(crate) fn reasons(&self) -> Vec<Grouped> {
        let mut groups: Vec<Vec<(&Run, Reason)>> = Vec::new();
        for run in &self.runs {
            for reason in of(run) {
                let same = |group: &Vec<(&Run, Reason)>| {
                    let known = &group[0].1;
                    let alike = (known.status, &known.name) == (reason.status, &reason.name);
                    // Values of one kind of evidence differ in each run; their range is shown. Failures are
                    // alike if their texts are, but for the numbers of nodes and times; reasons of earlier
                    // versions have their values in the text.
                    let texts = || match reason.name.name() {
                        "" => known.detail == reason.detail,
                        _ => without_numbers(&known.detail) == without_numbers(&reason.detail),
                    };
                    alike && (reason.value.is_some() || texts())
                };
                match groups.iter_mut().find(|group| same(group)) {
                    Some(group) => group.push((run, reason)),
                    None => groups.push(vec![(run, reason)]),
                }
            }
        }
        let mut grouped: Vec<Grouped> = groups.iter().map(|group| grouped(group)).collect();
        // Stable: equally bad reasons keep the order of the runs.
        grouped.sort_by_key(|group| std::cmp::Reverse(group.status));
        grouped
    }
}

/// The reasons of a run. Reasons of earlier versions get the status of their run.
fn of(run: &Run) -> Vec<Reason> {
    let verdict = &run.summary.verdict;
    if verdict.status == Status::Valid {
        return Vec::new();
    }
    let mut reasons = verdict.reasons.clone();
    if reasons.is_empty() {
        let detail = "the run gives no reason".to_owned();
        reasons.push(Reason { detail, ..Reason::default() });
    }
    for reason in reasons.iter_mut().filter(|reason| reason.name.name().is_empty()) {
        reason.status = verdict.status;
    }
    reasons
}

fn grouped(group: &[(&Run, Reason)]) -> Grouped {
    let share = |reason: &Reason| match (reason.value, reason.limit) {
        // As a share of its limit, because limits may differ between cells.
        (Some(value), Some(limit)) if limit > 0.0 => value / limit,
        (value, _) => value.unwrap_or(0.0),
    };
    // The first one among equals.
    let worst = group.iter().rev().max_by(|a, b| share(&a.1).total_cmp(&share(&b.1)));
    let Some((worst_run, worst)) = worst else {
        return Grouped {
            status: Status::Unknown,
            headline: String::new(),
            explanation: String::new(),
            runs: Vec::new(),
        };
    };
    let values: Vec<f64> = group.iter().filter_map(|(_, reason)| reason.value).collect();
    let headline = match worst.limit {
        Some(limit) if !values.is_empty() => {
            let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(least, most), value| {
                (least.min(*value), most.max(*value))
            });
            let range = match least == most {
                true => format::quantity(most, &worst.unit),
                false => format!(
                    "{} to {}",
                    format::quantity(least, &worst.unit),
                    format::quantity(most, &worst.unit)
                ),
            };
            format!("{}: {range} (limit {})", worst.name, format::quantity(limit, &worst.unit))
        }
        _ if worst.name.name().is_empty() => worst.detail.clone(),
        _ => format!("{}: {}", worst.name, worst.detail),
    };
    let mut parts = vec![sentence(&worst.meaning)];
    if worst.value.is_some() && !worst.detail.is_empty() {
        let place = match group.len() {
            1 => String::new(),
            _ => format!(" (in {})", worst_run.name()),
        };
        parts.push(sentence(&format!("{}{place}", worst.detail)));
    }
    let texts: BTreeSet<_> = group.iter().map(|(_, reason)| &reason.detail).collect();
    if worst.value.is_none() && texts.len() > 1 {
        parts.push(format!(
            "{} more reasons differ from this one in numbers only.",
            texts.len() - 1
        ));
    }
    parts.retain(|part| !part.is_empty());
    let mut runs: Vec<String> = group.iter().map(|(run, _)| run.name()).collect();
    // The groups have the order of the runs.
    runs.dedup();
    Grouped { status: worst.status, headline, explanation: parts.join(" "), runs }
}

fn without_numbers(text: &str) -> String {
    text.replace(|c: char| c.is_ascii_digit(), "")
}

/// Text as a sentence, with an initial capital and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return String::new() };
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{}{}{end}", first.to_uppercase(), letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;
    use std::path::Path;

    fn run(repeat: u64, reasons: serde_json::Value) -> Run {
        let verdict = serde_json::json!({"status": "invalid", "reasons": reasons});
        let summary = serde_json::json!({"cell": {}, "repeat": repeat, "verdict": verdict});
        let summary = Summary::from_json(&summary.to_string()).unwrap();
        Run::with_summary(Path::new("/nowhere"), summary)
    }

    fn stall(value: f64) -> serde_json::Value {
        serde_json::json!({"status": "suspect", "name": "longest stall", "value": value,
            "limit": 30_000.0, "unit": "us", "meaning": "frames may be late",
            "detail": format!("at {value}")})
    }

    #[test]
    fn each_reason_has_its_own_status_and_thirty_runs_one_line() {
        let invalid = serde_json::json!({"status": "invalid", "name": "messages never sent",
            "value": 3.0, "limit": 0.0, "unit": "messages", "meaning": "", "detail": ""});
        let mut runs: Vec<Run> = (0..30)
            .map(|i| run(i, serde_json::json!([stall(31_000.0 + 1e3 * i as f64)])))
            .collect();
        runs[7] = run(7, serde_json::json!([stall(95_500.0), invalid]));
        let sweep = Sweep { runs, ..Sweep::default() };
        let reasons = sweep.reasons();
        assert_eq!(reasons.len(), 2);
        assert_eq!(reasons[0].status, Status::Invalid);
        assert_eq!(reasons[0].headline, "messages never sent: 3 messages (limit 0 messages)");
        assert_eq!(reasons[1].status, Status::Suspect);
        assert_eq!(reasons[1].headline, "longest stall: 31.0 ms to 95.5 ms (limit 30.0 ms)");
        assert!(reasons[1].place(30, 2).starts_with("in 30 of 30 runs: "));
        assert!(reasons[1].explanation.starts_with("Frames may be late. At 95500 (in "));
    }

    #[test]
    fn reasons_of_earlier_versions_have_the_status_of_their_run() {
        let sweep =
            Sweep { runs: vec![run(0, serde_json::json!(["steal: 12 %"]))], ..Sweep::default() };
        let reasons = sweep.reasons();
        assert_eq!(
            (reasons[0].status, reasons[0].headline.as_str()),
            (Status::Invalid, "steal: 12 %")
        );
        assert_eq!(reasons[0].place(1, 4), "");
    }

    #[test]
    fn failures_that_differ_in_more_than_numbers_have_own_entries() {
        let died = |who: &str| {
            serde_json::json!({"status": "failed", "name": "a program failed", "value": null,
                "limit": null, "unit": "", "meaning": "not all worked", "detail": who})
        };
        let of_fleet = (1..=250).map(|number| died(&format!("meter-{number} died"))).collect();
        let runs = vec![
            run(0, serde_json::json!([died("meter-1 ended with status 1")])),
            run(1, serde_json::json!([died("meter-1 ended with status 1"), died("gateway died")])),
            run(2, serde_json::Value::Array(of_fleet)),
        ];
        let reasons = Sweep { runs, ..Sweep::default() }.reasons();
        let lines: Vec<_> = reasons.iter().map(|r| (r.headline.as_str(), r.runs.len())).collect();
        let expected = [
            ("a program failed: meter-1 ended with status 1", 2),
            ("a program failed: gateway died", 1),
            ("a program failed: meter-1 died", 1),
        ];
        assert_eq!(lines, expected);
        assert_eq!(reasons[0].explanation, "Not all worked.");
        let more = "Not all worked. 249 more reasons differ from this one in numbers only.";
        assert_eq!(reasons[2].explanation, more);
    }
}
