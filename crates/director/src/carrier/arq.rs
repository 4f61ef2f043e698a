//! `udp-arq` between a hub and its members: a sender and a receiver for each, one pace for
//! all of them.

use super::pace::{Pace, apart};
use super::{Carried, HubCarrier, Load, MemberCarrier, Place, To};
use crate::Nanos;
use crate::arq::{ArqReceiver, ArqSender, ArqSettings, Outcome};
use crate::chance::Chance;
use crate::keys::{Keys, Party, Scope, Use};
use crate::switch::{MemberId, MessageId};
use std::collections::{BTreeMap, VecDeque};

fn settings(place: &Place) -> ArqSettings {
    ArqSettings {
        datagram: place.datagram.saturating_sub(place.root.code_len()),
        below: place.below + place.root.code_len(),
        rate_bit_s: place.rate_bit_s,
        // Many members share the channel, and wait for each other.
        patience: place.round_trip * 2,
        ..ArqSettings::default()
    }
}

fn keys(place: &Place, from: Party) -> Keys {
    place.root.keys(Scope::new(Use::Frame, place.epoch, from))
}

fn signed(keys: &Keys, mut datagram: Vec<u8>) -> Vec<u8> {
    keys.sign(&mut datagram);
    datagram
}

/// One of the hub's members.
struct Peer {
    sender: ArqSender,
    receiver: ArqReceiver,
    keys: Keys,
}

/// The hub's side.
pub struct Hub {
    settings: ArqSettings,
    own: Keys,
    peers: BTreeMap<MemberId, Peer>,
    place: Place,
    replies: VecDeque<(MemberId, Vec<u8>)>,
    pace: Pace,
    /// Whose turn it is next.
    turn: MemberId,
    told: Vec<Carried>,
}

impl Hub {
    /// One for all members.
    pub fn new(place: &Place) -> Self {
        Self {
            settings: settings(place),
            own: keys(place, Party::Hub),
            peers: BTreeMap::new(),
            place: place.clone(),
            replies: VecDeque::new(),
            pace: Pace::new(place.rate_bit_s, place.below),
            turn: 0,
            told: Vec::new(),
        }
    }

    fn peer(&mut self, member: MemberId) -> Option<&mut Peer> {
        let number = u16::try_from(member).ok().filter(|member| *member < self.place.members)?;
        let (settings, place) = (self.settings, &self.place);
        Some(self.peers.entry(member).or_insert_with(|| Peer {
            sender: ArqSender::new(settings),
            receiver: ArqReceiver::new(),
            keys: keys(place, Party::Member(number)),
        }))
    }
}

impl HubCarrier for Hub {
    fn send(&mut self, load: Load<'_>, to: &[MemberId], _: Nanos) -> Result<(), String> {
        for member in to {
            let Some(peer) = self.peer(*member) else { continue };
            let sent = peer.sender.send(load.number, load.sealed.to_vec(), load.until);
            sent.map_err(|why| why.to_string())?;
        }
        Ok(())
    }

    fn receive(&mut self, datagram: &[u8], from: Option<MemberId>, now: Nanos) {
        let Some(member) = from else { return };
        let Some(peer) = self.peer(member) else { return };
        let Some(plain) = peer.keys.check(datagram) else { return };
        let heard = peer.sender.heard(plain, now);
        let received = peer.receiver.receive(plain);
        if heard.came + heard.lost > 0 {
            self.told.push(Carried::Frames { came: heard.came, lost: heard.lost });
        }
        self.told.extend(heard.round_trip.map(Carried::RoundTrip));
        if let Some((_, envelope)) = received.message {
            self.told.push(Carried::Envelope(envelope));
        }
        if let Some(reply) = received.reply {
            self.replies.push_back((member, reply));
        }
    }

    fn poll(&mut self, now: Nanos) -> (Option<(To, Vec<u8>)>, Option<Nanos>) {
        if self.pace.next_at() > now {
            return (None, Some(self.pace.next_at()));
        }
        let mut next = self.replies.pop_front();
        let mut wake: Option<Nanos> = None;
        // Each member in turn, so that one with much to hear does not hold up the others.
        for range in [self.turn..MemberId::MAX, 0..self.turn] {
            if next.is_some() {
                break;
            }
            for (member, peer) in self.peers.range_mut(range) {
                let (datagram, look) = peer.sender.poll(now);
                wake = [wake, look].into_iter().flatten().min();
                if let Some(datagram) = datagram {
                    next = Some((*member, datagram));
                    break;
                }
            }
        }
        let Some((member, datagram)) = next else { return (None, wake) };
        self.turn = member.wrapping_add(1);
        let datagram = signed(&self.own, datagram);
        self.pace.sent(datagram.len(), now);
        (Some((To::Member(member), datagram)), Some(self.pace.next_at()))
    }

    fn take(&mut self) -> Vec<Carried> {
        for (member, peer) in &mut self.peers {
            for (number, outcome) in peer.sender.take_done() {
                if outcome == Outcome::Delivered {
                    self.told.push(Carried::Had(*member, number));
                }
            }
        }
        std::mem::take(&mut self.told)
    }
}

/// A member's side.
pub struct Member {
    sender: ArqSender,
    receiver: ArqReceiver,
    own: Keys,
    hub: Keys,
    place: Place,
    replies: VecDeque<Vec<u8>>,
    /// Answers that wait for their moment.
    later: VecDeque<(Nanos, MessageId, Vec<u8>)>,
    pace: Pace,
    chance: Chance,
}

impl Member {
    /// The member of this number.
    pub fn new(place: &Place, number: u16) -> Self {
        Self {
            sender: ArqSender::new(settings(place)),
            receiver: ArqReceiver::new(),
            own: keys(place, Party::Member(number)),
            hub: keys(place, Party::Hub),
            place: place.clone(),
            replies: VecDeque::new(),
            later: VecDeque::new(),
            pace: Pace::new(place.rate_bit_s, place.below),
            chance: Chance::new(place.seed),
        }
    }
}

impl MemberCarrier for Member {
    fn answer(&mut self, number: MessageId, sealed: &[u8], now: Nanos) -> Result<(), String> {
        let wait = apart(&self.place, sealed.len(), &mut self.chance);
        self.later.push_back((now + wait, number, sealed.to_vec()));
        Ok(())
    }

    fn receive(&mut self, datagram: &[u8], now: Nanos) -> Vec<Vec<u8>> {
        let Some(plain) = self.hub.check(datagram) else { return Vec::new() };
        self.sender.heard(plain, now);
        let received = self.receiver.receive(plain);
        self.replies.extend(received.reply);
        received.message.map(|(_, envelope)| envelope).into_iter().collect()
    }

    fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        while let Some(place) = self.later.iter().position(|(at, ..)| *at <= now) {
            if let Some((_, number, sealed)) = self.later.remove(place) {
                // What is too long is not answered; the hub asks by another model.
                let _ = self.sender.send(number, sealed, None);
            }
        }
        let waiting = self.later.iter().map(|(at, ..)| *at).min();
        if self.pace.next_at() > now {
            return (None, Some(self.pace.next_at()));
        }
        let mut wake = None;
        let next = self.replies.pop_front().or_else(|| {
            let (datagram, look) = self.sender.poll(now);
            wake = look;
            datagram
        });
        self.sender.take_done();
        match next {
            Some(datagram) => {
                let datagram = signed(&self.own, datagram);
                self.pace.sent(datagram.len(), now);
                (Some(datagram), Some(self.pace.next_at()))
            }
            None => (None, [wake, waiting].into_iter().flatten().min()),
        }
    }

    fn acknowledges(&self) -> bool {
        true
    }
}
