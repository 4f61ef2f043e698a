//! Shared medium with contention: the links' queues around CSMA-CA.

mod outgoing;

use crate::carried::AirFrame;
use crate::channel::{ChannelEvent, Heard};
use crate::csma::{Arrival, ArrivalKind, Csma, CsmaSpec, Ending, Usage};
use crate::queue::Queue;
use crate::radios::Radios;
use crate::reception::Reception;
use crate::step::{Cause, TransitFrame};
use crate::{Impairment, LinkPipe};
use outgoing::Outgoing;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use units::{Draw, Instant, Purpose};

/// Marks the number of an acknowledgement; the bits below have the number of transmissions, at most 7.
const ACKNOWLEDGEMENT: u64 = 0x80;

/// The queues of all links and the channel that they contend for.
#[derive(Debug)]
pub(crate) struct SharedMedium {
    csma: Csma,
    reception: Option<Arc<Reception>>,
    queues: Vec<Queue<Outgoing>>,
    /// The frame of each link that contends.
    heads: Vec<Option<Outgoing>>,
    /// Acknowledgements that stations make themselves, by link, in their order.
    answers: Vec<VecDeque<Answer>>,
    /// Loss probability of each link's retransmissions.
    losses: Vec<f64>,
    draws: Vec<Draw>,
    /// Time of the last requested call of [`Self::turn`].
    next_turn: Option<Instant>,
    dropped: Vec<Outgoing>,
    /// Bytes of an acknowledgement.
    ack_len: usize,
}

/// An acknowledgement that a station makes itself.
#[derive(Debug, Clone)]
struct Answer {
    frame: TransitFrame,
    /// Bytes on the air.
    len: usize,
}

