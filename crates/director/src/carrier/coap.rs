//! CoAP, confirmable or not, between a hub and its members: each end posts to the other.

use super::pace::{Pace, apart};
use super::{Carried, HubCarrier, Load, MemberCarrier, Place, To};
use crate::Nanos;
use crate::chance::Chance;
use crate::coap::{CoapReceiver, CoapSender};
use crate::switch::{MemberId, MessageId};
use coap_lite::Packet;
use std::collections::{BTreeMap, VecDeque};

const SMALL: &str = "datagrams have no room for a block of CoAP";
const LONG: &str = "a message has too many blocks of CoAP";

/// One of the hub's members.
struct Peer {
    sender: CoapSender,
    receiver: CoapReceiver,
}

/// The hub's side.
pub struct Hub {
    confirmable: bool,
    place: Place,
    peers: BTreeMap<MemberId, Peer>,
    replies: VecDeque<(MemberId, Vec<u8>)>,
    pace: Pace,
    turn: MemberId,
    told: Vec<Carried>,
}

impl Hub {
    /// One for all members.
    pub fn new(place: &Place, confirmable: bool) -> Self {
        Self {
            confirmable,
            place: place.clone(),
            peers: BTreeMap::new(),
            replies: VecDeque::new(),
            pace: Pace::new(place.rate_bit_s, place.below),
            turn: 0,
            told: Vec::new(),
        }
    }

    fn peer(&mut self, member: MemberId) -> Option<&mut Peer> {
        if member >= MemberId::from(self.place.members) {
            return None;
        }
        if !self.peers.contains_key(&member) {
            let seed = self.place.seed ^ u64::from(member).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let sender = CoapSender::new(self.confirmable, self.place.datagram, seed)?;
            self.peers.insert(member, Peer { sender, receiver: CoapReceiver::default() });
        }
        self.peers.get_mut(&member)
    }

    fn done(&mut self) {
        for (member, peer) in &mut self.peers {
            for (number, there) in peer.sender.take_done() {
                // Without confirmation nobody knows.
                if there {
                    self.told.push(Carried::Had(*member, number));
                }
            }
        }
    }
}

impl HubCarrier for Hub {
    fn send(&mut self, load: Load<'_>, to: &[MemberId], _: Nanos) -> Result<(), String> {
        for member in to {
            let peer = self.peer(*member).ok_or(SMALL)?;
            if !peer.sender.send(load.number, load.sealed.to_vec()) {
                return Err(LONG.to_owned());
            }
        }
        Ok(())
    }

    fn receive(&mut self, datagram: &[u8], from: Option<MemberId>, now: Nanos) {
        let (Some(member), Ok(packet)) = (from, Packet::from_bytes(datagram)) else { return };
        let Some(peer) = self.peer(member) else { return };
        let heard = peer.sender.heard(&packet, now);
        let received = peer.receiver.receive(&packet);
        if heard.came + heard.lost > 0 {
            self.told.push(Carried::Frames { came: heard.came, lost: heard.lost });
        }
        self.told.extend(heard.round_trip.map(Carried::RoundTrip));
        self.told.extend(received.message.map(Carried::Envelope));
        self.replies.extend(received.reply.map(|reply| (member, reply)));
        self.done();
    }

    fn poll(&mut self, now: Nanos) -> (Option<(To, Vec<u8>)>, Option<Nanos>) {
        if self.pace.next_at() > now {
            return (None, Some(self.pace.next_at()));
        }
        let mut next = self.replies.pop_front();
        let mut wake: Option<Nanos> = None;
        // Each in turn, as by `udp-arq`.
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
        self.done();
        let Some((member, datagram)) = next else { return (None, wake) };
        self.turn = member.wrapping_add(1);
        self.pace.sent(datagram.len(), now);
        (Some((To::Member(member), datagram)), Some(self.pace.next_at()))
    }

    fn take(&mut self) -> Vec<Carried> {
        std::mem::take(&mut self.told)
    }
}

/// A member's side.
pub struct Member {
    confirmable: bool,
    sender: Option<CoapSender>,
    receiver: CoapReceiver,
    place: Place,
    replies: VecDeque<Vec<u8>>,
    later: VecDeque<(Nanos, MessageId, Vec<u8>)>,
    pace: Pace,
    chance: Chance,
}

impl Member {
    /// A member.
    pub fn new(place: &Place, confirmable: bool) -> Self {
        Self {
            confirmable,
            sender: CoapSender::new(confirmable, place.datagram, place.seed),
            receiver: CoapReceiver::default(),
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
        let Ok(packet) = Packet::from_bytes(datagram) else { return Vec::new() };
        if let Some(sender) = &mut self.sender {
            sender.heard(&packet, now);
        }
        let received = self.receiver.receive(&packet);
        self.replies.extend(received.reply);
        received.message.into_iter().collect()
    }

    fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        let Some(sender) = &mut self.sender else { return (None, None) };
        while let Some(place) = self.later.iter().position(|(at, ..)| *at <= now) {
            if let Some((_, number, sealed)) = self.later.remove(place) {
                sender.send(number, sealed);
            }
        }
        let waiting = self.later.iter().map(|(at, ..)| *at).min();
        if self.pace.next_at() > now {
            return (None, Some(self.pace.next_at()));
        }
        let mut wake = None;
        let next = self.replies.pop_front().or_else(|| {
            let (datagram, look) = sender.poll(now);
            wake = look;
            datagram
        });
        sender.take_done();
        match next {
            Some(datagram) => {
                self.pace.sent(datagram.len(), now);
                (Some(datagram), Some(self.pace.next_at()))
            }
            None => (None, [wake, waiting].into_iter().flatten().min()),
        }
    }

    fn acknowledges(&self) -> bool {
        self.confirmable
    }
}
