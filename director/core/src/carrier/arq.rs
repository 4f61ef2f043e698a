//! The transport of `udp-arq`: a sender and a receiver per end, frames with authentication codes.

use super::peers::{Exchange, Hub, Incoming, Member};
use super::{HubCarrier, MemberCarrier, Params};
use crate::Nanos;
use crate::arq::{AckReport, ArqReceiver, ArqSender, ArqSettings, Datagram, Outcome};
use crate::keys::{Keys, Party, Scope, Use};
use crate::switch::MessageId;
use std::collections::BTreeMap;

fn settings(params: &Params) -> ArqSettings {
    ArqSettings {
        datagram: params.datagram.saturating_sub(params.root.code_len()),
        below: params.below + params.root.code_len(),
        rate_bit_s: params.rate_bit_s,
        // Many members share the channel and delay each other.
        timeout: params.round_trip * 2,
        ..ArqSettings::default()
    }
}

/// Delay of an acknowledgement: this fraction of the round trip, at most `MAX_ACK_DELAY` ns. So
/// reordered frames do not count as lost, and an answer can replace the acknowledgement.
const ACK_DELAY_DIVISOR: Nanos = 8;
const MAX_ACK_DELAY: Nanos = 10_000_000;

struct Arq {
    sender: ArqSender,
    receiver: ArqReceiver,
    own: Keys,
    other: Keys,
    /// Whether the other end answers messages of this end.
    asks: bool,
    /// Delayed acknowledgements and their sending times, by message.
    acks: BTreeMap<MessageId, (Nanos, Vec<u8>)>,
    wait: Nanos,
    /// Attempt numbers of unanswered messages.
    attempts: BTreeMap<MessageId, u8>,
}

/// Maximum number of such attempts.
const MAX_ATTEMPTS: usize = 64;

impl Arq {
    fn new(params: &Params, own: Party, other: Party) -> Self {
        let keys = |from| params.root.keys(Scope::new(Use::Frame, params.epoch, from));
        Self {
            sender: ArqSender::new(settings(params)),
            receiver: ArqReceiver::new(),
            own: keys(own),
            other: keys(other),
            asks: own == Party::Hub,
            acks: BTreeMap::new(),
            wait: (params.round_trip / ACK_DELAY_DIVISOR).min(MAX_ACK_DELAY),
            attempts: BTreeMap::new(),
        }
    }

    fn signed(&self, mut datagram: Vec<u8>) -> Vec<u8> {
        self.own.sign(&mut datagram);
        datagram
    }
}

impl Exchange for Arq {
    fn send(
        &mut self,
        number: MessageId,
        sealed: &[u8],
        until: Option<Nanos>,
    ) -> Result<(), String> {
        if !self.asks {
            // The answer replaces the acknowledgement.
            self.acks.remove(&number);
        }
        let echo = self.attempts.remove(&number).unwrap_or(0);
        let sent = self.sender.answer(number, sealed.to_vec(), until, echo);
        sent.map_err(|why| why.to_string())
    }

    fn receive(&mut self, datagram: &[u8], now: Nanos) -> Incoming {
        let Some(plain) = self.other.check(datagram) else { return Incoming::default() };
        let report = match Datagram::chunk_of(plain) {
            Some((number, attempt, echo)) if self.asks => {
                // A retransmitted answer was delayed at the member: no round-trip sample.
                let echo = Some(echo).filter(|_| attempt == 0);
                self.sender.answered(number, echo, now)
            }
            Some((number, attempt, _)) => {
                self.attempts.insert(number, attempt);
                if self.attempts.len() > MAX_ATTEMPTS {
                    self.attempts.pop_first();
                }
                AckReport::default()
            }
            None => self.sender.handle_ack(plain, now),
        };
        let received = self.receiver.receive(plain);
        if let Some((number, reply)) = received.reply {
            let due = self.acks.get(&number).map_or(now + self.wait, |(due, _)| *due);
            self.acks.insert(number, (due, reply));
        }
        Incoming {
            envelopes: received.message.into_iter().map(|(_, envelope)| envelope).collect(),
            reply: None,
            frames: (report.received, report.lost),
            round_trip: report.round_trip,
        }
    }

    fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        let first = self.acks.iter().min_by_key(|(_, (due, _))| *due);
        let (number, due) = first.map(|(number, (due, _))| (*number, *due)).unzip();
        if due.is_some_and(|due| due <= now) {
            let ack = number.and_then(|number| self.acks.remove(&number));
            return (ack.map(|(_, ack)| self.signed(ack)), Some(now));
        }
        let (datagram, wake) = self.sender.poll(now);
        let wake = [wake, due].into_iter().flatten().min();
        (datagram.map(|datagram| self.signed(datagram)), wake)
    }

    fn take_delivered(&mut self) -> Vec<MessageId> {
        let done = self.sender.take_done().into_iter();
        done.filter(|(_, outcome)| *outcome == Outcome::Delivered).map(|(id, _)| id).collect()
    }

    fn retire(&mut self, _: Nanos) {
        self.sender.clear();
    }
}

/// The hub's transport.
pub fn hub(params: &Params) -> Box<dyn HubCarrier> {
    Box::new(Hub::new(params, |params, member| {
        Some(Arq::new(params, Party::Hub, Party::Member(member)))
    }))
}

/// The transport of the member with this number.
pub fn member(params: &Params, number: u16) -> Box<dyn MemberCarrier> {
    let arq = Arq::new(params, Party::Member(number), Party::Hub);
    Box::new(Member::new(params, Some(arq), true))
}
