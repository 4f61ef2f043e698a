//! Transports of models that external stacks carry: ZeroMQ, MQTT.
//!
//! Envelopes become frames of any length, with a prefix of two bytes: one that no other model
//! uses, and the model's number on the wire. [`crate::io`] has the stacks. No stack reports
//! delivery or drops: members answer or acknowledge by envelopes, and the hub resends messages
//! that stay unanswered.

use super::interface::{CarrierEvent, Flow, HubCarrier, Load, MemberCarrier, Params, To};
use super::peers::answer_delay;
use crate::Instant;
use crate::model::ModelId;
use crate::pace::Pace;
use crate::platform::Arc;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::rng::Rng;
use crate::switch::{MemberId, MessageId};
use alloc::collections::VecDeque;

/// First byte of a frame.
const MARK: u8 = 0x1b;
/// Minimum queue limit; a hub has four messages per member if that is more. Drops the oldest.
const MAX_WAITING: usize = 1_024;

/// How a stack sends frames of a model.
#[derive(Debug, Clone, Copy)]
pub struct Sending {
    /// Copies of a frame to one end that the channel carries.
    pub copies: usize,
    /// Copies of a frame to a group of members; `None` if the stack only sends to one end.
    pub group_copies: Option<fn(u16) -> usize>,
}

fn head(model: ModelId) -> [u8; 2] {
    [MARK, model.wire()]
}

/// The model of a frame; `None` if it is no such frame.
pub fn model_of(frame: &[u8]) -> Option<ModelId> {
    let [MARK, number, ..] = frame else { return None };
    ModelId::from_wire(*number).filter(|model| model.is_outside())
}

struct Frame {
    to: To,
    bytes: Arc<[u8]>,
    until: Option<Instant>,
}

/// Queue of outgoing frames.
struct Queue {
    model: ModelId,
    sending: Sending,
    members: u16,
    packet: usize,
    below: usize,
    waiting: VecDeque<Frame>,
    pace: Pace,
}

impl Queue {
    fn new(model: ModelId, sending: Sending, params: &Params) -> Self {
        Self {
            model,
            sending,
            members: params.members,
            packet: params.datagram.max(1),
            below: params.below,
            waiting: VecDeque::new(),
            pace: Pace::new(params.rate_bit_s, 0),
        }
    }

    fn marked(&self, sealed: &[u8]) -> Arc<[u8]> {
        [&head(self.model), sealed].concat().into()
    }

    fn push(&mut self, frame: Frame) {
        if self.waiting.len() >= MAX_WAITING.max(4 * usize::from(self.members)) {
            self.waiting.pop_front();
        }
        self.waiting.push_back(frame);
    }

    fn poll(&mut self, now: Instant) -> (Option<(To, Vec<u8>)>, Option<Instant>) {
        // Stacks do not know lifetimes, so a frame that has expired must not reach one.
        while self.waiting.pop_front_if(|f| f.until.is_some_and(|at| at <= now)).is_some() {}
        if self.waiting.is_empty() {
            return (None, None);
        }
        if self.pace.next_at() > now {
            return (None, Some(self.pace.next_at()));
        }
        let Some(Frame { to, bytes, .. }) = self.waiting.pop_front() else { return (None, None) };
        let packets = bytes.len().div_ceil(self.packet);
        let each = bytes.len() + packets * self.below;
        let copies = match (to, self.sending.group_copies) {
            (To::Group, Some(copies)) => copies(self.members),
            _ => self.sending.copies,
        };
        self.pace.sent(each * copies, now);
        (Some((to, bytes.to_vec())), Some(self.pace.next_at()))
    }
}

/// The hub's transport.
struct Hub {
    queue: Queue,
    events: Vec<CarrierEvent>,
}

impl HubCarrier for Hub {
    fn send(&mut self, load: Load<'_>, to: &[MemberId], _: Instant) -> Result<(), String> {
        let (bytes, until) = (self.queue.marked(load.sealed), load.until);
        if self.reaches_all(to) {
            self.queue.push(Frame { to: To::Group, bytes, until });
            return Ok(());
        }
        for member in to {
            self.queue.push(Frame { to: To::Member(*member), bytes: bytes.clone(), until });
        }
        Ok(())
    }

    fn withdraw(&mut self, _: MessageId, _: &[MemberId]) {
        // Frames go once, and their queue is short.
    }

