//! Columns of the table of results, on the terminal and in the page.

use crate::{Run, Spread, Summary, Sweep, format};
use record::{
    Figure, Group, Load, LoadTimes, Messages, RequestCounts, Samples, Scope, Summary as Figures,
    Times,
};

use std::borrow::Cow;

type Lookup = Box<dyn Fn(&Summary) -> Option<f64>>;

/// One column of the table of results.
pub(crate) struct Column {
    /// Head of the column.
    pub(crate) head: String,
    /// Unit; empty if each value has its own.
    pub(crate) unit: Cow<'static, str>,
    /// Unit of the metric's values as numbers.
    pub(crate) base_unit: Cow<'static, str>,
    /// Whether the metric is about messages; else about bytes and CPU.
    pub(crate) messages: bool,
    figure: Lookup,
    show: fn(f64) -> String,
}

impl Column {
    /// The metric of one run.
    pub(crate) fn figure(&self, summary: &Summary) -> Option<f64> {
        (self.figure)(summary)
    }

    /// A value as text.
    pub(crate) fn show(&self, value: Option<f64>) -> String {
        value.map_or_else(|| format::NONE.to_owned(), self.show)
    }

    /// The median, and the range if it differs.
    pub(crate) fn texts(&self, spread: Option<Spread>) -> (String, Option<String>) {
        range(spread, self.show)
    }
}

/// A spread as median, and as range if both ends read differently.
pub(crate) fn range(spread: Option<Spread>, show: fn(f64) -> String) -> (String, Option<String>) {
    let Some(spread) = spread else { return (format::NONE.to_owned(), None) };
    let (min, max) = (show(spread.min), show(spread.max));
    // Write a common unit only once.
    // `10–20 ms`, not `10 ms–20 ms`.
    let short = match (min.split_once(' '), max.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => number.to_owned(),
        _ => min.clone(),
    };
    // After a negative number, a dash would look like a minus sign.
    let to = if spread.min < 0.0 { " to " } else { "–" };
    (show(spread.median), (min != max).then(|| format!("{short}{to}{max}")))
}

/// The columns of a sweep.
pub(crate) fn columns(sweep: &Sweep) -> Vec<Column> {
    let mut columns = loads(sweep);
    columns.extend(programs(sweep));
    // In sweeps that have only loads or programs, messages have no metrics.
    let sent = |run: &Run| run.summary.figure(&[Figures::messages, Messages::sent]);
    // Commands send no messages that Thingbed counts, so zeros would be wrong.
    let only_commands = sweep.runs.iter().all(|run| run.topology.only_commands);
    let is_expected = columns.is_empty() && !only_commands;
    if is_expected || sweep.runs.iter().any(|run| sent(run) > Some(0.0)) {
        columns.extend(messages(sweep));
    }
    columns.extend(groups(sweep));
    columns
}

/// A column of the figure at the end of `path`.
fn column(
    head: String,
    path: &[Figure],
    of: impl Fn(&Summary, &[Figure]) -> Option<f64> + 'static,
) -> Column {
    let path = path.to_vec();
    // The unit is that of the nearest object that has one.
    // A mean of `rtd_ms` has its unit in the row of `rtd_ms`.
    let unit = path.iter().rev().map(|figure| figure.unit).find(|unit| !unit.is_empty());
    Column {
        head,
        unit: unit.unwrap_or_default().into(),
        base_unit: unit.unwrap_or_default().into(),
        messages: true,
        show: if unit.is_some() { format::number } else { format::count },
        figure: Box::new(move |summary| of(summary, &path)),
    }
}

/// The columns of messages; of their answers, unless all are one-way.
fn messages(sweep: &Sweep) -> Vec<Column> {
    let of = |head: &str, path: &[Figure]| {
        let path = [&[Figures::messages], path].concat();
        column(head.to_owned(), &path, Summary::figure)
    };
    let count = |figure: Figure| of(figure.head, &[figure]);
    let has = |figure: Figure| {
        let figure = |run: &Run| run.summary.figure(&[Figures::messages, figure]);
        sweep.runs.iter().any(|run| figure(run).is_some())
    };
    let mut columns = vec![count(Messages::sent), count(Messages::received)];
    // If neither is there, the columns stay, and show that they are not measured.
    if has(Messages::unanswered_pct) || !has(Messages::lost_pct) {
        columns.extend([count(Messages::answered), count(Messages::unanswered_pct)]);
    } else {
        columns.push(count(Messages::lost_pct));
    }
    let times = Messages::rtd_ms;
    columns.push(of(&format!("{} {}", times.head, Times::mean.head), &[times, Times::mean]));
    columns.extend([Times::p50, Times::p99].map(|figure| of(figure.head, &[times, figure])));
    columns
}

