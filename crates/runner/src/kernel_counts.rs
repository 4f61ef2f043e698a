//! The kernel's counters at the nodes' interfaces.

use crate::topology::Topology;
use engine::{Engine, Place, Refused};
use lab::Lab;
use measure::Accounting;
use std::time::Duration;

/// Maximum number of reads while counters still change: one second in all.
const SETTLING: u32 = 50;

/// Reads the kernel's counters once they are stable: connections of ended programs are still
/// closing, and the medium would count frames that the kernel had not.
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

/// Packets dropped because the kernel's input queues were full, on all CPUs since boot
/// (`/proc/net/softnet_stat`, second column); 0 if unavailable.
pub(crate) fn backlog_drops() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let dropped = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(dropped).sum()
}

/// Reads the kernel's counters of each port, before the nodes are removed. The drops include
/// packets without room in the queue behind the interface.
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
            let mut counters = lab::counters(lab.nodes()[node].kind.pid(), interface)?;
            counters.tx_dropped += refused.get(port).copied().unwrap_or_default();
            Some(counters)
        })
        .collect()
}
