//! Topics at the hub: who has subscribed to what, and messages that go on to these members.

use super::Hub;
use super::subscribers::{Relay, Subscriber};
use super::supervise::MAX_MESSAGES;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::session::SessionError;
use crate::switch::{MemberId, MessageId};
use crate::topic::{check_topic, matches};
use crate::uplink::Publication;
use crate::{Instant, Span};
use alloc::collections::BTreeMap;

/// Messages of members go on while fewer messages are open: the application needs room, too.
const MAX_OPEN: usize = MAX_MESSAGES / 2;
/// Maximum number of open messages of topics that a member lacks: it does not get further ones, so
/// that one that is silent does not hold up the others.
const MAX_LACKING: usize = 128;

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