impl SharedMedium {
    /// An idle channel for links with these uplinks. `draw` has the channel's random numbers.
    pub fn new<'a>(
        spec: &CsmaSpec,
        reception: Option<Reception>,
        uplinks: impl Iterator<Item = &'a LinkPipe>,
        draw: Draw,
    ) -> Self {
        let reception = reception.map(Arc::new);
        let mut csma = Csma::new(spec, 0, draw);
        csma.set_reception(reception.clone());
        let mut medium = Self {
            csma,
            reception,
            queues: Vec::new(),
            heads: Vec::new(),
            answers: Vec::new(),
            losses: Vec::new(),
            draws: Vec::new(),
            next_turn: None,
            dropped: Vec::new(),
            ack_len: spec.ack.get() as usize,
        };
        uplinks.for_each(|uplink| medium.add(uplink));
        medium
    }

    /// Adds a link with this uplink, whose node is at the place of another link's.
    pub fn attach(&mut self, uplink: &LinkPipe, place: Option<usize>) {
        if let Some(mut reception) = self.reception.take() {
            // Alone, it need not be copied.
            self.csma.set_reception(None);
            Arc::make_mut(&mut reception).attach(place);
            self.csma.set_reception(Some(reception.clone()));
            self.reception = Some(reception);
        }
        self.add(uplink);
    }

    fn add(&mut self, uplink: &LinkPipe) {
        self.csma.attach();
        self.queues.push(Queue::new(uplink.config().queue));
        self.heads.push(None);
        self.answers.push(VecDeque::new());
        self.losses.push(uplink.config().mean_loss());
        self.draws.push(uplink.draw());
    }

    /// Applies new settings to `link`.
    pub fn change(&mut self, link: usize, config: &Impairment) {
        self.queues[link].change(config.queue);
        self.losses[link] = config.mean_loss();
    }

    /// Sets the loss probability of `link`'s retransmissions.
    pub fn set_loss(&mut self, link: usize, share: f64) {
        self.losses[link] = share;
    }

    /// Switches the radio of `link`'s node off or on. What waits is lost with the power.
    pub fn set_power(
        &mut self,
        link: usize,
        is_on: bool,
        now: Instant,
        events: &mut Vec<ChannelEvent>,
    ) {
        self.csma.set_power(link, is_on, now);
        let lost = if is_on { 0 } else { self.queues[link].clear() };
        events.extend((0..lost).map(|_| ChannelEvent::Drop(link, Cause::Outage)));
    }

    /// Which links' radios are off.
    pub fn radios(&self) -> &Radios {
        self.csma.radios()
    }

    /// Whether the channel carries frames such as the Ethernet frame `frame`.
    pub fn accepts(&self, frame: &[u8]) -> bool {
        self.csma.spec().carries.accepts(frame)
    }

    /// Channel usage of each link.
    pub fn usage(&self) -> Vec<Usage> {
        self.csma.usage()
    }

    /// Accepts a frame of `link` for transmission at `now` or later.
    pub fn offer(
        &mut self,
        link: usize,
        frame: TransitFrame,
        to: Option<usize>,
        now: Instant,
        events: &mut Vec<ChannelEvent>,
    ) {
        let parts = match self.csma.spec().on_air(&frame.frame) {
            AirFrame::Contends(parts) => parts,
            AirFrame::Acknowledgement(len) => {
                self.answers[link].push_back(Answer { frame, len });
                self.csma.answer(link, len, now);
                return self.request_turn(now, events);
            }
            // Frames of the host, which the simulated radio does not send, take no airtime.
            AirFrame::Nothing => return events.push(ChannelEvent::Left(link, frame, now, None)),
        };
        if self.is_copy(link, &frame.frame) {
            return events.push(ChannelEvent::Drop(link, Cause::Overflow));
        }
        let frame = Outgoing::new(frame, to, parts);
        if self.heads[link].is_none() {
            self.contend(link, frame, now);
        } else {
            let own = self.heads[link].as_ref().map(|head| head.frame.frame.len());
            let (len, place) = (frame.frame.frame.len(), frame.frame.place);
            if self.queues[link].push(frame, len, now, self.draws[link], place, own).is_err() {
                events.push(ChannelEvent::Drop(link, Cause::Overflow));
            }
        }
        self.request_turn(now, events);
    }

    /// Whether a simulated radio sends a frame again that has not left yet. Its timeout for the
    /// acknowledgement, 16 ms for OpenThread, begins when it passes the frame on, so it includes the
    /// contention. A real radio's timeout begins at the end of the transmission, and the radio has one
    /// frame to send: with a second copy in the queue, a busy channel would collapse earlier.
    fn is_copy(&self, link: usize, frame: &[u8]) -> bool {
        let carries = self.csma.spec().carries;
        let Some(sent) = carries.acknowledged(frame) else { return false };
        let mut waiting = self.heads[link].iter().chain(self.queues[link].iter());
        waiting.any(|other| carries.acknowledged(&other.frame.frame) == Some(sent))
    }

    /// Processes all events until `now`.
    pub fn turn(&mut self, now: Instant, events: &mut Vec<ChannelEvent>) {
        while let Some(attempt) = {
            let Self { csma, reception, heads, answers, losses, draws, ack_len, .. } = self;
            let (reception, ack_len) = (reception.as_deref(), *ack_len);
            let mut receive = Receive { reception, heads, answers, losses, draws, ack_len, events };
            csma.step(now, &mut |arrival| receive.arrives(arrival))
        } {
            let link = attempt.link;
            if attempt.is_answer {
                let cause = match attempt.outcome {
                    Ending::Sent => continue,
                    Ending::Lost => Cause::WeakSignal,
                    Ending::Off => Cause::Outage,
                    _ => Cause::Denied,
                };
                self.answers[link].pop_front();
                events.push(ChannelEvent::Drop(link, cause));
                continue;
            }
            let Some(mut head) = self.heads[link].take() else { continue };
            if head.go_on(&attempt) {
                self.contend(link, head, attempt.at);
                continue;
            }
            if let Some(cause) = head.missed.filter(|_| !head.has_left) {
                events.push(ChannelEvent::Drop(link, cause));
            }
            let next = self.queues[link].pop(attempt.at, &mut self.dropped);
            events
                .extend(self.dropped.drain(..).map(|_| ChannelEvent::Drop(link, Cause::Overflow)));
            if let Some(next) = next {
                self.contend(link, next, attempt.at);
            }
        }
        self.request_turn(now, events);
    }

    fn contend(&mut self, link: usize, mut outgoing: Outgoing, now: Instant) {
        let (len, frame) = (outgoing.len(), &outgoing.frame.frame);
        // The lowest bit of an Ethernet address's first byte marks a group address.
        let is_group = frame.first().is_some_and(|first| first & 1 == 1);
        // Receivers acknowledge no group frames, and simulated radios do it themselves.
        let is_for_all = is_group || self.csma.spec().carries.is_simulated();
        outgoing.is_acknowledged = self.csma.spec().acknowledge;
        match (is_for_all, outgoing.to) {
            (false, Some(to)) => self.csma.ready_for(link, to, len, now),
            (false, _) if self.reception.is_none() => self.csma.ready(link, len, now),
            // Any station can be the unknown receiver, so none acknowledges.
            _ => {
                outgoing.is_acknowledged = false;
                self.csma.ready_for_all(link, len, now);
            }
        }
        self.heads[link] = Some(outgoing);
    }

    fn request_turn(&mut self, now: Instant, events: &mut Vec<ChannelEvent>) {
        let Some(next) = self.csma.next() else { return };
        // A requested turn cannot be taken back, so only an earlier one is requested in addition.
        if self.next_turn.is_none_or(|turn| turn <= now || next < turn) {
            self.next_turn = Some(next);
            events.push(ChannelEvent::Turn(next));
        }
    }
}

