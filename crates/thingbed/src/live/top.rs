//! The command `top`: what nodes use, second by second.

use super::{find, table};
use crate::Status;
use crate::arguments::Top;
use crate::say;
use lab::{Counters, Sample};
use runner::NodeShown;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Lines that a terminal shows at least; more nodes than that are told by number.
const LINES: usize = 20;

/// Shows the nodes that use most CPU time, again and again.
pub fn top(wanted: &Top) -> Result<Status, String> {
    let lab = find(&wanted.which.lab)?;
    let terminal = std::io::stdout().is_terminal();
    let mut before = look(&lab.nodes(&wanted.which.nodes)?);
    let mut at = Instant::now();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let Ok(nodes) = lab.nodes(&wanted.which.nodes) else { return Ok(Status::Fine) };
        let now = look(&nodes);
        let text = page(&nodes, &before, &now, at.elapsed().as_secs_f64());
        at = Instant::now();
        if terminal && !wanted.once {
            let _ = write!(std::io::stdout(), "\x1b[H\x1b[2J");
        }
        say(text);
        if wanted.once {
            return Ok(Status::Fine);
        }
        before = now;
    }
}

type Seen = Vec<(i32, Sample, Counters)>;

fn look(nodes: &[NodeShown]) -> Seen {
    let pids: Vec<i32> = nodes.iter().map(|node| node.pid).collect();
    let samples = lab::sample(&pids).into_iter();
    let counters = nodes.iter().map(|node| {
        let each = node.interfaces.iter().filter_map(|(name, ..)| lab::counters(node.pid, name));
        each.fold(Counters::default(), |sum, one| Counters {
            rx_bytes: sum.rx_bytes + one.rx_bytes,
            rx_frames: sum.rx_frames + one.rx_frames,
            tx_bytes: sum.tx_bytes + one.tx_bytes,
            tx_frames: sum.tx_frames + one.tx_frames,
            ..sum
        })
    });
    pids.iter().zip(samples).zip(counters).map(|((pid, sample), c)| (*pid, sample, c)).collect()
}

fn page(nodes: &[NodeShown], before: &Seen, now: &Seen, seconds: f64) -> String {
    let mut rows: Vec<(f64, Vec<String>)> = Vec::new();
    for (node, (pid, sample, counters)) in nodes.iter().zip(now) {
        let Some((_, old, was)) = before.iter().find(|(known, ..)| known == pid) else { continue };
        let ms = |sample: &Sample| sample.user_ms + sample.system_ms;
        let cpu = (ms(sample) - ms(old)).max(0.0) / seconds / 10.0;
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let state = node.program.as_ref().map_or("", |(_, state)| state.as_str());
        rows.push((
            cpu,
            vec![
                node.name.clone(),
                state.to_owned(),
                format!("{cpu:.1}"),
                format!("{:.1}", sample.rss_bytes as f64 / 1e6),
                format!("{:.1}", rate(counters.tx_bytes, was.tx_bytes) * 8.0 / 1e3),
                format!("{:.1}", rate(counters.rx_bytes, was.rx_bytes) * 8.0 / 1e3),
                format!("{:.0}", rate(counters.tx_frames, was.tx_frames)),
                format!("{:.0}", rate(counters.rx_frames, was.rx_frames)),
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
    let more =
        if more > 0 { format!("\nand {more} nodes that use less CPU") } else { String::new() };
    table(&head, 2, rows) + &more
}
