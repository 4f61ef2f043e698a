//! An exchange by CoAP: both ends send POST requests. With keys, the payload of each message ends
//! with an authentication code, so that a foreign acknowledgement counts for nothing.

use crate::Instant;
use crate::carrier::exchange::{Exchange, Incoming};
use crate::carrier::interface::{Flow, HubCarrier, MemberCarrier, Params};
use crate::carrier::peers::{Hub, Member};
use crate::coap::{CoapReceiver, CoapSender};
use crate::keys::{Party, Root, Scope, Use};
use crate::replay::{Checker, Signer, ends};
use crate::rng::Seed;
use crate::switch::MessageId;
use coap::Message;

const LONG: &str = "the message has too many CoAP blocks";

/// Starts the payload of a message.
const MARKER: u8 = 0xff;

struct Coap {
    sender: CoapSender,
    receiver: CoapReceiver,
    own: Signer,
    other: Checker,
    /// For what the keys are, and those who have them.
    scopes: [Scope; 2],
}

impl Coap {
    fn new(
        params: &Params,
        confirmable: bool,
        seed: &Seed,
        own: Party,
        other: Party,
    ) -> Option<Self> {
        // Before a payload that is empty without the code, the marker takes another byte.
        let scopes = [own, other].map(|from| Scope::new(Use::Frame, params.epoch, from));
        let (own, other) = ends(&params.pair, scopes);
        let code = match own.code_len() {
            0 => 0,
            length => 1 + length,
        };
        let room = params.datagram.checked_sub(code)?;
        let sender = CoapSender::new(confirmable, room, params.wait, seed)?;
        Some(Self { sender, receiver: CoapReceiver::default(), own, other, scopes })
    }

    /// Appends the code to the payload, which may be empty.
    fn signed(&mut self, mut datagram: Vec<u8>) -> Vec<u8> {
        let empty = || Message::parse(&datagram).is_ok_and(|own| own.payload.is_empty());
        if self.own.code_len() > 0 && empty() {
            // A payload follows the marker (RFC 7252, 3): the code.
            datagram.push(MARKER);
        }
        self.own.sign(&mut datagram);
        datagram
    }

    /// The message without its code; `None` if the code is wrong, or the message has arrived before.
    fn checked<'a>(&mut self, datagram: &'a [u8], now: Instant) -> Option<Message<'a>> {
        let plain = self.other.check(datagram, now)?;
        // Before an empty payload there is no marker.
        let empty = || Message::parse(plain.strip_suffix(&[MARKER])?).ok();
        Message::parse(plain).ok().or_else(empty)
    }
}

impl Exchange for Coap {
    fn send(
        &mut self,
        number: MessageId,
        sealed: Vec<u8>,
        until: Option<Instant>,
    ) -> Result<(), String> {
        match self.sender.send(number, sealed, until) {
            true => Ok(()),
            false => Err(LONG.to_owned()),
        }
    }

    fn withdraw(&mut self, number: MessageId) {
        self.sender.withdraw(number);
    }

    fn receive(&mut self, datagram: &[u8], now: Instant) -> Incoming {
        let Some(message) = self.checked(datagram, now) else { return Incoming::default() };
        let report = self.sender.handle_ack(&message, now);
        let received = self.receiver.receive(&message);
        Incoming {
            genuine: true,
            envelopes: received.message.into_iter().collect(),
            reply: received.reply.map(|reply| self.signed(reply)),
            frames: (report.received, report.lost),
            round_trip: report.round_trip,
            ..Incoming::default()
        }
    }

    fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        let (datagram, wake) = self.sender.poll(now);
        (datagram.map(|datagram| self.signed(datagram)), wake)
    }

    fn take_delivered(&mut self, delivered: &mut Vec<MessageId>) {
        // Non-confirmable messages never count as delivered.
        let done = self.sender.take_done().into_iter();
        delivered.extend(done.filter(|(_, there)| *there).map(|(number, _)| number));
    }

    fn retire(&mut self, _: Instant) {
        self.sender.clear();
    }

    fn set_pair(&mut self, pair: &Root) {
        (self.own, self.other) = ends(pair, self.scopes);
    }

    fn pace(&mut self, flow: &Flow) {
        flow.wait.into_iter().for_each(|wait| self.sender.set_wait(wait));
    }
}

/// The hub's transport.
pub fn hub(params: &Params, confirmable: bool) -> Box<dyn HubCarrier> {
    Box::new(Hub::new(params, move |params, member| {
        let (seed, other) = (params.seed.child(member.into()), Party::Member(member));
        Coap::new(params, confirmable, &seed, Party::Hub, other)
    }))
}

/// A member's transport.
pub fn member(params: &Params, confirmable: bool, number: u16) -> Box<dyn MemberCarrier> {
    let own = Party::Member(number);
    let exchange = Coap::new(params, confirmable, &params.seed, own, Party::Hub);
    Box::new(Member::new(params, exchange, confirmable))
}
