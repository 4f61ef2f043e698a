//! Topics at the hub: who has subscribed to what, and messages that go on to these members.

use super::Hub;
use super::supervise::MAX_MESSAGES;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::session::{MessageFrom, SessionError};
use crate::switch::{MemberId, MessageId};
use crate::topic::{check_topic, matches};
use crate::uplink::{Publication, Subscriptions};
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, VecDeque};

/// Maximum number of messages of members that wait to go on, and of their bytes: further ones are
/// refused.
const MAX_WAITING: usize = 1_024;
const MAX_WAITING_BYTES: usize = 4 << 20;
/// Messages of members go on while fewer messages are open: the application needs room, too.
const MAX_OPEN: usize = MAX_MESSAGES / 2;
/// Maximum number of open messages of topics that a member lacks: it does not get further ones, so
/// that one that is silent does not hold up the others.
const MAX_LACKING: usize = 128;

/// A member's subscriptions.
struct Subscriber {
    /// The start of the member that has sent them.
    start: u32,
    list: Subscriptions,
}

/// A message of a member that goes on to others.
struct Relay {
    from: MemberId,
    publication: Publication,
    until: Instant,
}

/// Subscriptions, and messages that wait to go on.
#[derive(Default)]
pub(super) struct Topics {
    subscribers: BTreeMap<MemberId, Subscriber>,
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

    fn next(&mut self) -> Option<Relay> {
        let relay = self.waiting.pop_front()?;
        self.bytes -= relay.publication.bytes.len();
        Some(relay)
    }
}

impl Hub {
    /// Sends a message of a topic to the members that have subscribed to it; returns its number, or
    /// `None` if there are none. Members' libraries acknowledge it, in all patterns.
    ///
    /// # Errors
    /// [`SessionError`] if the topic is not valid, no model in use can carry the message, or too
    /// many are open.
    pub fn publish(
        &mut self,
        topic: &str,
        bytes: &[u8],
        now: Instant,
    ) -> Result<Option<MessageId>, SessionError> {
        check_topic(topic)?;
        let to = self.subscribers(topic, None);
        if to.is_empty() {
            return Ok(None);
        }
        self.send_topic(topic, bytes, &to, self.lifetime(), now).map(Some)
    }

    /// The members that have subscribed to a topic, and can take a message.
    fn subscribers(&self, topic: &str, except: Option<MemberId>) -> Vec<MemberId> {
        let mut lacking: BTreeMap<MemberId, usize> = BTreeMap::new();
        // With fewer open messages, no member lacks too many.
        if self.messages.len() >= MAX_LACKING {
            let open = self.messages.iter().filter(|(_, message)| message.topic.is_some());
            for (number, _) in open {
                for member in self.switch.unacknowledged(*number) {
                    *lacking.entry(member).or_default() += 1;
                }
            }
        }
        let is_behind =
            |member: &MemberId| lacking.get(member).is_some_and(|count| *count >= MAX_LACKING);
        let start = |member: &MemberId| {
            self.pairings.get(member).and_then(|own| own.keys()).map(|(_, start)| start)
        };
        let wants = |(member, own): (&MemberId, &Subscriber)| {
            let is_current = start(member) == Some(own.start) && Some(*member) != except;
            let selects = || own.list.filters.iter().any(|filter| matches(filter, topic));
            (is_current && !is_behind(member) && selects()).then_some(*member)
        };
        let all = self.topics.subscribers.iter().filter_map(wants);
        all.filter(|member| !self.uplinks.left.contains(member)).collect()
    }

    /// Sends on what members have published, while there is room.
    pub(super) fn relay_topics(&mut self, now: Instant) {
        while self.messages.len() < MAX_OPEN
            && let Some(relay) = self.topics.next()
        {
            let Relay { from, publication: Publication { topic, bytes }, until } = relay;
            let to = self.subscribers(&topic, Some(from));
            if to.is_empty() || until <= now {
                continue;
            }
            let lifetime: Span = until - now;
            // One that is too long for the model has no other way; its sender knows that the
            // application has it.
            let _ = self.send_topic(&topic, &bytes, &to, Some(lifetime), now);
        }
    }
}
