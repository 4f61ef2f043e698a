//! What the kernel counted at nodes' interfaces.

use crate::topology::Topology;
use lab::Lab;
use measure::Accounting;
use medium::{Engine, Place, Refused};
use std::time::Duration;

/// Looks at counters that still move before they are taken as they are: a second.
const SETTLING: u32 = 50;

/// The kernel's counters once nothing moves: connections of programs that have
/// ended still say goodbye, and the medium would count what the kernel had not.
pub(crate) fn settled<T: PartialEq>(engine: &Engine<Accounting>, read: impl Fn() -> T) -> T {
    let mut before = (read(), engine.frames());
    for _ in 0..SETTLING {
        std::thread::sleep(Duration::from_millis(20));
        let now = (read(), engine.frames());
        if now == before {
            break;
        }
        before = now;
    }
    before.0
}

/// Packets that found no room in the queues of the kernel's own network work, of all CPUs
/// and since it began (`/proc/net/softnet_stat`, second column); 0 where it does not tell.
pub(crate) fn backlog_drops() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let dropped = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(dropped).sum()
}

/// What the kernel counted at each port, before the nodes are gone; among the dropped
/// also what found no room behind the interface.
pub(crate) fn read(
    lab: &Lab,
    topology: &Topology,
    refused: &Refused,
) -> Vec<Option<lab::Counters>> {
    let refused = refused.read();
    topology
        .places
        .iter()
        .enumerate()
        .map(|(port, Place { segment, endpoint })| {
            let node = topology.owners[*segment][*endpoint];
            let (_, interface) = topology.names[*segment][*endpoint].split_once(':')?;
            let mut counters = lab::counters(lab.pids()[node], interface)?;
            counters.tx_dropped += refused.get(port).copied().unwrap_or_default();
            Some(counters)
        })
        .collect()
}