    fn reaches_all(&self, to: &[MemberId]) -> bool {
        // A minority gets it by unicast: the others would receive and drop it.
        self.queue.sending.group_copies.is_some() && 2 * to.len() > usize::from(self.queue.members)
    }

    fn receive(&mut self, frame: &[u8], _: Option<MemberId>, _: Instant) -> bool {
        // A frame proves nothing; the envelope in it proves its sender when it opens.
        if let Some(envelope) = frame.strip_prefix(&head(self.queue.model)) {
            self.events.push(CarrierEvent::Envelope(envelope.to_vec()));
        }
        false
    }

    fn poll(&mut self, now: Instant) -> (Option<(To, Vec<u8>)>, Option<Instant>) {
        self.queue.poll(now)
    }

    fn retire(&mut self, _: Instant) {
        self.queue.waiting.clear();
    }

    fn pace(&mut self, flow: &Flow) {
        self.queue.pace.set_rate(flow.rate_bit_s);
    }

    fn take(&mut self, events: &mut Vec<CarrierEvent>) {
        events.append(&mut self.events);
    }
}

/// A member's transport.
struct Member {
    params: Params,
    queue: Queue,
    /// Delayed answers.
    delayed: Vec<(Instant, Arc<[u8]>, Option<Instant>)>,
    rng: Rng,
}

impl MemberCarrier for Member {
    fn answer(
        &mut self,
        _: MessageId,
        asked: usize,
        sealed: Vec<u8>,
        until: Option<Instant>,
        now: Instant,
    ) -> Result<(), String> {
        // Published messages reach all members at the same time.
        let alone = self.queue.sending.group_copies.is_none();
        let asked = if alone { asked } else { 0 };
        let wait = answer_delay(&self.params, (asked, sealed.len()), &mut self.rng);
        if self.delayed.len() < MAX_WAITING {
            self.delayed.push((now + wait, self.queue.marked(&sealed), until));
        }
        Ok(())
    }

    fn receive(&mut self, frame: &[u8], envelopes: &mut Vec<Vec<u8>>, _: Instant) {
        envelopes.extend(frame.strip_prefix(&head(self.queue.model)).map(<[u8]>::to_vec));
    }

    fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        for (_, bytes, until) in self.delayed.extract_if(.., |(at, ..)| *at <= now) {
            self.queue.push(Frame { to: To::Hub, bytes, until });
        }
        let waiting = self.delayed.iter().map(|(at, ..)| *at).min();
        let (frame, wake) = self.queue.poll(now);
        (frame.map(|(_, bytes)| bytes), [wake, waiting].into_iter().flatten().min())
    }

    fn acknowledges(&self) -> bool {
        false
    }
}

/// The hub's transport.
pub fn hub(model: ModelId, sending: Sending, params: &Params) -> Box<dyn HubCarrier> {
    Box::new(Hub { queue: Queue::new(model, sending, params), events: Vec::new() })
}

