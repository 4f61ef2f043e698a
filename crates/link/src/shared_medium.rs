//! Shared medium with contention: the links' queues around CSMA-CA.

use crate::carried::{AirFrame, Carried};
use crate::channel::{ChannelEvent, Heard};
use crate::csma::{Arrival, Csma, CsmaSpec, Ending, Usage};
use crate::queue::Queue;
use crate::reception::Reception;
use crate::step::{Cause, TransitFrame};
use crate::{Impairment, LinkPipe};
use std::rc::Rc;
use std::sync::Arc;
use units::{Draw, Instant, Purpose, Span};

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
    /// Loss probability of each link's retransmissions.
    losses: Vec<f64>,
    draws: Vec<Draw>,
    /// Time of the last requested call of [`Self::turn`].
    next_turn: Option<Instant>,
    dropped: Vec<Outgoing>,
    /// Bytes of an acknowledgement.
    ack_len: usize,
}

/// A frame that contends, or waits for that.
#[derive(Debug, Clone)]
struct Outgoing {
    frame: TransitFrame,
    /// Link of its receiver; `None`: several, or unknown.
    to: Option<usize>,
    /// Whether the signal of the last transmission was too weak at all receivers.
    was_weak: bool,
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
            losses: Vec::new(),
            draws: Vec::new(),
            next_turn: None,
            dropped: Vec::new(),
            ack_len: spec.ack.get() as usize,
        };
        uplinks.for_each(|uplink| medium.attach(uplink));
        medium
    }

    /// Adds a link with this uplink.
    pub fn attach(&mut self, uplink: &LinkPipe) {
        self.csma.attach();
        self.queues.push(Queue::new(uplink.config().queue));
        self.heads.push(None);
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
        let on_air = match self.csma.carried().on_air(&frame.frame) {
            AirFrame::Contends(_) => None,
            AirFrame::Acknowledgement(len) => Some((self.csma.airtime(len), Some(len))),
            // Frames of the host, which the simulated radio does not send, take no airtime.
            AirFrame::Nothing => Some((Span::ZERO, None)),
        };
        if let Some((airtime, len)) = on_air {
            let heard = self.reception.as_deref().zip(len).map(|(reception, len)| {
                let sent = Sent { link, len, place: frame.place << 8, draw: self.draws[link] };
                let all: Vec<usize> = reception.receivers(link).collect();
                Rc::new(Heard { received: sent.receivers(&all, reception), ..Heard::default() })
            });
            events.push(ChannelEvent::Left(link, frame, now + airtime, heard));
            return;
        }
        let frame = Outgoing { frame, to, was_weak: false };
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

    /// Processes all events until `now`.
    pub fn turn(&mut self, now: Instant, events: &mut Vec<ChannelEvent>) {
        while let Some(attempt) = {
            let Self { csma, reception, heads, losses, draws, ack_len, .. } = self;
            let (reception, carried) = (reception.as_deref(), csma.carried());
            let ack_len = *ack_len;
            let mut receive = Receive { reception, heads, losses, draws, carried, ack_len, events };
            csma.step(now, &mut |arrival| receive.arrives(arrival))
        } {
            let link = attempt.link;
            let was_weak = self.heads[link].take().is_some_and(|head| head.was_weak);
            if attempt.delivered.is_none() {
                let cause = match attempt.outcome {
                    Ending::Lost if was_weak => Cause::WeakSignal,
                    Ending::Lost => Cause::Lost,
                    _ => Cause::Denied,
                };
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

    fn contend(&mut self, link: usize, outgoing: Outgoing, now: Instant) {
        let (carried, frame) = (self.csma.carried(), &outgoing.frame.frame);
        let len = air_length(carried, frame);
        // The lowest bit of an Ethernet address's first byte marks a group address.
        let is_group = frame.first().is_some_and(|first| first & 1 == 1);
        // Receivers acknowledge no group frames, and simulated radios do it themselves.
        let is_for_all = is_group || !carried.is_ethernet();
        match (is_for_all, outgoing.to) {
            (false, Some(to)) if self.reception.is_some() => {
                self.csma.ready_for(link, to, len, now);
            }
            (false, _) if self.reception.is_none() => self.csma.ready(link, len, now),
            // Any station can be the unknown receiver, so none acknowledges.
            _ => self.csma.ready_for_all(link, len, now),
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

/// Length on the air of a frame that contends, in bytes.
fn air_length(carried: Carried, frame: &[u8]) -> usize {
    match carried.on_air(frame) {
        AirFrame::Contends(len) => len,
        // All others have left in `offer`.
        _ => frame.len(),
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
    losses: &'a [f64],
    draws: &'a [Draw],
    carried: Carried,
    ack_len: usize,
    events: &'a mut Vec<ChannelEvent>,
}

impl Receive<'_> {
    /// Whether the receiver gets a frame, or the sender its acknowledgement. The first reception of
    /// a frame emits [`ChannelEvent::Left`].
    fn arrives(&mut self, arrival: Arrival<'_>) -> bool {
        let (link, draw) = (arrival.link, self.draws[arrival.link]);
        let Some(head) = &mut self.heads[link] else { return false };
        let place = head.frame.place << 8 | u64::from(arrival.attempt);
        let mut heard = None;
        if let (Some(reception), Some(stations)) = (self.reception, arrival.stations) {
            if arrival.ack {
                let Some(to) = head.to else { return true };
                // Of the same transmission number, but another one.
                let place = place | ACKNOWLEDGEMENT;
                let sent = Sent { link: to, len: self.ack_len, place, draw };
                return !sent.receivers(stations, reception).is_empty();
            }
            let len = air_length(self.carried, &head.frame.frame);
            let received = Sent { link, len, place, draw }.receivers(stations, reception);
            head.was_weak = received.is_empty();
            if head.was_weak {
                return false;
            }
            let is_other = |station: &usize| !stations.contains(station) && head.to.is_none();
            let collided = reception.receivers(link).filter(is_other).collect();
            heard = Some(Rc::new(Heard { received, collided }));
        }
        let lost = match arrival.attempt {
            0 => head.frame.decision.lost,
            // Each retransmission has a separate loss draw.
            _ => draw.uniform(Purpose::Retry, place) < self.losses[link],
        };
        if !lost && !arrival.duplicate {
            let mut frame = head.frame.clone();
            // The channel has decided; else the pipe behind it would drop the frame.
            frame.decision.lost = false;
            self.events.push(ChannelEvent::Left(link, frame, arrival.at, heard));
        }
        !lost
    }
}