/// The columns of groups, as the rows of their figures say.
fn groups(sweep: &Sweep) -> Vec<Column> {
    let mut columns = Vec::new();
    let mut add = |head: String, figure: Figure, of: Lookup| {
        let show = match figure.unit {
            "B" => format::bytes,
            "J" => format::joules,
            "ms" => format::cpu,
            _ => format::count,
        };
        let (unit, base_unit) = ("".into(), figure.unit.into());
        columns.push(Column { head, unit, base_unit, messages: false, show, figure: of });
    };
    for figure in Group::FIGURES.iter().copied() {
        match figure.column {
            None => {}
            Some(Scope::AllGroups) => {
                let of = Box::new(move |summary: &Summary| summary.all_groups(figure));
                add(figure.head.to_owned(), figure, of);
            }
            // A column only for groups that have the figure: energy exists for groups with a board.
            Some(Scope::EachGroup) => {
                for group in sweep.groups() {
                    let has = |run: &Run| run.summary.group(group, figure).is_some();
                    if sweep.runs.iter().any(has) {
                        let name = group.to_owned();
                        let of = Box::new(move |summary: &Summary| summary.group(&name, figure));
                        add(format!("{group} {}", figure.head), figure, of);
                    }
                }
            }
        }
    }
    columns
}

/// The columns of loads: answers, and response times from the scheduled time of a request. A closed
/// loop is marked as one.
fn loads(sweep: &Sweep) -> Vec<Column> {
    let mut names: Vec<(&str, bool)> = Vec::new();
    for load in sweep.runs.iter().flat_map(|run| run.summary.loads()) {
        if !names.iter().any(|(name, _)| *name == load.name) {
            names.push((load.name, load.closed));
        }
    }
    let of_load = |(name, closed): (&str, bool), path: &[Figure]| {
        let head = if closed { format!("{name} (closed loop)") } else { name.to_owned() };
        let heads: Vec<&str> = path.iter().map(|figure| figure.head).collect();
        let name = name.to_owned();
        column(format!("{head} {}", heads.join(" ")), path, move |summary, path| {
            summary.load(&name, path)
        })
    };
    // Only loads with connections or with NSTART can wait.
    let waits = |name: &str| {
        let any = |run: &Run, path: &[Figure]| run.summary.load(name, path) > Some(0.0);
        let waited = |run: &Run| {
            any(run, &[Load::wait_ms, LoadTimes::p50]) || any(run, &[RequestCounts::no_connection])
        };
        sweep.runs.iter().any(waited)
    };
    let of = |load: (&str, bool)| {
        let mut columns = vec![
            of_load(load, &[RequestCounts::scheduled]),
            of_load(load, &[Load::unanswered_pct]),
            of_load(load, &[Load::response_ms, LoadTimes::p50]),
            of_load(load, &[Load::response_ms, LoadTimes::p99]),
            of_load(load, &[Load::slip_ms, LoadTimes::p99]),
        ];
        if waits(load.0) {
            columns.push(of_load(load, &[Load::wait_ms, LoadTimes::p99]));
        }
        columns
    };
    names.into_iter().flat_map(of).collect()
}

/// The columns of programs' metrics: the mean and the 99th percentile; of single values only the
/// value, of counted matches their number.
fn programs(sweep: &Sweep) -> Vec<Column> {
    let all = || sweep.runs.iter().flat_map(|run| run.summary.programs());
    let mut names: Vec<(String, String)> = Vec::new();
    for found in all() {
        let name = (found.program.to_owned(), found.metric.to_owned());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let columns_of = |(program, metric): (String, String)| {
        let own = || all().filter(|found| found.program == program && found.metric == metric);
        let unit = own().map(|found| found.samples.unit).find(|unit| !unit.is_empty());
        let many = own().any(|found| found.samples.count > 1);
        let is_count = own().all(|found| found.samples.mean.is_none());
        // Percentiles of one value are that value.
        let shown: &[Figure] = match (is_count, many) {
            (true, _) => &[Samples::count],
            (false, true) => &[Samples::mean, Samples::p99],
            (false, false) => &[Samples::mean],
        };
        let column = |figure: &Figure| {
            let (program, metric, figure) = (program.clone(), metric.clone(), *figure);
            let head = match shown.len() {
                1 => format!("{program} {metric}"),
                _ => format!("{program} {metric} {}", figure.head),
            };
            let unit: Cow<'static, str> =
                if is_count { "".into() } else { unit.clone().unwrap_or_default().into() };
            Column {
                head,
                base_unit: unit.clone(),
                unit,
                messages: true,
                show: if is_count { format::count } else { format::number },
                figure: Box::new(move |summary| summary.program(&program, &metric, figure)),
            }
        };
        shown.iter().map(column).collect::<Vec<_>>()
    };
    names.into_iter().flat_map(columns_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_shown_when_it_reads_differently() {
        let spread = Spread::of([1.42e6, 1.43e6, 1.44e6]);
        assert_eq!(range(spread, format::bytes), ("1.43 MB".into(), Some("1.42–1.44 MB".into())));
        assert_eq!(range(Spread::of([600.0, 600.0]), format::count), ("600".into(), None));
        assert_eq!(range(None, format::count), ("–".into(), None));
    }
}
