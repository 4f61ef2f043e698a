//! Frames from members.

use super::overtaken::Seen;
use super::{BLOCKED_AFTER, FIRST, FecHub, HubEvent, Way};
use crate::bundle;
use crate::fec::awaited::Awaited;
use crate::fec::code::without_end;
use crate::fec::frame::{Frame, HEADER, NO_SYMBOL, NOTHING};
use crate::fec::plan::{ResponseKind, slot_index};
use crate::fec::short::{Added, Short};
use crate::keys::Keys;
use crate::pace::TICK;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::replay::Checker;
use crate::switch::{MemberId, MessageId};
use crate::window::widen;
use crate::{Instant, Span};
use alloc::borrow::Cow;

/// Longest time until a member is asked again whose application has not answered yet.
const MAX_PATIENCE: Span = Span::from_s(1);

/// Reports of a member that it has no symbol of a message after which datagrams of this length may not pass: one can
/// be an outage.
const VANISHED: u32 = 2;
/// Chance below which losses do not explain that, and the loss that is always possible.
const UNLIKELY: f64 = 3e-3;
const MIN_LOSS: f64 = 0.05;
/// Lost symbols of an answer that count, for each that has arrived: `MAX_LOSS` of them. A member may number its
/// symbols as it likes.
const MOST_LOST: u32 = 9;

