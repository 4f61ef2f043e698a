//! Counters of a bed: of the kernel at the nodes' interfaces, of netem, of the nodes' programs.

use super::Bed;
use super::netem;
use engine::Place;
use lab::{Meter, Scheduled};
use measure::Counts;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of reads while counters still change: one second in all.
const SETTLING: u32 = 50;

impl Bed<'_> {
    /// A reader of the nodes' resource usage.
    pub fn meter(&self) -> Meter {
        self.lab.meter()
    }

    /// Frames and bytes that nodes sent and received.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Scheduler statistics of each node's programs.
    pub fn scheduled(&self) -> Vec<Scheduled> {
        lab::scheduled(&self.lab.pids())
    }

    /// Ends counting in the medium, which goes on forwarding.
    pub fn end_counting(&self) {
        self.engine.end();
    }

    /// Netem's counters.
    ///
    /// # Errors
    /// When the kernel does not return them.
    pub fn netem_counters(&self) -> Result<Vec<netem::Done>, lab::Error> {
        self.impairments.done(&self.lab)
    }

    /// Datagrams that nodes' sockets dropped.
    pub fn socket_drops(&self) -> u64 {
        self.lab.pids().into_iter().map(lab::socket_drops).sum()
    }

    /// The kernel's counters of each port once they are stable: connections of ended programs are
    /// still closing, and the medium would count frames that the kernel had not.
    pub fn kernel_counters(&self) -> Vec<Option<lab::Counters>> {
        let read = || (self.read_kernel_counters(), self.engine.frames());
        let mut before = read();
        for _ in 0..SETTLING {
            std::thread::sleep(Duration::from_millis(20));
            let now = read();
            if now == before {
                break;
            }
            before = now;
        }
        before.0
    }

    /// The drops include packets without room in the queue behind the interface.
    fn read_kernel_counters(&self) -> Vec<Option<lab::Counters>> {
        let refused = self.refused.read();
        let topology = &self.design.topology;
        let ports = topology.places.iter().enumerate();
        ports
            .map(|(port, Place { segment, endpoint })| {
                let node = topology.owners[*segment][*endpoint];
                let (_, interface) = topology.names[*segment][*endpoint].split_once(':')?;
                let mut counters = lab::counters(self.lab.nodes()[node].kind.pid(), interface)?;
                counters.tx_dropped += refused.get(port).copied().unwrap_or_default();
                Some(counters)
            })
            .collect()
    }
}

/// Packets dropped because the kernel's input queues were full, on all CPUs since boot
/// (`/proc/net/softnet_stat`, second column); 0 if unavailable.
pub(crate) fn backlog_drops() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let dropped = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(dropped).sum()
}
