//! The transport of CoAP, confirmable or not: both ends send POST requests.

use super::peers::{Came, Exchange, Hub, Member};
use super::{HubCarrier, MemberCarrier, Place};
use crate::Nanos;
use crate::coap::{CoapReceiver, CoapSender};
use crate::switch::MessageId;
use coap_lite::Packet;

const LONG: &str = "the message has too many CoAP blocks";

struct Coap {
    sender: CoapSender,
    receiver: CoapReceiver,
}

impl Coap {
    fn new(place: &Place, confirmable: bool, seed: u64) -> Option<Self> {
        let sender = CoapSender::new(confirmable, place.datagram, seed)?;
        Some(Self { sender, receiver: CoapReceiver::default() })
    }
}

impl Exchange for Coap {
    fn send(&mut self, number: MessageId, sealed: &[u8], _: Option<Nanos>) -> Result<(), String> {
        match self.sender.send(number, sealed.to_vec()) {
            true => Ok(()),
            false => Err(LONG.to_owned()),
        }
    }

    fn receive(&mut self, datagram: &[u8], now: Nanos) -> Came {
        let Ok(packet) = Packet::from_bytes(datagram) else { return Came::default() };
        let heard = self.sender.heard(&packet, now);
        let received = self.receiver.receive(&packet);
        Came {
            envelopes: received.message.into_iter().collect(),
            reply: received.reply,
            frames: (heard.came, heard.lost),
            round_trip: heard.round_trip,
        }
    }

    fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        self.sender.poll(now)
    }

    fn take_had(&mut self) -> Vec<MessageId> {
        // Non-confirmable messages never count as delivered.
        let done = self.sender.take_done().into_iter();
        done.filter(|(_, there)| *there).map(|(number, _)| number).collect()
    }

    fn retire(&mut self, _: Nanos) {
        self.sender.clear();
    }
}

/// The hub's transport.
pub fn hub(place: &Place, confirmable: bool) -> Box<dyn HubCarrier> {
    Box::new(Hub::new(place, move |place, member| {
        let seed = place.seed ^ u64::from(member).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Coap::new(place, confirmable, seed)
    }))
}

/// A member's transport.
pub fn member(place: &Place, confirmable: bool) -> Box<dyn MemberCarrier> {
    Box::new(Member::new(place, Coap::new(place, confirmable, place.seed), confirmable))
}
