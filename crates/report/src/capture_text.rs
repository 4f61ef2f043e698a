//! The analysis of a packet capture, as text.

use crate::capture::{Capture, Direction, Flow, Protocol};
use crate::format;
use crate::terminal::Page;
use comfy_table::Table;

/// The analysis of a capture as text of at most `width` columns. Tables of flows, nodes and paths
/// have at most `flows` rows each.
pub fn capture_terminal(capture: &Capture, width: u16, colour: bool, flows: usize) -> String {
    let page = Page { width: width.max(40), colour };
    let mut parts = vec![headline(&page, capture)];
    parts.extend(capture.notes.iter().map(|note| format!("note: {}", page.wrap(note, 6))));
    parts.push(kinds(&page, capture));
    parts.push(sizes(&page, capture));
    parts.extend(tcp(&page, capture));
    parts.extend(messages(&page, capture));
    parts.extend(paths(&page, capture, flows));
    parts.extend(nodes(&page, capture, flows));
    parts.extend(conversations(&page, capture, flows));
    parts.join("\n") + "\n"
}

/// A number and a noun: `1 packet`, `2 packets`.
pub(crate) fn some(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A rate in a readable unit.
fn rate(bit_s: f64) -> String {
    let (unit, factor) = match bit_s {
        // Where three significant digits round up to 1,000 of the smaller unit.
        rate if rate >= 999.5e6 => ("Gbit/s", 1e9),
        rate if rate >= 999.5e3 => ("Mbit/s", 1e6),
        rate if rate >= 999.5 => ("kbit/s", 1e3),
        _ => ("bit/s", 1.0),
    };
    format!("{} {unit}", format::number(bit_s / factor))
}

fn headline(page: &Page, capture: &Capture) -> String {
    let part = if capture.complete { "" } else { "INCOMPLETE: " };
    let points = match capture.points.len() {
        1 => format::plain(&capture.points[0].name),
        n => format!("{n} points"),
    };
    let goodput = &capture.goodput;
    let carried = format!(
        "Goodput: {} of application payload, {} % of all bytes; with the headers of messaging \
         protocols {} %. {} % of packets carry any of it.",
        rate(goodput.payload_bit_s),
        format::number(goodput.payload_pct),
        format::number(goodput.carried_pct),
        format::number(goodput.carrying_packets_pct),
    );
    format!(
        "{part}{}, {} in {} s, captured at {points}\n{}",
        some(capture.packets, "packet"),
        format::bytes(capture.bytes as f64),
        format::number(capture.duration_s),
        page.wrap(&carried, 0),
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
    let mut table = heads(page, &["kind of packet", "#packets", "#%", "#bytes", "#%"]);
    for kind in &capture.kinds {
        table.add_row([
            format::plain(&kind.kind),
            kind.packets.to_string(),
            format::number(kind.packets_pct),
            format::bytes(kind.bytes as f64),
            format::number(kind.bytes_pct),
        ]);
    }
    let named = |head: &str, protocols: &[Protocol]| {
        let list: Vec<String> =
            protocols.iter().map(|row| format!("{} {}", row.protocol, row.packets)).collect();
        match list.is_empty() {
            true => String::new(),
            false => format!("{head}: {}\n", page.wrap(&list.join(", "), 0)),
        }
    };
    let fragments = named("later fragments by protocol", &capture.later_fragments);
    let icmp = named("ICMP by message", &capture.icmp_messages);
    let others = named("other packets by protocol", &capture.other_protocols);
    let mut layers = heads(page, &["layer", "#bytes", "#%"]);
    for (layer, bytes) in capture.layers() {
        let share = bytes as f64 * 100.0 / capture.bytes.max(1) as f64;
        layers.add_row([layer.to_owned(), format::bytes(bytes as f64), format::number(share)]);
    }
    format!("{table}\n{fragments}{icmp}{others}{layers}")
}

fn sizes(page: &Page, capture: &Capture) -> String {
    let mut table = heads(page, &["#packet size, B", "#packets", "#%"]);
    for size in capture.sizes.iter().filter(|size| size.packets > 0) {
        table.add_row([size.name(), size.packets.to_string(), format::number(size.share_pct)]);
    }
    table.to_string()
}

fn tcp(page: &Page, capture: &Capture) -> Option<String> {
    let tcp = &capture.tcp;
    let mut lines = vec![
        format!("{}, {}", some(tcp.connections, "connection"), some(tcp.packets, "segment")),
        format!(
            "retransmissions {} (fast {}, spurious {}), out of order {}, duplicate ACKs {}",
            tcp.retransmissions,
            tcp.fast_retransmissions,
            tcp.spurious_retransmissions,
            tcp.out_of_order,
            tcp.duplicate_acks
        ),
        format!(
            "not captured: previous segment {}, acknowledged segment {}",
            tcp.lost_segments, tcp.ack_lost_segments
        ),
        format!(
            "windows: zero {}, probes {}, probe ACKs {}, updates {}, full {}",
            tcp.zero_windows,
            tcp.zero_window_probes,
            tcp.zero_window_probe_acks,
            tcp.window_updates,
            tcp.window_fulls
        ),
        format!(
            "keep-alives {}, keep-alive ACKs {}, reused ports {}",
            tcp.keep_alives, tcp.keep_alive_acks, tcp.reused_ports
        ),
    ];
    lines.extend(tcp.rtt_ms.as_ref().map(|rtt| {
        format!(
            "round-trip time: mean {} ms, median {} ms, 99th percentile {} ms, maximum {} ms",
            format::number(rtt.mean),
            format::number(rtt.p50),
            format::number(rtt.p99),
            format::number(rtt.max)
        )
    }));
    // Five columns: `TCP: `.
    let lines: Vec<String> = lines.iter().map(|line| page.wrap(line, 5)).collect();
    (tcp.packets > 0).then(|| format!("TCP: {}", lines.join("\n     ")))
}

fn messages(page: &Page, capture: &Capture) -> Option<String> {
    let mut table = heads(page, &["protocol", "message type", "#messages"]);
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
            "\nnote: {} in TCP streams; decoding of messages resumed {} after skipping {} B",
            some(streams.gaps, "gap"),
            some(streams.resyncs, "time"),
            streams.skipped_bytes
        ),
    };
    (!capture.messages.is_empty() || !holes.is_empty()).then(|| format!("{table}{holes}"))
}

