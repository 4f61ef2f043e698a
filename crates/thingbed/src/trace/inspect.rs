//! `thingbed trace inspect`.

use super::files::{Failure, failed, open};
use super::shape::resources;
use crate::arguments::Inspect;
use crate::{Status, say};
use comfy_table::{CellAlignment, LineStyle, Table, presets};
use trace::{Distribution, HistogramSummary, Inspection, Reader, Tally, bars, sparks};

/// Reads the trace to its end and prints statistics. Invalid lines are counted, the first ones are
/// shown, and the exit status is that of a wrong file.
pub fn inspect(arguments: &Inspect) -> Result<Status, Failure> {
    let known = match &arguments.resources {
        Some(file) => resources(file).map_err(failed)?,
        None => Vec::new(),
    };
    let mut tally = Tally::new(&known);
    let mut reader = Reader::new(open(&arguments.file).map_err(failed)?);
    loop {
        match reader.read() {
            Ok(None) => break,
            Ok(Some(Ok(request))) => tally.add(&request),
            // A wrong line does not end the inspection, which is there to find them all.
            Ok(Some(Err(error))) => tally.add_fault(&error),
            Err(error) => {
                return Err(failed(format_args!(
                    "cannot read {}: {error}",
                    arguments.file.display()
                )));
            }
        }
    }
    let statistics = tally.finish();
    if arguments.json {
        say(serde_json::to_string_pretty(&statistics).unwrap_or_default());
    } else {
        say(text(&statistics, arguments.service.as_ref()).trim_end());
    }
    Ok(if statistics.faults > 0 { Status::Wrong } else { Status::Fine })
}

fn text(statistics: &Inspection, configured: Option<&Distribution>) -> String {
    let methods: Vec<_> =
        statistics.methods.iter().map(|(method, count)| format!("{method} {count}")).collect();
    let mut text = format!(
        "{} requests in {:.3} s, {:.1}/s, to {} devices, {} hosts, {} URIs; {}\n",
        statistics.requests,
        statistics.seconds,
        statistics.rate,
        statistics.devices,
        statistics.hosts,
        statistics.uris,
        methods.join(", ")
    );
    if statistics.faults > 0 {
        text += &format!("{} lines are not requests:\n", statistics.faults);
        for fault in &statistics.fault_texts {
            text += &format!("  {fault}\n");
        }
    }
    if statistics.requests == 0 {
        return text;
    }
    text += &format!("\n{}\n", times(statistics));
    text += &format!(
        "coefficient of variation of the interarrival time: {:.2} (0 for a constant interval, 1 \
         for a Poisson process); {:.1} % from an exponential distribution\n",
        statistics.variation,
        statistics.from_exponential * 100.0
    );
    if let (Some(configured), Some(service)) = (configured, &statistics.service) {
        text += &format!(
            "service times: mean {:.1} us, configured {:.1} us by {configured}\n",
            service.mean,
            configured.mean_ns() / 1e3
        );
    }
    if statistics.unknown > 0 {
        text += &format!(
            "{} requests are for resources that are not in the file of --resources\n",
            statistics.unknown
        );
    }
    let most = statistics.rates.iter().copied().fold(0.0, f64::max);
    text += &format!(
        "\nrequests per second, {:.3} s per bar, maximum {most:.1}:\n|{}|\n",
        statistics.bar_seconds,
        sparks(&statistics.rates)
    );
    let rows: Vec<_> = statistics
        .shares
        .iter()
        .map(|(end, share)| (format!("up to {}", duration(*end)), *share, None))
        .collect();
    text + &format!("\ninterarrival time:\n{}", bars(&rows, 50))
}

fn times(statistics: &Inspection) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).force_no_tty();
    table.style_mut().row_separator = LineStyle::none();
    table.set_header(["us", "mean", "p1", "p5", "p25", "p50", "p75", "p95", "p99", "max"]);
    let mut row = |name: &str, of: &HistogramSummary| {
        let shown =
            [of.mean, of.p1, of.p5, of.p25, of.p50, of.p75, of.p95, of.p99, of.max].map(figure);
        table.add_row(std::iter::once(name.to_owned()).chain(shown));
    };
    row("interarrival time", &statistics.between);
    row("interarrival, per device", &statistics.of_device);
    if let Some(service) = &statistics.service {
        row("service", service);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
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

fn duration(us: f64) -> String {
    if us >= 1e6 {
        format!("{} s", us / 1e6)
    } else if us >= 1e3 {
        format!("{} ms", us / 1e3)
    } else {
        format!("{us} us")
    }
}