impl FecHub {
    /// Handles frames of a member that share a datagram, or a single one; returns `false` if the code is
    /// wrong, or they have arrived before.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) -> bool {
        if let Some(short) = Short::of(bytes).filter(|_| self.added().long > 0) {
            let own = short.member().and_then(|member| self.members.get_mut(usize::from(member)));
            let frame = own.and_then(|own| short.check(own, self.newest, now));
            return frame.map(|frame| self.receive_frame(frame, now)).is_some();
        }
        // The code is the first frame's member's: frames of others are not vouched for.
        let Some(member) = bundle::parts(bytes).next().and_then(Frame::member) else {
            return false;
        };
        let Some(own) = self.members.get_mut(usize::from(member)) else { return false };
        let Some(plain) = own.check(bytes, now) else { return false };
        let frames = bundle::parts(plain).filter(|part| Frame::member(part) == Some(member));
        let mut known = false;
        for frame in frames.filter_map(Frame::decode) {
            known = true;
            self.receive_frame(frame, now);
        }
        known
    }

    /// Sets the keys for the frames of a member: those of a new start.
    pub fn set_member(&mut self, member: u16, keys: Keys) {
        if let Some(own) = self.members.get_mut(usize::from(member)) {
            *own = Checker::new(keys);
            // Symbols of the start before are those of another answer.
            let sending = self.sending.values_mut();
            for awaited in sending.filter_map(|sending| sending.awaited.get_mut(&member)) {
                (awaited.answer, awaited.greatest, awaited.responded) = (None, 0, false);
            }
        }
    }

    /// What a member's frames have with count and code.
    pub(super) fn added(&self) -> Added {
        Added::by_member(self.members.first().map_or(0, Checker::code_len))
    }

    fn receive_frame(&mut self, frame: Frame<'_>, now: Instant) {
        self.heard_at = now;
        let message = widen(frame.message(), self.newest);
        match frame {
            Frame::Up { member, symbol, symbols, data, .. } => {
                self.up(message, (member, symbol), symbols.into(), data, now);
            }
            Frame::Nack { member, symbols: 0, .. } => self.acknowledged(message, member, now),
            Frame::Nack { member, symbols, .. } => self.nacked(message, member, symbols, now),
            Frame::Down { .. } | Frame::Request { .. } | Frame::Answered { .. } => {}
        }
    }

    fn up(
        &mut self,
        message: MessageId,
        (member, symbol): (u16, u16),
        symbols: usize,
        data: Cow<'_, [u8]>,
        now: Instant,
    ) {
        let added = self.added();
        self.overtaken.arrives(message, member, symbol);
        let way = self.way(message, member);
        let Some(sending) = self.sending.get_mut(&way) else {
            return self.say_over(message, member);
        };
        if sending.response != ResponseKind::Answers {
            return;
        }
        sending.arrivals.add(now);
        let Some(awaited) = sending.awaited.get_mut(&member) else { return };
        // The first symbol is sent in the member's slot even if the member was asked meanwhile,
        // so its arrival gives a round-trip sample. Later slots can be delayed by others.
        let place = slot_index(member, self.settings.members, message);
        if symbol == 0 && place < FIRST && !sending.repaired && !awaited.got_unicast {
            let slot = sending.slots_at.map(|_| sending.sent_at + u64::from(place) * sending.slot);
            let trip = slot.and_then(|slot| now.checked_since(slot));
            // Without the times on the wire. They are shorter in the faster direction, whose rate is not
            // known: what is left is no shorter than the shortest known round trip.
            let air = self.settings.airtime(data.len() + HEADER + added.long);
            let wire = air + (sending.over_at - sending.sent_at);
            let least = self.settings.least_trip;
            let trip = trip.map(|trip| (trip - wire).max(trip.min(least)));
            let trip = trip.filter(|trip| *trip > Span::ZERO);
            self.trips.extend(trip.map(|trip| (MemberId::from(member), trip)));
        }
        let begins = !awaited.responded;
        if begins {
            self.begins(way, member, now);
            self.has_passed(message, member, now);
        }
        let Some(sending) = self.sending.get_mut(&way) else { return };
        let Some(awaited) = sending.awaited.get_mut(&member) else { return };
        awaited.unanswered = 0;
        awaited.responded = true;
        let newest = self.answered.entry(member).or_default();
        *newest = sending.sent_at.max(*newest);
        if !awaited.got_unicast && way.only.is_none() {
            // The member has the message by multicast, so it is reachable.
            self.unreachable.remove(&member);
            sending.reached = true;
        }
        awaited.greatest = awaited.greatest.max(symbol);
        // Do not request more while its answer is arriving.
        let timeout =
            self.settings.round_trip / 2 + 4 * self.settings.airtime(self.settings.datagram);
        awaited.due = awaited.due.max(now + timeout);
        let whole = if (symbols, symbol) == (1, 0) {
            // Most answers.
            without_end(data.into_owned())
        } else {
            awaited.add(symbol, symbols, data)
        };
        let Some(whole) = whole else { return };
        if let Some(awaited) = sending.awaited.remove(&member) {
            let greatest = awaited.greatest;
            sending.responded.push(member);
            let received = awaited.answer.as_ref().map_or(1, |answer| answer.received() as u32);
            self.has(way, member, &awaited);
            let lost = (u32::from(greatest) + 1).saturating_sub(received).min(MOST_LOST * received);
            let seen = Seen { member: member.into(), received, lost, noticed: now };
            if lost == 0 {
                self.seen.push(seen);
            } else {
                self.events.push(HubEvent::Gap { member: member.into() });
                // As `arq` and RFC 8985, 6.2.
                let until = now + (self.settings.round_trip / 4).max(2 * TICK);
                self.overtaken.add(message, seen, greatest, until);
            }
        }
        let member = MemberId::from(member);
        self.events.push(HubEvent::Answered { message, member, bytes: whole });
    }

    /// A member begins to answer.
    fn begins(&mut self, way: Way, member: u16, now: Instant) {
        let sending = self.sending.get_mut(&way);
        let delay = sending.and_then(|sending| sending.begins(member, now));
        delay.into_iter().for_each(|delay| self.delays.record(delay));
    }

    /// A member has a message, by unicast or by multicast.
    fn has(&mut self, way: Way, member: u16, awaited: &Awaited) {
        let unicast = awaited.got_unicast;
        // It has reported that it receives no multicast, or was not given the time for it.
        let known = awaited.no_multicast || awaited.ahead;
        if let Some(unreachable) = self.unreachable.get_mut(&member) {
            unreachable.proved |= unicast;
        }
        let Some(sending) = self.sending.get_mut(&way) else { return };
        if way.only.is_some() {
            return;
        }
        sending.reached |= !unicast;
        match (unicast, known) {
            (false, _) => self.no_multicast_count = 0,
            (true, false) => self.missed_multicast(way),
            (true, true) => {}
        }
    }

    /// Counts a member that multicast does not reach.
    fn missed_multicast(&mut self, way: Way) {
        let reached = self.sending.get(&way).is_some_and(|sending| sending.reached);
        self.no_multicast_count += 1;
        if !reached && self.no_multicast_count >= BLOCKED_AFTER {
            self.no_multicast_count = 0;
            self.events.push(HubEvent::MulticastBlocked { message: way.message });
        }
    }

    fn acknowledged(&mut self, message: MessageId, member: u16, now: Instant) {
        self.has_passed(message, member, now);
        let way = self.way(message, member);
        let Some(sending) = self.sending.get_mut(&way) else { return };
        if sending.response == ResponseKind::Answers {
            return self.is_unanswered(message, member, now);
        }
        if sending.response == ResponseKind::Acknowledgements
            && let Some(awaited) = sending.awaited.remove(&member)
        {
            sending.responded.push(member);
            if !awaited.got_unicast && way.only.is_none() {
                self.unreachable.remove(&member);
            }
            self.has(way, member, &awaited);
            let member = MemberId::from(member);
            self.events.push(HubEvent::Acknowledged { message, member });
        }
    }

    /// A member has the message, and its application has not answered yet: it answers without
    /// another request, which only a lost answer needs.
    fn is_unanswered(&mut self, message: MessageId, member: u16, now: Instant) {
        let way = self.way(message, member);
        let Some(sending) = self.sending.get_mut(&way) else { return };
        let Some(awaited) = sending.awaited.get_mut(&member) else { return };
        (awaited.unanswered, awaited.responded) = (0, true);
        let since = sending.slots_at.map_or(Span::ZERO, |at| now - at);
        // A round trip at least, which can be longer than `MAX_PATIENCE`.
        let wait = since.min(MAX_PATIENCE).max(self.settings.round_trip);
        awaited.due = awaited.due.max(now + wait);
        if !awaited.got_unicast && way.only.is_none() {
            self.unreachable.remove(&member);
            sending.reached = true;
            self.no_multicast_count = 0;
        }
    }

    fn nacked(&mut self, message: MessageId, member: u16, symbols: u8, now: Instant) {
        let own = self.settings_of(member);
        let way = self.way(message, member);
        let Some(sending) = self.sending.get_mut(&way) else { return };
        let apart = self.apart.contains_key(&member);
        if symbols == NO_SYMBOL && way.only.is_none() && !apart {
            // The request has reached it by multicast.
            sending.reached = true;
            self.no_multicast_count = 0;
        }
        let no_response = sending.no_response();
        let Some(awaited) = sending.awaited.get_mut(&member) else { return };
        let missing = usize::from(symbols).min(sending.encoder.symbols());
        let enough = own.worthwhile_frames(missing, own.frames_for(missing), 1.0);
        if awaited.unicast > 0 {
            // More symbols are on their way to it alone.
            return;
        }
        // The report does not account for the last burst, which may contain what it lacks.
        if !apart && (sending.left > 0 || now < sending.over_at + self.settings.round_trip) {
            sending.more = sending.more.max(enough.saturating_sub(sending.burst));
            return;
        }
        awaited.nacks += 1;
        if awaited.nacks == 1 {
            self.missing.push((member.into(), sending.sent_at));
        }
        let has_none = symbols == NO_SYMBOL || symbols == NOTHING && awaited.got_unicast;
        let by_chance = own.loss.max(MIN_LOSS).powi(sending.next.into());
        if has_none && awaited.nacks == VANISHED && by_chance < UNLIKELY {
            self.events.push(HubEvent::Vanished { member: member.into() });
        }
        // Requests by multicast came before the one that it answers.
        if symbols == NOTHING
            && awaited.nacks == 1
            && let Some(unreachable) = self.unreachable.get_mut(&member)
        {
            unreachable.missed = unreachable.missed.saturating_add(1);
        }
        let unicast = match self.unreachable.get(&member) {
            _ if way.only.is_some() => false,
            _ if apart => true,
            Some(unreachable) => unreachable.proved || no_response || awaited.nacks > 1,
            None => false,
        };
        if unicast {
            awaited.unicast = enough;
        }
        // Multicast may reach the member again, for example after an outage.
        if !unicast || no_response {
            sending.more = sending.more.max(enough);
        }
        // It has received neither the message nor the multicast requests.
        let missed_multicast = symbols == NOTHING && no_response && way.only.is_none();
        if missed_multicast && !core::mem::replace(&mut awaited.no_multicast, true) {
            self.missed_multicast(way);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fec::hub::group_of::group;
    use crate::fec::{FecSettings, HubEvent, ResponseKind};

    /// What failed before: with a round trip of more than a second, the hub panicked when a member
    /// said that its application had not answered yet.
    #[test]
    fn an_application_may_answer_late_whatever_the_round_trip() {
        for ms in [0, 10, 1_000, 1_001, 5_000, 60_000] {
            let round_trip = Span::from_ms(ms);
            let settings = FecSettings { round_trip, members: 1, ..FecSettings::default() };
            let (mut hub, mut members) = group(settings);
            let member = &mut members[0];
            hub.send(5, &[7; 200], ResponseKind::Answers, &[0], None).unwrap();
            let (mut received, mut answers) = (false, Vec::new());
            let step = (round_trip / 16).max(Span::from_ms(1));
            for at in 0..2_000 {
                let now = Instant::START + step * at;
                while let (Some((_, frame)), _) = hub.poll(now) {
                    received |= member.receive(&frame, now).is_some();
                }
                if received && at == 1_000 {
                    assert!(member.answer(5, vec![9; 100], None, now).unwrap());
                }
                while let (Some(frame), _) = member.poll(now) {
                    hub.receive(&frame, now);
                }
                let events = hub.take_events().into_iter();
                answers.extend(events.filter_map(|event| match event {
                    HubEvent::Answered { bytes, .. } => Some((at >= 1_000, bytes)),
                    _ => None,
                }));
            }
            assert_eq!(answers, [(true, vec![9; 100])], "{ms} ms");
        }
    }

    /// What failed before: after the first frame of a burst, a member took the others for as long as the
    /// largest datagram, and its answer, which it sent too late, for a queue. With another rate on the way
    /// to the members, round trips were shorter than those of the path.
    #[test]
    fn round_trips_are_those_of_the_path() {
        let delay = Span::from_ms(10);
        // The rate in bit/s that is known, and that at which frames go to the member.
        for (rate, down) in [(100e3, 100e3), (20e3, 20e3), (100e3, 1e6)] {
            let settings = FecSettings {
                rate_bit_s: rate,
                loss: 0.4,
                round_trip: 2 * delay,
                least_trip: 2 * delay,
                members: 2,
                ..FecSettings::default()
            };
            let (mut hub, mut members) = group(settings);
            let member = &mut members[0];
            hub.send(4, &[7; 20], ResponseKind::Answers, &[0, 1], None).unwrap();
            let (mut ways, mut trips) = ([Vec::new(), Vec::new()], Vec::new());
            for at in 0..20_000 {
                let now = Instant::START + at * Span::from_us(100);
                let takes = |frame: &[u8], bit_s: f64| {
                    Span::from_ns_f64((frame.len() + settings.below) as f64 * 8e9 / bit_s)
                };
                while let (Some((_, frame)), _) = hub.poll(now) {
                    ways[0].push((now + delay + takes(&frame, down), frame));
                }
                while let (Some(frame), _) = member.poll(now) {
                    ways[1].push((now + delay + takes(&frame, rate), frame));
                }
                for (_, frame) in ways[0].extract_if(.., |(at, _)| *at <= now) {
                    if let Some((message, _)) = member.receive(&frame, now) {
                        assert!(member.answer(message, vec![9; 20], None, now).unwrap());
                    }
                }
                for (_, frame) in ways[1].extract_if(.., |(at, _)| *at <= now) {
                    hub.receive(&frame, now);
                }
                trips.extend(hub.take_trips().into_iter().map(|(_, trip)| trip.as_ms()));
            }
            let [trip] = trips[..] else { panic!("{trips:?}") };
            assert!((19.0..23.0).contains(&trip), "{trip} ms at {rate} and {down} bit/s");
        }
    }

    /// What failed before: nothing said so until the message was late.
    #[test]
    fn a_member_that_receives_only_requests_is_reported_once() {
        // Until when long datagrams do not reach the second member, in ms, and the reports.
        for (until, expected) in [(1_000, vec![1]), (20, vec![])] {
            let settings = FecSettings { members: 2, ..FecSettings::default() };
            let (mut hub, mut members) = group(settings);
            hub.send(4, &[7; 3_000], ResponseKind::Answers, &[0, 1], None).unwrap();
            let mut reported = Vec::new();
            for at in 0..1_000 {
                let now = Instant::START + at * Span::from_ms(1);
                while let (Some((to, frame)), _) = hub.poll(now) {
                    for (number, member) in (0..).zip(&mut members) {
                        let gets = to.is_none_or(|to| to == number);
                        let passes = number == 0 || frame.len() < 500 || at >= until;
                        if gets
                            && passes
                            && let Some((message, _)) = member.receive(&frame, now)
                        {
                            member.answer(message, vec![9; 100], None, now).unwrap();
                        }
                    }
                }
                for member in &mut members {
                    while let (Some(frame), _) = member.poll(now) {
                        hub.receive(&frame, now);
                    }
                }
                let events = hub.take_events().into_iter();
                reported.extend(events.filter_map(|event| match event {
                    HubEvent::Vanished { member } => Some(member),
                    _ => None,
                }));
            }
            assert_eq!(reported, expected, "{until} ms");
        }
    }
}