fn paths(page: &Page, capture: &Capture, limit: usize) -> Option<String> {
    let mut table =
        heads(page, &["from", "to", "#delivered", "#lost", "#loss %", "#mean ms", "#min", "#max"]);
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
    shown(table, capture.paths.len(), limit, "paths between points")
}

fn nodes(page: &Page, capture: &Capture, limit: usize) -> Option<String> {
    let heading =
        ["node", "#sent", "#bytes", "#received", "#bytes", "#messages", "#retransmissions"];
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
        &[
            "point",
            "flow",
            "of",
            "#packets",
            "#bytes",
            "#messages",
            "#retr.",
            "#dup. ACKs",
            "#RTT ms",
        ],
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
        // The second row of a flow does not repeat what the first one has.
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

/// A table if it has rows, with a line about omitted rows.
fn shown(table: Table, all: usize, limit: usize, what: &str) -> Option<String> {
    let more = match all.saturating_sub(limit) {
        0 => String::new(),
        more => format!("\n{more} more {what}: --flows N prints N of them, --json prints all"),
    };
    (all > 0 && limit > 0).then(|| format!("{table}{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_could_not_be_read_is_said_before_any_table() {
        let json = r#"{"complete": false, "packets": 12, "bytes": 300, "duration_s": 2.0,
            "notes": ["12 packets on `radio` have link type IEEE 802.15.4 (230)"],
            "points": [{"name": "radio"}],
            "kinds": [{"kind": "unread", "packets": 9, "bytes": 200}],
            "other_protocols": [{"protocol": "LLDP", "packets": 2, "bytes": 80},
                {"protocol": "\u001b[31mSTP", "packets": 1, "bytes": 20}],
            "unread": [{"point": "radio", "reason": "link type", "number": 230,
                "name": "IEEE 802.15.4", "packets": 9, "bytes": 200}],
            "tcp": {"packets": 1, "connections": 1, "ack_lost_segments": 7}}"#;
        let capture = Capture::parse(json, Path::new("x")).unwrap();
        let text = capture_terminal(&capture, 100, false, 10);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "INCOMPLETE: 12 packets, 300 B in 2.00 s, captured at radio");
        let note = lines.iter().position(|line| line.starts_with("note: 12 packets on")).unwrap();
        let table = lines.iter().position(|line| line.starts_with("kind of packet")).unwrap();
        assert!(note < table, "{text}");
        assert!(text.contains("other packets by protocol: LLDP 2, ") && !text.contains('\u{1b}'));
        assert!(text.contains("TCP: 1 connection, 1 segment\n"), "{text}");
        assert!(text.contains("acknowledged segment 7"), "{text}");
        assert_eq!(rate(41_504_605.0), "41.5 Mbit/s");
        assert_eq!(capture.unread[0].what(), "link type 230, IEEE 802.15.4");
    }
}
