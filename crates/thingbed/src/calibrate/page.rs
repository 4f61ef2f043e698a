//! The results of a calibration, as text and as an HTML page.

use super::probe::Row;
use std::fmt::Write;

const HEAD: [&str; 9] =
    ["probe", "configured", "measured", "tolerance", "unit", "p99", "max", "returned", "within"];

fn cells(row: &Row) -> [String; 9] {
    let number = |value: f64| match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    let maybe = |value: Option<f64>| value.map_or(String::new(), number);
    [
        row.name.clone(),
        number(row.configured),
        number(row.measured),
        number(row.tolerance),
        row.unit.to_owned(),
        maybe(row.p99),
        maybe(row.max),
        format!("{} of {}", row.returned, row.sent),
        if row.is_within_tolerance() { "yes" } else { "NO" }.to_owned(),
    ]
}

/// A table for the terminal.
pub fn text(rows: &[Row]) -> String {
    let mut all = vec![HEAD.map(str::to_owned)];
    all.extend(rows.iter().map(cells));
    let width =
        |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut text = String::new();
    for row in &all {
        let line: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        let _ = writeln!(text, "{}", line.join("  "));
    }
    let kept = rows.iter().filter(|row| row.is_within_tolerance()).count();
    let _ = write!(text, "{}", summary(kept, rows.len()));
    text
}

fn summary(kept: usize, all: usize) -> String {
    match all - kept {
        0 => format!(
            "Links are accurate on this machine: {kept} of {all} probes are within tolerance."
        ),
        few => format!(
            "{few} of {all} probes are outside tolerance: this machine did not provide the \
             configured delay, loss or rate. Close other programs, or see docs/verdict.md",
        ),
    }
}

/// A bar per probe: the deviation, as a share of the tolerance.
fn bar(row: &Row) -> String {
    let off = ((row.measured - row.configured) / row.tolerance).clamp(-1.5, 1.5);
    let place = 75.0 + 50.0 * off;
    let colour = if row.is_within_tolerance() { "#2a7" } else { "#c33" };
    format!(
        "<svg width=150 height=16 role=img aria-label='{off:+.2} of the tolerance'><rect x=25 y=3 \
         width=100 height=10 fill='#ddd'/><line x1=75 x2=75 y1=0 y2=16 stroke='#888'/><circle \
         cx={place:.1} cy=8 r=5 fill='{colour}'/></svg>"
    )
}

/// A self-contained HTML page that works offline.
pub fn html(rows: &[Row]) -> String {
    let mut body = String::new();
    for row in rows {
        let cells: String = cells(row).iter().map(|cell| format!("<td>{cell}</td>")).collect();
        let _ = writeln!(body, "<tr>{cells}<td>{}</td></tr>", bar(row));
    }
    let head: String = HEAD.iter().map(|head| format!("<th>{head}</th>")).collect();
    let kept = rows.iter().filter(|row| row.is_within_tolerance()).count();
    let summary = summary(kept, rows.len());
    format!(
        "<!doctype html><html lang=en><meta \
         charset=utf-8><title>Calibration</title><style>body{{font:16px \
         system-ui,sans-serif;margin:2em;max-width:70em}}table{{border-collapse:collapse}}td,th{{padding:.3em \
         .8em;text-align:right;border-bottom:1px solid \
         #ddd}}td:first-child,th:first-child{{text-align:left}}</style><h1>Link accuracy: \
         configured against measured</h1><p><b>{summary}</b></p><p>Programs in two nodes (eleven \
         for the chain) sent numbered datagrams over links with one configured impairment each, \
         and measured the round trip. Delays are medians minus the round trip of a link without \
         impairments. The bar shows the deviation as a share of the tolerance: 5 % and 0.1 ms for \
         delays, four standard errors for losses, 2 % for \
         rates.</p><table><tr>{head}<th>within</th></tr>{body}</table></html>\n"
    )
}
