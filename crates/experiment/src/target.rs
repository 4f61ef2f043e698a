//! A target for results, as given on the command line.

use crate::metric;
use crate::plan::Plan;
use crate::problem::{Errors, Problem};
use record::Summary;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::str::FromStr;
use units::{Ratio, Span};

/// Short names of common metrics.
const SHORT_NAMES: [(&str, &str); 6] = [
    ("mean", "messages.rtd_ms.mean"),
    ("p50", "messages.rtd_ms.p50"),
    ("p95", "messages.rtd_ms.p95"),
    ("p99", "messages.rtd_ms.p99"),
    ("max", "messages.rtd_ms.max"),
    ("loss", "messages.loss_pct"),
];

/// A metric and its limit, such as `p99 < 200 ms`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Target {
    text: String,
    metric: String,
    above: bool,
    /// Whether the limit itself meets the target.
    inclusive: bool,
    /// In the metric's unit.
    limit: f64,
}

impl Target {
    /// Metric of `summary.json`.
    pub fn metric(&self) -> &str {
        &self.metric
    }

    /// Value of the metric in a run's summary. `None` if the run does not have it.
    pub fn figure(&self, summary: &Value) -> Option<f64> {
        Summary::value(summary, &self.metric)
    }

    /// Value of the metric in a run's summary, or the worst possible value if the run does not have
    /// it, such as the 99th percentile if one in fifty messages was lost.
    pub fn figure_or_worst(&self, summary: &Value) -> f64 {
        self.figure(summary).unwrap_or(if self.above { f64::NEG_INFINITY } else { f64::INFINITY })
    }

    /// Whether `figure` meets the target.
    pub fn is_met_by(&self, figure: f64) -> bool {
        let is_limit = self.inclusive && figure == self.limit;
        is_limit || if self.above { figure > self.limit } else { figure < self.limit }
    }

    /// Checks that runs of `plan` have the metric.
    ///
    /// # Errors
    /// If not; the error names the nearest known metric.
    pub fn check(&self, plan: &Plan) -> Result<(), Errors> {
        let groups: Vec<String> = plan.nodes.iter().map(|node| node.group.clone()).collect();
        let names = metric::Names::of(plan);
        metric::check(&self.metric, &groups, &names).map_err(|advice| {
            let problem = Problem::new(format!("the results have no metric `{}`", self.metric));
            Errors::bare(problem.label(advice))
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Target {
    type Err = Errors;

    /// Parses `METRIC < VALUE`, or with `<=`, `>` or `>=`. Without a unit, the value is in the metric's
    /// unit; otherwise it is a time for `..._ms`, a share for `..._pct`.
    fn from_str(text: &str) -> Result<Self, Errors> {
        let wrong = |why: String| {
            let problem = Problem::new(format!("`{text}` is not a target: {why}"));
            Errors::bare(problem.label(
                "write a metric and its threshold, such as `p99 < 200 ms`, `loss < 1 %` or \
                 `messages.down_ms.p95 < 50 ms`",
            ))
        };
        let sign = text.find(['<', '>']).ok_or_else(|| wrong("it has no `<` or `>`".into()))?;
        let (name, rest) = (text[..sign].trim(), &text[sign + 1..]);
        let above = text[sign..].starts_with('>');
        let inclusive = rest.starts_with('=');
        let value = rest.strip_prefix('=').unwrap_or(rest).trim();
        let known = SHORT_NAMES.iter().find(|(short, _)| *short == name);
        let metric = known.map_or(name, |(_, metric)| metric).to_owned();
        let limit = limit(&metric, value)
            .filter(|limit| limit.is_finite())
            .ok_or_else(|| wrong(format!("`{value}` is not a value of {metric}")))?;
        let sign = match (above, inclusive) {
            (false, false) => "<",
            (false, true) => "<=",
            (true, false) => ">",
            (true, true) => ">=",
        };
        Ok(Self { text: format!("{name} {sign} {value}"), metric, above, inclusive, limit })
    }
}

/// Converts a value to the metric's unit.
fn limit(metric: &str, value: &str) -> Option<f64> {
    let number = || value.parse::<f64>().ok();
    let time = || value.parse::<Span>().ok().map(|span| span.as_ns() as f64);
    // An unknown metric is reported when the experiment is known.
    match Summary::figure(metric).map_or("", |figure| figure.unit) {
        "ms" => number().or_else(|| Some(time()? / 1e6)),
        "us" => number().or_else(|| Some(time()? / 1e3)),
        "%" => number().or_else(|| Some(value.parse::<Ratio>().ok()?.fraction() * 100.0)),
        _ => number(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_limits_and_units() {
        let summary = json!({"messages": {"rtd_ms": {"p99": 150.0}, "loss_pct": 0.5, "sent": 7}});
        for (text, met, figure) in [
            ("p99 < 200 ms", true, 150.0),
            ("p99<0.1 s", false, 150.0),
            ("p99 <= 160", true, 150.0),
            ("loss < 1 %", true, 0.5),
            ("loss < 0.4 %", false, 0.5),
            ("messages.sent > 7", false, 7.0),
            ("messages.sent >= 7", true, 7.0),
            ("messages.sent <= 7", true, 7.0),
            ("messages.sent < 7", false, 7.0),
            ("messages.sent <= 6", false, 7.0),
            ("messages.sent > 6", true, 7.0),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.figure(&summary), Some(figure), "{text}");
            assert_eq!(target.is_met_by(figure), met, "{text}");
        }
        let target: Target = "p50 < 1 ms".parse().unwrap();
        assert_eq!(target.figure(&summary), None);
        assert_eq!(target.to_string(), "p50 < 1 ms");
        assert_eq!("loss<=0 %".parse::<Target>().unwrap().to_string(), "loss <= 0 %");
    }

    #[test]
    fn what_is_no_target_says_how_to_write_one() {
        for (text, word) in [
            ("p99", "no `<` or `>`"),
            ("p99 < soon", "`soon` is not a value of messages.rtd_ms.p99"),
            ("loss < 3 ms", "not a value of messages.loss_pct"),
            ("p99 < NaN", "not a value"),
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("p99 < 200 ms"), "{error}");
        }
    }
}
