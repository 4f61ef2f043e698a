//! Evaluation of the checks (`expect`).

use crate::expect::{Comparison, Expect};
use crate::read::{Fixed, Named};
use record::Cell;
use record::Summary;
use serde::Serialize;
use serde_json::Value;

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Status {
    /// The check passes.
    #[serde(rename = "pass")]
    Pass,
    /// The check fails.
    #[serde(rename = "fail")]
    Fail,
    /// A required metric is missing.
    #[serde(rename = "not measured")]
    NotMeasured,
}

/// Reason for a missing metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Missing {
    /// Its cell was not run.
    #[serde(rename = "not run")]
    NotRun,
    /// Its cell has only runs with the verdict `invalid` or `failed`.
    #[serde(rename = "not trusted")]
    NotTrusted,
    /// The cell's other runs do not have the metric.
    #[serde(rename = "no figure")]
    NoFigure,
}

/// A check with its result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The check in words.
    pub say: String,
    /// Result.
    pub status: Status,
    /// Metric to check: the median over repeats.
    pub left: Option<f64>,
    /// Value to compare with, factor included.
    pub right: Option<f64>,
    /// The comparison with its numbers, or what is missing.
    pub text: String,
    /// Reason for `not measured`; `None` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
}

/// Evaluates each check against the summaries of a sweep's runs.
///
/// A metric is the median over repeats, without runs whose verdict is `invalid` or `failed`.
pub fn evaluate(expects: &[Expect], summaries: &[Value]) -> Vec<Outcome> {
    expects.iter().map(|expect| expect.outcome(summaries)).collect()
}

impl Expect {
    fn outcome(&self, summaries: &[Value]) -> Outcome {
        let name = self.metric.as_ref().map_or("", |metric| &metric.value);
        let of = cell(&self.of);
        let left = figure(name, &of, summaries);
        let factor = self.factor.as_ref().map_or(1.0, |factor| factor.value);
        let other_name = self.than_metric.as_ref().map_or(name, |metric| &metric.value);
        let than = match (&self.than, &self.than_metric) {
            (Some(_), _) => Some(cell(&self.than)),
            (None, Some(_)) => Some(of.clone()),
            (None, None) => None,
        };
        let right = match &than {
            Some(than) => figure(other_name, than, summaries).map(|value| value * factor),
            // `factor` belongs to another figure; the reader refuses it with `value`.
            None => self.value.as_ref().map(|value| value.value).ok_or(Missing::NoFigure),
        };
        let tolerance = self.tolerance.as_ref().map_or(0.0, |tolerance| tolerance.value.fraction());
        let is = self.is.as_ref().map_or(Comparison::Within, |is| is.value);
        let holds = |left: f64, right: f64| match is {
            Comparison::Above => left > right,
            Comparison::Below => left < right,
            Comparison::Within => (left - right).abs() <= tolerance * right.abs(),
        };
        let (status, text) = match (left, right) {
            (Ok(l), Ok(r)) => {
                let sign = match is {
                    Comparison::Above => ">".to_owned(),
                    Comparison::Below => "<".to_owned(),
                    Comparison::Within => format!("within {}% of", number(tolerance * 100.0)),
                };
                let whose = |than: &Cell| match &self.than_metric {
                    Some(metric) => format!("{} of {}", metric.value, values(than)),
                    None => values(than),
                };
                let other = match &than {
                    Some(than) if factor == 1.0 => whose(than),
                    Some(than) => format!("{} x {}", number(factor), whose(than)),
                    None => number(r),
                };
                let compared = format!("{} {sign} {}", number(l), number(r));
                let text = format!("{name} of {} {sign} {other}: {compared}", values(&of));
                (if holds(l, r) { Status::Pass } else { Status::Fail }, text)
            }
            _ => {
                let (missing_cell, missing_metric) = match left {
                    Err(_) => (&of, name),
                    Ok(_) => (than.as_ref().unwrap_or(&of), other_name),
                };
                let cell = match missing_cell.is_empty() {
                    true => "the experiment".to_owned(),
                    false => missing_cell.to_string(),
                };
                let text = match left.err().or(right.err()) {
                    Some(Missing::NotRun) => format!("{cell} was not run"),
                    Some(Missing::NotTrusted) => {
                        format!("{cell} has no valid or suspect run")
                    }
                    _ => format!("no run of {cell} has the metric {missing_metric}"),
                };
                (Status::NotMeasured, text)
            }
        };
        let missing = left.err().or(right.err());
        let (left, right) = (left.ok(), right.ok());
        Outcome { say: self.say().to_owned(), status, left, right, text, missing }
    }
}

/// Name of a cell in texts: that of its folder.
fn values(cell: &Cell) -> String {
    if cell.is_empty() { "the run".to_owned() } else { cell.file_name() }
}

fn cell(side: &Option<Fixed<Named<Fixed<String>>>>) -> Cell {
    let side = side.as_ref().map(|side| &side.value);
    side.into_iter().flat_map(Named::iter).map(|(axis, _, at)| (axis, at.value.as_str())).collect()
}