/// A transmission, and its random numbers.
#[derive(Debug, Clone, Copy)]
struct Sent {
    link: usize,
    /// Bytes of the MAC frame.
    len: usize,
    /// Number that no other transmission of this draw has.
    place: u64,
    draw: Draw,
}

impl Sent {
    /// Those of `stations` that receive it. Each has separate random numbers.
    fn receivers(self, stations: &[usize], reception: &Reception) -> Vec<usize> {
        let arrives = |station: &usize| {
            let draw = self.draw.of_flow(*station as u64);
            let success = reception.success(self.link, *station, self.len);
            draw.uniform(Purpose::Reception, self.place) < success
        };
        stations.iter().copied().filter(arrives).collect()
    }
}

/// Decides which frames that did not collide are received.
struct Receive<'a> {
    reception: Option<&'a Reception>,
    heads: &'a mut [Option<Outgoing>],
    answers: &'a mut [VecDeque<Answer>],
    losses: &'a [f64],
    draws: &'a [Draw],
    ack_len: usize,
    events: &'a mut Vec<ChannelEvent>,
}

impl Receive<'_> {
    /// Whether the receiver gets a frame, or the sender its acknowledgement. The first reception of
    /// a frame emits [`ChannelEvent::Left`].
    fn arrives(&mut self, arrival: Arrival<'_>) -> bool {
        let (link, draw) = (arrival.link, self.draws[arrival.link]);
        if arrival.kind == ArrivalKind::Answer {
            return self.answer_arrives(arrival);
        }
        let Some(head) = &mut self.heads[link] else { return false };
        let place = head.place(arrival.attempt);
        let mut heard = None;
        if let (Some(reception), Some(stations)) = (self.reception, arrival.stations) {
            if arrival.kind == ArrivalKind::Acknowledgement {
                let Some(to) = head.to else { return true };
                // Of the same transmission number, but another one.
                let place = place | ACKNOWLEDGEMENT;
                let sent = Sent { link: to, len: self.ack_len, place, draw };
                return !sent.receivers(stations, reception).is_empty();
            }
            let len = head.len();
            let received = Sent { link, len, place, draw }.receivers(stations, reception);
            head.was_weak = received.is_empty();
            if head.was_weak {
                return false;
            }
            let is_other = |station: &usize| !stations.contains(station) && head.to.is_none();
            let collided = reception.receivers(link).filter(is_other).collect();
            heard = Some(Heard { received, collided });
        }
        let lost = match (arrival.attempt, head.part) {
            (0, 0) => head.frame.decision.lost,
            // Each retransmission, and each further fragment, has a separate loss draw.
            _ => draw.uniform(Purpose::Retry, place) < self.losses[link],
        };
        if !lost && !arrival.duplicate && head.arrived(heard) {
            let mut frame = head.frame.clone();
            // The channel has decided; else the pipe behind it would drop the frame.
            frame.decision.lost = false;
            let heard = head.heard.take().map(Rc::new);
            self.events.push(ChannelEvent::Left(link, frame, arrival.at, heard));
        }
        !lost
    }

    /// As [`Self::arrives`], for an acknowledgement that a station made itself. The uplink's loss is
    /// decided behind the channel, as of all frames with one transmission.
    fn answer_arrives(&mut self, arrival: Arrival<'_>) -> bool {
        let (link, draw) = (arrival.link, self.draws[arrival.link]);
        let Some(Answer { frame, len }) = self.answers[link].front() else { return false };
        let mut heard = None;
        if let (Some(reception), Some(stations)) = (self.reception, arrival.stations) {
            let sent = Sent { link, len: *len, place: frame.place << 8, draw };
            let received = sent.receivers(stations, reception);
            if received.is_empty() {
                return false;
            }
            let is_other = |station: &usize| !stations.contains(station);
            let collided = reception.receivers(link).filter(is_other).collect();
            heard = Some(Rc::new(Heard { received, collided }));
        }
        let frame = self.answers[link].pop_front().map(|answer| answer.frame);
        self.events.extend(frame.map(|frame| ChannelEvent::Left(link, frame, arrival.at, heard)));
        true
    }
}
