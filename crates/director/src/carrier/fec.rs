//! The transport of `multicast-fec`.

use super::{Carried, HubCarrier, Load, MemberCarrier, Place, To};
use crate::Nanos;
use crate::conditions::Conditions;
use crate::fec::{Addressed, FecHub, FecMember, FecSettings, HubEvent, Wanted};
use crate::keys::{Keys, Party, Scope, Use};
use crate::switch::{MemberId, MessageId};

fn settings(place: &Place) -> FecSettings {
    FecSettings {
        datagram: place.datagram,
        below: place.below,
        rate_bit_s: place.rate_bit_s,
        loss: place.loss,
        round_trip: place.round_trip,
        answer: place.answer,
        members: place.members,
        // Unknown until `adapt`.
        spare: 0.0,
    }
}

fn keys(place: &Place, from: Party) -> Keys {
    place.root.keys(Scope::new(Use::Frame, place.epoch, from))
}

/// Share of the channel that messages and their answers leave free, 0 to 1.
fn spare(here: &Conditions) -> f64 {
    let sent = (1.0 + here.group) * here.payload / (1.0 - here.loss).max(0.1);
    (1.0 - sent * 8.0 * here.messages_s / here.rate_bit_s.max(1.0)).max(0.0)
}

/// The hub's transport.
pub struct Hub {
    hub: FecHub,
    /// A single member needs no multicast.
    alone: bool,
    /// Bytes or energy are limited.
    thrifty: bool,
    told: Vec<Carried>,
}

impl Hub {
    /// A transport to all members.
    pub fn new(place: &Place) -> Self {
        let members = (0..place.members).map(|member| keys(place, Party::Member(member)));
        let hub = FecHub::new(settings(place), keys(place, Party::Hub), members.collect());
        Self { hub, alone: place.members == 1, thrifty: place.thrifty, told: Vec::new() }
    }

    fn hear(&mut self) {
        for event in self.hub.take_events() {
            match event {
                HubEvent::Acknowledged { message, member } => {
                    self.told.push(Carried::Had(member, message));
                }
                HubEvent::Answered { bytes, .. } => {
                    // Slots follow the size of the last answer.
                    self.hub.settings().answer = bytes.len();
                    self.told.push(Carried::Envelope(bytes));
                }
                HubEvent::Unreached { .. } if self.alone => {}
                HubEvent::Unreached { .. } => self.told.push(Carried::Unreached),
                HubEvent::Over { .. } => {}
            }
        }
    }
}

impl HubCarrier for Hub {
    fn send(&mut self, load: Load<'_>, to: &[MemberId], _: Nanos) -> Result<(), String> {
        let wanted = if load.answered { Wanted::Answers } else { Wanted::Acknowledgements };
        let sent = self.hub.send(load.number, load.sealed, wanted, to, load.until);
        sent.map_err(|why| why.to_string())
    }

    fn receive(&mut self, datagram: &[u8], _: Option<MemberId>, now: Nanos) {
        self.hub.receive(datagram, now);
        let seen = self.hub.take_seen();
        self.told.extend(seen.into_iter().map(|(came, lost)| Carried::Frames { came, lost }));
        self.told.extend(self.hub.take_trips().into_iter().map(Carried::RoundTrip));
        self.hear();
    }

    fn poll(&mut self, now: Nanos) -> (Option<(To, Vec<u8>)>, Option<Nanos>) {
        let (datagram, wake) = self.hub.poll(now);
        self.hear();
        let all = if self.alone { To::Member(0) } else { To::Group };
        let to = |(to, datagram): Addressed| (to.map_or(all, To::Member), datagram);
        (datagram.map(to), wake)
    }

    fn take(&mut self) -> Vec<Carried> {
        std::mem::take(&mut self.told)
    }

    fn retire(&mut self, _: Nanos) {
        self.hub.clear();
    }

    fn adapt(&mut self, here: &Conditions) {
        self.hub.settings().loss = here.loss;
        self.hub.settings().round_trip = here.rtt_ns;
        self.hub.settings().spare = if self.thrifty { 0.0 } else { spare(here) };
    }
}

/// A member's transport.
pub struct Member {
    member: FecMember,
}

impl Member {
    /// The transport of the member with this number.
    pub fn new(place: &Place, number: u16) -> Self {
        let own = (keys(place, Party::Member(number)), keys(place, Party::Hub));
        let member = FecMember::new(settings(place), (number, place.members), own, place.seed);
        Self { member }
    }
}

impl MemberCarrier for Member {
    fn answer(
        &mut self,
        number: MessageId,
        _: usize,
        sealed: &[u8],
        now: Nanos,
    ) -> Result<(), String> {
        self.member.answer(number, sealed, now).map(drop).map_err(|why| why.to_string())
    }

    fn receive(&mut self, datagram: &[u8], now: Nanos) -> Vec<Vec<u8>> {
        self.member.receive(datagram, now).map(|(_, envelope)| envelope).into_iter().collect()
    }

    fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        self.member.poll(now)
    }

    fn acknowledges(&self) -> bool {
        true
    }
}
