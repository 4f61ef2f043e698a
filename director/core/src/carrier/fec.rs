//! The transport of `multicast-fec`.

use super::interface::{
    CarrierEvent, Flow, HubCarrier, Load, MANY, MemberCarrier, Model, Params, SEALED, To, Transport,
};
use crate::analytic::{Case, Prediction};
use crate::bound;
use crate::bundle;
use crate::conditions::Conditions;
use crate::fec::{self, Addressed, FecHub, FecMember, FecSettings, HubEvent, ResponseKind, Seen};
use crate::keys::{Keys, Party, Root, Scope, Use};
use crate::model::Features;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::{MemberId, MessageId};
use crate::{Instant, Span};
use alloc::collections::BTreeMap;

pub static MODEL: Model = Model {
    features: Features {
        reliable: true,
        ordered: false,
        boundaries: true,
        zero_rtt: true,
        multicast: true,
        by_unicast: true,
        measures: true,
        patterns: MANY,
    },
    similar: None,
    repairs_ahead: true,
    fits: |here| here.payload + SEALED <= fec::LONGEST as f64,
    owns: |datagram| {
        bundle::is_bundle(datagram) || fec::is_frame(datagram.first().copied().unwrap_or(0))
    },
    predict,
    transport: Transport::Datagrams(
        |params| Box::new(Hub::new(params)),
        |params, number| Box::new(Member::new(params, number)),
    ),
};

fn predict(case: &Case<'_>) -> Prediction {
    let (loss, short) = (case.loss, case.short);
    let symbols = fec::symbols(case.here.payload as usize, case.room as usize) as u64;
    let down = bound::multicast_frames(symbols, case.group as u64, loss);
    let (up, shorts) = match case.is_answered() {
        true => (bound::unicast_frames(symbols, loss), 0.0),
        false => (0.0, 1.0 / (1.0 - loss)),
    };
    let each = if case.is_answered() { up * case.frame } else { short / (1.0 - loss) };
    let first = down * case.frame + case.trip;
    let lost = if loss > 0.0 { case.trip } else { 0.0 };
    let fixed = [first, first + lost, first + 2.0 * lost];
    Prediction {
        delay_ms: case.queued(fixed, 1.05 * each),
        delivery: 1.0,
        bytes: case.wire(down / case.group + up, shorts),
    }
}

/// Whether a datagram is a unicast request to a member that multicast does not seem to reach.
pub fn asks(datagram: &[u8]) -> bool {
    datagram.first() == Some(&fec::REQUEST_UNICAST)
}

fn settings(params: &Params) -> FecSettings {
    FecSettings {
        datagram: params.datagram,
        below: params.below,
        rate_bit_s: params.rate_bit_s,
        loss: params.loss,
        round_trip: params.round_trip,
        least_trip: Span::ZERO,
        answer: params.answer,
        members: params.members,
        // Unknown until `adapt`.
        spare: 0.0,
        patience: Span::ZERO,
    }
}

/// Keys for frames of the hub. All members have the group's secret.
fn hub_keys(params: &Params) -> Keys {
    params.root.keys(Scope::new(Use::Frame, params.epoch, Party::Hub))
}

/// Keys for frames of a member in an epoch.
fn member_keys(pair: &Root, epoch: u32, member: u16) -> Keys {
    pair.keys(Scope::new(Use::Frame, epoch, Party::Member(member)))
}

/// Share of the channel that messages and their answers leave free, 0 to 1.
fn spare(here: &Conditions) -> f64 {
    let sent = (1.0 + here.group) * here.payload / (1.0 - here.loss).max(0.1);
    (1.0 - sent * 8.0 * here.messages_s / here.rate_bit_s.max(1.0)).max(0.0)
}

/// The hub's transport.
struct Hub {
    hub: FecHub,
    epoch: u32,
    /// A single member needs no multicast.
    single: bool,
    /// Bytes or energy are limited.
    efficient: bool,
    events: Vec<CarrierEvent>,
}

impl Hub {
    /// A transport to all members.
    pub fn new(params: &Params) -> Self {
        let epoch = params.epoch;
        let keys = |member| member_keys(&params.pair, epoch, member);
        let members = (0..params.members).map(keys).collect();
        let hub = FecHub::new(settings(params), hub_keys(params), members);
        let (single, efficient) = (params.members == 1, params.efficient);
        Self { hub, epoch, single, efficient, events: Vec::new() }
    }

    fn collect_events(&mut self) {
        let missing = self.hub.take_missing().into_iter();
        self.events.extend(missing.map(|(member, at)| CarrierEvent::Missing(member, at)));
        for event in self.hub.take_events() {
            match event {
                HubEvent::Acknowledged { message, member } => {
                    self.events.push(CarrierEvent::Delivered(member, message));
                }
                HubEvent::Answered { bytes, .. } => {
                    // Slots follow the size of the last answer.
                    self.hub.settings().answer = bytes.len();
                    self.events.push(CarrierEvent::Envelope(bytes));
                }
                HubEvent::Gap { member } => self.events.push(CarrierEvent::Gap(member)),
                HubEvent::Vanished { member } => self.events.push(CarrierEvent::Vanished(member)),
                HubEvent::MulticastBlocked { .. } if self.single => {}
                HubEvent::MulticastBlocked { .. } => {
                    self.events.push(CarrierEvent::MulticastBlocked)
                }
                HubEvent::Over { .. } => {}
            }
        }
    }
}