/// A member's transport.
pub fn member(model: ModelId, sending: Sending, params: &Params) -> Box<dyn MemberCarrier> {
    Box::new(Member {
        params: params.clone(),
        queue: Queue::new(model, sending, params),
        delayed: Vec::new(),
        rng: Rng::new(&params.seed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;
    use crate::carrier::is_of;
    use crate::keys::Root;
    use crate::rng::Seed;

    fn hub(model: ModelId, params: &Params) -> Box<dyn HubCarrier> {
        crate::carrier::hub(model, params).unwrap()
    }

    fn member(model: ModelId, params: &Params) -> Box<dyn MemberCarrier> {
        crate::carrier::member(model, params, 0).unwrap()
    }

    /// 100 B per ms; 10 B of overhead per packet of 100 B.
    fn params(members: u16) -> Params {
        Params {
            root: Root::insecure([1; 16]),
            pair: Root::insecure([1; 16]),
            epoch: 0,
            members,
            datagram: 100,
            below: 10,
            rate_bit_s: 800_000.0,
            loss: 0.0,
            round_trip: Span::from_ms(1),
            wait: Span::from_ms(1),
            estimated: false,
            answered: true,
            answer: 0,
            efficient: false,
            seed: Seed::reproducible(7),
        }
    }

    fn load(sealed: &[u8], until: Option<Instant>) -> Load<'_> {
        Load { number: 0, sealed, answered: true, until }
    }

    fn sent(hub: &mut dyn HubCarrier) -> Vec<(Instant, To)> {
        let (mut now, mut all) = (Instant::START, Vec::new());
        loop {
            let (frame, wake) = hub.poll(now);
            all.extend(frame.map(|(to, _)| (now, to)));
            let Some(wake) = wake else { return all };
            now = wake;
        }
    }

    #[test]
    fn a_group_is_sent_to_at_once_and_each_way_is_paced() {
        let ways = |model, to: &[MemberId]| {
            let mut hub = hub(model, &params(4));
            hub.send(load(&[0x20; 88], None), to, Instant::START).unwrap();
            hub.send(load(&[0x20; 88], None), &[3], Instant::START).unwrap();
            sent(&mut *hub)
        };
        let (start, last) = (Instant::START, To::Member(3));
        let ms = |ms| start + Span::from_ms(ms);
        // Each frame takes 1 ms; one connection per member takes four times that, a broker five.
        let alone = |at, member| (at, To::Member(member));
        let each =
            [alone(start, 0), alone(ms(1), 1), alone(ms(2), 2), alone(ms(3), 3), (ms(4), last)];
        assert_eq!(ways(ModelId::TcpRouterDealer, &[0, 1, 2, 3]), each);
        let published = |at| vec![(start, To::Group), (at, last)];
        assert_eq!(ways(ModelId::PgmPublishSubscribe, &[0, 1, 2, 3]), published(ms(1)));
        assert_eq!(ways(ModelId::TcpPublishSubscribe, &[0, 1, 2]), published(ms(4)));
        assert_eq!(ways(ModelId::Mqtt, &[0, 1, 2, 3]), published(ms(5)));
        let few = ways(ModelId::TcpPublishSubscribe, &[1, 2]);
        assert_eq!(few, [alone(start, 1), alone(ms(1), 2), (ms(2), last)]);
    }

    #[test]
    fn frames_come_out_as_they_went_in_and_of_one_model_alone() {
        let here = params(1);
        let (mut one, mut other) = (hub(ModelId::Mqtt, &here), member(ModelId::Mqtt, &here));
        let long = vec![0x21; 300_000];
        one.send(load(&long, None), &[0], Instant::START).unwrap();
        let (frame, _) = one.poll(Instant::START);
        let (_, frame) = frame.unwrap();
        assert_eq!((frame.len(), model_of(&frame)), (300_002, Some(ModelId::Mqtt)));
        let mut envelopes = Vec::new();
        other.receive(&frame, &mut envelopes, Instant::START);
        assert_eq!(envelopes, [long]);
        other.answer(0, 0, vec![0x23; 10], None, Instant::START).unwrap();
        let (answer, _) = other.poll(Instant::START);
        let answer = answer.unwrap();
        hub(ModelId::TcpRouterDealer, &here).receive(&answer, None, Instant::START);
        one.receive(&answer, None, Instant::START);
        one.receive(&[MARK], None, Instant::START);
        let mut events = Vec::new();
        one.take(&mut events);
        assert_eq!(events, [CarrierEvent::Envelope(vec![0x23; 10])]);
        let own = is_of(ModelId::Mqtt, &answer);
        assert!(own && !is_of(ModelId::TcpRouterDealer, &answer));
        assert_eq!(model_of(&[MARK, 0]), None, "no external stack carries plain datagrams");
    }

    #[test]
    fn what_is_too_late_or_too_much_does_not_go() {
        let mut hub = hub(ModelId::TcpRouterDealer, &params(1));
        hub.send(load(&[1; 50], Some(Instant::from_ns(5))), &[0], Instant::START).unwrap();
        assert_eq!(hub.poll(Instant::from_ns(5)), (None, None));
        for _ in 0..2 * MAX_WAITING {
            hub.send(load(&[1; 50], None), &[0], Instant::START).unwrap();
        }
        assert_eq!(sent(&mut *hub).len(), MAX_WAITING);
    }

    #[test]
    fn answers_of_many_do_not_meet() {
        let mut members: Vec<_> = (0..20)
            .map(|n| member(ModelId::Mqtt, &Params { seed: Seed::reproducible(n), ..params(20) }))
            .collect();
        let mut moments: Vec<Option<Instant>> = Vec::new();
        for member in &mut members {
            member.answer(0, 500, vec![1; 90], None, Instant::START).unwrap();
            moments.push(member.poll(Instant::START).1);
        }
        moments.sort_unstable();
        moments.dedup();
        assert!(moments.len() > 15, "{moments:?}");
        // The duration of 19 answers of 100 B.
        assert!(
            moments.iter().all(|at| at.is_none_or(|at| at <= Instant::START + Span::from_ms(19)))
        );
    }
}
