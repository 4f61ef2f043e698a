//! Stored messages of the hub at a member.

use super::{Member, MemberEvent};
use crate::Instant;
use crate::store::StoredFrom;

impl Member {
    /// The application has taken a message of the hub's storage; `answer` is its answer, if it has one. The hub
    /// learns it.
    pub fn take(&mut self, from: StoredFrom, answer: Option<&[u8]>) {
        self.receipts.take(from, answer);
    }

    /// Says to the hub which memory this is, and what became of messages.
    pub(super) fn poll_receipts(&mut self, now: Instant) {
        let store = self.joined.as_ref().and_then(|joined| joined.link.welcome.store);
        if let Some(store) = store {
            self.receipts.poll(&mut self.uplink, store, &mut self.rng, now);
        }
    }

    pub(super) fn take_stored_messages(&mut self) {
        for (from, bytes) in self.receipts.take_messages() {
            self.events.push_back(MemberEvent::Stored { from, bytes });
        }
    }
}