impl HubCarrier for Hub {
    fn send(&mut self, load: Load<'_>, to: &[MemberId], _: Instant) -> Result<(), String> {
        let response =
            if load.answered { ResponseKind::Answers } else { ResponseKind::Acknowledgements };
        let sent = self.hub.send(load.number, load.sealed, response, to, load.until);
        sent.map_err(|why| why.to_string())
    }

    fn withdraw(&mut self, number: MessageId, members: &[MemberId]) {
        self.hub.withdraw(number, members);
    }

    fn reaches_all(&self, to: &[MemberId]) -> bool {
        // A message to one goes by unicast.
        to.len() > 1 && !self.single && !self.hub.sends_to_each()
    }

    fn receive(&mut self, datagram: &[u8], _: Option<MemberId>, now: Instant) -> bool {
        let genuine = self.hub.receive(datagram, now);
        // What someone repeats changes nothing, nor when losses are counted.
        let seen = if genuine { self.hub.take_seen(now) } else { Vec::new() };
        self.events.extend(seen.into_iter().map(|Seen { member, received, lost, noticed }| {
            CarrierEvent::Frames { member, received, lost, noticed }
        }));
        let trips = self.hub.take_trips().into_iter();
        self.events.extend(trips.map(|(member, trip)| CarrierEvent::RoundTrip(member, trip)));
        let trains = self.hub.take_trains();
        self.events.extend(trains.into_iter().map(CarrierEvent::Train));
        self.collect_events();
        genuine
    }

    fn poll(&mut self, now: Instant) -> (Option<(To, Vec<u8>)>, Option<Instant>) {
        let (datagram, wake) = self.hub.poll(now);
        self.collect_events();
        let all = if self.single { To::Member(0) } else { To::Group };
        let to = |(to, datagram): Addressed| (to.map_or(all, To::Member), datagram);
        (datagram.map(to), wake)
    }

    fn take(&mut self, events: &mut Vec<CarrierEvent>) {
        events.append(&mut self.events);
    }

    fn max_messages(&self) -> u64 {
        fec::MAX_MESSAGES
    }

    fn retire(&mut self, _: Instant) {
        self.hub.clear();
    }

    fn set_pair(&mut self, member: MemberId, pair: &Root) {
        if let Ok(member) = u16::try_from(member) {
            self.hub.set_member(member, member_keys(pair, self.epoch, member));
        }
    }

    fn adapt(&mut self, here: &Conditions) {
        self.hub.settings().loss = here.loss;
        // Without queues. The session calls `pace` after this, which adds them.
        self.hub.settings().round_trip = here.rtt;
        self.hub.settings().least_trip = here.rtt;
        self.hub.settings().spare = if self.efficient { 0.0 } else { spare(here) };
    }

    fn set_multicast(&mut self, works: bool) {
        self.hub.set_multicast(works);
    }

    fn set_apart(&mut self, apart: &BTreeMap<MemberId, f64>) {
        self.hub.set_apart(apart);
    }

    fn pace(&mut self, flow: &Flow) {
        self.hub.pace(flow.rate_bit_s, flow.charge, flow.answers_bit_s);
        let settings = self.hub.settings();
        settings.patience = flow.patience;
        // Requests must not come before answers that wait in queues.
        settings.round_trip = settings.round_trip.max(flow.wait.unwrap_or_default());
    }
}

/// A member's transport.
struct Member {
    member: FecMember,
}

impl Member {
    /// The transport of the member with this number.
    pub fn new(params: &Params, number: u16) -> Self {
        let own = (member_keys(&params.pair, params.epoch, number), hub_keys(params));
        let member = FecMember::new(settings(params), (number, params.members), own, &params.seed);
        Self { member }
    }
}

impl MemberCarrier for Member {
    fn answer(
        &mut self,
        number: MessageId,
        _: usize,
        sealed: Vec<u8>,
        until: Option<Instant>,
        now: Instant,
    ) -> Result<(), String> {
        self.member.answer(number, sealed, until, now).map(drop).map_err(|why| why.to_string())
    }

    fn receive(&mut self, datagram: &[u8], envelopes: &mut Vec<Vec<u8>>, now: Instant) {
        envelopes.extend(self.member.receive(datagram, now).map(|(_, envelope)| envelope));
    }

    fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        self.member.poll(now)
    }

    fn next_over(&mut self) -> Option<MessageId> {
        self.member.next_over()
    }

    fn acknowledges(&self) -> bool {
        true
    }

    fn set_bundles(&mut self, reads: bool) {
        self.member.set_bundles(reads);
    }

    fn set_round_trip(&mut self, round_trip: Span) {
        self.member.set_round_trip(round_trip);
    }

    fn set_next(&mut self, next: MessageId) {
        self.member.set_next(next);
    }

    fn opened(&mut self, number: Option<MessageId>) {
        self.member.opened(number);
    }
}
