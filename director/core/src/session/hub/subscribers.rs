//! Who has subscribed to what, and messages that wait to go on.

use crate::Instant;
use crate::session::MessageFrom;
use crate::switch::MemberId;
use crate::uplink::{Publication, Subscriptions};
use alloc::collections::{BTreeMap, VecDeque};

/// Maximum number of messages of members that wait to go on, and of their bytes: further ones are
/// refused.
const MAX_WAITING: usize = 1_024;
const MAX_WAITING_BYTES: usize = 4 << 20;
/// A member's subscriptions.
pub(super) struct Subscriber {
    /// The start of the member that has sent them.
    pub start: u32,
    pub list: Subscriptions,
}

/// A message of a member that goes on to others.
pub(super) struct Relay {
    pub from: MemberId,
    pub publication: Publication,
    pub until: Instant,
}

/// Subscriptions, and messages that wait to go on.
#[derive(Default)]
pub(super) struct Topics {
    pub subscribers: BTreeMap<MemberId, Subscriber>,
    waiting: VecDeque<Relay>,
    bytes: usize,
}

impl Topics {
    /// Whether further messages of members are refused.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING || self.bytes >= MAX_WAITING_BYTES
    }

    /// The subscriptions of a member: the newest list of its newest start counts.
    pub fn subscribe(&mut self, from: MessageFrom, list: Subscriptions) {
        let known = self.subscribers.get(&from.member).filter(|known| known.start == from.start);
        if known.is_none_or(|known| known.list.version <= list.version) {
            self.subscribers.insert(from.member, Subscriber { start: from.start, list });
        }
    }

    /// Forgets a member.
    pub fn remove(&mut self, member: MemberId) {
        self.subscribers.remove(&member);
    }

    /// A message goes on to those that have subscribed to its topic.
    pub fn relay(&mut self, from: MemberId, publication: Publication, until: Instant) {
        self.bytes += publication.bytes.len();
        self.waiting.push_back(Relay { from, publication, until });
    }

    /// The next message that goes on.
    pub fn next(&mut self) -> Option<Relay> {
        let relay = self.waiting.pop_front()?;
        self.bytes -= relay.publication.bytes.len();
        Some(relay)
    }
}
