//! The hub's messages that outlast its start: they are sent again by the next one, with the same
//! numbers, to the members that have not said what became of them, and members drop what they have had.
//! Models carry them as other messages of the hub; what became of them comes by the lanes of members.
//!
//! At each member a message ends as exactly one [`Outcome`], at its deadline at the latest.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
mod receipts;
mod sender;

pub use receipts::Receipts;
pub use sender::Downlink;

use crate::Instant;
use crate::store::{StoreId, Token};
use crate::switch::MemberId;
use crate::uplink::Outcome;
use alloc::collections::BTreeMap;

/// What is known of a message at one of its receivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receiver {
    /// It has no outcome. The token of the member's memory when parts of it may have been sent.
    Open(Option<Token>),
    /// It has ended.
    Over(Outcome),
}

/// A message of the hub that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubMessage {
    /// Its number, over all starts of the hub.
    pub id: u64,
    /// The message.
    pub body: Vec<u8>,
    /// The end of its lifetime.
    pub until: Instant,
    /// Its receivers.
    pub to: BTreeMap<MemberId, Receiver>,
}

/// A change of what a hub has stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubChange {
    /// A message is new.
    Added(HubMessage),
    /// All messages so far may have been sent to this member, whose memory has this token.
    Begun(MemberId, Token),
    /// A message has ended at this member.
    Ended(u64, MemberId, Outcome),
}

/// What the starts of a hub before have left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HubState {
    /// The storage.
    pub store: StoreId,
    /// The number of the next message.
    pub next: u64,
    /// The messages that some member has no outcome of.
    pub open: Vec<HubMessage>,
}

/// The outcomes of a message at its receivers.
pub type Outcomes = BTreeMap<MemberId, Outcome>;
