//! Frames from members.

use super::{FIRST, FecHub, HubEvent, UNREACHED, had};
use crate::Nanos;
use crate::fec::code::Decoder;
use crate::fec::frame::{Frame, NOTHING, widen};
use crate::fec::plan::{Wanted, rank};
use crate::fec::sending::Awaited;
use crate::switch::{MemberId, MessageId};

impl FecHub {
    /// Handles a frame from a member; ignores frames with a wrong code.
    pub fn receive(&mut self, bytes: &[u8], now: Nanos) {
        let Some(member) = Frame::member(bytes) else { return };
        let Some(keys) = self.members.get(usize::from(member)) else { return };
        let Some(frame) = keys.check(bytes).and_then(Frame::decode) else { return };
        let message = widen(frame.message(), self.newest);
        let air = self.settings.airtime(bytes.len());
        match frame {
            Frame::Up { member, symbol, symbols, data, .. } => {
                let shape = (usize::from(symbols), air);
                self.up(message, (member, symbol), shape, &data, now);
            }
            Frame::Lack { member, symbols: 0, .. } => self.acknowledged(message, member),
            Frame::Lack { member, symbols, .. } => self.lacks(message, member, symbols, now),
            Frame::Down { .. } | Frame::Want { .. } | Frame::Had { .. } => {}
        }
    }

    fn up(
        &mut self,
        message: MessageId,
        (member, symbol): (u16, u16),
        (symbols, air): (usize, Nanos),
        data: &[u8],
        now: Nanos,
    ) {
        let Some(sending) = self.sending.get_mut(&message) else { return self.say_over(message) };
        if sending.wanted != Wanted::Answers {
            return;
        }
        let Some(awaited) = sending.awaited.get_mut(&member) else { return };
        // The first symbol is sent in the member's slot even if the member was asked meanwhile,
        // so its arrival gives a round-trip sample. Later slots can be delayed by others.
        let place = rank(member, self.settings.members, message);
        if symbol == 0 && place < FIRST && !sending.repaired && !awaited.served {
            let slot = sending.slots_at.map(|at| at + Nanos::from(place) * sending.slot + air);
            self.trips.extend(slot.and_then(|slot| now.checked_sub(slot)));
        }
        awaited.vain = 0;
        awaited.heard = true;
        if !awaited.served && sending.only.is_none() {
            // The member has the message by multicast, so it is reachable.
            self.deaf.remove(&member);
            sending.reached = true;
        }
        awaited.greatest = awaited.greatest.max(symbol);
        // Do not request more while its answer is arriving.
        let patience =
            self.settings.round_trip / 2 + 4 * self.settings.airtime(self.settings.datagram);
        awaited.due = awaited.due.max(now + patience);
        if awaited.answer.as_ref().is_none_or(|answer| !answer.fits(symbols, data.len())) {
            // The shape has changed: the member has restarted.
            awaited.answer = Decoder::new(symbols, data.len()).ok();
        }
        let Some(whole) = awaited.answer.as_mut().and_then(|answer| answer.add(symbol, data))
        else {
            return;
        };
        if let Some(Awaited { answer: Some(answer), greatest, served, unreached, .. }) =
            sending.awaited.remove(&member)
        {
            self.has(message, member, (served, unreached));
            let came = answer.had() as u32;
            self.seen.push((came, (u32::from(greatest) + 1).saturating_sub(came)));
        }
        let member = MemberId::from(member);
        self.events.push(HubEvent::Answered { message, member, bytes: whole });
    }

    /// A member has a message, by unicast (`alone`) or by multicast. `known`: it has reported
    /// that it receives no multicast.
    fn has(&mut self, message: MessageId, member: u16, (alone, known): (bool, bool)) {
        if let Some(proved) = self.deaf.get_mut(&member) {
            *proved |= alone;
        }
        let Some(sending) = self.sending.get_mut(&message) else { return };
        if sending.only.is_some() {
            return;
        }
        sending.reached |= !alone;
        match (alone, known) {
            (false, _) => self.unreached = 0,
            (true, false) => self.misses(message),
            (true, true) => {}
        }
    }

    /// Counts a member that multicast does not reach.
    fn misses(&mut self, message: MessageId) {
        let reached = self.sending.get(&message).is_some_and(|sending| sending.reached);
        self.unreached += 1;
        if !reached && self.unreached >= UNREACHED {
            self.unreached = 0;
            self.events.push(HubEvent::Unreached { message });
        }
    }

    /// Repeats the final report: a member has missed that a message is finished.
    fn say_over(&mut self, message: MessageId) {
        let known = self.over.iter().find(|(over, _)| *over == message);
        if self.control.is_empty()
            && let Some((_, members)) = known
        {
            let frames = had(message, members, self.had_room());
            self.control.extend(frames.into_iter().map(|frame| (None, frame)));
        }
    }

    fn acknowledged(&mut self, message: MessageId, member: u16) {
        let Some(sending) = self.sending.get_mut(&message) else { return };
        if sending.wanted == Wanted::Acknowledgements
            && let Some(awaited) = sending.awaited.remove(&member)
        {
            if !awaited.served && sending.only.is_none() {
                self.deaf.remove(&member);
            }
            self.has(message, member, (awaited.served, awaited.unreached));
            let member = MemberId::from(member);
            self.events.push(HubEvent::Acknowledged { message, member });
        }
    }

    fn lacks(&mut self, message: MessageId, member: u16, symbols: u8, now: Nanos) {
        let Some(sending) = self.sending.get_mut(&message) else { return };
        let nobody = sending.reaches_nobody();
        let Some(awaited) = sending.awaited.get_mut(&member) else { return };
        let lacks = usize::from(symbols).min(sending.encoder.symbols());
        let enough = self.settings.worth(lacks, self.settings.enough(lacks), 1.0);
        // The report does not account for the last burst, which may contain what it lacks.
        if sending.left > 0 || now < sending.over_at + self.settings.round_trip {
            sending.more = sending.more.max(enough.saturating_sub(sending.burst));
            return;
        }
        awaited.lacked += 1;
        let alone = match self.deaf.get(&member) {
            _ if sending.only.is_some() => false,
            Some(proved) => *proved || nobody || awaited.lacked > 1,
            None => false,
        };
        if alone {
            awaited.alone = enough;
        }
        // Multicast may reach the member again, for example after an outage.
        if !alone || nobody {
            sending.more = sending.more.max(enough);
        }
        // It has received neither the message nor the multicast requests.
        let misses = symbols == NOTHING && nobody && sending.only.is_none();
        if misses && !std::mem::replace(&mut awaited.unreached, true) {
            self.misses(message);
        }
    }
}
