//! Transport of models without multicast: an exchange with each member, all paced together. Such a
//! model only implements [`Exchange`].

use super::deliveries::Deliveries;
use super::exchange::{Exchange, Incoming};
use super::interface::{CarrierEvent, Flow, HubCarrier, Load, MemberCarrier, Params, To};
use crate::agenda::Agenda;
use crate::capacity::Known;
use crate::envelope::DATA_OVERHEAD;
use crate::keys::Root;
use crate::member_set::MemberSet;
use crate::pace::Pace;
use crate::platform::Arc;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::rng::Rng;
use crate::switch::{MemberId, MessageId};
use crate::turn::Waiting;
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// Creates the exchange with a member; `None` if the model does not work with these parameters.
type Make<E> = Box<dyn Fn(&Params, u16) -> Option<E> + Send>;

/// Maximum consecutive datagrams to a member. Serving members one after another completes
/// messages early, so that they are answered early; the limit prevents that one blocks the others.
const TURN: u32 = 32;

/// The hub's transport.
pub struct Hub<E> {
    params: Params,
    make: Make<E>,
    peers: BTreeMap<MemberId, E>,
    /// Members that read bundles.
    bundles: BTreeSet<MemberId>,
    /// Keys with members.
    pairs: BTreeMap<MemberId, Root>,
    agenda: Agenda<MemberId>,
    /// Members with which something has happened, so that there may be events.
    changed: MemberSet,
    replies: VecDeque<(MemberId, Vec<u8>)>,
    deliveries: Deliveries,
    pace: Pace,
    charge: f64,
    /// The member being served, and its number of consecutive datagrams.
    turn: (MemberId, u32),
    events: Vec<CarrierEvent>,
    /// A buffer for [`Exchange::take_delivered`].
    delivered: Vec<MessageId>,
}

impl<E: Exchange> Hub<E> {
    /// A transport to all members.
    pub fn new(params: &Params, make: impl Fn(&Params, u16) -> Option<E> + Send + 'static) -> Self {
        Self {
            params: params.clone(),
            make: Box::new(make),
            peers: BTreeMap::new(),
            bundles: BTreeSet::new(),
            pairs: BTreeMap::new(),
            agenda: Agenda::default(),
            changed: MemberSet::default(),
            replies: VecDeque::new(),
            deliveries: Deliveries::default(),
            // A guessed rate must not slow down a model with its own congestion control (decision
            // 80).
            pace: match E::CONTROLS && params.estimated {
                true => Pace::new(f64::MAX, params.below),
                false => Pace::new(params.rate_bit_s, params.below),
            },
            charge: 1.0,
            turn: (0, 0),
            events: Vec::new(),
            delivered: Vec::new(),
        }
    }

    fn peer(&mut self, member: MemberId) -> Option<&mut E> {
        let number = u16::try_from(member).ok().filter(|number| *number < self.params.members)?;
        if !self.peers.contains_key(&member) {
            let mut peer = (self.make)(&self.params, number)?;
            self.pairs.get(&member).into_iter().for_each(|pair| peer.set_pair(pair));
            peer.set_bundles(self.bundles.contains(&member));
            self.peers.insert(member, peer);
        }
        // Only with an exchange: `poll` asks each active member for a datagram.
        self.agenda.touch(member);
        self.changed.insert(member);
        self.peers.get_mut(&member)
    }
}

impl<E: Exchange> HubCarrier for Hub<E> {
    fn send(&mut self, load: Load<'_>, to: &[MemberId], _: Instant) -> Result<(), String> {
        let (mut is_sent, mut rejected) = (to.is_empty(), Ok(()));
        let sealed = Arc::from(load.sealed);
        for member in to {
            let small = "datagrams are too small for this model".to_owned();
            let peer = self.peer(*member).ok_or(small);
            let sent = peer.and_then(|peer| peer.send_shared(load.number, &sealed, load.until));
            is_sent |= sent.is_ok();
            rejected = rejected.and(sent);
        }
        if is_sent { Ok(()) } else { rejected }
    }

