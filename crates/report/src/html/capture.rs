//! The page of a packet capture.

use super::chart::{Axis, Bars, MEASURED, REFERENCE, bars};
use super::escape::escape;
use super::page::Page;
use super::table::{Place, Table};
use crate::capture::Capture;
use crate::capture_text::some;
use crate::format;

/// Maximum rows of a table; the JSON form has all.
const ROWS: usize = 200;

/// Adds a table of the first [`ROWS`] of `all` things, and says so if there are more.
fn limited(page: &mut Page, table: &Table, all: usize, things: &str) {
    if all > ROWS {
        page.paragraph(&format!("The first {ROWS} of {all} {things}; `--json` has all."));
    }
    page.table(table);
}

pub(super) fn page(capture: &Capture, title: &str) -> String {
    let mut page = Page::default();
    packets(&mut page, capture);
    unread(&mut page, capture);
    tcp(&mut page, capture);
    messages(&mut page, capture);
    paths(&mut page, capture);
    flows(&mut page, capture);
    let facts = escape(&format!(
        "{}{}, {} in {} s, captured at {}",
        if capture.complete { "" } else { "incomplete: " },
        some(capture.packets, "packet"),
        format::bytes(capture.bytes as f64),
        format::number(capture.duration_s),
        some(capture.points.len() as u64, "point"),
    ));
    page.finish(title, &facts, &notes(&capture.notes), "the capture")
}

/// Notes on what the results do not cover.
fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let items: String = notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    format!(
        "<details class=\"notes\" open><summary>Limits of these results</summary>\
         <ul>{items}</ul></details>\n"
    )
}

fn one(name: &str, colour: &'static str, values: Vec<f64>) -> Bars {
    Bars {
        name: name.to_owned(),
        colours: vec![colour],
        values: values.into_iter().map(Some).collect(),
        stack: None,
        texts: None,
    }
}

fn packets(page: &mut Page, capture: &Capture) {
    page.section("packets", "Packets");
    let shares = || Axis::linear("share", "%").hundred();
    let used: Vec<_> = capture.sizes.iter().filter(|size| size.packets > 0).collect();
    let names: Vec<String> = used.iter().map(|size| size.name()).collect();
    let values = used.iter().map(|size| size.share_pct).collect();
    let key = [("packets".to_owned(), MEASURED), ("bytes".to_owned(), REFERENCE)];
    page.begin_charts(&key);
    let series = vec![one("packets", MEASURED, values)];
    page.chart("by size, B", bars("Packets by size", &names, series, shares()));
    let names: Vec<String> = capture.kinds.iter().map(|kind| kind.kind.clone()).collect();
    let packets = capture.kinds.iter().map(|kind| kind.packets_pct).collect();
    let bytes = capture.kinds.iter().map(|kind| kind.bytes_pct).collect();
    let series = vec![one("packets", MEASURED, packets), one("bytes", REFERENCE, bytes)];
    page.chart("by kind", bars("Packets and bytes by kind", &names, series, shares()));
    let layers = capture.layers();
    let names: Vec<String> = layers.iter().map(|(name, _)| (*name).to_owned()).collect();
    let share = |bytes: u64| bytes as f64 * 100.0 / capture.bytes.max(1) as f64;
    let values = layers.iter().map(|(_, bytes)| share(*bytes)).collect();
    let series = vec![one("bytes", REFERENCE, values)];
    page.chart("bytes by layer", bars("Bytes by layer", &names, series, shares()));
    page.end_charts();
    let mut table = Table::default()
        .text("kind")
        .numbers("packets", "")
        .numbers("share", "%")
        .numbers("bytes", "B");
    for kind in &capture.kinds {
        table.row(vec![
            kind.kind.clone().into(),
            Place::number(kind.packets.to_string()),
            Place::number(format::number(kind.packets_pct)),
            Place::number(kind.bytes.to_string()),
        ]);
    }
    page.table(&table);
}

fn unread(page: &mut Page, capture: &Capture) {
    let protocols = [&capture.later_fragments, &capture.icmp_messages, &capture.other_protocols];
    if capture.unread.is_empty() && protocols.iter().all(|rows| rows.is_empty()) {
        return;
    }
    page.section("protocols", "Packets without a flow");
    let mut table = Table::default()
        .text("kind")
        .text("protocol or reason")
        .text("point")
        .numbers("packets", "")
        .numbers("bytes", "B");
    let count = |number: u64| Place::number(number.to_string());
    for row in capture.unread.iter().take(ROWS) {
        let point = row.point.clone().into();
        let what = row.what().into();
        table.row(vec!["unread".into(), what, point, count(row.packets), count(row.bytes)]);
    }
    for (kind, rows) in ["later fragment", "icmp", "other"].into_iter().zip(protocols) {
        for row in rows {
            let name = row.protocol.clone().into();
            table.row(vec![kind.into(), name, "".into(), count(row.packets), count(row.bytes)]);
        }
    }
    limited(page, &table, capture.unread.len(), "rows of unread packets");
}

