//! What is in a capture, as a page.

use super::chart::{Axis, Bars, OURS, THEIRS, bars};
use super::table::{Place, Table};
use super::{Page, escape};
use crate::capture::Capture;
use crate::format;

/// Rows of a table that nobody reads further.
const ROWS: usize = 200;

pub(super) fn page(capture: &Capture, title: &str) -> String {
    let mut page = Page { notes: capture.notes.clone(), ..Page::default() };
    packets(&mut page, capture);
    messages(&mut page, capture);
    paths(&mut page, capture);
    flows(&mut page, capture);
    let facts = escape(&format!(
        "{}{} packets, {}, {} s, {} points",
        if capture.complete { "" } else { "part of a capture: " },
        capture.packets,
        format::bytes(capture.bytes as f64),
        format::number(capture.duration_s),
        capture.points.len(),
    ));
    page.finish(title, &facts, "", "the capture")
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
    let key = [("packets".to_owned(), OURS), ("bytes".to_owned(), THEIRS)];
    page.begin_charts(&key);
    let series = vec![one("packets", OURS, values)];
    page.chart("by size, B", bars("Packets by size", &names, series, shares()));
    let names: Vec<String> = capture.kinds.iter().map(|kind| kind.kind.clone()).collect();
    let packets = capture.kinds.iter().map(|kind| kind.packets_pct).collect();
    let bytes = capture.kinds.iter().map(|kind| kind.bytes_pct).collect();
    let series = vec![one("packets", OURS, packets), one("bytes", THEIRS, bytes)];
    page.chart("by kind", bars("Packets and bytes by kind", &names, series, shares()));
    let layers = capture.layers();
    let names: Vec<String> = layers.iter().map(|(name, _)| (*name).to_owned()).collect();
    let share = |bytes: u64| bytes as f64 * 100.0 / capture.bytes.max(1) as f64;
    let values = layers.iter().map(|(_, bytes)| share(*bytes)).collect();
    let series = vec![one("bytes", THEIRS, values)];
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
    page.section("paths", "From point to point");
    let mut table = Table::default()
        .text("from")
        .text("to")
        .numbers("delivered", "")
        .numbers("lost", "")
        .numbers("loss", "%")
        .numbers("mean", "ms");
    for path in capture.paths.iter().take(ROWS) {
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
    page.table(&table);
}

fn flows(page: &mut Page, capture: &Capture) {
    page.section("flows", "Flows");
    let mut table = Table::default()
        .text("at")
        .text("from")
        .text("to")
        .text("of")
        .numbers("packets", "")
        .numbers("bytes", "B")
        .numbers("messages", "")
        .numbers("sent again", "")
        .numbers("duplicate acks", "");
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
    page.table(&table);
}