    fn withdraw(&mut self, number: MessageId, members: &[MemberId]) {
        for member in members {
            if let Some(peer) = self.peers.get_mut(member) {
                peer.withdraw(number);
            }
        }
    }

    fn receive(&mut self, datagram: &[u8], from: Option<MemberId>, now: Instant) -> bool {
        // Without a known address it is unknown whose keys would check the frame.
        let Some(member) = from else { return false };
        let Some(peer) = self.peer(member) else { return false };
        let incoming = peer.receive(datagram, now);
        let Incoming { genuine, envelopes, reply, frames: (received, lost), .. } = incoming;
        let Incoming { round_trip, known, train, .. } = incoming;
        if known != Known::default() {
            self.deliveries.record(known, now);
        }
        let train = train.map(|train| self.deliveries.with_others(train, now));
        if received + lost > 0 {
            self.events.push(CarrierEvent::Frames { member, received, lost, noticed: now });
        }
        self.events.extend(round_trip.map(|ns| CarrierEvent::RoundTrip(member, ns)));
        self.events.extend(train.map(CarrierEvent::Train));
        self.events.extend(envelopes.into_iter().map(CarrierEvent::Envelope));
        self.replies.extend(reply.map(|reply| (member, reply)));
        genuine
    }

    fn poll(&mut self, now: Instant) -> (Option<(To, Vec<u8>)>, Option<Instant>) {
        if self.pace.next_at() > now {
            return (None, Some(self.pace.next_at()));
        }
        // Without its reply the other end sends again.
        let mut next = self.replies.pop_front();
        // After its turn a member is the last to be asked; if others have nothing, it goes on.
        let (first, had) = self.turn;
        let first = if had < TURN { first } else { first.wrapping_add(1) };
        self.agenda.wake(now);
        if E::CONTROLS {
            // Its timers depend on more than it says.
            self.peers.keys().for_each(|member| self.agenda.touch(*member));
        }
        while next.is_none()
            && let Some(member) = self.agenda.next(first)
            && let Some(peer) = self.peers.get_mut(&member)
        {
            let (datagram, look) = peer.poll(now);
            self.changed.insert(member);
            match datagram {
                Some(datagram) => next = Some((member, datagram)),
                None => self.agenda.rest(member, look),
            }
        }
        let Some((member, datagram)) = next else { return (None, self.agenda.wake_at()) };
        self.turn = (member, if member == self.turn.0 && had < TURN { had + 1 } else { 1 });
        // A member alone needs no one to leave time for its answers.
        let charge = if E::ADAPTS && self.peers.len() == 1 { 1.0 } else { self.charge };
        self.pace.charge(datagram.len(), charge, now);
        (Some((To::Member(member), datagram)), Some(self.pace.next_at()))
    }

    fn set_pair(&mut self, member: MemberId, pair: &Root) {
        self.pairs.insert(member, pair.clone());
        self.peers.get_mut(&member).into_iter().for_each(|peer| peer.set_pair(pair));
    }

    fn set_bundles(&mut self, member: MemberId, reads: bool) {
        match reads {
            true => self.bundles.insert(member),
            false => self.bundles.remove(&member),
        };
        self.peers.get_mut(&member).into_iter().for_each(|peer| peer.set_bundles(reads));
    }

    fn retire(&mut self, now: Instant) {
        for (member, peer) in &mut self.peers {
            peer.retire(now);
            self.agenda.touch(*member);
            self.changed.insert(*member);
        }
    }

    fn pace(&mut self, flow: &Flow) {
        if E::CONTROLS {
            return;
        }
        self.params.rate_bit_s = flow.rate_bit_s;
        self.charge = flow.charge;
        self.pace.set_rate(flow.rate_bit_s);
        self.peers.values_mut().for_each(|peer| peer.pace(flow));
    }

