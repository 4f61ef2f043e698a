//! Shared medium with contention: the links' queues around CSMA-CA.

use crate::carried::AirFrame;
use crate::channel::ChannelEvent;
use crate::csma::{Arrival, Csma, CsmaSpec, Ending, Usage};
use crate::queue::Queue;
use crate::step::{Cause, TransitFrame};
use crate::{Impairment, LinkPipe};
use units::{Draw, Instant, Purpose, Span};

/// The queues of all links and the channel that they contend for.
#[derive(Debug)]
pub(crate) struct SharedMedium {
    csma: Csma,
    queues: Vec<Queue<TransitFrame>>,
    /// The frame of each link that contends.
    heads: Vec<Option<TransitFrame>>,
    /// Loss probability of each link's retransmissions.
    losses: Vec<f64>,
    draws: Vec<Draw>,
    /// Time of the last requested call of [`Self::turn`].
    next_turn: Option<Instant>,
    dropped: Vec<TransitFrame>,
}

impl SharedMedium {
    /// An idle channel for links with these uplinks. `draw` has the channel's random numbers.
    pub fn new<'a>(
        spec: &CsmaSpec,
        uplinks: impl Iterator<Item = &'a LinkPipe>,
        draw: Draw,
    ) -> Self {
        let mut medium = Self {
            csma: Csma::new(spec, 0, draw),
            queues: Vec::new(),
            heads: Vec::new(),
            losses: Vec::new(),
            draws: Vec::new(),
            next_turn: None,
            dropped: Vec::new(),
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
        now: Instant,
        events: &mut Vec<ChannelEvent>,
    ) {
        let on_air = match self.csma.carried().on_air(&frame.frame) {
            AirFrame::Contends(_) => None,
            AirFrame::Acknowledgement(len) => Some(self.csma.airtime(len)),
            // Frames of the host, which the simulated radio does not send, take no airtime.
            AirFrame::Nothing => Some(Span::ZERO),
        };
        if let Some(airtime) = on_air {
            events.push(ChannelEvent::Left(link, frame, now + airtime));
            return;
        }
        if self.heads[link].is_none() {
            self.contend(link, frame, now);
        } else {
            let own = self.heads[link].as_ref().map(|head| head.frame.len());
            let (len, place) = (frame.frame.len(), frame.place);
            if self.queues[link].push(frame, len, now, self.draws[link], place, own).is_err() {
                events.push(ChannelEvent::Drop(link, Cause::Overflow));
            }
        }
        self.request_turn(now, events);
    }

    /// Processes all events until `now`.
    pub fn turn(&mut self, now: Instant, events: &mut Vec<ChannelEvent>) {
        while let Some(attempt) = {
            let Self { csma, heads, losses, draws, .. } = self;
            csma.step(now, &mut |arrival| received(arrival, heads, losses, draws, events))
        } {
            let link = attempt.link;
            self.heads[link] = None;
            if attempt.delivered.is_none() {
                let cause = match attempt.outcome {
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

    fn contend(&mut self, link: usize, frame: TransitFrame, now: Instant) {
        let carried = self.csma.carried();
        let len = match carried.on_air(&frame.frame) {
            AirFrame::Contends(len) => len,
            // All others have left in `offer`.
            _ => frame.frame.len(),
        };
        // The lowest bit of an Ethernet address's first byte marks a group address.
        let is_group = frame.frame.first().is_some_and(|first| first & 1 == 1);
        // Receivers acknowledge no group frames, and simulated radios do it themselves.
        match is_group || !carried.is_ethernet() {
            true => self.csma.ready_for_all(link, len, now),
            false => self.csma.ready(link, len, now),
        }
        self.heads[link] = Some(frame);
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

/// Whether the receiver gets a frame that did not collide. Its first reception emits
/// [`ChannelEvent::Left`].
fn received(
    arrival: Arrival,
    heads: &[Option<TransitFrame>],
    losses: &[f64],
    draws: &[Draw],
    events: &mut Vec<ChannelEvent>,
) -> bool {
    let link = arrival.link;
    let Some(head) = &heads[link] else { return false };
    let lost = match arrival.attempt {
        0 => head.decision.lost,
        // Each retransmission has a separate loss draw.
        again => {
            let place = head.place << 8 | u64::from(again);
            draws[link].uniform(Purpose::Retry, place) < losses[link]
        }
    };
    if !lost && !arrival.duplicate {
        let mut frame = head.clone();
        // The channel has decided; else the pipe behind it would drop the frame.
        frame.decision.lost = false;
        events.push(ChannelEvent::Left(link, frame, arrival.at));
    }
    !lost
}