fn tcp(page: &mut Page, capture: &Capture) {
    let tcp = &capture.tcp;
    if tcp.packets == 0 {
        return;
    }
    page.section("tcp", "TCP");
    let mut table = Table::default()
        .text("analysis flag, as in Wireshark 4.0")
        .text("filter")
        .numbers("segments", "");
    for (name, filter, count) in [
        ("retransmissions", "retransmission", tcp.retransmissions),
        ("of them, fast", "fast_retransmission", tcp.fast_retransmissions),
        ("of them, spurious", "spurious_retransmission", tcp.spurious_retransmissions),
        ("out of order", "out_of_order", tcp.out_of_order),
        ("duplicate ACKs", "duplicate_ack", tcp.duplicate_acks),
        ("previous segment not captured", "lost_segment", tcp.lost_segments),
        ("acknowledged segment not captured", "ack_lost_segment", tcp.ack_lost_segments),
        ("keep-alives", "keep_alive", tcp.keep_alives),
        ("keep-alive ACKs", "keep_alive_ack", tcp.keep_alive_acks),
        ("zero windows", "zero_window", tcp.zero_windows),
        ("zero window probes", "zero_window_probe", tcp.zero_window_probes),
        ("zero window probe ACKs", "zero_window_probe_ack", tcp.zero_window_probe_acks),
        ("window updates", "window_update", tcp.window_updates),
        ("window full", "window_full", tcp.window_fulls),
        ("reused ports", "reused_ports", tcp.reused_ports),
    ] {
        let filter = format!("tcp.analysis.{filter}");
        table.row(vec![name.into(), filter.into(), Place::number(count.to_string())]);
    }
    page.table(&table);
}

fn messages(page: &mut Page, capture: &Capture) {
    if capture.messages.is_empty() {
        return;
    }
    page.section("messages", "Messages");
    let mut table = Table::default().text("protocol").text("type").numbers("messages", "");
    for (protocol, types) in &capture.messages {
        for (name, count) in types {
            let count = Place::number(count.to_string());
            table.row(vec![protocol.clone().into(), name.clone().into(), count]);
        }
    }
    page.table(&table);
}

fn paths(page: &mut Page, capture: &Capture) {
    if capture.paths.is_empty() {
        return;
    }
    page.section("paths", "Paths between capture points");
    let mut table = Table::default()
        .text("from")
        .text("to")
        .numbers("delivered", "")
        .numbers("lost", "")
        .numbers("loss", "%")
        .numbers("mean", "ms");
    for path in capture.paths.iter().take(ROWS) {
        // `format::number` shows NaN as a missing value.
        let mean = path.latency_ms.as_ref().map_or(f64::NAN, |times| times.mean);
        table.row(vec![
            path.from.clone().into(),
            path.to.clone().into(),
            Place::number(path.delivered.to_string()),
            Place::number(path.lost.to_string()),
            Place::number(format::number(path.loss_pct)),
            Place::number(format::number(mean)),
        ]);
    }
    limited(page, &table, capture.paths.len(), "paths");
}

fn flows(page: &mut Page, capture: &Capture) {
    page.section("flows", "Flows");
    let mut table = Table::default()
        .text("point")
        .text("from")
        .text("to")
        .text("of")
        .numbers("packets", "")
        .numbers("bytes", "B")
        .numbers("messages", "")
        .numbers("retransmissions", "")
        .numbers("duplicate ACKs", "");
    for flow in capture.flows.iter().take(ROWS) {
        let ways = [(&flow.a, &flow.b, &flow.forward), (&flow.b, &flow.a, &flow.back)];
        for (from, to, way) in ways {
            table.row(vec![
                flow.point.clone().into(),
                from.clone().into(),
                to.clone().into(),
                flow.protocol.clone().unwrap_or_else(|| flow.transport.clone()).into(),
                Place::number(way.packets.to_string()),
                Place::number(way.bytes.to_string()),
                Place::number(way.messages.to_string()),
                Place::number(way.retransmissions.to_string()),
                Place::number(way.duplicate_acks.to_string()),
            ]);
        }
    }
    limited(page, &table, capture.flows.len(), "flows");
}
