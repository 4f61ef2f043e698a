//! Subscriptions of a member, and its messages of topics.

use super::Member;
use super::filters::Sent;
use crate::Instant;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::session::SessionError;
use crate::topic::{MAX_FILTERS, TopicError, check_filter, check_topic};
use crate::uplink::{MessageProperties, PUBLISH, Publication, SUBSCRIBE};
use alloc::collections::BTreeSet;

impl Member {
    /// Subscribes to the topics that a filter selects, with the wildcards of MQTT: messages of
    /// other members and of the hub's application arrive as
    /// [`MemberEvent::Published`](super::MemberEvent::Published). Returns the number of a message
    /// to the hub: the subscription holds when that is acknowledged. It is repeated after each
    /// handshake, until [`unsubscribe`](Self::unsubscribe).
    ///
    /// # Errors
    /// [`SessionError::Topic`] if the filter is not valid or there are too many,
    /// [`SessionError::Full`] if too many messages are open.
    pub fn subscribe(&mut self, filter: &str, now: Instant) -> Result<u32, SessionError> {
        check_filter(filter)?;
        let all = &self.filters.all;
        if !all.contains(filter) && all.len() >= MAX_FILTERS {
            return Err(TopicError::TooMany.into());
        }
        let mut next = all.clone();
        next.insert(filter.to_owned());
        self.change_filters(next, now)
    }

    /// Ends a subscription; returns the number of a message to the hub.
    ///
    /// # Errors
    /// [`SessionError::Full`] if too many messages are open.
    pub fn unsubscribe(&mut self, filter: &str, now: Instant) -> Result<u32, SessionError> {
        let mut next = self.filters.all.clone();
        next.remove(filter);
        self.change_filters(next, now)
    }

    fn change_filters(
        &mut self,
        next: BTreeSet<String>,
        now: Instant,
    ) -> Result<u32, SessionError> {
        let before = core::mem::replace(&mut self.filters.all, next);
        self.filters.version += 1;
        match self.send_filters(true, now) {
            Ok(number) => Ok(number),
            Err(error) => {
                self.filters.all = before;
                Err(error)
            }
        }
    }

    fn send_filters(&mut self, is_awaited: bool, now: Instant) -> Result<u32, SessionError> {
        // Before messages: other members may answer them.
        let properties = MessageProperties { priority: 0, ..MessageProperties::default() };
        let sent = self.uplink.push(SUBSCRIBE, &self.filters.list(), properties, now);
        let number = sent.map_err(|error| SessionError::of_uplink(error, self.uplink.open()))?;
        let version = self.filters.version;
        self.filters.sent = Some(Sent { number, version, is_awaited });
        Ok(number)
    }

    /// Sends the list again, if the hub lacks it.
    pub(super) fn restore_filters(&mut self, now: Instant) {
        if self.joined.is_some() && self.filters.is_due() {
            // Without room, the end of a message makes some.
            let _ = self.send_filters(false, now);
        }
    }

    /// Sends a message of a topic to the hub's application and to the other members that have
    /// subscribed to it; returns its number. Its outcome says what became of it at the hub's
    /// application, as for [`publish`](Self::publish): the hub sends it on when that has taken it,
    /// once, within what is left of its lifetime.
    ///
    /// # Errors
    /// [`SessionError::Topic`] if the topic is not valid, [`SessionError::Full`] if too many
    /// messages are open, [`SessionError::TooLong`].
    pub fn publish_to(
        &mut self,
        topic: &str,
        bytes: &[u8],
        properties: MessageProperties,
        now: Instant,
    ) -> Result<u32, SessionError> {
        check_topic(topic)?;
        let sent = self.send_up(PUBLISH, &Publication::encode(topic, bytes), properties, now);
        sent.map_err(|error| SessionError::of_uplink(error, self.open_messages()))
    }
}
