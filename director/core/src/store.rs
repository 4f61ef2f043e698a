//! Names and numbers of stored messages, of the hub and of members.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use alloc::collections::BTreeMap;

/// What one end has given the other: another one if it has forgotten which stored messages of it it has had.
pub type Token = [u8; 8];

/// Identifies the storage of a hub for its members, over its starts; random.
pub type StoreId = [u8; 8];

/// The number of a message in the hub's storage, as it goes to members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredNumber {
    /// Its number over all starts of the hub.
    pub id: u64,
    /// Its distance to the oldest number without all outcomes: members forget what is older.
    pub back: u16,
}

/// Identifies a stored message of the hub at a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StoredFrom {
    pub(crate) store: StoreId,
    pub(crate) id: u64,
}

/// A change of what a member remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiptChange {
    /// A hub is new; the token says that its messages are remembered.
    Hub(StoreId, Token),
    /// A hub is forgotten.
    Forgotten(StoreId),
    /// A message goes to the application. Those below the second number are forgotten.
    Arrived(StoreId, u64, u64),
    /// The application has taken a message: kind of the reply, and the answer.
    Taken(StoreId, u64, Vec<u8>),
}

/// What a member remembers of a hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HubReceipts {
    /// The hub's storage.
    pub store: StoreId,
    /// What the hub knows this memory by.
    pub token: Token,
    /// Messages below are forgotten.
    pub oldest: u64,
    /// Messages that have gone to the application. Kind of the reply and the answer, if it has taken them.
    pub receipts: BTreeMap<u64, Option<Vec<u8>>>,
}
