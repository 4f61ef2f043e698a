//! What a run gives up when its disk is full, to keep its figures.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::Instant;

/// A part of a run folder that no figure depends on, in the order in which they are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auxiliary {
    /// The capture.
    Capture,
    /// The output of programs.
    Output,
    /// The impairment decisions, which only a replay needs.
    Decisions,
}

impl Auxiliary {
    /// All parts, in order.
    pub const ALL: [Self; 3] = [Self::Capture, Self::Output, Self::Decisions];
}

/// When each part was given up. Any thread may give up a part; its writer stops then.
#[derive(Debug, Default)]
pub struct FullDisk([AtomicU64; 3]);

impl FullDisk {
    /// Gives up a part from now on.
    pub fn give_up(&self, part: Auxiliary) {
        // 0 means that the part is still written.
        let now = clock::now_ns().max(1);
        // The first time counts.
        let _ = self.0[part as usize].compare_exchange(0, now, Relaxed, Relaxed);
    }

    /// The time at which a part was given up.
    pub fn since(&self, part: Auxiliary) -> Option<Instant> {
        let ns = self.0[part as usize].load(Relaxed);
        (ns > 0).then(|| Instant::from_ns(ns))
    }

    /// Whether a part was given up.
    pub fn is_given_up(&self, part: Auxiliary) -> bool {
        self.since(part).is_some()
    }

    /// The first part that is still written.
    pub fn next(&self) -> Option<Auxiliary> {
        Auxiliary::ALL.into_iter().find(|part| !self.is_given_up(*part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_given_up_in_order_and_once() {
        let disk = FullDisk::default();
        assert_eq!(disk.next(), Some(Auxiliary::Capture));
        disk.give_up(Auxiliary::Capture);
        let at = disk.since(Auxiliary::Capture);
        disk.give_up(Auxiliary::Capture);
        assert_eq!(disk.since(Auxiliary::Capture), at);
        assert_eq!(disk.next(), Some(Auxiliary::Output));
        disk.give_up(Auxiliary::Decisions);
        assert_eq!(disk.next(), Some(Auxiliary::Output));
        disk.give_up(Auxiliary::Output);
        assert_eq!(disk.next(), None);
    }
}
