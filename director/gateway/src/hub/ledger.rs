//! What the disk has of messages that wait for devices, and of their filters.

use crate::kept_devices::KeptDevice;
use std::collections::{BTreeMap, BTreeSet};

/// What the disk has.
pub(super) struct Ledger {
    /// Under this name devices know the numbers of messages.
    pub store: u32,
    /// Numbers below are taken.
    pub reserved: u32,
    pub queued: BTreeMap<u32, BTreeSet<u32>>,
    pub devices: BTreeMap<u32, KeptDevice>,
    /// Whether anything may have changed.
    pub is_dirty: bool,
}
