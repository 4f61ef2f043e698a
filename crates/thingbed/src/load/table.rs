//! What came of a load, for a terminal.

use comfy_table::{CellAlignment, LineStyle, Table, presets};
use load::{Figures, PaceFigures, Percentiles, Series};
use trace::SpreadSummary;

/// All of it, the verdict on the schedule first.
pub fn text(figures: &Figures) -> String {
    let all = figures.all();
    let counts = all.counts;
    let seconds = figures.span as f64 / 1e9;
    let mut text = format!("{}\n", verdict(figures));
    text += &format!(
        "{}: {} scheduled, {} sent in {seconds:.3} s ({:.1}/s), {} answered, {} timed out, {} \
         unreachable, {} unsent{}\n",
        name(figures),
        counts.scheduled,
        counts.sent,
        counts.sent as f64 / seconds.max(1e-9),
        counts.answered,
        counts.timed_out,
        counts.unreachable,
        counts.unsent,
        if counts.without_answer > 0 {
            format!(", {} without an answer wanted", counts.without_answer)
        } else {
            String::new()
        }
    );
    text += &odd(figures);
    text += &format!("\n{}\n", latencies(figures));
    text += "Of all scheduled: what has no answer ranks above every answer, `-` is among those. \
             Response is from the\nintended moment, service from the moment sent, slip between \
             the two.\n";
    if figures.closed.is_none() {
        text += &format!("\n{}\n", submission(figures));
        text += &format!(
            "The distributions are {:.1} % apart (Kolmogorov and Smirnov).\n",
            100.0 * figures.submission.expected.distance(&figures.submission.submitted)
        );
    }
    text
}

fn name(figures: &Figures) -> String {
    match figures.closed {
        Some(users) => format!("closed loop, {users} users"),
        None => "open loop".to_owned(),
    }
}

fn verdict(figures: &Figures) -> &'static str {
    if figures.closed.is_some() {
        return "CLOSED LOOP: requests waited for answers, so delays hide what was not sent meanwhile";
    }
    match figures.pace() {
        PaceFigures::Kept => "schedule kept",
        PaceFigures::Blurred => {
            "SCHEDULE BLURRED: the rate was kept, and single requests were late; see slip"
        }
        PaceFigures::NotKept => {
            "SCHEDULE NOT KEPT: this machine could not submit it; the figures are of another load"
        }
    }
}

/// What went wrong, and how often.
fn odd(figures: &Figures) -> String {
    let mut text = String::new();
    for (count, what) in [
        (figures.late, "answers came after the timeout"),
        (figures.twice, "answers came again"),
        (figures.garbage, "things came that are no message"),
        (figures.stray, "answers came to nothing that was asked"),
        (figures.faults, "lines of the trace are no requests"),
    ] {
        if count > 0 {
            text += &format!("  {count} {what}\n");
        }
    }
    for (code, count) in &figures.codes {
        if code.as_str() >= "4" && code != "ok" {
            text += &format!("  {count} answers say {code}\n");
        }
    }
    for (reason, count) in &figures.reasons {
        text += &format!("  {count} x {reason}\n");
    }
    text
}

fn table(heads: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).force_no_tty();
    table.style_mut().row_separator = LineStyle::none();
    table.set_header(heads);
    table
}

fn right(mut table: Table) -> Table {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn latencies(figures: &Figures) -> Table {
    let heads = ["us", "of", "mean", "p50", "p90", "p99", "p99.9", "max"];
    let mut heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    // Nobody takes one for the other.
    heads[0] = format!("us, {}", name(figures));
    let mut table = table(heads);
    let mut rows = |series: &Series, class: &str| {
        let counts = series.counts;
        for (what, times, of) in [
            ("response", &series.response, counts.scheduled - counts.without_answer),
            ("service", &series.service, counts.sent - counts.without_answer),
            ("slip", &series.slip, counts.sent),
        ] {
            let p = Percentiles::of(times, of);
            let mut row = vec![format!("{class} {what}"), of.to_string()];
            row.push(if times.count() == of && of > 0 {
                figure(times.mean_ns() / 1e3)
            } else {
                "-".to_owned()
            });
            row.extend(
                [p.p50, p.p90, p.p99, p.p99_9, p.max]
                    .map(|value| value.map_or("-".to_owned(), figure)),
            );
            table.add_row(row);
        }
    };
    let classes = figures.classes();
    for class in &classes {
        rows(class, class.method.name());
    }
    if classes.len() > 1 {
        rows(&figures.all(), "all");
    }
    right(table)
}

fn submission(figures: &Figures) -> Table {
    let heads = ["us between requests", "mean", "p1", "p5", "p25", "p50", "p75", "p95", "p99"];
    let mut table = table(heads.iter().map(|head| (*head).to_owned()).collect());
    let mut row = |name: &str, of: SpreadSummary| {
        let shown = [of.mean, of.p1, of.p5, of.p25, of.p50, of.p75, of.p95, of.p99].map(figure);
        table.add_row(std::iter::once(name.to_owned()).chain(shown));
    };
    row("expected", figures.submission.expected.summary());
    row("submitted", figures.submission.submitted.summary());
    right(table)
}

/// Three significant digits, or all before the point.
fn figure(value: f64) -> String {
    let places = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.places$}")
}
