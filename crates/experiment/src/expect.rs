//! Checks of the results (`expect`).

use crate::matrix::Matrix;
use crate::metric;
use crate::problem::Problem;
use crate::read::{Fields, Fixed, Named, Read, Sink};
use crate::scalar::{Word, word};
use crate::source::Place;
use crate::tree::Node;
use schemars::JsonSchema;
use units::Ratio;

/// A check of the results.
#[derive(Debug, Clone, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Expect {
    /// Position in the file, for errors about missing keys.
    #[schemars(skip)]
    pub(crate) place: Place,
    /// The expectation in words.
    #[schemars(required)]
    pub(crate) say: Option<Fixed<String>>,
    /// Figure of `summary.json` to check, such as `messages.rtd_ms.mean`. Values: path of a figure.
    #[schemars(required)]
    pub(crate) metric: Option<Fixed<String>>,
    /// Cell to check: a value for each axis. Required with a matrix. Values: map of axes to values.
    pub(crate) of: Option<Fixed<Named<Fixed<String>>>>,
    /// Comparison.
    #[schemars(required)]
    pub(crate) is: Option<Fixed<Comparison>>,
    /// Multiplier of the figure of `than`. Only with `than` or `than_metric`. Default: 1.
    pub(crate) factor: Option<Fixed<f64>>,
    /// Cell to compare with: a value for each axis. This, `than_metric` or `value` is required.
    /// Values: map of axes to values.
    pub(crate) than: Option<Fixed<Named<Fixed<String>>>>,
    /// Figure to compare with, of the cell `than`, or of the same cell without `than`. Values: path
    /// of a figure. Default: `metric`.
    pub(crate) than_metric: Option<Fixed<String>>,
    /// Number to compare with, in place of `than` and `than_metric`.
    pub(crate) value: Option<Fixed<f64>>,
    /// Allowed difference, as a share of the other figure. Required with `within`, and only there.
    pub(crate) tolerance: Option<Fixed<Ratio>>,
}

/// How a metric compares with another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(crate) enum Comparison {
    /// Greater.
    Above,
    /// Less.
    Below,
    /// Within the tolerance.
    Within,
}

impl Word for Comparison {
    const WHAT: &'static str = "a comparison";
    const WORDS: &'static [(&'static str, Self)] =
        &[("above", Self::Above), ("below", Self::Below), ("within", Self::Within)];
}

impl Read for Comparison {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

impl Read for Expect {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a check", sink)?;
        let start = node.place.start;
        let expect = Self {
            place: Place { start, end: start },
            say: fields.required("say"),
            metric: fields.required("metric"),
            of: fields.optional("of"),
            is: fields.required("is"),
            factor: fields.optional("factor"),
            than: fields.optional("than"),
            than_metric: fields.optional("than_metric"),
            value: fields.optional("value"),
            tolerance: fields.optional("tolerance"),
        };
        let other = fields.has("than") || fields.has("than_metric");
        if other == fields.has("value") {
            let problem =
                Problem::new("an expectation needs either `than` or `value`").at(expect.place);
            let label = "`than` names another cell, `than_metric` another metric, `value` a number";
            fields.sink.add(problem.label(label));
        }
        if let Some(factor) = expect.factor.as_ref().filter(|_| fields.has("value")) {
            let problem = Problem::new("`factor` multiplies the figure of `than`, not a `value`");
            fields.sink.add(problem.at(factor.place));
        }
        // An invalid comparison is reported; its tolerance is not a second problem.
        let within = expect.is.as_ref().is_none_or(|is| is.value == Comparison::Within);
        if let Some(tolerance) = expect.tolerance.as_ref().filter(|_| !within) {
            let problem = Problem::new("only `within` has a `tolerance`").at(tolerance.place);
            fields.sink.add(problem);
        }
        if let Some(is) = &expect.is
            && is.value == Comparison::Within
            && !fields.has("tolerance")
        {
            let problem = Problem::new("`within` needs a `tolerance`").at(is.place);
            fields.sink.add(problem.label("write for example `tolerance: 10 %`"));
        }
        fields.finish();
        Some(expect)
    }
}

impl Expect {
    /// The check in words.
    pub fn say(&self) -> &str {
        self.say.as_ref().map_or("", |say| &say.value)
    }

    /// Whether a cell has a value that its axis lacks.
    pub(crate) fn names_missing_value(&self, matrix: &Matrix) -> bool {
        let sides = [&self.of, &self.than].into_iter().flatten();
        let lacks = |axis: &str, value: &str| {
            matrix.values(axis).is_some_and(|values| !values.iter().any(|known| known == value))
        };
        sides.flat_map(|side| side.value.iter()).any(|(axis, _, value)| lacks(axis, &value.value))
    }

    /// Reports unknown cells and metrics.
    pub(crate) fn check(
        &self,
        matrix: &Matrix,
        groups: &[String],
        names: &metric::Names,
        sink: &mut Sink,
    ) {
        for metric in [&self.metric, &self.than_metric].into_iter().flatten() {
            if let Err(advice) = metric::check(&metric.value, groups, names) {
                let problem =
                    Problem::new(format!("the results have no metric `{}`", metric.value));
                sink.add(problem.at(metric.place).label(advice));
            }
        }
        let missing = |cell: &Named<_>| matrix.axes().find(|axis| !cell.has(axis)).cloned();
        let mut sides = vec![(&self.than, self.than.is_some())];
        sides.insert(0, (&self.of, true));
        for (side, must) in sides {
            let empty = Named::default();
            let cell = side.as_ref().map_or(&empty, |side| &side.value);
            for (axis, place, value) in cell.iter() {
                if let Err(problem) = matrix.check(axis, None) {
                    sink.add(problem.at(place));
                } else if let Err(problem) = matrix.check(axis, Some(&value.value)) {
                    sink.add(problem.at(value.place));
                }
            }
            if let Some(axis) = missing(cell).filter(|_| must) {
                let place = side.as_ref().map_or(self.place, |side| side.place);
                let text = format!("the expectation does not set the axis `{axis}`");
                let problem = Problem::new(text).at(place);
                sink.add(problem.label("`of` and `than` need a value for each axis"));
            }
        }
    }
}
