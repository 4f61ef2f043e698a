//! Columns of the table of results, on the terminal and in the page.

use crate::{Run, Spread, Summary, Sweep, format};

type Lookup = Box<dyn Fn(&Summary) -> Option<f64>>;

/// One column of the table of results.
pub(crate) struct Column {
    /// Head of the column.
    pub(crate) head: String,
    /// Unit; empty if each value has its own.
    pub(crate) unit: &'static str,
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
    let path = |head: &str, unit, path: &'static str, show| Column {
        head: head.to_owned(),
        unit,
        messages: true,
        figure: Box::new(move |summary| summary.metric(path)),
        show,
    };
    let mut columns = loads(sweep);
    // In sweeps that have only loads, messages have no metrics.
    let has_messages = columns.is_empty()
        || sweep.runs.iter().any(|run| run.summary.metric("messages.sent") > Some(0.0));
    // Metrics with other names in runs of earlier versions.
    let either = |head: &str, unit, paths: [&'static str; 2], show| Column {
        head: head.to_owned(),
        unit,
        messages: true,
        figure: Box::new(move |summary| paths.iter().find_map(|path| summary.metric(path))),
        show,
    };
    let has = |path: &str| sweep.runs.iter().any(|run| run.summary.metric(path).is_some());
    let mut messages = vec![
        path("sent", "", "messages.sent", format::count),
        either("received", "", ["messages.received", "messages.delivered"], format::count),
        path("round trip mean", "ms", "messages.rtd_ms.mean", format::number),
        path("p50", "ms", "messages.rtd_ms.p50", format::number),
        path("p99", "ms", "messages.rtd_ms.p99", format::number),
    ];
    let answers = has("messages.unanswered_pct") || !has("messages.lost_pct");
    let answer_columns = match answers {
        true => vec![
            either("answered", "", ["messages.answered", "messages.replies"], format::count),
            either(
                "unanswered",
                "%",
                ["messages.unanswered_pct", "messages.loss_pct"],
                format::number,
            ),
        ],
        false => vec![path("lost", "%", "messages.lost_pct", format::number)],
    };
    messages.splice(2..2, answer_columns);
    columns.extend(messages.into_iter().filter(|_| has_messages));
    let about_messages = columns.len();
    for group in sweep.groups() {
        let name = group.to_owned();
        columns.push(Column {
            head: format!("{group} sent"),
            unit: "",
            messages: false,
            figure: Box::new(move |summary| summary.group(&name, "tx_bytes")),
            show: format::bytes,
        });
    }
    columns.extend([
        path("overhead", "", "groups.*.overhead_bytes", format::bytes),
        path("retransmitted", "", "groups.*.retransmitted_bytes", format::bytes),
        path("CPU", "", "groups.*.cpu_ms", format::cpu),
    ]);
    for group in sweep.groups() {
        let has = |run: &Run| run.summary.group(group, "energy_j_per_message").is_some();
        let energy = sweep.runs.iter().any(has);
        if energy {
            let name = group.to_owned();
            columns.push(Column {
                head: format!("{group} energy per message"),
                unit: "",
                messages: false,
                figure: Box::new(move |summary| summary.group(&name, "energy_j_per_message")),
                show: format::joules,
            });
        }
    }
    for column in columns.iter_mut().skip(about_messages) {
        column.messages = false;
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
    let column = |(name, closed): (&str, bool), what: &str, unit, figure: &'static str, show| {
        let head = if closed { format!("{name} (closed loop)") } else { name.to_owned() };
        let name = name.to_owned();
        Column {
            head: format!("{head} {what}"),
            unit,
            messages: true,
            figure: Box::new(move |summary: &Summary| summary.load(&name, figure)),
            show,
        }
    };
    // Only loads with connections or with NSTART can wait.
    let waits = |name: &str| {
        let figure = |run: &Run, figure| run.summary.load(name, figure).unwrap_or(0.0) > 0.0;
        let waited = |run: &Run| figure(run, "wait_ms.p50") || figure(run, "no_connection");
        sweep.runs.iter().any(waited)
    };
    let of = |load: (&str, bool)| {
        let wait =
            waits(load.0).then(|| column(load, "wait p99", "ms", "wait_ms.p99", format::number));
        [
            column(load, "requests", "", "scheduled", format::count),
            column(load, "unanswered", "%", "unanswered_pct", format::number),
            column(load, "response p50", "ms", "response_ms.p50", format::number),
            column(load, "response p99", "ms", "response_ms.p99", format::number),
            column(load, "slip p99", "ms", "slip_ms.p99", format::number),
        ]
        .into_iter()
        .chain(wait)
        .collect::<Vec<_>>()
    };
    names.into_iter().flat_map(of).collect()
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
