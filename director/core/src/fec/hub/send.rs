//! Messages that are handed over: to the group, or to each member by unicast.

use super::{AT_ONCE, FecHub, REMEMBERED, Way};
use crate::fec::awaited::Awaited;
use crate::fec::code::{Encoder, Refused, symbol_size};
use crate::fec::plan::{ResponseKind, Schedule};
use crate::fec::sending::Sending;
use crate::fec::short::Added;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::{MemberId, MessageId};
use crate::{Instant, Span};
use alloc::collections::BTreeMap;

impl FecHub {
    /// Sets whether multicast works. If it does not, messages that follow go to each member by unicast
    /// (decision 142).
    pub fn set_multicast(&mut self, works: bool) {
        self.each = !works && self.members.len() > 1;
        if works {
            self.unreachable.clear();
        }
        let divides = |way: &&Way| self.each && way.only.is_none();
        let group: Vec<Way> = self.sending.keys().filter(divides).copied().collect();
        group.into_iter().for_each(|way| self.divide(way));
    }

    /// Whether messages to several members go to each of them by unicast.
    pub fn sends_to_each(&self) -> bool {
        self.each
    }

    /// Sends a message to these members. All have slots if it goes to at least half of the group.
    ///
    /// # Errors
    /// [`Refused`] if the message is too long, or frames are too small.
    pub fn send(
        &mut self,
        message: MessageId,
        bytes: &[u8],
        response: ResponseKind,
        to: &[MemberId],
        until: Option<Instant>,
    ) -> Result<(), Refused> {
        let room = self
            .settings
            .symbol(Schedule::LENGTH + bytes.len(), Added::by_hub(self.own.code_len()));
        let (_, symbol) = room;
        if symbol == 0 {
            return Err(Refused::Small(self.settings.datagram));
        }
        let members = self.members.len();
        let known =
            |member: &MemberId| u16::try_from(*member).ok().filter(|m| usize::from(*m) < members);
        let fresh = |member: u16| {
            let loss = self.apart.get(&member).copied();
            (member, Awaited { loss, ..Awaited::default() })
        };
        let awaited: BTreeMap<u16, Awaited> = to.iter().filter_map(known).map(fresh).collect();
        let awaited = self.join(message, awaited);
        if awaited.is_empty() {
            return Ok(());
        }
        // A single receiver answers at once; a minority of the group is asked in turn.
        let alone = self.each || awaited.len() == 1;
        let schedule = self.schedule_for(response, if alone { 1 } else { awaited.len() });
        // A message number has one encoding: symbols of two do not combine.
        let schedule = *self.schedules.entry(message).or_insert(schedule);
        if self.schedules.len() > REMEMBERED * 8 {
            self.schedules.pop_first();
        }
        let whole = [&schedule.encode()[..], bytes].concat();
        let symbol = symbol_size(whole.len(), symbol);
        let encoder = Encoder::new(whole, symbol)?;
        self.newest = self.newest.max(message);
        if !alone {
            let left = self.settings.burst(encoder.symbols(), awaited.len());
            let sending = Sending::new(encoder, schedule, left, awaited, until);
            self.sending.insert(Way::group(message), sending);
            self.send_ahead(message);
            return Ok(());
        }
        for (member, fresh) in awaited {
            let left = self.settings_of(member).burst(encoder.symbols(), 1);
            let only = BTreeMap::from([(member, fresh)]);
            let sending = Sending::new(encoder.clone(), schedule, left, only, until);
            self.sending.insert(Way::single(message, member), sending);
        }
        Ok(())
    }

    /// Adds receivers to a message in flight; returns those that need one to themselves.
    fn join(
        &mut self,
        message: MessageId,
        mut awaited: BTreeMap<u16, Awaited>,
    ) -> BTreeMap<u16, Awaited> {
        let settings = self.settings;
        let again = |sending: &mut Sending| {
            sending.more = sending.more.max(settings.frames_for(sending.encoder.symbols()));
        };
        let sending = &mut self.sending;
        awaited.retain(|member, _| {
            let known = sending.get_mut(&Way::single(message, *member));
            known.map(again).is_none()
        });
        let known = self.sending.range(Way::all(message)).next().map(|(way, _)| *way);
        let Some(way) = known.filter(|_| !self.each && !awaited.is_empty()) else { return awaited };
        // A new receiver gets symbols of the same encoding, and is asked at once.
        if let Some(mut sending) = self.sending.remove(&way) {
            for (member, fresh) in core::mem::take(&mut awaited) {
                sending.awaited.entry(member).or_insert(fresh);
            }
            again(&mut sending);
            self.sending.insert(Way::group(message), sending);
        }
        awaited
    }

    /// Sends what members lack of a message to each of them by unicast.
    fn divide(&mut self, way: Way) {
        let Some(mut group) = self.sending.remove(&way) else { return };
        for (member, awaited) in core::mem::take(&mut group.awaited) {
            let burst = self.settings_of(member).burst(group.encoder.symbols(), 1);
            let own = group.part(member, awaited, burst);
            self.sending.insert(Way::single(way.message, member), own);
        }
    }

    /// The way of a message to a member.
    pub(super) fn way(&self, message: MessageId, member: u16) -> Way {
        let single = Way::single(message, member);
        if self.sending.contains_key(&single) { single } else { Way::group(message) }
    }

    /// Waits no longer for what these members lack of a message.
    pub fn withdraw(&mut self, message: MessageId, members: &[MemberId]) {
        for (_, sending) in self.sending.range_mut(Way::all(message)) {
            let lacks = |member: &u16| !members.contains(&MemberId::from(*member));
            sending.awaited.retain(|member, _| lacks(member));
        }
    }

    /// How `awaited` members respond: the length of their slots, and the symbols beyond the
    /// message's own that they may need.
    fn schedule_for(&self, response: ResponseKind, awaited: usize) -> Schedule {
        let added = self.added();
        let slotted = 2 * awaited >= self.members.len();
        let count = u16::try_from(awaited).unwrap_or(u16::MAX);
        let answers = response == ResponseKind::Answers;
        let more = if answers { self.settings.extra_frames(count, added) } else { 0 };
        let slot = match awaited {
            // A slot of 0 us means none.
            _ if slotted => self.settings.slot(response, more, added).max(AT_ONCE),
            1 => AT_ONCE,
            _ => Span::ZERO,
        };
        Schedule {
            response,
            slot_us: u32::try_from(slot.as_ns().div_ceil(1_000)).unwrap_or(u32::MAX),
            loss: (self.settings.loss.clamp(0.0, 1.0) * 255.0).round() as u8,
            more,
        }
    }
}
