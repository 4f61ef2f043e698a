//! Messages that are finished, and the report of that to members.

use super::{FecHub, HubEvent, REMEMBERED, Way};
use crate::Instant;
use crate::fec::frame::Frame;
use crate::fec::plan::ResponseKind;
use crate::fec::sending::Sending;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::{MemberId, MessageId};

/// Copies of the final report on received answers.
const LAST_COPIES: usize = 3;

impl FecHub {
    /// Finishes messages that are complete or too old.
    pub(super) fn finish(&mut self, now: Instant) {
        let over = |sending: &Sending| {
            sending.awaited.is_empty() || sending.until.is_some_and(|until| until <= now)
        };
        let done: Vec<Way> =
            self.sending.iter().filter(|(_, sending)| over(sending)).map(|(way, _)| *way).collect();
        for way in done {
            let Some(sending) = self.sending.remove(&way) else { continue };
            let message = way.message;
            let lacking = sending.awaited.keys().map(|member| MemberId::from(*member)).collect();
            self.events.push(HubEvent::Over { message, lacking });
            // A member that has only acknowledged has nothing to send, and needs no report; nor has one
            // to which nothing was sent. In overload these are most messages.
            if sending.response == ResponseKind::Acknowledgements || sending.is_unbegun() {
                continue;
            }
            // Those that the message did not go to may still receive it, and answer.
            let mut members = vec![0; self.members.len().div_ceil(8)];
            for member in &sending.responded {
                if let Some(byte) = members.get_mut(usize::from(member / 8)) {
                    *byte |= 1 << (member % 8);
                }
            }
            let frames = answered_frames(message, &members, self.answered_room());
            // Who misses the only copy keeps the answer for longer.
            let copies = if self.each && way.only.is_some() { 1 } else { LAST_COPIES };
            let copies = (0..copies).flat_map(|_| frames.iter().cloned());
            self.control.extend(copies.map(|frame| (way.only, frame)));
            match self.over.iter_mut().find(|(over, _)| *over == message) {
                // It has gone to others before.
                Some((_, known)) => known.iter_mut().zip(&members).for_each(|(a, b)| *a |= b),
                None => self.over.push_back((message, members)),
            }
            if self.over.len() > REMEMBERED {
                self.over.pop_front();
            }
        }
    }

    /// Room for member bits in an `Answered` frame, in bytes.
    fn answered_room(&self) -> usize {
        self.settings.datagram.saturating_sub(5 + self.own.code_len()).max(1)
    }

    /// Repeats the final report: a member has missed that a message is finished.
    pub(super) fn say_over(&mut self, message: MessageId, member: u16) {
        let known = self.over.iter().find(|(over, _)| *over == message);
        if self.control.is_empty()
            && let Some((_, members)) = known
        {
            let frames = answered_frames(message, members, self.answered_room());
            let to = Some(member).filter(|_| self.each);
            self.control.extend(frames.into_iter().map(|frame| (to, frame)));
        }
    }
}

/// `Answered` frames with `room` bytes of member bits each.
fn answered_frames(message: MessageId, members: &[u8], room: usize) -> Vec<Frame<'static>> {
    let parts = members.chunks(room).enumerate();
    parts
        .map(|(place, part)| {
            let first = u16::try_from(place * room * 8).unwrap_or(u16::MAX);
            Frame::Answered { message: message as u16, first, members: part.to_vec().into() }
        })
        .collect()
}
