//! What acknowledgements, and answers that are shorter than messages, tell of the path's rate.

use super::{FecHub, Way};
use crate::fec::frame::{Frame, HEADER};
use crate::fec::passage::{Arrival, Passage};
use crate::fec::plan::{ResponseKind, slot_index};
use crate::switch::MessageId;
use crate::{Instant, Span};

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
            let mut all = self.sending.values().filter_map(|sending| sending.passage);
            Passage::new(self.delivered, all.all(|passage| passage.is_over), now)
        });
        passage.send(bytes);
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
