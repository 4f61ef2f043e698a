//! Retained messages that are not stored.

use crate::budget::OVERHEAD;
use std::collections::BTreeSet;

/// Maximum size of the topics in [`Topics`], in bytes.
const MAX_TOPICS: usize = 16 << 20;

/// Topics whose retained messages have changed and are not stored.
#[derive(Default)]
pub(super) struct Topics {
    names: BTreeSet<String>,
    /// Size of `names`.
    bytes: usize,
    /// Whether there are more: on a full disk, clients could add and remove messages of any number of
    /// topics.
    is_all: bool,
}

impl Topics {
    /// The topics; `None` if there are too many to keep.
    pub fn names(&self) -> Option<&BTreeSet<String>> {
        (!self.is_all).then_some(&self.names)
    }

    /// The retained message of a topic has changed.
    pub fn insert(&mut self, topic: &str) {
        if self.is_all || self.names.contains(topic) {
            return;
        }
        self.bytes += topic.len() + OVERHEAD;
        if self.bytes > MAX_TOPICS {
            *self = Self { is_all: true, ..Self::default() };
            return;
        }
        self.names.insert(topic.to_owned());
    }
}
