//! Counters of a bed: of the kernel at the nodes' interfaces, of netem, of the nodes' programs.

use super::Bed;
use super::netem;
use super::topology::Topology;
use engine::Place;
use lab::{Meter, Scheduled};
use measure::{Carried, Counts, FullDisk};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of reads while counters still change: one second in all.
const SETTLING: u32 = 50;

impl Bed<'_> {
    /// A reader of the nodes' resource usage.
    pub fn meter(&self) -> Meter {
        self.lab.meter()
    }

    /// What the run has given up because its disk was full.
    pub fn full_disk(&self) -> Option<Arc<FullDisk>> {
        self.options.disk.clone()
    }

    /// The folder of the run.
    pub fn folder(&self) -> &Path {
        &self.folder
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

    /// Datagrams that nodes' sockets have dropped since the start signal.
    pub fn socket_drops(&self) -> u64 {
        // Nodes can be added and removed.
        let before = self.dropped_before.iter().copied().chain(std::iter::repeat(0));
        let each = self.all_socket_drops().into_iter().zip(before);
        each.map(|(now, before)| now.saturating_sub(before)).sum()
    }

    /// Datagrams that each node's sockets have dropped since it exists.
    pub fn all_socket_drops(&self) -> Vec<u64> {
        self.lab.pids().into_iter().map(lab::socket_drops).collect()
    }

    /// The kernel's counters of each port and the medium's of each node at one moment: once neither
    /// changes, with no frame between them. Before that, connections of ended programs are still
    /// closing. Where they never agree, because frames were lost between them or the kernel counts
    /// them before segmentation, the last ones.
    pub fn settled(&self) -> Settled {
        let read = || Settled {
            kernel: self.read_kernel_counters(),
            medium: (0..self.lab.nodes().len()).map(|node| self.counts.at(node)).collect(),
        };
        let mut before = read();
        // Counters that agree may still rise while connections close, and counters that rest may
        // differ by a frame that still waits: both are required.
        for _ in 0..SETTLING {
            std::thread::sleep(Duration::from_millis(20));
            let now = read();
            let is_settled = now == before && now.agrees(&self.design.topology);
            before = now;
            if is_settled {
                break;
            }
        }
        before
    }

    /// The drops include packets without room in the queue behind the interface.
    fn read_kernel_counters(&self) -> Vec<Option<lab::Counters>> {
        let refused = self.refused.read();
        let topology = &self.design.topology;
        let ports = topology.places.iter().enumerate();
        ports
            .map(|(port, Place { segment, endpoint })| {
                let node = topology.owners[*segment][*endpoint];
                let interface = &topology.interfaces[port];
                let mut counters = lab::counters(self.lab.nodes()[node].kind.pid(), interface)?;
                // The interface has counted such a packet as sent already.
                counters.tx_dropped += refused.get(port).copied().unwrap_or_default();
                Some(counters)
            })
            .collect()
    }
}

/// What the kernel and the medium have counted at one moment.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Settled {
    /// The kernel's counters of each port; `None` where the interface is gone.
    pub kernel: Vec<Option<lab::Counters>>,
    /// The medium's counters of each node.
    pub medium: Vec<Carried>,
}

impl Settled {
    /// The kernel's frames of `nodes`, sent and received.
    pub fn kernel_frames(&self, topology: &Topology, nodes: &[usize]) -> [u64; 2] {
        let ports = topology.places.iter().zip(&self.kernel);
        let own = ports
            .filter(|(place, _)| nodes.contains(&topology.owners[place.segment][place.endpoint]));
        let counters = own.filter_map(|(_, counters)| counters.as_ref());
        counters.fold([0, 0], |[tx, rx], own| [tx + own.tx_frames, rx + own.rx_frames])
    }

    /// The medium's frames of `nodes`, sent and received.
    pub fn medium_frames(&self, nodes: &[usize]) -> [u64; 2] {
        let own = nodes.iter().filter_map(|node| self.medium.get(*node));
        own.fold([0, 0], |[tx, rx], own| [tx + own.tx[0], rx + own.rx[0]])
    }

    fn agrees(&self, topology: &Topology) -> bool {
        let mut medium: Vec<_> = self.medium.iter().map(|own| [own.tx[0], own.rx[0]]).collect();
        for (place, counters) in topology.places.iter().zip(&self.kernel) {
            let owner = topology.owners[place.segment][place.endpoint];
            let (Some(counters), Some([tx, rx])) = (counters, medium.get_mut(owner)) else {
                return false;
            };
            // Wraps while the kernel has counted more; only 0 in the end counts.
            *tx = tx.wrapping_sub(counters.tx_frames);
            *rx = rx.wrapping_sub(counters.rx_frames);
        }
        medium.iter().all(|left| *left == [0, 0])
    }
}

/// Packets dropped because the kernel's input queues were full, on all CPUs since boot
/// (`/proc/net/softnet_stat`, second column); 0 if unavailable.
pub(crate) fn backlog_drops() -> u64 {
    let text = std::fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let dropped = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(dropped).sum()
}
