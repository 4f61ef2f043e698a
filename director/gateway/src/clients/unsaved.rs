//! Which sessions the disk does not have as they are.

use crate::message::Message;
use std::collections::{BTreeMap, BTreeSet};

/// What the disk does not have.
#[derive(Default)]
pub(super) struct Unsaved {
    /// Whether sessions are written at all.
    pub is_on: bool,
    /// Clients whose sessions may have changed.
    pub changed: BTreeSet<String>,
    /// Clients with sessions on the disk that have ended.
    pub gone: BTreeSet<String>,
    /// Number of changes that must be written before messages are acknowledged.
    pub revision: u64,
    /// Wills that the disk has, with their delays in seconds, if it has any.
    pub wills: Option<BTreeMap<String, (u32, Message)>>,
}

impl Unsaved {
    /// The session of a client may have changed.
    pub fn touch(&mut self, name: &str) {
        if self.is_on && !self.changed.contains(name) {
            self.changed.insert(name.to_owned());
        }
    }

    /// A session that the disk has is over.
    pub fn end(&mut self, name: &str) {
        self.touch(name);
        self.gone.insert(name.to_owned());
    }
}
