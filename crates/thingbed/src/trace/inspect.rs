//! `thingbed trace inspect`.

use super::shape::resources;
use super::{Failure, failed, open};
use crate::arguments::Inspect;
use crate::{Status, say};
use comfy_table::{CellAlignment, LineStyle, Table, presets};
use trace::{Distribution, Inspection, Reader, SpreadSummary, Tally, bars, sparks};

/// Reads the trace to its end and prints statistics. Invalid lines are counted, the first ones are
/// shown, and the exit status is that of a usage_error file.
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
            Ok(Some(Err(error))) => tally.add_fault(&error),
            Err(error) => {
                return Err(failed(format_args!(
                    "cannot read {}: {error}",
                    arguments.file.display()
                )));
            }
        }
    }
    let seen = tally.finish();
    if arguments.json {
        say(serde_json::to_string_pretty(&seen).unwrap_or_default());
    } else {
        say(text(&seen, arguments.service.as_ref()).trim_end());
    }
    Ok(if seen.faults > 0 { Status::Wrong } else { Status::Fine })
}

fn text(seen: &Inspection, asked: Option<&Distribution>) -> String {
    let methods: Vec<_> =
        seen.methods.iter().map(|(method, count)| format!("{method} {count}")).collect();
    let mut text = format!(
        "{} requests in {:.3} s, {:.1}/s, to {} devices, {} hosts, {} URIs; {}\n",
        seen.requests,
        seen.seconds,
        seen.rate,
        seen.devices,
        seen.hosts,
        seen.uris,
        methods.join(", ")
    );
    if seen.faults > 0 {
        text += &format!("{} lines are not requests:\n", seen.faults);
        for fault in &seen.fault_texts {
            text += &format!("  {fault}\n");
        }
    }
    if seen.requests == 0 {
        return text;
    }
    text += &format!("\n{}\n", times(seen));
    text += &format!(
        "coefficient of variation of the interarrival time: {:.2} (0 for a constant interval, 1 \
         for a Poisson process); {:.1} % from an exponential distribution\n",
        seen.variation,
        seen.from_exponential * 100.0
    );
    if let (Some(asked), Some(service)) = (asked, &seen.service) {
        text += &format!(
            "service times: mean {:.1} us, configured {:.1} us by {asked}\n",
            service.mean,
            asked.mean_ns() / 1e3
        );
    }
    if seen.unknown > 0 {
        text += &format!(
            "{} requests are for resources that are not in the file of --resources\n",
            seen.unknown
        );
    }
    let most = seen.rates.iter().copied().fold(0.0, f64::max);
    text += &format!(
        "\nrequests per second, {:.3} s per bar, maximum {most:.1}:\n|{}|\n",
        seen.bar_seconds,
        sparks(&seen.rates)
    );
    let rows: Vec<_> = seen
        .shares
        .iter()
        .map(|(end, share)| (format!("up to {}", duration(*end)), *share, None))
        .collect();
    text + &format!("\ninterarrival time:\n{}", bars(&rows, 50))
}

fn times(seen: &Inspection) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).force_no_tty();
    table.style_mut().row_separator = LineStyle::none();
    table.set_header(["us", "mean", "p1", "p5", "p25", "p50", "p75", "p95", "p99", "max"]);
    let mut row = |name: &str, of: &SpreadSummary| {
        let shown =
            [of.mean, of.p1, of.p5, of.p25, of.p50, of.p75, of.p95, of.p99, of.max].map(figure);
        table.add_row(std::iter::once(name.to_owned()).chain(shown));
    };
    row("interarrival time", &seen.between);
    row("interarrival, per device", &seen.of_device);
    if let Some(service) = &seen.service {
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
