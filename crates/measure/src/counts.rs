//! Live counters of nodes' traffic, readable while the medium runs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Counters of one node: frames and bytes sent, frames and bytes received. One thread writes, any
/// may read; a frame may be visible before its bytes.
#[derive(Debug, Default)]
pub(crate) struct Tally([AtomicU64; 4]);

impl Tally {
    pub(crate) fn sent(&self, [frames, bytes]: [u64; 2]) {
        self.0[0].store(frames, Relaxed);
        self.0[1].store(bytes, Relaxed);
    }

    pub(crate) fn received(&self, [frames, bytes]: [u64; 2]) {
        self.0[2].store(frames, Relaxed);
        self.0[3].store(bytes, Relaxed);
    }
}

/// Frames and bytes by node, since the medium started. Nodes may be added while others read.
#[derive(Debug, Default)]
pub struct Counts(Mutex<Vec<Arc<Tally>>>);

/// A node's counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// Frames and bytes sent.
    pub tx: [u64; 2],
    /// Frames and bytes received.
    pub rx: [u64; 2],
}

impl Counts {
    /// Adds a node with zero counters.
    pub(crate) fn add(&self) -> Arc<Tally> {
        let tally = Arc::<Tally>::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(tally.clone());
        tally
    }

    /// A node's counters now; 0 for a node without a link.
    pub fn at(&self, node: usize) -> Carried {
        let tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tally) = tallies.get(node) else { return Carried::default() };
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| tally.0[i].load(Relaxed));
        Carried { tx: [a, b], rx: [c, d] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_by_node_and_way() {
        let counts = Counts::default();
        let tallies = [counts.add(), counts.add()];
        tallies[1].sent([3, 300]);
        tallies[1].received([4, 400]);
        assert_eq!(counts.at(1), Carried { tx: [3, 300], rx: [4, 400] });
        assert_eq!(counts.at(0), Carried::default());
        assert_eq!(counts.at(7), Carried::default());
    }
}
