//! What is in a capture, as text.

use crate::capture::{Capture, Direction, Flow};
use crate::format;
use crate::terminal::Page;
use comfy_table::Table;

/// What is in a capture as text of at most this width, with so many flows; the
/// nodes and the ways between points as many as flows.
pub fn capture_terminal(capture: &Capture, width: u16, colour: bool, flows: usize) -> String {
    let page = Page { width: width.max(40), colour };
    let mut parts = vec![headline(capture)];
    parts.extend(capture.notes.iter().map(|note| format!("note: {}", page.wrap(note, 6))));
    parts.push(kinds(&page, capture));
    parts.push(sizes(&page, capture));
    parts.extend(tcp(capture));
    parts.extend(messages(&page, capture));
    parts.extend(paths(&page, capture, flows));
    parts.extend(nodes(&page, capture, flows));
    parts.extend(conversations(&page, capture, flows));
    parts.join("\n") + "\n"
}

fn headline(capture: &Capture) -> String {
    let part = if capture.complete { "" } else { "PART OF A CAPTURE: " };
    let points = match capture.points.len() {
        1 => format!("seen at {}", format::plain(&capture.points[0].name)),
        n => format!("seen at {n} points"),
    };
    let carried = format!(
        "{} % of packets carry something, {} % of bytes are carried, {} % are payload: {} bit/s",
        format::number(capture.goodput.carrying_packets_pct),
        format::number(capture.goodput.carried_pct),
        format::number(capture.goodput.payload_pct),
        format::number(capture.goodput.payload_bit_s),
    );
    format!(
        "{part}{} packets, {}, {} s, {points}\n{carried}",
        capture.packets,
        format::bytes(capture.bytes as f64),
        format::number(capture.duration_s),
    )
}

fn heads(page: &Page, names: &[&str]) -> Table {
    let heads = names.iter().map(|name| match name.strip_prefix('#') {
        Some(name) => (name.to_owned(), true),
        None => ((*name).to_owned(), false),
    });
    page.table(heads.collect())
}

fn kinds(page: &Page, capture: &Capture) -> String {
    let mut table = heads(page, &["kind", "#packets", "#%", "#bytes", "#%"]);
    for kind in &capture.kinds {
        table.add_row([
            format::plain(&kind.kind),
            kind.packets.to_string(),
            format::number(kind.packets_pct),
            format::bytes(kind.bytes as f64),
            format::number(kind.bytes_pct),
        ]);
    }
    let mut layers = heads(page, &["layer", "#bytes", "#%"]);
    for (layer, bytes) in capture.layers() {
        let share = bytes as f64 * 100.0 / capture.bytes.max(1) as f64;
        layers.add_row([layer.to_owned(), format::bytes(bytes as f64), format::number(share)]);
    }
    format!("{table}\n{layers}")
}

fn sizes(page: &Page, capture: &Capture) -> String {
    let mut table = heads(page, &["#size, B", "#packets", "#%"]);
    for size in capture.sizes.iter().filter(|size| size.packets > 0) {
        table.add_row([size.name(), size.packets.to_string(), format::number(size.share_pct)]);
    }
    table.to_string()
}

fn tcp(capture: &Capture) -> Option<String> {
    let tcp = &capture.tcp;
    let rtt = tcp.rtt_ms.as_ref().map_or_else(String::new, |rtt| {
        format!(
            "\n     round trip: mean {} ms, p50 {} ms, p99 {} ms, at most {} ms",
            format::number(rtt.mean),
            format::number(rtt.p50),
            format::number(rtt.p99),
            format::number(rtt.max)
        )
    });
    (tcp.packets > 0).then(|| {
        format!(
            "TCP: {} connections, {} packets; sent again {} (fast {}, in vain {}), out of order \
             {}, duplicate acknowledgements {}, segments missing before {}{rtt}",
            tcp.connections,
            tcp.packets,
            tcp.retransmissions,
            tcp.fast_retransmissions,
            tcp.spurious_retransmissions,
            tcp.out_of_order,
            tcp.duplicate_acks,
            tcp.lost_segments,
        )
    })
}

