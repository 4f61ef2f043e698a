//! Messages that are finished, and the report of that to members.

use super::{FecHub, HubEvent, REMEMBERED, Way};
use crate::Instant;
use crate::fec::frame::Frame;
use crate::fec::plan::ResponseKind;
use crate::fec::sending::Sending;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::{MemberId, MessageId};

/// Copies of the final report on received answers, if it ends what members still send. Otherwise it only lets
/// them forget the answers: one is enough.
const LAST_COPIES: usize = 3;
/// Loss up to which most members get one report.
const FEW_LOST: f64 = 0.01;

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
            self.report_lost(&sending);
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
            let is_one = self.each && way.only.is_some() || self.is_all_sent(&sending);
            let copies = if is_one { 1 } else { LAST_COPIES };
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

    /// A message ends: what is missing of answers was lost if its member was asked and has said nothing since,
    /// and answers that it has sent later have arrived. What arrives in time counts with its symbols.
    fn report_lost(&mut self, sending: &Sending) {
        if sending.response != ResponseKind::Answers {
            return;
        }
        let passed =
            |member: &u16| self.answered.get(member).is_some_and(|at| *at > sending.sent_at);
        let lost = sending.awaited.iter().filter(|(_, awaited)| awaited.unanswered > 0);
        let lost = lost.map(|(member, _)| member).filter(|member| passed(member));
        self.missing.extend(lost.map(|member| (MemberId::from(*member), sending.sent_at)));
    }

    /// Whether members have nothing more to send for a message: all have answered, with no more symbols than
    /// an answer has.
    fn is_all_sent(&self, sending: &Sending) -> bool {
        let symbols = self.settings.answer_symbols(self.added());
        let sent = self.settings.answer_frames(sending.extra_symbols, self.added());
        let all = sending.awaited.is_empty() && sending.turn == 0 && usize::from(sent) <= symbols;
        all && self.settings.loss < FEW_LOST
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

#[cfg(test)]
mod tests {
    use crate::fec::hub::group_of::group;
    use crate::fec::{FecSettings, ResponseKind};
    use crate::{Instant, Span};

    /// Reports of the hub on a message that two members have answered, and what each of them forgets. The hub
    /// expects this loss; the first answers are lost if `lost`.
    fn reports(loss: f64, lost: bool) -> (usize, [Vec<u64>; 2]) {
        let settings = FecSettings { loss, members: 2, ..FecSettings::default() };
        let (mut hub, mut members) = group(settings);
        hub.send(4, &[7; 20], ResponseKind::Answers, &[0, 1], None).unwrap();
        let (mut count, mut over) = (0, [const { Vec::new() }; 2]);
        for at in 0..5_000 {
            let now = Instant::START + at * Span::from_ms(1);
            while let (Some((_, frame)), _) = hub.poll(now) {
                count += usize::from(frame[0] == 0x18);
                for (member, over) in members.iter_mut().zip(&mut over) {
                    if let Some((message, _)) = member.receive(&frame, now) {
                        assert!(member.answer(message, vec![9; 20], None, now).unwrap());
                    }
                    over.extend(member.next_over());
                }
            }
            for member in &mut members {
                while let (Some(frame), _) = member.poll(now) {
                    if !lost || at > 100 {
                        hub.receive(&frame, now);
                    }
                }
            }
        }
        (count, over)
    }

    /// What failed before: three reports of each message, to all members, also where they end nothing.
    #[test]
    fn a_report_that_ends_nothing_is_sent_once() {
        let all = [vec![4], vec![4]];
        assert_eq!(reports(0.0, false), (1, all.clone()));
        assert_eq!(reports(0.3, false), (3, all.clone()), "a copy may be lost");
        assert_eq!(reports(0.0, true), (3, all), "requested symbols may follow");
    }
}
