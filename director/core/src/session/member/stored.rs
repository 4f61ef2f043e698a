//! Messages of a member that outlast its start.

use super::{Member, MemberEvent};
use crate::Instant;
use crate::downlink::Receipts;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::uplink::{MessageProperties, Outcome, Stored, StoredChange, StoredState, UplinkError};

impl Member {
    /// Goes on with the stored messages of the starts before, and takes further ones
    /// ([`MessageProperties::stored`]). Returns the numbers of the former ones: they end as others
    /// do. The member also remembers which stored messages of hubs it has had. Without this call, no message
    /// is stored, and a further start of the member remembers nothing.
    pub fn store(&mut self, mut state: StoredState) -> Vec<u32> {
        self.receipts = Receipts::restored(core::mem::take(&mut state.receipts));
        let (stored, numbers) = Stored::new(state);
        self.stored = Some(stored);
        numbers
    }

    /// What has changed since the last call. Write it to a disk, and wait until it is there, before
    /// the next call of [`poll`](Self::poll) or [`take_events`](Self::take_events).
    pub fn take_changes(&mut self) -> Vec<StoredChange> {
        let changes = self.stored.as_mut().map(Stored::take_changes).unwrap_or_default();
        let receipts = self.receipts.take_changes().into_iter().map(StoredChange::Receipt);
        changes.into_iter().chain(receipts).collect()
    }

    /// Changes of [`take_changes`](Self::take_changes) that could not be written, all of them: it returns
    /// them again. Until they are written, no stored message is sent for the first time, and none has an
    /// outcome.
    pub fn keep_changes(&mut self, changes: Vec<StoredChange>) {
        let (mut own, mut receipts) = (Vec::new(), Vec::new());
        for change in changes {
            match change {
                StoredChange::Receipt(change) => receipts.push(change),
                change => own.push(change),
            }
        }
        self.receipts.keep_changes(receipts);
        if let Some(stored) = &mut self.stored {
            stored.keep_changes(own);
        }
    }

    /// Takes back a message that could not be written to the disk; none of it was sent.
    pub fn withdraw_stored(&mut self, number: u32) {
        if let Some(stored) = &mut self.stored {
            stored.withdraw(number);
        }
    }

    /// Sends a message of this kind, or stores it.
    pub(super) fn send_up(
        &mut self,
        kind: u8,
        body: &[u8],
        properties: MessageProperties,
        now: Instant,
    ) -> Result<u32, UplinkError> {
        match &mut self.stored {
            Some(stored) if properties.stored => stored.send(kind, body, properties, now),
            _ => self.uplink.push(kind, body, properties, now),
        }
    }

    /// A message of the lane has ended; returns whether it carried a stored one.
    pub(super) fn stored_ended(&mut self, number: u32, outcome: &Outcome, now: Instant) -> bool {
        self.stored.as_mut().is_some_and(|stored| stored.ended(number, outcome, now))
    }

    /// Gives the lane the stored messages that it can have; returns the time of the next poll.
    pub(super) fn poll_stored(&mut self, now: Instant) -> Option<Instant> {
        let joined = self.joined.is_some();
        let stored = self.stored.as_mut()?;
        stored.poll(&mut self.uplink, joined, now)
    }

    pub(super) fn take_stored_outcomes(&mut self) {
        let Some(stored) = &mut self.stored else { return };
        for (number, outcome) in stored.take_outcomes() {
            self.events.push_back(MemberEvent::Outcome { number, outcome });
        }
    }
}
