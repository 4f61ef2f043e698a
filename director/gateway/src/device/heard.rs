//! Which messages of the hub's storage a device has had, over its restarts if it has a storage.

use crate::gateway::Seen;
use crate::kept::Change;
use crate::kept_devices::{DeviceChange, remember};
use std::collections::VecDeque;

/// Messages of the hub's storage that have arrived.
#[derive(Default)]
pub(super) struct Heard {
    seen: Seen,
    /// Whether numbers are stored.
    is_on: bool,
    /// Those that are or will be on the disk.
    stored: VecDeque<u32>,
    /// Those that are to be stored, and those that the hub does not know to be.
    unsaved: Vec<u32>,
    unconfirmed: Vec<u32>,
}

impl Heard {
    /// What a former start has had; further ones are to be stored.
    pub fn restore(&mut self, store: u32, numbers: VecDeque<u32>) {
        self.is_on = true;
        self.seen.begin(store);
        for number in &numbers {
            self.seen.insert(*number);
        }
        self.stored = numbers;
    }

    /// A message arrives; returns whether it is new.
    pub fn arrive(&mut self, store: u32, number: u32, qos: u8) -> bool {
        if self.seen.begin(store) {
            self.stored.clear();
            self.unsaved.clear();
        }
        let is_new = self.seen.insert(number);
        if self.is_on && qos > 0 {
            if is_new {
                self.unsaved.push(number);
                remember(&mut self.stored, number);
            }
            self.unconfirmed.push(number);
        }
        is_new
    }

    /// What is to be written.
    pub fn unsaved(&self) -> impl Iterator<Item = Change> {
        self.changes(self.unsaved.iter())
    }

    fn changes<'a>(&self, numbers: impl Iterator<Item = &'a u32>) -> impl Iterator<Item = Change> {
        let store = self.seen.start();
        numbers.map(move |number| Change::Device(DeviceChange::Heard(store, *number)))
    }

    /// The changes that make all of it.
    pub fn all(&self) -> Vec<Change> {
        self.changes(self.stored.iter()).collect()
    }

    /// All is stored; returns what the hub does not know yet.
    pub fn saved(&mut self) -> Vec<u32> {
        self.unsaved.clear();
        std::mem::take(&mut self.unconfirmed)
    }
}