/// Median of `metric` over the runs of `cell`, without `invalid` and `failed` ones.
fn figure(metric: &str, cell: &Cell, summaries: &[Value]) -> Result<f64, Missing> {
    let is_of = |summary: &Value| {
        let given = summary.get("cell").and_then(Value::as_object);
        let text = |axis: &str| match given.and_then(|given| given.get(axis)) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => Some(other.to_string()),
            None => None,
        };
        cell.axes().all(|(axis, value)| text(axis).is_some_and(|text| text == value))
    };
    // In such a run the machine or a failure determined the figures (decision 7).
    let trusted = |summary: &&&Value| {
        !matches!(
            Summary::verdict_in(summary).status,
            record::Status::Invalid | record::Status::Failed
        )
    };
    let runs: Vec<&Value> = summaries.iter().filter(|summary| is_of(summary)).collect();
    if runs.is_empty() {
        return Err(Missing::NotRun);
    }
    if !runs.iter().any(|run| trusted(&run)) {
        return Err(Missing::NotTrusted);
    }
    let found = runs.iter().filter(trusted).filter_map(|summary| Summary::value(summary, metric));
    let mut found: Vec<f64> = found.collect();
    found.sort_by(f64::total_cmp);
    let middle = found.len() / 2;
    match found.len() {
        0 => Err(Missing::NoFigure),
        // The median, not the mean: one repeat with an outlier does not decide a check.
        n if n % 2 == 1 => Ok(found[middle]),
        _ => Ok((found[middle - 1] + found[middle]) / 2.0),
    }
}

/// Formats a number with about four digits, and all digits before the point.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 1000.0 || v == v.trunc() => 0,
        v if v >= 100.0 => 1,
        v if v >= 10.0 => 2,
        v if v >= 1.0 => 3,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    if digits > 0 { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::{Read, Sink};
    use crate::tree;
    use serde_json::json;

    fn check(text: &str) -> Expect {
        let (node, _) = tree::parse(text).unwrap();
        let mut sink = Sink::default();
        let expect = Expect::read(&node, &mut sink).unwrap();
        assert!(sink.problems.is_empty(), "{:?}", sink.problems);
        expect
    }

    fn run(model: &str, verdict: &str, mean: impl Into<Value>) -> Value {
        let mean: Value = mean.into();
        json!({"cell": {"model": model}, "verdict": {"status": verdict},
               "messages": {"rtd_ms": {"mean": mean}}})
    }

    fn outcome(text: &str, runs: &[Value]) -> Outcome {
        evaluate(&[check(text)], runs).remove(0)
    }

    const RATIO: &str = "{say: slow, metric: messages.rtd_ms.mean, of: {model: tcp},
                          is: above, factor: 150, than: {model: udp}}";

    #[test]
    fn medians_of_valid_runs_are_compared() {
        let runs = [
            run("tcp", "valid", 400),
            run("tcp", "suspect", 300),
            run("tcp", "valid", 345.6),
            run("tcp", "invalid", 9999),
            run("udp", "valid", 2),
            run("udp", "valid", 2.4),
        ];
        let outcome = outcome(RATIO, &runs);
        assert_eq!(outcome.status, Status::Pass);
        assert_eq!((outcome.left, outcome.right), (Some(345.6), Some(330.0)));
        assert_eq!(outcome.text, "messages.rtd_ms.mean of tcp > 150 x udp: 345.6 > 330");
    }

    #[test]
    fn a_check_that_does_not_hold_fails_with_its_numbers() {
        let outcome = outcome(RATIO, &[run("tcp", "valid", 3.1), run("udp", "valid", 2.2)]);
        assert_eq!(outcome.status, Status::Fail);
        assert_eq!(outcome.text, "messages.rtd_ms.mean of tcp > 150 x udp: 3.1 > 330");
        let json = serde_json::to_value(&outcome).unwrap();
        assert_eq!(json["status"], "fail");
    }

    #[test]
    fn a_missing_cell_and_a_missing_figure_are_not_measured() {
        let other =
            |verdict, mean: Value| vec![run("tcp", "valid", 3.1), run("udp", verdict, mean)];
        for (runs, missing, text) in [
            (vec![run("tcp", "valid", 3.1)], "not run", "model=udp was not run"),
            (
                other("valid", Value::Null),
                "no figure",
                "no run of model=udp has the metric messages.rtd_ms.mean",
            ),
            (other("invalid", json!(2.2)), "not trusted", "model=udp has no valid or suspect run"),
            (other("failed", json!(2.2)), "not trusted", "model=udp has no valid or suspect run"),
        ] {
            let outcome = outcome(RATIO, &runs);
            assert_eq!(outcome.text, text);
            let json = serde_json::to_value(&outcome).unwrap();
            assert_eq!(json["status"], "not measured");
            assert_eq!(json["missing"], missing);
        }
    }

    #[test]
    fn within_is_a_share_of_what_it_is_compared_with() {
        let text = "{say: near, metric: messages.rtd_ms.mean, of: {model: udp}, is: within,
                     value: 40, tolerance: 5 %}";
        let status = |mean: f64| outcome(text, &[run("udp", "valid", mean)]).status;
        assert_eq!(status(38.0), Status::Pass);
        assert_eq!(status(42.1), Status::Fail);
        let text = outcome(text, &[run("udp", "valid", 38.0)]).text;
        assert_eq!(text, "messages.rtd_ms.mean of udp within 5% of 40: 38 within 5% of 40");
    }

    #[test]
    fn two_figures_of_one_cell_are_compared() {
        let text = "{say: more than half, metric: messages.delivered, of: {model: udp}, is: above,
                     factor: 0.5, than_metric: messages.sent}";
        let mut run = run("udp", "valid", 1);
        run["messages"]["delivered"] = json!(60);
        run["messages"]["sent"] = json!(100);
        let outcome = outcome(text, &[run]);
        assert_eq!(outcome.status, Status::Pass);
        assert_eq!(outcome.text, "messages.delivered of udp > 0.5 x messages.sent of udp: 60 > 50");
    }

    #[test]
    fn numbers_are_short() {
        let numbers = [0.12345, 3.0, 2.18349, 39.33, 345.61, 21500.4];
        let texts: Vec<String> = numbers.into_iter().map(number).collect();
        assert_eq!(texts, ["0.1235", "3", "2.183", "39.33", "345.6", "21500"]);
    }
}
