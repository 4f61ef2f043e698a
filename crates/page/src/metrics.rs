//! The state of the lab for Prometheus, in its text format 0.0.4.

use crate::feed::{Node, Snapshot};
use link::Direction;
use runner::Shown;
use std::fmt::Write as _;

/// A metric: name, kind, meaning.
type Head = (&'static str, &'static str, &'static str);
/// A metric, and how it is read from a node or a link.
type Metric<T> = (Head, fn(&T) -> f64);

/// The page for Prometheus.
pub(crate) fn text(state: &Snapshot) -> String {
    let mut out = String::new();
    let up = f64::from(u8::from(state.lab.is_some()));
    family(&mut out, ("thingbed_up", "gauge", "Whether a lab is up."), &[(String::new(), up)]);
    nodes(&mut out, state);
    links(&mut out, state);
    out
}

fn nodes(out: &mut String, state: &Snapshot) {
    let nodes = |value: fn(&Node) -> f64| -> Vec<(String, f64)> {
        let labels = |node: &Node| {
            format!("node=\"{}\",group=\"{}\"", label(&node.name), label(&node.group))
        };
        state.nodes.iter().map(|node| (labels(node), value(node))).collect()
    };
    let of_nodes: [Metric<Node>; 7] = [
        (("thingbed_node_sent_frames_total", "counter", "Frames that the node sent."), |n| {
            n.sent[0] as f64
        }),
        (("thingbed_node_sent_bytes_total", "counter", "Bytes that the node sent."), |n| {
            n.sent[1] as f64
        }),
        (
            ("thingbed_node_received_frames_total", "counter", "Frames delivered to the node."),
            |n| n.received[0] as f64,
        ),
        (("thingbed_node_received_bytes_total", "counter", "Bytes delivered to the node."), |n| {
            n.received[1] as f64
        }),
        (
            ("thingbed_node_cpu_seconds_total", "counter", "CPU time of the node's processes."),
            |n| n.cpu_ms / 1e3,
        ),
        (
            ("thingbed_node_memory_bytes", "gauge", "Resident memory of the node's processes."),
            |n| n.memory_bytes as f64,
        ),
        (("thingbed_node_running", "gauge", "Whether the node's own program runs."), |n| {
            f64::from(u8::from(n.state == "running"))
        }),
    ];
    for (head, value) in of_nodes {
        family(out, head, &nodes(value));
    }
}

fn links(out: &mut String, state: &Snapshot) {
    let links = |value: fn(&Shown) -> f64| -> Vec<(String, f64)> {
        let labels = |link: &Shown| {
            let (node, network) = (label(&link.node), label(&link.network));
            format!("node=\"{node}\",network=\"{network}\",direction=\"{}\"", direction(link.way))
        };
        state.links.iter().map(|link| (labels(link), value(link))).collect()
    };
    let of_links: [Metric<Shown>; 7] = [
        (("thingbed_link_frames_total", "counter", "Frames that entered the link."), |l| {
            l.traffic.frames as f64
        }),
        (("thingbed_link_bytes_total", "counter", "Their bytes."), |l| l.traffic.bytes as f64),
        (("thingbed_link_passed_frames_total", "counter", "Frames that left the link."), |l| {
            l.traffic.passed as f64
        }),
        (("thingbed_link_lost_frames_total", "counter", "Frames lost by chance."), |l| {
            l.traffic.lost as f64
        }),
        (
            (
                "thingbed_link_dropped_frames_total",
                "counter",
                "Frames dropped: full queue, link down, channel.",
            ),
            |l| l.traffic.dropped as f64,
        ),
        (
            (
                "thingbed_link_delay_seconds_total",
                "counter",
                "Sum of the delays of frames that passed.",
            ),
            |l| l.traffic.delay_ms / 1e3,
        ),
        (("thingbed_link_down", "gauge", "Whether the link was taken down."), |l| {
            f64::from(u8::from(l.down))
        }),
    ];
    for (head, value) in of_links {
        family(out, head, &links(value));
    }
}

/// One metric with a line for each set of labels.
fn family(out: &mut String, head: Head, lines: &[(String, f64)]) {
    let (name, kind, meaning) = head;
    let _ = writeln!(out, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
    for (labels, value) in lines {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(out, "{name}{labels} {value}");
    }
}

fn direction(way: Direction) -> &'static str {
    match way {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

/// A label's value, escaped.
fn label(text: &str) -> String {
    // The three characters that the text format escapes in the value of a label.
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_escaped_labels() {
        let node = Node {
            name: "a\"\\\nb".to_owned(),
            group: "g".to_owned(),
            state: "running".to_owned(),
            program: String::new(),
            interfaces: Vec::new(),
            sent: [3, 400],
            received: [0, 0],
            cpu_ms: 1500.0,
            memory_bytes: 7,
        };
        let text = text(&Snapshot { nodes: vec![node], ..Snapshot::default() });
        assert!(text.contains("\nthingbed_up 0\n"));
        let labels = "{node=\"a\\\"\\\\\\nb\",group=\"g\"}";
        assert!(text.contains(&format!("thingbed_node_sent_bytes_total{labels} 400\n")), "{text}");
        assert!(text.contains(&format!("thingbed_node_cpu_seconds_total{labels} 1.5\n")));
        assert!(text.contains(&format!("thingbed_node_running{labels} 1\n")));
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
        }
    }
    #[test]
    fn counters_of_links_are_in_the_units_of_their_names() {
        let traffic = runner::LinkTraffic {
            frames: 10,
            bytes: 1_000,
            passed: 7,
            lost: 2,
            dropped: 1,
            delay_ms: 35.5,
        };
        let link = |way, down| Shown {
            node: "a".to_owned(),
            network: "n\\".to_owned(),
            way,
            now: link::Impairment::default(),
            target: None,
            ended: Vec::new(),
            down,
            rejected: 0,
            traffic,
        };
        let links = vec![link(Direction::Up, true), link(Direction::Down, false)];
        let text = text(&Snapshot { links, ..Snapshot::default() });
        let value = |name: &str, way: &str| {
            let head = format!("{name}{{node=\"a\",network=\"n\\\\\",direction=\"{way}\"}} ");
            let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&head)).collect();
            assert_eq!(lines.len(), 1, "{name} {way}: {text}");
            lines[0].parse::<f64>().unwrap()
        };
        for (name, expected) in [
            ("thingbed_link_frames_total", 10.0),
            ("thingbed_link_bytes_total", 1_000.0),
            ("thingbed_link_passed_frames_total", 7.0),
            ("thingbed_link_lost_frames_total", 2.0),
            ("thingbed_link_dropped_frames_total", 1.0),
            ("thingbed_link_delay_seconds_total", 0.0355),
        ] {
            assert_eq!([value(name, "up"), value(name, "down")], [expected; 2], "{name}");
        }
        let down = ["up", "down"].map(|way| value("thingbed_link_down", way));
        assert_eq!(down, [1.0, 0.0], "each direction by itself");
        // Each metric is described once, before its values.
        let described = |line: &str| line.strip_prefix("# TYPE ").map(str::to_owned);
        let mut names: Vec<_> = text.lines().filter_map(described).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
