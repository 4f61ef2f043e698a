//! Messages that have arrived, and whose answers the hub may lack.

use crate::Instant;
use crate::carrier::MemberCarrier;
use crate::message_map::MessageMap;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;

/// A received message.
pub(super) struct ReceivedMessage {
    /// The epoch in which it last arrived.
    pub epoch: u32,
    pub bytes: usize,
    /// Time at which the hub no longer waits for an answer: not earlier than at the hub itself.
    pub until: Option<Instant>,
    pub answer: Option<Vec<u8>>,
}

/// Drops the messages whose answers the hub has.
pub(super) fn forget(carrier: &mut dyn MemberCarrier, open: &mut MessageMap<ReceivedMessage>) {
    while let Some(number) = carrier.next_over() {
        open.remove(number);
    }
}
