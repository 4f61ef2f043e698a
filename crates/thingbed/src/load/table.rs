//! Results of a load, as text for the terminal.

use comfy_table::{CellAlignment, LineStyle, Table, presets};
use load::{Figures, Series};
use record::event::Pace;
use record::{Observed, Percentiles};
use trace::HistogramSummary;
use units::Histogram;

/// All results; the verdict on the schedule comes first.
pub fn text(figures: &Figures) -> String {
    let all = figures.all();
    let counts = all.counts;
    let seconds = figures.span.as_ms() / 1e3;
    let mut text = format!("{}\n", verdict(figures));
    text += &format!(
        "{}: {} scheduled, {} sent in {seconds:.3} s ({:.1}/s), {} answered, {} timed out{}, {} \
         unreachable, {} unsent{}\n",
        name(figures),
        counts.scheduled,
        counts.sent,
        // A load without requests lasts no time.
        counts.sent as f64 / seconds.max(1e-9),
        counts.answered,
        counts.timed_out,
        match counts.no_connection {
            0 => String::new(),
            count => format!(" ({count} of them not sent: no free connection in time)"),
        },
        counts.unreachable,
        counts.unsent,
        match counts.without_answer {
            0 => String::new(),
            count => format!(", {count} sent without waiting for an answer"),
        }
    );
    text += &odd(figures);
    text += &format!("\n{}\n", latencies(figures));
    let waits = all.wait.is_some();
    text += if waits {
        "response = wait + slip + service. wait: until a connection to the target is free. slip: \
         lateness of this\nmachine. service: from sending to the answer. "
    } else {
        "response = slip + service. slip: lateness of this machine. service: from sending to the \
         answer.\n"
    };
    text += "A request without an answer counts as slower than any answer: `-` means that the \
             percentile is\none of those requests.\n";
    if figures.closed.is_none() {
        text += &format!("\n{}\n", submission(figures));
        text += &format!(
            "Interarrival time, scheduled against submitted: the distributions differ by {:.1} % \
             (Kolmogorov-Smirnov).\n",
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
        return "CLOSED LOOP: each user waits for its answer, so a slow target gets fewer requests";
    }
    // Compare the median, because a few requests at the start always wait for the first connection.
    let held_up = figures.all().wait.is_some_and(|wait| wait.quantile_ns(0.5) > 0);
    // Decision 39: a wait for a connection is the target's time, so it does not count against this
    // machine.
    match figures.pace() {
        Pace::Kept if held_up => {
            "schedule kept by this machine; the target was slower, and requests waited for a free \
             connection: see wait"
        }
        Pace::Kept => "schedule kept",
        Pace::Blurred => {
            "SCHEDULE BLURRED: this machine kept the rate but sent some requests late: see slip"
        }
        Pace::NotKept => {
            "SCHEDULE NOT KEPT: this machine did not send the requests in time; the results are \
             those of another load"
        }
    }
}

/// Unusual events and their counts.
fn odd(figures: &Figures) -> String {
    let mut text = String::new();
    for (count, what) in [
        (figures.others.late, "answers arrived after the timeout"),
        (figures.others.duplicates, "answers arrived twice"),
        (figures.others.malformed, "messages were malformed"),
        (figures.others.unexpected, "answers belong to no request"),
        (
            figures.others.retransmitted,
            "messages were retransmitted because no acknowledgement arrived",
        ),
        (figures.faults, "lines of the trace are not requests"),
    ] {
        if count > 0 {
            text += &format!("  {count} {what}\n");
        }
    }
    text += &observed(figures.observed);
    for (code, count) in &figures.codes {
        // Codes are text: `4.04` of CoAP and `404` of HTTP, so errors begin with 4 or 5 in both.
        if code.as_str() >= "4" && code != "ok" {
            text += &format!("  {count} answers have the code {code}\n");
        }
    }
    for (reason, count) in &figures.reasons {
        text += &format!("  {count} x {reason}\n");
    }
    text
}

/// Statistics of CoAP observations.
fn observed(counts: Observed) -> String {
    if counts == Observed::default() {
        return String::new();
    }
    let mut text = format!(
        "  {} observations registered, {} notifications, {} observations deregistered\n",
        counts.registered, counts.notifications, counts.deregistered
    );
    for (count, what) in [
        (counts.refused, "observations were refused: the target answered once"),
        (counts.outdated, "notifications arrived after a newer one"),
        (counts.stale, "notifications arrived after the value before was stale (Max-Age)"),
        (counts.unanswered, "deregistrations got no answer"),
        (counts.ended, "observations were ended by the target"),
    ] {
        if count > 0 {
            text += &format!("  {count} {what}\n");
        }
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
    heads[0] = format!("us, {}", name(figures));
    let mut table = table(heads);
    let mut rows = |series: &Series, class: &str| {
        let counts = series.counts;
        let own =
            |what, times: &Option<Histogram>, of: u64| times.clone().map(|times| (what, times, of));
        let notified = series.notification.as_ref().map_or(0, Histogram::count);
        let rows = [
            // The denominators include requests without an answer: they count as slower than any
            // answer, so that percentiles do not get better when a target drops requests.
            Some(("response", series.response.clone(), counts.scheduled - counts.without_answer)),
            own("wait", &series.wait, counts.sent + counts.no_connection),
            Some(("slip", series.slip.clone(), counts.sent)),
            Some(("service", series.service.clone(), counts.sent - counts.without_answer)),
            own("notification interval", &series.notification, notified),
        ];
        for (what, times, of) in rows.into_iter().flatten() {
            let times = &times;
            let p = Percentiles::of(times, of);
            let mut row = vec![format!("{class} {what}"), of.to_string()];
            // A mean over the answered requests only would leave out the slowest ones.
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
    let heads = ["us, interarrival time", "mean", "p1", "p5", "p25", "p50", "p75", "p95", "p99"];
    let mut table = table(heads.iter().map(|head| (*head).to_owned()).collect());
    let mut row = |name: &str, of: HistogramSummary| {
        let shown = [of.mean, of.p1, of.p5, of.p25, of.p50, of.p75, of.p95, of.p99].map(figure);
        table.add_row(std::iter::once(name.to_owned()).chain(shown));
    };
    row("expected", HistogramSummary::from(&figures.submission.expected));
    row("submitted", HistogramSummary::from(&figures.submission.submitted));
    right(table)
}

/// Three significant digits, or all digits before the decimal point.
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
