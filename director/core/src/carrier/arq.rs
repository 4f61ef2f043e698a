//! The transport of `udp-arq`: a sender and a receiver per end, frames with authentication codes.

mod bundles;

use super::exchange::{Exchange, Incoming};
use super::interface::{ALL, Flow, Model, Params, SEALED, Transport};
use super::peers::{Hub, Member};
use crate::analytic::{Case, Prediction, rounds};
use crate::arq::{
    self, AckReport, ArqReceiver, ArqSender, ArqSettings, COMPLETE_LEN, Datagram, MAX_CHUNKS,
    Outcome, Payload, Receipt, Request,
};
use crate::bundle;
use crate::keys::{Party, Root, Scope, Use};
use crate::message_map::MessageMap;
use crate::model::Features;
use crate::platform::Arc;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::replay::{Checker, Signer, ends};
use crate::switch::MessageId;
use crate::timetable::Timetable;
use crate::{Instant, Span};

/// Bytes of a packet around a chunk: headers of IPv4 and UDP, count and code, and the chunk's.
const AROUND: f64 = 43.0;

pub static MODEL: Model = Model {
    features: Features {
        reliable: true,
        ordered: false,
        boundaries: true,
        zero_rtt: true,
        multicast: false,
        by_unicast: true,
        measures: true,
        patterns: ALL,
    },
    similar: None,
    repairs_ahead: false,
    fits: |here| here.payload + SEALED <= MAX_CHUNKS as f64 * (here.mtu - AROUND),
    owns: |datagram| {
        bundle::is_bundle(datagram) || datagram.first().is_some_and(|first| arq::is_frame(*first))
    },
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

/// Least timeout of a message of a member, and of its reply, until the path is known: a member that has just joined
/// has one or two response times, maybe of a wire, and each repeats its first message.
const AT_FIRST: Span = Span::from_ms(50);

fn settings(params: &Params, purpose: Use, own: Party, code: usize) -> ArqSettings {
    ArqSettings {
        datagram: params.datagram.saturating_sub(code),
        below: params.below + code,
        rate_bit_s: params.rate_bit_s,
        // Many members share the channel and delay each other.
        timeout: params.wait * 2,
        at_first: if purpose == Use::UplinkFrame { AT_FIRST } else { Span::ZERO },
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
/// Least delay where messages are answered: on a fast path an application takes longer than a
/// fraction of the round trip. It is short against the least timeout of a sender, 4 ms.
const MIN_ACK_DELAY: Span = Span::from_ms(1);
/// Waiting acknowledgements that are sent at once, unless answers are to replace them. A sender has
/// a limited number of messages in flight (`ArqSettings::most`), and must not wait for them.
const ACK_AT: usize = 8;
/// The same where the next message takes them with it: half of what a sender may have in flight.
const ACK_AT_BUNDLED: usize = 16;

/// An ARQ sender and receiver, to one other end.
pub(crate) struct Arq {
    sender: ArqSender,
    receiver: ArqReceiver,
    own: Signer,
    other: Checker,
    /// For what the keys are, and those who have them.
    scopes: [Scope; 2],
    /// Whether the other end answers messages of this end.
    asks: bool,
    /// Whether this end's answers replace its acknowledgements.
    replaced: bool,
    /// Messages per datagram of acknowledgements.
    room: usize,
    /// Delayed acknowledgements, and for how long they wait.
    acks: Timetable<Receipt>,
    wait: Span,
    /// Time after it that makes an acknowledgement late.
    late: Span,
    /// Unanswered messages.
    requests: MessageMap<Request>,
    /// Whether the other end reads bundles.
    bundles: bool,
    /// Maximum datagram, and the longest one that has arrived, in bytes without codes.
    datagram: usize,
    longest: usize,
}

/// Maximum number of such messages.
const MAX_REQUESTS: usize = 64;
/// An acknowledgement this long after its time, or a round trip if that is longer, was held here, and
/// gives no round-trip sample.
const LATE_ACK: Span = Span::from_ms(2);

impl Arq {
    /// Between `own` end and the `other` one, with keys of this purpose; `asks` if the other end
    /// answers messages of this one under the same number.
    pub fn new(params: &Params, purpose: Use, [own, other]: [Party; 2], asks: bool) -> Self {
        let scopes = [own, other].map(|from| Scope::new(purpose, params.epoch, from));
        let (signer, checker) = ends(&params.pair, scopes);
        let settings = settings(params, purpose, own, signer.code_len());
        let least = if params.answered { MIN_ACK_DELAY } else { Span::ZERO };
        Self {
            replaced: params.answered && !asks,
            room: messages_in(settings.datagram).max(1),
            bundles: false,
            datagram: settings.datagram,
            longest: 0,
            sender: ArqSender::new(settings),
            receiver: ArqReceiver::new(),
            own: signer,
            other: checker,
            scopes,
            asks,
            acks: Timetable::default(),
            wait: (params.round_trip / ACK_DELAY_DIVISOR).clamp(least, MAX_ACK_DELAY),
            late: params.round_trip.max(LATE_ACK),
            requests: MessageMap::default(),
        }
    }

    /// Drops a message; returns whether a chunk of it was sent.
    pub fn withdraw(&mut self, number: MessageId) -> bool {
        self.sender.withdraw(number)
    }

    /// Smoothed time until a response; `None` before the first.
    pub fn response_time(&self) -> Option<Span> {
        self.sender.response_time()
    }

    /// Whether a chunk of each message was sent.
    pub fn is_begun(&self) -> bool {
        self.sender.is_begun()
    }

    /// Whether the sender has a message that the other end has not acknowledged.
    pub fn has(&self, number: MessageId) -> bool {
        self.sender.has(number)
    }

    fn signed(&mut self, mut datagram: Vec<u8>) -> Vec<u8> {
        self.own.sign(&mut datagram);
        datagram
    }

    /// Handles a part of a bundle, or a datagram; adds envelopes that it completes. Returns what it tells
    /// of the path.
    fn receive_part(
        &mut self,
        part: &[u8],
        envelopes: &mut Vec<Vec<u8>>,
        now: Instant,
    ) -> Option<AckReport> {
        let report = match Datagram::chunk_of(part) {
            // A chunk of the answer: the other end has the whole message.
            Some((number, attempt, echo)) if self.asks => {
                // A retransmitted answer was delayed at the member: no round-trip sample.
                let echo = Some(echo).filter(|_| attempt == 0);
                self.sender.answered(number, echo, now)
            }
            Some((number, attempt, _)) => {
                self.requests.insert(number, Request { attempt, at: now });
                if self.requests.len() > MAX_REQUESTS {
                    self.requests.pop_first();
                }
                None
            }
            None => self.sender.handle_ack(part, now),
        };
        let received = self.receiver.receive(part);
        envelopes.extend(received.message.map(|(_, envelope)| envelope));
        if let Some(reply) = received.reply {
            // A newer acknowledgement takes the older one's time: chunks that keep arriving must
            // not delay it for ever.
            let due = self.acks.get(reply.message).map_or(now + self.wait, |(due, _)| due);
            self.acks.insert(reply.message, due, reply);
        }
        report
    }
}

/// Acknowledgements of whole messages in a datagram of `bytes`.
fn messages_in(bytes: usize) -> usize {
    bytes.saturating_sub(1) / COMPLETE_LEN
}

impl Arq {
    /// Sets the maximum size of datagrams, with their codes, in bytes, for messages from now on.
    pub fn set_datagram(&mut self, datagram: usize) {
        self.datagram = datagram.saturating_sub(self.own.code_len());
        self.room = messages_in(self.datagram).max(1);
        self.sender.set_datagram(self.datagram);
    }

    fn send_payload(
        &mut self,
        number: MessageId,
        sealed: Payload,
        until: Option<Instant>,
    ) -> Result<(), String> {
        let request = self.requests.remove(number);
        let sent = self.sender.answer(number, sealed, until, request);
        sent.map_err(|why| why.to_string())
    }

    /// Maximum size of a message, in bytes.
    pub fn longest_message(&self) -> usize {
        self.sender.longest()
    }
}

impl Exchange for Arq {
    const ADAPTS: bool = true;

    fn send(
        &mut self,
        number: MessageId,
        sealed: Vec<u8>,
        until: Option<Instant>,
    ) -> Result<(), String> {
        self.send_payload(number, Payload::Own(sealed), until)
    }

    fn send_shared(
        &mut self,
        number: MessageId,
        sealed: &Arc<[u8]>,
        until: Option<Instant>,
    ) -> Result<(), String> {
        self.send_payload(number, Payload::Shared(sealed.clone()), until)
    }

    fn withdraw(&mut self, number: MessageId) {
        self.sender.withdraw(number);
    }

    fn receive(&mut self, datagram: &[u8], now: Instant) -> Incoming {
        let Some(plain) = self.other.check(datagram, now) else { return Incoming::default() };
        self.longest = self.longest.max(plain.len());
        let chunks = bundle::parts(plain).filter(|part| Datagram::chunk_of(part).is_some());
        let mut envelopes = Vec::with_capacity(chunks.count());
        let mut report = None::<AckReport>;
        for part in bundle::parts(plain) {
            let one = self.receive_part(part, &mut envelopes, now);
            report = report.into_iter().chain(one).reduce(|all, one| all.and(&one));
        }
        // What arrives together is one sample of the path.
        report.iter().for_each(|report| self.sender.measured(report, now));
        let report = report.unwrap_or_default();
        Incoming {
            genuine: true,
            envelopes,
            reply: None,
            frames: (report.received, report.lost),
            round_trip: report.round_trip,
            known: report.known,
            train: report.train,
        }
    }

    fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        if self.bundles {
            return self.next_bundle(now);
        }
        if let Some(ack) = self.next_ack(now) {
            return (Some(self.signed(ack.encode())), Some(now));
        }
        let due = self.acks.first().map(|(due, ..)| due);
        let (datagram, wake) = self.sender.poll(now);
        let wake = [wake, due].into_iter().flatten().min();
        (datagram.map(|datagram| self.signed(datagram)), wake)
    }

    fn set_pair(&mut self, pair: &Root) {
        (self.own, self.other) = ends(pair, self.scopes);
    }

    fn set_bundles(&mut self, reads: bool) {
        self.bundles = reads;
    }

    fn take_delivered(&mut self, delivered: &mut Vec<MessageId>) {
        let done = self.sender.take_done();
        let done = done.filter(|(_, outcome)| *outcome == Outcome::Delivered);
        delivered.extend(done.map(|(number, _)| number));
    }

    fn pace(&mut self, flow: &Flow) {
        self.sender.pace(flow.rate_bit_s);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    const RATE: f64 = 1e9;

    /// A hub and a member, 100 us apart.
    fn pair(answered: bool) -> [Arq; 2] {
        let params = Params {
            root: Root::insecure([1; 16]),
            pair: Root::insecure([1; 16]),
            epoch: 0,
            members: 1,
            datagram: 1_400,
            below: 42,
            rate_bit_s: RATE,
            loss: 0.0,
            round_trip: Span::from_us(200),
            wait: Span::from_us(200),
            estimated: false,
            answered,
            answer: 100,
            efficient: false,
            seed: Seed::reproducible(1),
        };
        let ends = [Party::Hub, Party::Member(0)];
        let arq = |ends: [Party; 2], asks| Arq::new(&params, Use::Frame, ends, asks);
        [arq(ends, true), arq([ends[1], ends[0]], false)]
    }

    /// All datagrams that an end sends until `until`.
    fn sent(end: &mut Arq, now: &mut Instant, until: Instant) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        loop {
            match end.poll(*now) {
                (Some(datagram), _) => datagrams.push(datagram),
                (None, Some(next)) if next > *now && next <= until => *now = next,
                (None, _) => return datagrams,
            }
        }
    }

    /// Number of messages that have become known as delivered.
    fn delivered(end: &mut Arq) -> usize {
        let mut delivered = Vec::new();
        end.take_delivered(&mut delivered);
        delivered.len()
    }

    #[test]
    fn answers_that_arrive_together_are_acknowledged_together() {
        let [mut hub, mut member] = pair(true);
        let mut now = Instant::START;
        for number in 0..32 {
            hub.send(number, vec![7; 100], None).unwrap();
        }
        // Before the first timeout, of 400 us.
        let until = now + Span::from_us(300);
        for datagram in sent(&mut hub, &mut now, until) {
            assert_eq!(member.receive(&datagram, now).envelopes.len(), 1);
        }
        for number in 0..32 {
            member.send(number, vec![8; 100], None).unwrap();
        }
        let until = now + Span::from_us(300);
        let answers = sent(&mut member, &mut now, until);
        assert_eq!(answers.len(), 32, "the answers are the member's acknowledgements");
        for datagram in &answers {
            assert_eq!(hub.receive(datagram, now).envelopes.len(), 1);
        }
        // Within the least timeout of the member.
        let until = now + Span::from_ms(3);
        let acknowledgements = sent(&mut hub, &mut now, until);
        assert!(acknowledgements.len() <= 2, "{}", acknowledgements.len());
        acknowledgements.iter().for_each(|datagram| drop(member.receive(datagram, now)));
        assert_eq!(delivered(&mut member), 32);
        assert!(sent(&mut member, &mut now, Instant::NEVER).is_empty(), "nothing goes again");
    }

    #[test]
    fn messages_without_answers_are_acknowledged_at_once() {
        let [mut hub, mut member] = pair(false);
        let mut now = Instant::START;
        hub.send(1, vec![7; 100], None).unwrap();
        let first = sent(&mut hub, &mut now, Instant::START).remove(0);
        member.receive(&first, now);
        let until = now + Span::from_us(100);
        assert_eq!(sent(&mut member, &mut now, until).len(), 1);
    }

    #[test]
    fn what_was_held_at_the_member_gives_no_round_trip() {
        for (held, sample) in [(Span::from_us(300), true), (Span::from_ms(20), false)] {
            let [mut hub, mut member] = pair(true);
            let mut now = Instant::START;
            hub.send(1, vec![7; 100], None).unwrap();
            let first = sent(&mut hub, &mut now, Instant::START).remove(0);
            // The member's program handles it late, and answers it.
            member.receive(&first, now);
            member.send(1, vec![8; 100], None).unwrap();
            now += held;
            let answer = sent(&mut member, &mut now, Instant::START + held).remove(0);
            assert_eq!(hub.receive(&answer, now).round_trip.is_some(), sample, "{held:?}");
        }
    }

    #[test]
    fn what_is_ready_together_shares_datagrams() {
        let [mut hub, mut member] = pair(true);
        let mut now = Instant::START;
        [&mut hub, &mut member].into_iter().for_each(|end| end.set_bundles(true));
        for number in 0..32 {
            hub.send(number, vec![7; 100], None).unwrap();
        }
        // 12 in 1,400 bytes.
        let messages = sent(&mut hub, &mut now, Instant::START + Span::from_us(300));
        assert_eq!(messages.len(), 3);
        assert!(messages.iter().all(|datagram| datagram.len() <= 1_400));
        let heard = messages.iter().map(|datagram| member.receive(datagram, now).envelopes.len());
        assert_eq!(heard.sum::<usize>(), 32);
        for number in 0..32 {
            member.send(number, vec![8; 100], None).unwrap();
        }
        let until = now + Span::from_us(300);
        let answers = sent(&mut member, &mut now, until);
        assert_eq!(answers.len(), 3);
        let heard = answers.iter().map(|datagram| {
            let incoming = hub.receive(datagram, now);
            assert!(incoming.round_trip.is_some());
            (incoming.envelopes.len() as u32, incoming.frames)
        });
        let heard =
            heard.reduce(|(n, (ok, lost)), (m, (more, gone))| (n + m, (ok + more, lost + gone)));
        assert_eq!(heard, Some((32, (32, 0))), "each frame once");
        // The next message takes the acknowledgements with it.
        hub.send(32, vec![7; 100], None).unwrap();
        let at = now;
        let next = sent(&mut hub, &mut now, at);
        assert_eq!(next.len(), 1);
        member.receive(&next[0], now);
        assert_eq!(delivered(&mut member), 32);
    }

    #[test]
    fn a_message_alone_is_as_before_and_so_is_all_to_an_earlier_version() {
        let [mut hub, _] = pair(true);
        let [mut new, mut member] = pair(true);
        new.set_bundles(true);
        let mut now = Instant::START;
        for end in [&mut hub, &mut new] {
            end.send(0, vec![7; 100], None).unwrap();
        }
        let alone = sent(&mut hub, &mut now, Instant::START);
        assert_eq!(sent(&mut new, &mut now, Instant::START), alone);
        hub.send(1, vec![7; 100], None).unwrap();
        hub.send(2, vec![7; 100], None).unwrap();
        let until = now + Span::from_us(50);
        let apart = sent(&mut hub, &mut now, until);
        assert_eq!(apart.len(), 2);
        for datagram in alone.iter().chain(&apart) {
            assert_eq!(member.receive(datagram, now).envelopes.len(), 1);
        }
    }

    #[test]
    fn on_a_slow_path_what_the_rate_does_not_allow_yet_goes_later() {
        let [mut hub, _] = pair(true);
        hub.set_bundles(true);
        hub.sender.pace(250_000.0);
        for number in 0..4 {
            hub.send(number, vec![7; 100], None).unwrap();
        }
        let mut now = Instant::START;
        // 151 bytes on the wire take 4.8 ms, and two of them more than a timer's tick.
        let first = sent(&mut hub, &mut now, Instant::START);
        assert_eq!((first.len(), first[0].len()), (1, 109));
    }

    #[test]
    fn a_path_that_carries_no_bundles_gets_messages_alone() {
        let [mut hub, _] = pair(true);
        hub.set_bundles(true);
        for number in 0..4 {
            hub.send(number, vec![7; 100], None).unwrap();
        }
        let mut now = Instant::START;
        let lengths: Vec<usize> = sent(&mut hub, &mut now, Instant::START + Span::from_ms(50))
            .iter()
            .map(Vec::len)
            .collect();
        // A bundle, again after the first timeout, and all alone after the second.
        assert_eq!(lengths[..6], [445, 445, 109, 109, 109, 109], "{lengths:?}");
    }

    #[test]
    fn a_member_sends_no_longer_bundles_than_its_hub() {
        let [mut hub, mut member] = pair(true);
        let mut now = Instant::START;
        [&mut hub, &mut member].into_iter().for_each(|end| end.set_bundles(true));
        for number in 0..8 {
            hub.send(number, vec![7; 20], None).unwrap();
        }
        let requests = sent(&mut hub, &mut now, Instant::START);
        let longest = requests.iter().map(Vec::len).max().unwrap();
        requests.iter().for_each(|datagram| drop(member.receive(datagram, now)));
        for number in 0..8 {
            member.send(number, vec![8; 100], None).unwrap();
        }
        let until = now + Span::from_us(300);
        let answers = sent(&mut member, &mut now, until);
        assert!(answers.len() > 1 && answers.len() < 8, "{}", answers.len());
        assert!(answers.iter().all(|datagram| datagram.len() <= longest));
    }
}
