//! Transport of models without multicast: an exchange with each member, all paced together. Such a
//! model only implements [`Exchange`].

use super::{Carried, HubCarrier, Load, MemberCarrier, Place, To};
use crate::Nanos;
use crate::chance::Chance;
use crate::envelope::DATA_OVERHEAD;
use crate::pace::Pace;
use crate::switch::{MemberId, MessageId};
use std::collections::{BTreeMap, VecDeque};

/// The result of a received datagram.
#[derive(Debug, Default)]
pub struct Came {
    /// Completed envelopes.
    pub envelopes: Vec<Vec<u8>>,
    /// A datagram to send back first.
    pub reply: Option<Vec<u8>>,
    /// Received and lost frames that it acknowledges.
    pub frames: (u32, u32),
    /// A round-trip sample in ns, if it gives one.
    pub round_trip: Option<Nanos>,
}

/// A model between two ends, at one of them.
pub trait Exchange: Send {
    /// Sends an envelope to the other end.
    ///
    /// # Errors
    /// The reason why the model cannot carry it.
    fn send(
        &mut self,
        number: MessageId,
        sealed: &[u8],
        until: Option<Nanos>,
    ) -> Result<(), String>;
    /// Handles a datagram from the other end.
    fn receive(&mut self, datagram: &[u8], now: Nanos) -> Came;
    /// The next datagram at `now`, and the time of the next poll.
    fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>);
    /// Messages newly known as delivered since the last call.
    fn take_had(&mut self) -> Vec<MessageId>;
    /// Sends only what the other end still requests.
    fn retire(&mut self, now: Nanos);
}

/// Creates the exchange with a member; `None` if the model does not work with these parameters.
type Make<E> = Box<dyn Fn(&Place, u16) -> Option<E> + Send>;

/// Maximum consecutive datagrams to a member. Serving members one after another completes
/// messages early, so that they are answered early; the limit prevents that one blocks the others.
const TURN: u32 = 32;

/// The hub's transport.
pub struct Hub<E> {
    place: Place,
    make: Make<E>,
    peers: BTreeMap<MemberId, E>,
    replies: VecDeque<(MemberId, Vec<u8>)>,
    pace: Pace,
    /// The member being served, and its number of consecutive datagrams.
    turn: (MemberId, u32),
    told: Vec<Carried>,
}

impl<E: Exchange> Hub<E> {
    /// A transport to all members.
    pub fn new(place: &Place, make: impl Fn(&Place, u16) -> Option<E> + Send + 'static) -> Self {
        Self {
            place: place.clone(),
            make: Box::new(make),
            peers: BTreeMap::new(),
            replies: VecDeque::new(),
            pace: Pace::new(place.rate_bit_s, place.below),
            turn: (0, 0),
            told: Vec::new(),
        }
    }

    fn peer(&mut self, member: MemberId) -> Option<&mut E> {
        let number = u16::try_from(member).ok().filter(|number| *number < self.place.members)?;
        if !self.peers.contains_key(&member) {
            self.peers.insert(member, (self.make)(&self.place, number)?);
        }
        self.peers.get_mut(&member)
    }
}

impl<E: Exchange> HubCarrier for Hub<E> {
    fn send(&mut self, load: Load<'_>, to: &[MemberId], _: Nanos) -> Result<(), String> {
        for member in to {
            let small = "datagrams are too small for this model";
            self.peer(*member).ok_or(small)?.send(load.number, load.sealed, load.until)?;
        }
        Ok(())
    }

    fn receive(&mut self, datagram: &[u8], from: Option<MemberId>, now: Nanos) {
        let Some(member) = from else { return };
        let Some(peer) = self.peer(member) else { return };
        let Came { envelopes, reply, frames: (came, lost), round_trip } =
            peer.receive(datagram, now);
        if came + lost > 0 {
            self.told.push(Carried::Frames { came, lost });
        }
        self.told.extend(round_trip.map(Carried::RoundTrip));
        self.told.extend(envelopes.into_iter().map(Carried::Envelope));
        self.replies.extend(reply.map(|reply| (member, reply)));
    }

