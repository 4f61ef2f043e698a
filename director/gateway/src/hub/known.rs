//! What the hub knows of its devices.

use super::memory::{Filter, Waiting, Will};
use crate::gateway::Seen;
use crate::kept_devices::remember;
use crate::message::KEEPS;
use director::topic;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of messages that wait for a device.
pub(super) const MAX_LANE: usize = 10_000;

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
    /// What it has, and may not have stored, with the second in which it got it.
    pub unconfirmed: BTreeMap<u32, (u64, Waiting)>,
    /// Numbers of its messages of QoS 2 that have left something on the disk, and how many of the last ones
    /// are not there yet.
    pub had: VecDeque<u32>,
    pub unsaved_had: usize,
}

impl Known {
    /// A message of QoS 2 of it is to be stored: its number as well, so that a restart of the hub does not
    /// make it two.
    pub fn record_had(&mut self, number: u32) {
        remember(&mut self.had, number);
        self.unsaved_had = (self.unsaved_had + 1).min(self.had.len());
    }

    /// It has started: its numbers begin anew.
    pub fn forget_had(&mut self) {
        (self.had, self.unsaved_had) = (VecDeque::new(), 0);
    }

    pub fn wants(&self, topic: &str) -> Option<u8> {
        let matching = self.filters.iter().filter(|(filter, _)| topic::matches(filter, topic));
        matching.map(|(_, own)| own.qos).max()
    }

    /// Whether it keeps sessions over a restart.
    pub fn keeps(&self) -> bool {
        self.device.start() & KEEPS != 0
    }

    /// Whether it gets messages together with others.
    pub fn is_current(&self) -> bool {
        self.is_greeted && self.lane.is_empty()
    }
}
