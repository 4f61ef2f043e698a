//! An exchange by CoAP: both ends send POST requests.

use crate::Nanos;
use crate::carrier::interface::{HubCarrier, MemberCarrier, Params};
use crate::carrier::peers::{Exchange, Hub, Incoming, Member};
use crate::coap::{CoapReceiver, CoapSender};
use crate::switch::MessageId;
use coap::Message;

const LONG: &str = "the message has too many CoAP blocks";

struct Coap {
    sender: CoapSender,
    receiver: CoapReceiver,
}

impl Coap {
    fn new(params: &Params, confirmable: bool, seed: u64) -> Option<Self> {
        let sender = CoapSender::new(confirmable, params.datagram, seed)?;
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

    fn receive(&mut self, datagram: &[u8], now: Nanos) -> Incoming {
        let Ok(message) = Message::parse(datagram) else { return Incoming::default() };
        let report = self.sender.handle_ack(&message, now);
        let received = self.receiver.receive(&message);
        Incoming {
            envelopes: received.message.into_iter().collect(),
            reply: received.reply,
            frames: (report.received, report.lost),
            round_trip: report.round_trip,
        }
    }

    fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        self.sender.poll(now)
    }

    fn take_delivered(&mut self) -> Vec<MessageId> {
        // Non-confirmable messages never count as delivered.
        let done = self.sender.take_done().into_iter();
        done.filter(|(_, there)| *there).map(|(number, _)| number).collect()
    }

    fn retire(&mut self, _: Nanos) {
        self.sender.clear();
    }
}

/// The hub's transport.
pub fn hub(params: &Params, confirmable: bool) -> Box<dyn HubCarrier> {
    Box::new(Hub::new(params, move |params, member| {
        let seed = params.seed ^ u64::from(member).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Coap::new(params, confirmable, seed)
    }))
}

/// A member's transport.
pub fn member(params: &Params, confirmable: bool) -> Box<dyn MemberCarrier> {
    Box::new(Member::new(params, Coap::new(params, confirmable, params.seed), confirmable))
}