    fn take(&mut self, events: &mut Vec<CarrierEvent>) {
        events.append(&mut self.events);
        for member in core::mem::take(&mut self.changed).iter() {
            let Some(peer) = self.peers.get_mut(&member) else { continue };
            peer.take_delivered(&mut self.delivered);
            let had = self.delivered.drain(..);
            events.extend(had.map(|number| CarrierEvent::Delivered(member, number)));
            let late = peer.take_timeout();
            events.extend(late.map(|at| CarrierEvent::Timeout(member, at)));
        }
    }
}

/// A member's transport.
pub struct Member<E> {
    exchange: Option<E>,
    /// Whether the transport itself acknowledges messages to the hub.
    acknowledges: bool,
    params: Params,
    replies: VecDeque<Vec<u8>>,
    /// Delayed answers.
    delayed: Vec<(Instant, Waiting)>,
    /// Messages whose answers have arrived.
    over: Vec<MessageId>,
    pace: Pace,
    rng: Rng,
}

/// Maximum number of delayed answers; further ones are dropped.
const MAX_DELAYED: usize = 4_096;

impl<E: Exchange> Member<E> {
    /// A member with this exchange; `None` if the model does not work with these parameters.
    pub fn new(params: &Params, exchange: Option<E>, acknowledges: bool) -> Self {
        Self {
            exchange,
            acknowledges,
            params: params.clone(),
            replies: VecDeque::new(),
            delayed: Vec::new(),
            over: Vec::new(),
            pace: match E::CONTROLS && params.estimated {
                true => Pace::new(f64::MAX, params.below),
                false => member_pace(params),
            },
            rng: Rng::new(&params.seed),
        }
    }
}

impl<E: Exchange> MemberCarrier for Member<E> {
    fn answer(
        &mut self,
        number: MessageId,
        asked: usize,
        sealed: Vec<u8>,
        until: Option<Instant>,
        now: Instant,
    ) -> Result<(), String> {
        let wait = answer_delay(&self.params, (asked, sealed.len()), &mut self.rng);
        if self.delayed.len() < MAX_DELAYED {
            self.delayed.push((now + wait, Waiting { number, bytes: sealed, until }));
        }
        Ok(())
    }

    fn receive(&mut self, datagram: &[u8], envelopes: &mut Vec<Vec<u8>>, now: Instant) {
        let Some(exchange) = &mut self.exchange else { return };
        let received = exchange.receive(datagram, now);
        self.replies.extend(received.reply);
        envelopes.extend(received.envelopes);
    }

    fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        let Some(exchange) = &mut self.exchange else { return (None, None) };
        for (_, answer) in self.delayed.extract_if(.., |(at, _)| *at <= now) {
            // An answer that is too long is dropped; the hub asks over another model.
            let _ = exchange.send(answer.number, answer.bytes, answer.until);
        }
        exchange.rate().into_iter().for_each(|rate| self.pace.set_rate(rate));
        let waiting = self.delayed.iter().map(|(at, _)| *at).min();
        if self.pace.next_at() > now {
            return (None, Some(self.pace.next_at()));
        }
        let mut wake = None;
        let next = self.replies.pop_front().or_else(|| {
            let (datagram, look) = exchange.poll(now);
            wake = look;
            datagram
        });
        exchange.take_delivered(&mut self.over);
        match next {
            Some(datagram) => {
                self.pace.sent(datagram.len(), now);
                (Some(datagram), Some(self.pace.next_at()))
            }
            None => (None, [wake, waiting].into_iter().flatten().min()),
        }
    }

    fn next_over(&mut self) -> Option<MessageId> {
        self.over.pop()
    }

    fn acknowledges(&self) -> bool {
        self.acknowledges
    }

    fn set_bundles(&mut self, reads: bool) {
        self.exchange.iter_mut().for_each(|exchange| exchange.set_bundles(reads));
    }
}

