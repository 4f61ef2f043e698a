//! Messages of a member to the hub, at any time, and leaving.

use super::{Member, MemberEvent};
use crate::envelope::Invitation;
use crate::uplink::{MESSAGE, MessageProperties, Path, REQUEST, Stored, UplinkError};
use crate::{Instant, Span};

/// Time after which a member has left, whether the hub has confirmed it or not.
const LEAVE_WITHIN: Span = Span::from_s(10);

impl Member {
    /// Sends a message to the hub's application; returns its number. It ends as one
    /// [`MemberEvent::Outcome`]. Until the member has joined it waits.
    ///
    /// # Errors
    /// [`UplinkError`] if too many messages are open, or this one is too long.
    pub fn publish(
        &mut self,
        bytes: &[u8],
        properties: MessageProperties,
        now: Instant,
    ) -> Result<u32, UplinkError> {
        self.send_up(MESSAGE, bytes, properties, now)
    }

    /// Sends a request to the hub's application, as [`publish`](Self::publish) does; the outcome
    /// has the answer.
    ///
    /// # Errors
    /// [`UplinkError`] if too many messages are open, or this one is too long.
    pub fn request(
        &mut self,
        bytes: &[u8],
        properties: MessageProperties,
        now: Instant,
    ) -> Result<u32, UplinkError> {
        self.send_up(REQUEST, bytes, properties, now)
    }

    /// Number of messages to the hub without an outcome.
    pub fn open_messages(&self) -> usize {
        self.uplink.open() + self.stored.as_ref().map_or(0, Stored::waiting)
    }

    /// Leaves the session: open messages go first, then the hub learns it. It takes 10 s at most.
    ///
    /// # Errors
    /// [`UplinkError`] if all numbers of messages are used.
    pub fn leave(&mut self, now: Instant) -> Result<(), UplinkError> {
        self.leaving.comes_back = false;
        if self.leaving.message.is_none() {
            self.leaving.message = Some(self.uplink.leave(LEAVE_WITHIN, now)?);
        }
        Ok(())
    }

    /// Whether the member has left. It may [`come_back`](Self::come_back).
    pub fn has_left(&self) -> bool {
        self.leaving.message == Some(0)
    }

    /// Joins again after it has left. Before, it stays if the hub does not know yet, and otherwise joins
    /// again at once.
    pub fn come_back(&mut self) {
        match self.leaving.message {
            None => {}
            Some(0) => {
                // The next hello goes at once, whenever the last one went.
                self.handshakes = super::Handshakes::default();
                // Under the former keys, messages would have an unknown outcome.
                self.uplink.disconnect();
                self.leaving.message = None;
            }
            Some(number) if self.uplink.unqueue(number) => self.leaving.message = None,
            Some(_) => self.leaving.comes_back = true,
        }
    }

    /// Ends messages of a member that has left; returns the time of the next call.
    pub(super) fn end_in_time(&mut self, now: Instant) -> Option<Instant> {
        let stored = self.poll_stored(now);
        let wake = self.uplink.wait(now);
        self.take_outcomes(now);
        [wake, stored].into_iter().flatten().min()
    }

    pub(super) fn connect_uplink(&mut self, invitation: &Invitation) {
        let Some(joined) = &self.joined else { return };
        let path = Path {
            datagram: usize::from(invitation.datagram),
            below: self.below,
            rate_bit_s: f64::from(invitation.rate_bit_s),
            round_trip: invitation.round_trip,
            estimated: invitation.estimated,
        };
        self.filters.forget_known();
        if let Some(stored) = &mut self.stored {
            stored.forget_lane(&mut self.uplink);
        }
        self.receipts.forget_lane(&mut self.uplink);
        self.uplink.connect(&joined.link.root, joined.link.welcome.member, path);
    }

    pub(super) fn take_outcomes(&mut self, now: Instant) {
        for (number, outcome) in self.uplink.take_outcomes() {
            if self.filters.ended(number, &outcome)
                || self.receipts.ended(number, &outcome)
                || self.stored_ended(number, &outcome, now)
            {
                continue;
            }
            if self.leaving.message != Some(number) {
                self.events.push_back(MemberEvent::Outcome { number, outcome });
                continue;
            }
            // Even if the hub has not confirmed it: it may have removed the member.
            self.leaving.message = Some(0);
            self.joined = None;
            if core::mem::take(&mut self.leaving.comes_back) {
                self.come_back();
            }
        }
    }
}
