//! `thingbed top`: CPU, memory and traffic of nodes, every second.

use super::{find, table};
use crate::Status;
use crate::arguments::Top;
use crate::say;
use lab::Sample;
use runner::NodeShown;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Number of nodes shown, to fit into a terminal; the others are only counted.
const LINES: usize = 20;

/// Repeatedly shows the nodes with the highest CPU usage.
pub fn top(arguments: &Top) -> Result<Status, String> {
    let lab = find(&arguments.which.lab)?;
    let terminal = std::io::stdout().is_terminal();
    let mut before = sample(&lab.nodes(&arguments.which.nodes)?);
    let mut at = Instant::now();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let Ok(nodes) = lab.nodes(&arguments.which.nodes) else { return Ok(Status::Fine) };
        let now = sample(&nodes);
        let text = page(&nodes, &before, &now, at.elapsed().as_secs_f64());
        at = Instant::now();
        if terminal && !arguments.once {
            let _ = write!(std::io::stdout(), "\x1b[H\x1b[2J");
        }
        say(text);
        if arguments.once {
            return Ok(Status::Fine);
        }
        before = now;
    }
}

/// Per node: PID of its init process, CPU and memory of its programs, frames and bytes sent, frames
/// and bytes received. Traffic is as counted by the medium: the interfaces' counters miss frames
/// that the medium takes before them.
type Usage = Vec<(i32, Sample, [u64; 2], [u64; 2])>;

fn sample(nodes: &[NodeShown]) -> Usage {
    let pids: Vec<i32> = nodes.iter().map(|node| node.pid).collect();
    let samples = lab::sample(&pids).into_iter();
    nodes.iter().zip(samples).map(|(n, sample)| (n.pid, sample, n.sent, n.received)).collect()
}

fn page(nodes: &[NodeShown], before: &Usage, now: &Usage, seconds: f64) -> String {
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    for (node, (pid, sample, sent, received)) in nodes.iter().zip(now) {
        // By the init's process and not by name: a node that was destroyed and cloned again begins
        // at zero.
        let known = before.iter().find(|(known, ..)| known == pid);
        let Some((_, old, was_sent, was_received)) = known else { continue };
        let ms = |sample: &Sample| sample.user_ms + sample.system_ms;
        // ms per second, as a share of 1,000 ms and in per cent: a tenth.
        let cpu = (ms(sample) - ms(old)).max(0.0) / seconds / 10.0;
        // Counters of a restarted program can be smaller than before.
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        rows.push((
            cpu,
            vec![
                node.name.clone(),
                node.state().to_owned(),
                format!("{cpu:.1}"),
                format!("{:.1}", sample.rss_bytes as f64 / 1e6),
                format!("{:.1}", rate(sent[1], was_sent[1]) * 8.0 / 1e3),
                format!("{:.1}", rate(received[1], was_received[1]) * 8.0 / 1e3),
                format!("{:.0}", rate(sent[0], was_sent[0])),
                format!("{:.0}", rate(received[0], was_received[0])),
            ],
        ));
    }
    rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let more = rows.len().saturating_sub(LINES);
    let rows = rows.into_iter().take(LINES).map(|(_, row)| row).collect();
    let head = [
        "NODE",
        "STATE",
        "CPU %",
        "RSS MB",
        "OUT kbit/s",
        "IN kbit/s",
        "OUT frames/s",
        "IN frames/s",
    ];
    let more = if more > 0 {
        format!("\nand {more} more nodes with lower CPU usage")
    } else {
        String::new()
    };
    table(&head, 2, rows) + &more
}
