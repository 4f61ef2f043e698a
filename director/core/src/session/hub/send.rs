//! Messages to members.

use super::outgoing::{Content, Outgoing};
use super::supervise::MAX_MESSAGES;
use super::{Hub, LINGER};
use crate::bundle;
use crate::carrier::{Load, To};
use crate::envelope;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::session::{Event, SessionError};
use crate::switch::{Action, MemberId, MessageId};
use crate::{Instant, Span};
use alloc::collections::BTreeSet;

impl Hub {
    /// Sends a message to all members; returns its number.
    ///
    /// # Errors
    /// [`SessionError`] if no model in use can carry it.
    pub fn send(&mut self, bytes: &[u8], now: Instant) -> Result<MessageId, SessionError> {
        let all: Vec<MemberId> = self.switch.members().collect();
        self.send_to(bytes, &all, now)
    }

    /// Sends a message to some members; returns its number.
    ///
    /// # Errors
    /// [`SessionError`] if no model in use can carry it, too many are open, or there is no such member.
    pub fn send_to(
        &mut self,
        bytes: &[u8],
        to: &[MemberId],
        now: Instant,
    ) -> Result<MessageId, SessionError> {
        self.send_within(bytes, to, self.lifetime(), now)
    }

    /// Lifetime of a message without a configured one.
    pub(super) fn lifetime(&self) -> Option<Span> {
        [self.config.targets.deadline, self.config.lifetime].into_iter().flatten().min()
    }

    /// Sends a message with a lifetime to some members; returns its number.
    ///
    /// # Errors
    /// [`SessionError`] if no model in use can carry it, too many are open, or there is no such member.
    pub fn send_within(
        &mut self,
        bytes: &[u8],
        to: &[MemberId],
        lifetime: Option<Span>,
        now: Instant,
    ) -> Result<MessageId, SessionError> {
        self.begin_message(bytes, Content::Plain, to, lifetime, now)
    }

    /// Sends a message of a topic to some members; returns its number.
    pub(super) fn send_topic(
        &mut self,
        topic: &str,
        bytes: &[u8],
        to: &[MemberId],
        lifetime: Option<Span>,
        now: Instant,
    ) -> Result<MessageId, SessionError> {
        self.begin_message(bytes, Content::Topic(topic), to, lifetime, now)
    }

    pub(super) fn begin_message(
        &mut self,
        bytes: &[u8],
        content: Content<'_>,
        to: &[MemberId],
        lifetime: Option<Span>,
        now: Instant,
    ) -> Result<MessageId, SessionError> {
        to.iter().try_for_each(|member| self.check_member(*member))?;
        // A message without a lifetime takes the place of the oldest instead (`drop_oldest`):
        // waiting for room could last for ever.
        if lifetime.is_some() && self.messages.len() >= MAX_MESSAGES {
            return Err(SessionError::Full(MAX_MESSAGES));
        }
        self.settled = None;
        self.capacity.sending(now);
        let number = self.next;
        self.next += 1;
        self.payload = bytes.len().max(1) + self.authority.signature_len();
        self.fan_out = to.len().max(1);
        self.sent_at.push_back(now);
        if self.sent_at.len() > 32 {
            self.sent_at.pop_front();
        }
        let until = lifetime.map(|lifetime| now + lifetime);
        let (chosen, topic, stored) = match content {
            Content::Plain => (self.chosen(to), None, None),
            Content::Topic(topic) => (Some(to.to_vec()), Some(topic.to_owned()), None),
            Content::Stored(number) => (Some(to.to_vec()), None, Some(number)),
        };
        // Members that answer know until when; the library's empty answers to others are short.
        let is_answered = content == Content::Plain && self.config.pattern.is_answered();
        let header = is_answered.then(|| envelope::lifetime::encode(lifetime));
        let outgoing = Outgoing {
            bytes: [header.as_ref().map_or(&[][..], |header| header), bytes].concat(),
            to: to.len(),
            chosen,
            topic,
            stored,
            sent_at: now,
            due: None,
            until,
            timed: false,
            is_refused: false,
            refusals: 0,
        };
        // Before `perform`, which takes the bytes from there.
        self.messages.insert(number, outgoing);
        self.drop_oldest();
        let actions = self.switch.send_to(number, to);
        if let Err(error) = self.perform(actions, now)
            && !self.waits_for_another_model(number, now)
        {
            self.switch.forget(number);
            self.messages.remove(&number);
            return Err(error);
        }
        // All of its receivers have left.
        if self.switch.unacknowledged_count(number) == 0 && self.messages.remove(&number).is_some()
        {
            self.switch.forget(number);
            self.events.push_back(Event::Over { message: number, lacking: to.to_vec() });
        }
        Ok(number)
    }

