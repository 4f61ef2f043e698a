//! Messages of the hub that outlast its start.

use super::Hub;
use super::outgoing::Content;
use crate::downlink::{Downlink, HubChange, HubState, Outcomes};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::session::{Event, SessionError};
use crate::store::Token;
use crate::switch::MemberId;
use crate::uplink::{LIFETIME, MessageFrom, Outcome, reply};
use crate::{Instant, Span};
use alloc::collections::VecDeque;

impl Hub {
    /// Goes on with the stored messages of the starts before, and takes further ones
    /// ([`Self::send_stored_to`]). Call it before the first datagram: members learn by the handshake that
    /// there is a storage. Without this call, no message is stored.
    pub fn store(&mut self, state: HubState) {
        self.downlink = Some(Downlink::new(state));
    }

    /// Stores a message for some members; returns its number over all starts. It is sent when
    /// [`Self::take_changes`] has given it, and goes again to members until they say what became of it, also
    /// by the next start. [`Self::take_outcomes`] has its end, when `lifetime` is over at the latest.
    ///
    /// # Errors
    /// [`SessionError::Storage`] without a storage, [`SessionError::NoMember`],
    /// [`SessionError::Full`], [`SessionError::TooLong`].
    pub fn send_stored_to(
        &mut self,
        to: &[MemberId],
        bytes: &[u8],
        lifetime: Span,
        now: Instant,
    ) -> Result<u64, SessionError> {
        to.iter().try_for_each(|member| self.check_member(*member))?;
        let Some(downlink) = &mut self.downlink else { return Err(SessionError::no_storage()) };
        self.settled = None;
        let open = downlink.open();
        let sent = downlink.send(to, bytes, lifetime, now);
        sent.map_err(|error| SessionError::of_uplink(error, open))
    }

    /// Takes back a message that could not be written to the disk; none of it was sent.
    pub fn withdraw_stored(&mut self, id: u64) {
        self.downlink.iter_mut().for_each(|own| own.withdraw(id));
    }

    /// What has changed since the last call. Write it to a disk, and wait until it is there, before
    /// the next call of [`poll`](Self::poll) or [`take_outcomes`](Self::take_outcomes).
    pub fn take_changes(&mut self) -> Vec<HubChange> {
        let changes = self.downlink.as_mut().map(Downlink::take_changes).unwrap_or_default();
        if !changes.is_empty() {
            self.settled = None;
        }
        changes
    }

    /// Changes of [`take_changes`](Self::take_changes) that could not be written, all of them: it returns
    /// them again. Until they are written, no stored message is sent, and none has an outcome.
    pub fn keep_changes(&mut self, changes: Vec<HubChange>) {
        if let Some(downlink) = &mut self.downlink {
            downlink.keep_changes(changes);
        }
    }

    /// Stored messages that have ended at all of their receivers since the last call, each once.
    pub fn take_outcomes(&mut self) -> VecDeque<(u64, Outcomes)> {
        self.downlink.as_mut().map(Downlink::take_over).unwrap_or_default()
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> VecDeque<Event> {
        self.settle_stored();
        core::mem::take(&mut self.events)
    }

    /// Messages of the session that carry stored ones are over, or answered by members' libraries: the
    /// application sees nothing of that.
    pub(super) fn settle_stored(&mut self) {
        let Some(downlink) = &mut self.downlink else { return };
        self.events.retain(|event| match event {
            Event::Answer { message, .. } | Event::Acknowledged { message, .. } => {
                !downlink.carries(*message)
            }
            Event::Over { message, lacking } => {
                let is_stored = downlink.carries(*message);
                downlink.carried(*message, lacking);
                !is_stored
            }
            _ => true,
        });
    }

    /// Sends stored messages that are due; returns the time of the next call.
    pub(super) fn send_stored(&mut self, now: Instant) -> Option<Instant> {
        self.downlink.as_ref()?;
        self.settle_stored();
        while let Some(due) = self.downlink.as_mut()?.next(now) {
            // The session's own repetitions, for a while; then the next message carries it.
            let usual = self.lifetime().unwrap_or(LIFETIME);
            let lifetime = Some(usual.min(due.until - now));
            let content = Content::Stored(due.stored);
            let sent = self.begin_message(&due.body, content, &due.to, lifetime, now);
            let downlink = self.downlink.as_mut()?;
            match sent {
                Ok(number) => downlink.sent(&due, number),
                Err(SessionError::Refused(..)) => downlink.refused(&due, now),
                Err(_) => downlink.postpone(&due, now),
            }
        }
        self.downlink.as_ref()?.wake()
    }

    /// A member says which memory it has.
    pub(super) fn remember(&mut self, from: MessageFrom, body: &[u8], now: Instant) {
        let (Ok(token), Some(downlink)) = (Token::try_from(body), &mut self.downlink) else {
            return self.refuse(from);
        };
        downlink.introduced(from.member, token, now);
        // What is on its way may be for a former start, which may have had it.
        let first = self.next.to_be_bytes();
        self.reply_with(from, reply::ANSWER, &first);
    }

    /// A member says what became of a stored message.
    pub(super) fn receipt(&mut self, from: MessageFrom, body: &[u8]) {
        let parts = body.split_first_chunk().and_then(|(id, rest)| Some((id, rest.split_first()?)));
        let (Some((id, (kind, answer))), Some(downlink)) = (parts, &mut self.downlink) else {
            return self.refuse(from);
        };
        let outcome = match *kind {
            reply::TAKEN => Outcome::Acknowledged(None),
            reply::ANSWER => Outcome::Acknowledged(Some(answer.to_vec())),
            _ => Outcome::Unknown,
        };
        downlink.receipt(from.member, u64::from_be_bytes(*id), outcome);
        self.reply_with(from, reply::TAKEN, &[]);
    }

    /// A member has left, or was revoked.
    pub(super) fn stored_gone(&mut self, member: MemberId) {
        self.downlink.iter_mut().for_each(|own| own.gone(member));
    }
}
