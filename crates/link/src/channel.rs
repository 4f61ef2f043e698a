//! A channel that links share, for one frame at a time.

use crate::queue::Queue;
use crate::step::{Cause, TransitFrame};
use crate::{AlohaSpec, CsmaSpec, Impairment, Serialiser, WifiSpec};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::rc::Rc;
use units::{Bytes, Draw, Instant, Rate};

/// How the members of a network share its capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Separate full-duplex links.
    Switch,
    /// One half-duplex channel at this rate: one frame at a time from any sender, in FIFO
    /// order.
    Shared(Rate),
    /// One capacity shared by all uplinks and one by all downlinks. Links with queued
    /// frames take turns (round robin).
    Cell {
        /// Nodes to network.
        up: Rate,
        /// Network to nodes.
        down: Rate,
    },
    /// One half-duplex channel with contention (CSMA).
    Csma(CsmaSpec),
    /// One half-duplex channel with the contention of Wi-Fi (DCF).
    Wifi(WifiSpec),
    /// Radio channels of LoRa devices, without carrier sense.
    Aloha(AlohaSpec),
}

/// An event from a shared channel.
#[derive(Debug)]
pub enum ChannelEvent {
    /// A frame of this link has left at this time. Only these links' stations received it;
    /// without a list, all did.
    Left(usize, TransitFrame, Instant, Option<Rc<Heard>>),
    /// A frame of this link is dropped.
    Drop(usize, Cause),
    /// Call [`crate::SharedChannel::turn`] at this time.
    Turn(Instant),
}

/// The links whose stations received a frame, and those where it collided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// Received it.
    pub received: Vec<usize>,
    /// Would have received it without a collision, or might have.
    pub collided: Vec<usize>,
}

impl Heard {
    /// Why the station of `link` did not receive the frame; `None`: it did.
    pub fn missed(&self, link: usize) -> Option<Cause> {
        match self.received.contains(&link) {
            true => None,
            false if self.collided.contains(&link) => Some(Cause::Denied),
            false => Some(Cause::WeakSignal),
        }
    }
}

/// One sender for all links in one direction.
#[derive(Debug)]
pub(crate) struct SharedLink {
    sender: Serialiser,
    queues: Vec<Queue<TransitFrame>>,
    configs: Vec<Impairment>,
    /// Round-robin order: with `fair`, a link once while it has frames; else once per
    /// frame.
    turns: VecDeque<u32>,
    fair: bool,
    busy_until: Instant,
    /// Link and length of the frame in transmission.
    sending: (usize, usize),
    turn_requested: bool,
    dropped: Vec<TransitFrame>,
}

impl SharedLink {
    /// An idle link at this rate for links with these settings.
    pub fn new(rate: Rate, fair: bool, configs: Vec<Impairment>) -> Self {
        Self {
            sender: Serialiser::new(rate, Bytes::new(0)),
            queues: configs.iter().map(|config| Queue::new(config.queue)).collect(),
            configs,
            turns: VecDeque::new(),
            fair,
            busy_until: Instant::START,
            sending: (0, 0),
            turn_requested: false,
            dropped: Vec::new(),
        }
    }

    /// Adds a link with these settings.
    pub fn attach(&mut self, config: &Impairment) {
        self.queues.push(Queue::new(config.queue));
        self.configs.push(config.clone());
    }

    /// Applies new settings to `link`.
    pub fn change(&mut self, link: usize, config: &Impairment) {
        self.queues[link].change(config.queue);
        self.configs[link] = config.clone();
    }

    /// Accepts a frame of `link` for transmission at `now` or later.
    pub fn offer(
        &mut self,
        link: usize,
        frame: TransitFrame,
        now: Instant,
        draw: Draw,
        events: &mut Vec<ChannelEvent>,
    ) {
        let busy = self.busy_until > now;
        // Frames that wait go first, even if the channel is idle at this moment.
        if !busy && self.turns.is_empty() {
            return self.serve(link, frame, now, events);
        }
        let own = (busy && self.sending.0 == link).then_some(self.sending.1);
        let (len, place) = (frame.frame.len(), frame.place);
        let first = self.queues[link].is_empty();
        match self.queues[link].push(frame, len, now, draw, place, own) {
            Ok(()) if first || !self.fair => self.turns.push_back(link as u32),
            Ok(()) => {}
            Err(_) => events.push(ChannelEvent::Drop(link, Cause::Overflow)),
        }
        self.request_turn(events);
    }

    /// Sends the next queued frame, as requested by [`ChannelEvent::Turn`].
    pub fn turn(&mut self, now: Instant, events: &mut Vec<ChannelEvent>) {
        self.turn_requested = false;
        // CoDel may drop all frames of a link, which passes the turn on to the next one.
        while let Some(link) = self.turns.pop_front().map(|link| link as usize) {
            let next = self.queues[link].pop(now, &mut self.dropped);
            events
                .extend(self.dropped.drain(..).map(|_| ChannelEvent::Drop(link, Cause::Overflow)));
            // Behind all others: a link that floods has one frame per round (decision 14).
            if self.fair && !self.queues[link].is_empty() {
                self.turns.push_back(link as u32);
            }
            if let Some(next) = next {
                self.serve(link, next, now, events);
                break;
            }
        }
        self.request_turn(events);
    }

    fn serve(
        &mut self,
        link: usize,
        frame: TransitFrame,
        now: Instant,
        events: &mut Vec<ChannelEvent>,
    ) {
        let len = frame.frame.len();
        let left = self.sender.send(self.configs[link].transmission.framing.on_wire(len), now);
        (self.busy_until, self.sending) = (left, (link, len));
        events.push(ChannelEvent::Left(link, frame, left, None));
    }

    fn request_turn(&mut self, events: &mut Vec<ChannelEvent>) {
        // At most one turn is pending; it requests the next one.
        if !self.turn_requested && !self.turns.is_empty() {
            self.turn_requested = true;
            events.push(ChannelEvent::Turn(self.busy_until));
        }
    }
}