    /// Whether the session has a member or place with this number.
    pub(super) fn check_member(&self, member: MemberId) -> Result<(), SessionError> {
        match member < u32::from(self.members) {
            true => Ok(()),
            false => Err(SessionError::NoMember(member, self.members)),
        }
    }

    /// The receivers of a message, if there are other members.
    fn chosen(&self, to: &[MemberId]) -> Option<Vec<MemberId>> {
        let has_others = |to: &[MemberId]| {
            let to: BTreeSet<MemberId> = to.iter().copied().collect();
            self.switch.members().any(|member| !to.contains(&member))
        };
        // Most messages are to all.
        let is_for_others = !to.iter().copied().eq(self.switch.members()) && has_others(to);
        is_for_others.then(|| to.to_vec())
    }

    /// The next datagram of a model, and the time of the next poll; `wake` is that of all others.
    pub(super) fn poll_models(
        &mut self,
        now: Instant,
        wake: Option<Instant>,
    ) -> (Option<(To, Vec<u8>)>, Option<Instant>) {
        let (mut next, mut own) = (None, wake);
        let mut events = core::mem::take(&mut self.carried);
        for stage in self.stages.values_mut() {
            let (datagram, look) = stage.carrier.poll(now);
            stage.carrier.take(&mut events);
            own = [own, look].into_iter().flatten().min();
            if datagram.is_some() {
                next = datagram;
                break;
            }
        }
        if next.is_some() {
            self.carried_at = now;
        }
        if let Some((_, datagram)) = next.as_ref().filter(|(_, own)| bundle::is_bundle(own)) {
            self.bundle_sent(datagram.len());
        }
        if next.is_some() && events.is_empty() && !self.has_control() {
            self.settled = Some((now, wake));
        }
        self.handle_carrier_events(events, now);
        (next, own)
    }

    /// Performs all actions; returns the first error.
    pub(super) fn perform(
        &mut self,
        actions: Vec<Action>,
        now: Instant,
    ) -> Result<(), SessionError> {
        let due = now + self.timeout();
        let (_, newest) = self.switch.current();
        let mut performed = Ok(());
        for action in actions {
            match action {
                Action::Prepare { model, epoch } => self.open(model, epoch),
                Action::Ask { member, epoch } => self.invite_queue.push_back(member, epoch),
                Action::Retire { epoch, .. } => {
                    let until = now + LINGER + 4 * self.conditions().rtt;
                    if let Some(stage) = self.stages.get_mut(&epoch) {
                        stage.carrier.retire(now);
                        stage.until = Some(until);
                    }
                }
                Action::Send { message, model, epoch, members } => {
                    // What the former model still repeats to them would fill the path twice.
                    let former = self.stages.range_mut(..epoch);
                    former.for_each(|(_, stage)| stage.carrier.withdraw(message, &members));
                    let Some(outgoing) = self.messages.get_mut(&message) else { continue };
                    let Some(stage) = self.stages.get_mut(&epoch) else { continue };
                    // A few bytes more, so only where others can get the envelope as well. Not by `members`: a
                    // model may join several of these actions in one transmission.
                    let chosen = outgoing.chosen.as_deref();
                    let reached = |own: &&[MemberId]| stage.carrier.reaches_all(own);
                    let (root, bytes) = (&stage.root, &outgoing.bytes[..]);
                    let to = chosen.unwrap_or_default();
                    let sealed = match (&outgoing.topic, outgoing.stored) {
                        (Some(topic), _) => {
                            envelope::seal_topic(root, epoch, message, to, topic, bytes)
                        }
                        (None, Some(stored)) => {
                            envelope::seal_stored(root, epoch, message, to, stored, bytes)
                        }
                        (None, None) => {
                            let chosen = chosen.filter(reached);
                            envelope::seal_data(root, epoch, message, chosen, bytes)
                        }
                    };
                    let load = Load {
                        number: message,
                        sealed: &sealed,
                        answered: self.config.pattern.is_answered(),
                        until: outgoing.until,
                    };
                    let sent = stage.carrier.send(load, &members, now);
                    match sent.is_ok() {
                        true => outgoing.due = Some(due),
                        // What another model has refused goes by the newest later anyway.
                        false if epoch == newest => outgoing.refuse(),
                        false => {}
                    }
                    performed =
                        performed.and(sent.map_err(|why| SessionError::Refused(model, why)));
                }
            }
        }
        performed
    }
}
