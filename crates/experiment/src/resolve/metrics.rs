//! Resolves metrics of programs.

use crate::file::Metric;
use crate::limits;
use crate::problem::Problem;
use crate::program_metric::{Pattern, ProgramMetric, Rule, Scrape, convert};
use crate::read::{At, Named, Sink};
use crate::source::Place;
use units::Span;

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
    let rule = rule(place, typed, &unit, sink)?;
    check_combination(typed, &rule, sink);
    Some(ProgramMetric {
        name: name.to_owned(),
        from: typed.from.as_ref().map(|from| from.value).unwrap_or_default(),
        rule,
        unit,
        optional: typed.optional.as_ref().is_some_and(|optional| optional.value),
    })
}

/// The one rule that a metric has.
fn rule(place: Place, typed: &Metric, unit: &str, sink: &mut Sink) -> Option<Rule> {
    let Metric { json: path, pattern, statsd: sent, prometheus: series, opentelemetry, .. } = typed;
    match [path, pattern, sent, series, opentelemetry] {
        [Some(path), None, None, None, None] => json(path, sink),
        [None, Some(pattern), None, None, None] => matched(pattern, unit, sink),
        [None, None, Some(name), None, None] => statsd(name, sink),
        [None, None, None, Some(series), None] => prometheus(series, typed, sink),
        [None, None, None, None, Some(series)] => exported(series, sink),
        all => {
            let text = match all.iter().all(|rule| rule.is_none()) {
                true => "a metric needs `json`, `match`, `statsd`, `prometheus` or `opentelemetry`",
                false => {
                    "a metric has only one of `json`, `match`, `statsd`, `prometheus` and \
                     `opentelemetry`"
                }
            };
            sink.add(Problem::new(text).at(place).label(
                "`json: end.sum.bits_per_second` is a path in JSON output, `match: \
                 'time=([0-9.]+)'` a regular expression for each line, `statsd: sensor.rtt` the \
                 name of a metric that the program sends, `prometheus: requests_total` one on a \
                 page that it serves, `opentelemetry: http.duration.p99` one of an SDK",
            ));
            None
        }
    }
}

/// Reports keys that the rule does not use.
fn check_combination(typed: &Metric, rule: &Rule, sink: &mut Sink) {
    let has_page = matches!(rule, Rule::Prometheus(_));
    let has_output = matches!(rule, Rule::Json(_) | Rule::Match(_));
    for (key, place, is_used, only) in [
        ("from", typed.from.as_ref().map(|at| at.place), has_output, "`json` and `match`"),
        ("port", typed.port.as_ref().map(|at| at.place), has_page, "`prometheus`"),
        ("path", typed.path.as_ref().map(|at| at.place), has_page, "`prometheus`"),
        ("every", typed.every.as_ref().map(|at| at.place), has_page, "`prometheus`"),
    ] {
        if let (Some(place), false) = (place, is_used) {
            let problem = Problem::new(format!("`{key}` has no effect here")).at(place);
            sink.add(problem.label(format!("it belongs to {only}; remove it")));
        }
    }
}

fn statsd(name: &At<String>, sink: &mut Sink) -> Option<Rule> {
    // These characters separate the parts of a line of StatsD: `name:value|type|@rate|#tags`.
    let fits = |c: char| !c.is_whitespace() && !c.is_control() && !":|@#".contains(c);
    if name.value.is_empty() || name.value.len() > 200 || !name.value.chars().all(fits) {
        let problem = Problem::new(format!("`{}` is not a name in StatsD's format", name.value));
        let label = "write it as the program sends it, before the colon: `sensor.rtt`";
        sink.add(problem.at(name.place).label(label));
        return None;
    }
    Some(Rule::Statsd(name.value.clone()))
}

fn exported(series: &At<String>, sink: &mut Sink) -> Option<Rule> {
    if record::SeriesSelector::parse(&series.value).is_none() {
        let text = format!("`{}` is not a metric of OpenTelemetry", series.value);
        sink.add(Problem::new(text).at(series.place).label(
            "write its name, with attributes if there are several: `requests{code=\"200\"}`",
        ));
        return None;
    }
    Some(Rule::Opentelemetry(series.value.clone()))
}

fn prometheus(series: &At<String>, typed: &Metric, sink: &mut Sink) -> Option<Rule> {
    if record::SeriesSelector::parse(&series.value).is_none() {
        let problem = Problem::new(format!("`{}` is not a series", series.value)).at(series.place);
        sink.add(
            problem.label("write its name, with labels if there are several: `up{job=\"a\"}`"),
        );
    }
    let path = typed.path.as_ref().map_or("/metrics", |path| &path.value);
    if let Some(at) = &typed.path
        && (!path.starts_with('/') || path.contains(|c: char| c.is_control() || c == ' '))
    {
        let problem = Problem::new(format!("`{path}` is not the path of a page")).at(at.place);
        sink.add(problem.label("write for example `/metrics`"));
    }
    let every = typed.every.as_ref().map_or(Span::from_ns(1_000_000_000), |every| every.value);
    if let Some(at) = &typed.every
        && every < Span::from_ns(1_000_000)
    {
        sink.add(Problem::new("`every` must be 1 ms or more").at(at.place));
    }
    let Some(at) = &typed.port else {
        let problem = Problem::new("`prometheus` needs `port`").at(series.place);
        sink.add(problem.label("add the TCP port of the program's page: `port: 8000`"));
        return None;
    };
    let port = limits::port(at, None, sink)?;
    Some(Rule::Prometheus(Scrape {
        series: series.value.clone(),
        port,
        path: path.to_owned(),
        every,
    }))
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
    // One unit of each kind is enough: those of one kind convert into each other.
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
