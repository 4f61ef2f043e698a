//! Resolves metrics of programs.

use crate::file::Metric;
use crate::problem::Problem;
use crate::program_metric::{Pattern, ProgramMetric, Rule, convert};
use crate::read::{At, Named, Sink};
use crate::source::Place;

/// The metrics of a command, or of a group's program.
pub(super) fn of(typed: &Option<Named<Metric>>, sink: &mut Sink) -> Vec<ProgramMetric> {
    let all = typed.iter().flat_map(Named::iter);
    all.filter_map(|(name, place, metric)| one(name, place, metric, sink)).collect()
}

fn one(name: &str, place: Place, typed: &Metric, sink: &mut Sink) -> Option<ProgramMetric> {
    check_name(name, place, sink);
    let unit = typed.unit.as_ref().map_or(String::new(), |unit| unit.value.clone());
    if let Some(at) = &typed.unit
        && (unit.is_empty() || unit.chars().count() > 20 || unit.chars().any(char::is_control))
    {
        let problem = Problem::new("a unit has 1 to 20 characters").at(at.place);
        sink.add(problem.label("write for example `ms` or `readings/s`"));
    }
    let rule = match (&typed.json, &typed.pattern) {
        (Some(path), None) => json(path, sink)?,
        (None, Some(pattern)) => matched(pattern, &unit, sink)?,
        (both, _) => {
            let text = match both {
                Some(_) => "a metric has either `json` or `match`",
                None => "a metric needs `json` or `match`",
            };
            sink.add(Problem::new(text).at(place).label(
                "`json: end.sum.bits_per_second` is a path in JSON output, `match: \
                 'time=([0-9.]+)'` a regular expression for each line",
            ));
            return None;
        }
    };
    Some(ProgramMetric {
        name: name.to_owned(),
        from: typed.from.as_ref().map(|from| from.value).unwrap_or_default(),
        rule,
        unit,
        optional: typed.optional.as_ref().is_some_and(|optional| optional.value),
    })
}

/// A dot would end the name in `expect`.
fn check_name(name: &str, place: Place, sink: &mut Sink) {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || name.len() > 60 || !name.chars().all(fits) {
        let problem = Problem::new(format!("`{name}` cannot be the name of a metric")).at(place);
        sink.add(problem.label("use letters, digits, `-` and `_`, at most 60"));
    }
}

fn json(path: &At<String>, sink: &mut Sink) -> Option<Rule> {
    if path.value.split('.').any(str::is_empty) {
        let problem = Problem::new(format!("`{}` is not a path", path.value)).at(path.place);
        sink.add(problem.label("write keys with dots between, such as `end.sum.bits_per_second`"));
        return None;
    }
    Some(Rule::Json(path.value.clone()))
}

fn matched(pattern: &At<String>, unit: &str, sink: &mut Sink) -> Option<Rule> {
    let wrong = |text: String| Problem::new(text).at(pattern.place);
    let compiled = match Pattern::new(&pattern.value) {
        Ok(compiled) => compiled,
        Err(why) => {
            let problem = wrong(format!("`match` is not a regular expression: {why}"));
            sink.add(problem.label("write it in single quotes, such as `'time=([0-9.]+)'`"));
            return None;
        }
    };
    let converts = ["ms", "kbit/s", "kB"].iter().any(|known| convert(1.0, known, unit).is_some());
    if compiled.has_unit() && !converts {
        let problem =
            wrong("the pattern has a group `unit`, but the metric has no unit for it".into());
        sink.add(
            problem.label("add the unit to convert to: `unit: ms`, `unit: kbit/s` or `unit: B`"),
        );
    }
    Some(Rule::Match(pattern.value.clone()))
}