    fn poll(&mut self, now: Nanos) -> (Option<(To, Vec<u8>)>, Option<Nanos>) {
        if self.pace.next_at() > now {
            return (None, Some(self.pace.next_at()));
        }
        let mut next = self.replies.pop_front();
        let mut wake: Option<Nanos> = None;
        let (first, had) = self.turn;
        let first = if had < TURN { first } else { first.wrapping_add(1) };
        for range in [first..MemberId::MAX, 0..first] {
            if next.is_some() {
                break;
            }
            for (member, peer) in self.peers.range_mut(range) {
                let (datagram, look) = peer.poll(now);
                wake = [wake, look].into_iter().flatten().min();
                if let Some(datagram) = datagram {
                    next = Some((*member, datagram));
                    break;
                }
            }
        }
        let Some((member, datagram)) = next else { return (None, wake) };
        self.turn = (member, if member == self.turn.0 && had < TURN { had + 1 } else { 1 });
        self.pace.sent(datagram.len(), now);
        (Some((To::Member(member), datagram)), Some(self.pace.next_at()))
    }

    fn retire(&mut self, now: Nanos) {
        self.peers.values_mut().for_each(|peer| peer.retire(now));
    }

    fn take(&mut self) -> Vec<Carried> {
        for (member, peer) in &mut self.peers {
            let had = peer.take_had().into_iter();
            self.told.extend(had.map(|number| Carried::Had(*member, number)));
        }
        std::mem::take(&mut self.told)
    }
}

/// A member's transport.
pub struct Member<E> {
    exchange: Option<E>,
    /// Whether the transport itself acknowledges messages to the hub.
    acknowledges: bool,
    place: Place,
    replies: VecDeque<Vec<u8>>,
    /// Delayed answers.
    later: Vec<(Nanos, MessageId, Vec<u8>)>,
    pace: Pace,
    chance: Chance,
}

/// Maximum number of delayed answers; further ones are dropped.
const MOST_LATER: usize = 4_096;

impl<E: Exchange> Member<E> {
    /// A member with this exchange; `None` if the model does not work with these parameters.
    pub fn new(place: &Place, exchange: Option<E>, acknowledges: bool) -> Self {
        Self {
            exchange,
            acknowledges,
            place: place.clone(),
            replies: VecDeque::new(),
            later: Vec::new(),
            pace: Pace::new(place.rate_bit_s, place.below),
            chance: Chance::new(place.seed),
        }
    }
}

impl<E: Exchange> MemberCarrier for Member<E> {
    fn answer(
        &mut self,
        number: MessageId,
        asked: usize,
        sealed: &[u8],
        now: Nanos,
    ) -> Result<(), String> {
        let wait = apart(&self.place, (asked, sealed.len()), &mut self.chance);
        if self.later.len() < MOST_LATER {
            self.later.push((now + wait, number, sealed.to_vec()));
        }
        Ok(())
    }

    fn receive(&mut self, datagram: &[u8], now: Nanos) -> Vec<Vec<u8>> {
        let Some(exchange) = &mut self.exchange else { return Vec::new() };
        let came = exchange.receive(datagram, now);
        self.replies.extend(came.reply);
        came.envelopes
    }

    fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        let Some(exchange) = &mut self.exchange else { return (None, None) };
        for (_, number, sealed) in self.later.extract_if(.., |(at, ..)| *at <= now) {
            // An answer that is too long is dropped; the hub asks over another model.
            let _ = exchange.send(number, &sealed, None);
        }
        let waiting = self.later.iter().map(|(at, ..)| *at).min();
        if self.pace.next_at() > now {
            return (None, Some(self.pace.next_at()));
        }
        let mut wake = None;
        let next = self.replies.pop_front().or_else(|| {
            let (datagram, look) = exchange.poll(now);
            wake = look;
            datagram
        });
        exchange.take_had();
        match next {
            Some(datagram) => {
                self.pace.sent(datagram.len(), now);
                (Some(datagram), Some(self.pace.next_at()))
            }
            None => (None, [wake, waiting].into_iter().flatten().min()),
        }
    }

    fn acknowledges(&self) -> bool {
        self.acknowledges
    }
}

/// Random delay of an answer, in ns. The hub sends to one member after another, so answers that
/// are not longer than the message do not collide. The excess length is spread randomly over the
/// time that it takes for all other members.
pub(super) fn apart(place: &Place, (asked, answer): (usize, usize), chance: &mut Chance) -> Nanos {
    let longer = answer.saturating_sub(asked + DATA_OVERHEAD);
    let airtime = longer as f64 * 8e9 / place.rate_bit_s;
    (airtime * f64::from(place.members.saturating_sub(1)) * chance.share()) as Nanos
}