fn messages(page: &Page, capture: &Capture) -> Option<String> {
    let mut table = heads(page, &["messages", "type", "#count"]);
    for (protocol, types) in &capture.messages {
        for (place, (name, count)) in types.iter().enumerate() {
            let protocol = if place == 0 { format::plain(protocol) } else { String::new() };
            table.add_row([protocol, format::plain(name), count.to_string()]);
        }
    }
    let streams = &capture.streams;
    let holes = match streams.gaps + streams.resyncs {
        0 => String::new(),
        _ => format!(
            "\nnote: {} holes in streams; messages taken up again {} times after {} B",
            streams.gaps, streams.resyncs, streams.skipped_bytes
        ),
    };
    (!capture.messages.is_empty() || !holes.is_empty()).then(|| format!("{table}{holes}"))
}

fn paths(page: &Page, capture: &Capture, limit: usize) -> Option<String> {
    let mut table =
        heads(page, &["from", "to", "#delivered", "#lost", "#%", "#mean ms", "#least", "#most"]);
    for path in capture.paths.iter().take(limit) {
        let time = |of: fn(&crate::capture::Times) -> f64| {
            path.latency_ms.as_ref().map_or(format::NONE.to_owned(), |t| format::number(of(t)))
        };
        table.add_row([
            format::plain(&path.from),
            format::plain(&path.to),
            path.delivered.to_string(),
            path.lost.to_string(),
            format::number(path.loss_pct),
            time(|times| times.mean),
            time(|times| times.min),
            time(|times| times.max),
        ]);
    }
    shown(table, capture.paths.len(), limit, "ways between points")
}

fn nodes(page: &Page, capture: &Capture, limit: usize) -> Option<String> {
    let heading = ["node", "#sent", "#bytes", "#received", "#bytes", "#messages", "#sent again"];
    let mut table = heads(page, &heading);
    for node in capture.nodes.iter().take(limit) {
        table.add_row([
            format::plain(&node.node),
            node.tx_packets.to_string(),
            format::bytes(node.tx_bytes as f64),
            node.rx_packets.to_string(),
            format::bytes(node.rx_bytes as f64),
            node.messages.to_string(),
            node.retransmissions.to_string(),
        ]);
    }
    shown(table, capture.nodes.len(), limit, "nodes")
}

fn conversations(page: &Page, capture: &Capture, limit: usize) -> Option<String> {
    let mut table = heads(
        page,
        &["at", "flow", "of", "#packets", "#bytes", "#messages", "#again", "#dup. acks", "#ack ms"],
    );
    for flow in capture.flows.iter().take(limit) {
        for (way, direction) in ["→", "←"].into_iter().zip([&flow.forward, &flow.back]) {
            table.add_row(row(flow, way, direction));
        }
    }
    shown(table, capture.flows.len(), limit, "flows")
}

fn row(flow: &Flow, way: &str, direction: &Direction) -> [String; 9] {
    let forward = way == "→";
    let name = format!("{} {way} {}", format::plain(&flow.a), format::plain(&flow.b));
    let of = flow.protocol.as_ref().unwrap_or(&flow.transport);
    [
        if forward { format::plain(&flow.point) } else { String::new() },
        name,
        if forward { format::plain(of) } else { String::new() },
        direction.packets.to_string(),
        format::bytes(direction.bytes as f64),
        direction.messages.to_string(),
        direction.retransmissions.to_string(),
        direction.duplicate_acks.to_string(),
        direction.rtt_ms.as_ref().map_or(format::NONE.to_owned(), |rtt| format::number(rtt.mean)),
    ]
}

/// A table that has rows, with a word about those that it lacks.
fn shown(table: Table, all: usize, limit: usize, what: &str) -> Option<String> {
    let more = match all.saturating_sub(limit) {
        0 => String::new(),
        more => format!("\n{more} more {what}: --flows N shows more, --json all"),
    };
    (all > 0 && limit > 0).then(|| format!("{table}{more}"))
}
