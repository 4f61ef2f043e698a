//! The filters of a member.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::topic::matches;
use crate::uplink::{Failure, Outcome, Subscriptions};
use alloc::collections::BTreeSet;

/// The filters of a member, and what the hub knows of them. The hub gets the whole list after each
/// change and after each handshake: a list that is late or lost needs no repair (decision 118).
#[derive(Default)]
pub(super) struct Filters {
    pub all: BTreeSet<String>,
    /// Counts the changes.
    pub version: u32,
    /// The version that the hub of the present handshake has.
    known: Option<u32>,
    /// The message with the list that is on its way, its version, and whether the application
    /// waits for its outcome.
    pub sent: Option<Sent>,
}

/// A list on its way.
pub(super) struct Sent {
    pub number: u32,
    pub version: u32,
    pub is_awaited: bool,
}

impl Filters {
    /// Whether the application wants messages of a topic.
    pub fn select(&self, topic: &str) -> bool {
        self.all.iter().any(|filter| matches(filter, topic))
    }

    /// The member has new keys: the hub forgets what it had under the former ones.
    pub fn forget_known(&mut self) {
        self.known = None;
    }

    /// The list for the hub.
    pub fn list(&self) -> Vec<u8> {
        let filters = self.all.iter().cloned().collect();
        Subscriptions { version: self.version, filters }.encode()
    }

    /// Whether the hub lacks the list, and none is on its way.
    pub fn is_due(&self) -> bool {
        // A hub that has had no list needs no empty one.
        let is_known = self.known == Some(self.version);
        let has_something = !self.all.is_empty() || self.known.is_some();
        !is_known && self.sent.is_none() && has_something
    }

    /// A message has ended; returns whether it was a list that the application does not wait for.
    pub fn ended(&mut self, number: u32, outcome: &Outcome) -> bool {
        let Some(sent) = self.sent.take_if(|sent| sent.number == number) else { return false };
        match outcome {
            // Nothing else would come of the same list.
            Outcome::Acknowledged(_)
            | Outcome::Failed(Failure::Refused | Failure::TooLong { .. }) => {
                self.known = Some(sent.version);
            }
            Outcome::Failed(Failure::Unsent) | Outcome::Unknown => {}
        }
        !sent.is_awaited
    }
}
