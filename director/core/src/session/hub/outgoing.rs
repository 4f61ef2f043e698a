//! A message of the hub.

use crate::Instant;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::store::StoredNumber;
use crate::switch::MemberId;

/// A message with missing answers or acknowledgements.
pub(super) struct Outgoing {
    pub bytes: Vec<u8>,
    pub to: usize,
    /// Its receivers, if there are other members.
    pub chosen: Option<Vec<MemberId>>,
    pub topic: Option<String>,
    /// Its number in the storage, if it is there.
    pub stored: Option<StoredNumber>,
    pub sent_at: Instant,
    /// Time of the next lateness check; `None` after it.
    pub due: Option<Instant>,
    pub until: Option<Instant>,
    /// Whether its delay is recorded.
    pub timed: bool,
    /// Whether the newest model has refused it, and no other is chosen for it yet.
    pub is_refused: bool,
    /// Number of models that have refused it.
    pub refusals: u32,
}

/// What a message is beyond its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content<'a> {
    Plain,
    /// A message of a topic.
    Topic(&'a str),
    /// A message of the storage.
    Stored(StoredNumber),
}

impl Outgoing {
    /// The newest model has refused it, perhaps for one member after the other.
    pub fn refuse(&mut self) {
        self.refusals += u32::from(!self.is_refused);
        self.is_refused = true;
    }
}
