//! What the hub knows of its devices.

use super::memory::{Filter, Waiting, Will};
use crate::gateway::Seen;
use director::topic;
use std::collections::{BTreeMap, VecDeque};

/// What the hub knows of a device.
#[derive(Default)]
pub(super) struct Known {
    pub device: Seen,
    pub filters: BTreeMap<String, Filter>,
    pub wills: BTreeMap<String, Will>,
    pub period_s: u16,
    pub silent_s: u16,
    /// Whether the device knows that this hub has started.
    pub is_greeted: bool,
    /// What it gets alone, because it does not have earlier messages yet.
    pub lane: VecDeque<Waiting>,
    /// How many of them are on their way; the greeting counts as one.
    pub sent: usize,
    /// Whether these are not on their way, but wait for a second before they are sent again.
    pub is_paused: bool,
    pub dropped: u64,
}

impl Known {
    pub fn wants(&self, topic: &str) -> Option<u8> {
        let matching = self.filters.iter().filter(|(filter, _)| topic::matches(filter, topic));
        matching.map(|(_, own)| own.qos).max()
    }

    /// Whether it gets messages together with others.
    pub fn is_current(&self) -> bool {
        self.is_greeted && self.lane.is_empty()
    }
}