/// The pace of a member. If the rate is not configured, the hub requests no more than the path
/// carries, so a short answer may go at once.
pub fn member_pace(params: &Params) -> Pace {
    let burst = if params.estimated { INITIAL_BURST.min(10 * params.datagram) } else { 0 };
    Pace::new(params.rate_bit_s, params.below).with_burst(burst)
}

/// Bytes that may be sent at once without knowledge of the path (RFC 6928).
const INITIAL_BURST: usize = 14_600;

/// Random delay of an answer. The hub sends to one member after another, so answers that
/// are not longer than the message do not collide. The excess length is spread randomly over the
/// time that it takes for all other members.
pub(super) fn answer_delay(
    params: &Params,
    (asked, answer): (usize, usize),
    rng: &mut Rng,
) -> Span {
    if params.estimated {
        // The hub leaves time for answers.
        return Span::ZERO;
    }
    let longer = answer.saturating_sub(asked + DATA_OVERHEAD);
    let airtime = longer as f64 * 8e9 / params.rate_bit_s;
    Span::from_ns_f64(airtime * f64::from(params.members.saturating_sub(1)) * rng.uniform())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::interface::Load;
    use crate::rng::Seed;

    /// Sends each envelope once.
    #[derive(Default)]
    struct Plain(VecDeque<Vec<u8>>);

    impl Exchange for Plain {
        fn send(
            &mut self,
            _: MessageId,
            sealed: Vec<u8>,
            _: Option<Instant>,
        ) -> Result<(), String> {
            self.0.push_back(sealed);
            Ok(())
        }

        fn receive(&mut self, _: &[u8], _: Instant) -> Incoming {
            Incoming::default()
        }

        fn poll(&mut self, _: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
            (self.0.pop_front(), None)
        }

        fn take_delivered(&mut self, _: &mut Vec<MessageId>) {}

        fn retire(&mut self, _: Instant) {}
    }

    /// All members whose datagrams come until the hub has nothing to send.
    fn served(hub: &mut Hub<Plain>) -> BTreeSet<MemberId> {
        let (mut now, mut served) = (Instant::START, BTreeSet::new());
        for _ in 0..100 {
            let (datagram, next) = hub.poll(now);
            match (datagram, next) {
                (Some((To::Member(member), _)), _) => drop(served.insert(member)),
                (Some(other), _) => panic!("{other:?}"),
                (None, Some(next)) if next > now => now = next,
                (None, _) => break,
            }
        }
        served
    }

    #[test]
    fn a_member_without_an_exchange_holds_up_no_other() {
        for lacking in 0..4 {
            let params = Params {
                root: Root::insecure([1; 16]),
                pair: Root::insecure([1; 16]),
                epoch: 0,
                members: 4,
                datagram: 1_000,
                below: 42,
                rate_bit_s: 1e6,
                loss: 0.0,
                round_trip: Span::from_ms(10),
                wait: Span::from_ms(10),
                estimated: false,
                answered: true,
                answer: 100,
                efficient: false,
                seed: Seed::reproducible(1),
            };
            let make = move |_: &Params, n| (n != lacking).then(Plain::default);
            let mut hub = Hub::new(&params, make);
            let load = || Load { number: 1, sealed: &[7; 50], answered: false, until: None };
            let lacking = MemberId::from(lacking);
            let others: Vec<MemberId> = (0..4).filter(|member| *member != lacking).collect();
            assert!(hub.send(load(), &[lacking], Instant::START).is_err());
            // What others have taken is not rejected.
            assert!(hub.send(load(), &[0, 1, 2, 3], Instant::START).is_ok());
            // Also a datagram from there.
            assert!(!hub.receive(&[1, 2, 3], Some(lacking), Instant::START));
            hub.send(load(), &others, Instant::START).unwrap();
            assert_eq!(served(&mut hub), others.into_iter().collect(), "without {lacking}");
        }
    }
}
