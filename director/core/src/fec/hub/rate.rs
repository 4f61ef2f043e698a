//! What acknowledgements, and answers that are shorter than messages, tell of the path's rate.

use super::{FecHub, Way};
use crate::fec::frame::{Frame, HEADER};
use crate::fec::passage::{Arrival, Passage};
use crate::fec::plan::{ResponseKind, slot_index};
use crate::switch::MessageId;
use crate::{Instant, Span};

/// Round trips after which what has no acknowledgement is lost.
const LOST_AFTER: u64 = 2;

impl FecHub {
    /// A symbol of a message goes to all its receivers.
    pub(super) fn passes(&mut self, way: Way, frame: &Frame<'_>, now: Instant) {
        let Frame::Down { data, .. } = frame else { return };
        let Some(sending) = self.sending.get(&way) else { return };
        // Answers that take longer than their message tell the rate themselves.
        let answers = match sending.response {
            ResponseKind::Acknowledgements => 0,
            ResponseKind::Answers => self.settings.answer * sending.awaited.len(),
        };
        let is_late = sending.passage.is_none() && sending.next > 1;
        if answers > sending.encoder.bytes() || is_late {
            return;
        }
        let bytes = data.len() + HEADER + self.own.code_len() + self.settings.below;
        let mut passage = sending.passage.unwrap_or_else(|| {
            let all = || self.sending.values().filter_map(|sending| sending.passage);
            let lost_after = LOST_AFTER * self.settings.round_trip;
            let resumed = self.delivered.resumed(now);
            // After a pause, in which no answer was awaited, also for what goes to the other members.
            let mut others = self.sending.values().filter(|sending| sending.passage.is_some());
            if way.only.is_some() && others.all(|sending| sending.awaited.is_empty()) {
                self.delivered = resumed;
            }
            let is_alone = all().all(|passage| passage.has_ended(lost_after, now));
            Passage::new(if is_alone { resumed } else { self.delivered }, now)
        });
        passage.send(bytes, now);
        if let Some(sending) = self.sending.get_mut(&way) {
            sending.passage = Some(passage);
        }
    }

    /// A member has acknowledged a message, or begins to answer it.
    pub(super) fn has_passed(&mut self, message: MessageId, member: u16, now: Instant) {
        let way = self.way(message, member);
        let Some(sending) = self.sending.get_mut(&way) else { return };
        let (Some(awaited), Some(passage)) = (sending.awaited.get(&member), &mut sending.passage)
        else {
            return;
        };
        let is_measured = sending.slots_at.is_some()
            && !passage.is_over
            && !awaited.got_unicast
            && !self.apart.contains_key(&member);
        if !is_measured {
            return;
        }
        let place = u64::from(slot_index(member, self.settings.members, message));
        let waited = if way.only.is_some() { Span::ZERO } else { place * sending.slot };
        let arrival = Arrival {
            at: now - waited,
            sent_at: sending.over_at,
            symbols: sending.encoder.symbols(),
            repaired: sending.repaired || awaited.unanswered > 0,
            held: sending.response == ResponseKind::Answers,
        };
        self.trains.push(self.delivered.end(passage, arrival));
    }
}

#[cfg(test)]
mod tests {
    use crate::fec::hub::group_of::group;
    use crate::fec::{FecSettings, ResponseKind};
    use crate::{Instant, Span};

    /// What failed before: while one member lacked a former message, the pauses between messages counted as the
    /// time in which they pass.
    #[test]
    fn a_member_that_lacks_a_message_makes_others_no_slower() {
        let settings = FecSettings { members: 2, ..FecSettings::default() };
        let (mut hub, mut members) = group(settings);
        hub.set_multicast(false);
        let member = &mut members[0];
        let mut trains = Vec::new();
        for at in 0..12_000 {
            let now = Instant::START + at * Span::from_ms(1);
            if at % 2_000 == 0 {
                hub.send(4 + at / 2_000, &[7; 200], ResponseKind::Answers, &[0, 1], None).unwrap();
            }
            while let (Some((to, frame)), _) = hub.poll(now) {
                if to != Some(0) {
                    continue;
                }
                if let Some((message, _)) = member.receive(&frame, now) {
                    assert!(member.answer(message, vec![9; 100], None, now).unwrap());
                }
            }
            while let (Some(frame), _) = member.poll(now) {
                hub.receive(&frame, now);
            }
            trains.extend(hub.take_trains());
        }
        assert_eq!(trains.len(), 6);
        for train in trains {
            assert!(train.alone && train.sent < Span::from_ms(50), "{train:?}");
        }
    }
}
