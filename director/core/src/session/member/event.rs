//! Events at a member.

use crate::model::ModelId;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::store::StoredFrom;
use crate::switch::MessageId;
use crate::uplink::Outcome;
use core::net::SocketAddr;

/// An event at a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberEvent {
    /// The member has joined a session or one of its epochs; multicast uses this group.
    Joined {
        /// The group.
        group: SocketAddr,
        /// The model of the epoch.
        model: ModelId,
    },
    /// A message has arrived; each message is reported once.
    Message {
        /// Its number.
        number: MessageId,
        /// The message.
        bytes: Vec<u8>,
    },
    /// A message of a topic has arrived that this member has subscribed to; each is reported once.
    Published {
        /// Its topic.
        topic: String,
        /// The message.
        bytes: Vec<u8>,
    },
    /// A message of the hub's storage has arrived; each is reported once, over all starts of the hub and, with
    /// a storage, of the member. It ends when the application takes it ([`Member::take`](super::Member::take)).
    Stored {
        /// Its number.
        from: StoredFrom,
        /// The message.
        bytes: Vec<u8>,
    },
    /// A message of this member to the hub has ended; once per message.
    Outcome {
        /// Its number.
        number: u32,
        /// How it has ended.
        outcome: Outcome,
    },
}
