//! The transport of `udp-arq`: a sender and a receiver per end, frames with authentication codes.

use super::interface::{ALL, Model, Params, Transport};
use super::peers::{Exchange, Hub, Incoming, Member};
use crate::analytic::{Case, Prediction, rounds};
use crate::arq::{AckReport, ArqReceiver, ArqSender, ArqSettings, Datagram, LAST_ATTEMPT, Outcome};
use crate::keys::{Keys, Party, Scope, Use};
use crate::model::Features;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MessageId;
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, BTreeSet};

pub static MODEL: Model = Model {
    features: Features {
        reliable: true,
        ordered: false,
        boundaries: true,
        zero_rtt: true,
        multicast: false,
        patterns: ALL,
    },
    similar: None,
    repairs_ahead: false,
    fits: |_| true,
    // A chunk that requests an acknowledgement has the highest bit set.
    owns: |datagram| datagram.first().is_some_and(|first| matches!(first & 0x7f, 0x10 | 0x11)),
    predict,
    transport: Transport::Datagrams(
        |params| {
            Box::new(Hub::new(params, |params, member| {
                Some(Arq::new(params, Use::Frame, [Party::Hub, Party::Member(member)], true))
            }))
        },
        |params, number| {
            let arq = Arq::new(params, Use::Frame, [Party::Member(number), Party::Hub], false);
            Box::new(Member::new(params, Some(arq), true))
        },
    ),
};

fn predict(case: &Case<'_>) -> Prediction {
    let (loss, short) = (case.loss, case.short);
    let sent = (case.chunks + case.back) / (1.0 - loss);
    let each = sent * case.frame + 2.0 * short / (1.0 - loss);
    // A lost acknowledgement costs two round trips.
    let waits = 2.0 * loss / (1.0 - loss);
    let of = |chance| case.trip * (case.ways * rounds(case.chunks, loss, chance) + waits);
    Prediction {
        delay_ms: case.queued([of(0.5), of(0.9), of(0.99)], each),
        delivery: 1.0,
        bytes: case.wire(sent, 2.0 / (1.0 - loss)),
    }
}

fn settings(params: &Params, own: Party) -> ArqSettings {
    ArqSettings {
        datagram: params.datagram.saturating_sub(params.root.code_len()),
        below: params.below + params.root.code_len(),
        rate_bit_s: params.rate_bit_s,
        // Many members share the channel and delay each other.
        timeout: params.wait * 2,
        burst: if params.estimated { 10 * params.datagram } else { 0 },
        // A hub measures the paths to all members together.
        adapts: own != Party::Hub,
        estimated: params.estimated,
        ..ArqSettings::default()
    }
}

/// Delay of an acknowledgement: this fraction of the round trip, at most `MAX_ACK_DELAY`. So
/// reordered frames do not count as lost, and an answer can replace the acknowledgement.
const ACK_DELAY_DIVISOR: u64 = 8;
const MAX_ACK_DELAY: Span = Span::from_ms(10);

/// An ARQ sender and receiver, to one other end.
pub(crate) struct Arq {
    sender: ArqSender,
    receiver: ArqReceiver,
    own: Keys,
    other: Keys,
    /// Whether the other end answers messages of this end.
    asks: bool,
    /// Delayed acknowledgements and their sending times, by message.
    acks: BTreeMap<MessageId, (Instant, Vec<u8>)>,
    /// The same by sending time.
    due: BTreeSet<(Instant, MessageId)>,
    wait: Span,
    /// Attempt numbers of unanswered messages.
    attempts: BTreeMap<MessageId, u8>,
}

/// Maximum number of such attempts.
const MAX_ATTEMPTS: usize = 64;

impl Arq {
    /// Between `own` end and the `other` one, with keys of this purpose; `asks` if the other end
    /// answers messages of this one under the same number.
    pub fn new(params: &Params, purpose: Use, [own, other]: [Party; 2], asks: bool) -> Self {
        let keys = |from| params.root.keys(Scope::new(purpose, params.epoch, from));
        Self {
            sender: ArqSender::new(settings(params, own)),
            receiver: ArqReceiver::new(),
            own: keys(own),
            other: keys(other),
            asks,
            acks: BTreeMap::new(),
            due: BTreeSet::new(),
            wait: (params.round_trip / ACK_DELAY_DIVISOR).min(MAX_ACK_DELAY),
            attempts: BTreeMap::new(),
        }
    }

    /// Drops a message; returns whether a chunk of it was sent.
    pub fn withdraw(&mut self, number: MessageId) -> bool {
        self.sender.withdraw(number)
    }

    /// Whether a chunk of each message was sent.
    pub fn is_begun(&self) -> bool {
        self.sender.is_begun()
    }

    /// Whether the sender has a message that the other end has not acknowledged.
    pub fn has(&self, number: MessageId) -> bool {
        self.sender.has(number)
    }

    /// Takes a delayed acknowledgement.
    fn take_ack(&mut self, number: MessageId) -> Option<Vec<u8>> {
        let (due, ack) = self.acks.remove(&number)?;
        self.due.remove(&(due, number));
        Some(ack)
    }

    fn signed(&self, mut datagram: Vec<u8>) -> Vec<u8> {
        self.own.sign(&mut datagram);
        datagram
    }
}

impl Exchange for Arq {
    const ADAPTS: bool = true;

    fn send(
        &mut self,
        number: MessageId,
        sealed: &[u8],
        until: Option<Instant>,
    ) -> Result<(), String> {
        if !self.asks {
            // The answer replaces the acknowledgement.
            self.take_ack(number);
        }
        let echo = self.attempts.remove(&number).unwrap_or(LAST_ATTEMPT);
        let sent = self.sender.answer(number, sealed.to_vec(), until, echo);
        sent.map_err(|why| why.to_string())
    }

    fn receive(&mut self, datagram: &[u8], now: Instant) -> Incoming {
        let Some(plain) = self.other.check(datagram) else { return Incoming::default() };
        let report = match Datagram::chunk_of(plain) {
            // A chunk of the answer: the other end has the whole message.
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
            // A newer acknowledgement takes the older one's time: chunks that keep arriving must
            // not delay it for ever.
            let due = self.acks.get(&number).map_or(now + self.wait, |(due, _)| *due);
            self.acks.insert(number, (due, reply));
            self.due.insert((due, number));
        }
        Incoming {
            genuine: true,
            envelopes: received.message.into_iter().map(|(_, envelope)| envelope).collect(),
            reply: None,
            frames: (report.received, report.lost),
            round_trip: report.round_trip,
            train: report.train,
        }
    }

    fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        let first = self.due.first().copied();
        if let Some((_, number)) = first.filter(|(due, _)| *due <= now) {
            let ack = self.take_ack(number);
            return (ack.map(|ack| self.signed(ack)), Some(now));
        }
        let due = first.map(|(due, _)| due);
        let (datagram, wake) = self.sender.poll(now);
        let wake = [wake, due].into_iter().flatten().min();
        (datagram.map(|datagram| self.signed(datagram)), wake)
    }

    fn take_delivered(&mut self) -> Vec<MessageId> {
        let done = self.sender.take_done().into_iter();
        done.filter(|(_, outcome)| *outcome == Outcome::Delivered).map(|(id, _)| id).collect()
    }

    fn pace(&mut self, rate_bit_s: f64) {
        self.sender.pace(rate_bit_s);
    }

    fn take_timeout(&mut self) -> Option<Instant> {
        self.sender.take_timeout()
    }

    fn rate(&self) -> Option<f64> {
        self.sender.rate()
    }

    fn retire(&mut self, _: Instant) {
        self.sender.clear();
    }
}
