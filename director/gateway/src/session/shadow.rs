//! What is on the disk of a session.

use crate::packet::Options;
use std::collections::{BTreeMap, BTreeSet};

/// What is on the disk of a session.
#[derive(Default)]
pub struct Shadow {
    pub life: (u8, u32, Option<u64>),
    pub filters: BTreeMap<String, Options>,
    /// Packet numbers of messages, and whether the client has them.
    pub entries: BTreeMap<u64, (u16, bool)>,
    pub received: BTreeSet<u16>,
}
