//! A channel that links share, for one frame at a time.

use crate::queue::Queue;
use crate::step::{Carried, Cause};
use crate::{CsmaSpec, Endpoint, Impairment, Instant, Serialiser};
use std::collections::VecDeque;
use units::{Bytes, Draw, Rate};

/// How the members of a segment share its capacity.
#[derive(Debug, Clone, PartialEq)]
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
}

/// An event from a shared link.
#[derive(Debug)]
pub(crate) enum Said {
    /// A frame of this link has left at this time.
    Left(usize, Carried, Instant),
    /// A frame of this link is dropped.
    Drop(usize, Cause),
    /// Call [`Line::turn`] at this time.
    Turn(Instant),
}

/// One sender for all links in one direction.
#[derive(Debug)]
pub(crate) struct Line {
    sender: Serialiser,
    queues: Vec<Queue<Carried>>,
    asked: Vec<Impairment>,
    /// Round-robin order: with `fair`, a link once while it has frames; else once per
    /// frame.
    turns: VecDeque<u32>,
    fair: bool,
    busy_until: Instant,
    /// Link and length of the frame in transmission.
    sending: (usize, usize),
    turn_asked: bool,
    dropped: Vec<Carried>,
}

impl Line {
    /// The shared links of a channel, up and down, for the directions that are shared.
    pub fn of(channel: &Channel, endpoints: &[Endpoint]) -> [Option<Self>; 2] {
        let ups = || endpoints.iter().map(|end| end.up.clone()).collect();
        let downs = endpoints.iter().map(|end| end.down.clone()).collect();
        match channel {
            Channel::Switch | Channel::Csma(_) => [None, None],
            Channel::Shared(rate) => [Some(Self::new(*rate, false, ups())), None],
            Channel::Cell { up, down } => {
                [Some(Self::new(*up, true, ups())), Some(Self::new(*down, true, downs))]
            }
        }
    }

    fn new(rate: Rate, fair: bool, asked: Vec<Impairment>) -> Self {
        Self {
            sender: Serialiser::new(rate, Bytes::new(0)),
            queues: asked.iter().map(|a| Queue::new(a.queue, a.codel, a.red)).collect(),
            asked,
            turns: VecDeque::new(),
            fair,
            busy_until: 0,
            sending: (0, 0),
            turn_asked: false,
            dropped: Vec::new(),
        }
    }

    /// Adds a link with these settings.
    pub fn attach(&mut self, asked: &Impairment) {
        self.queues.push(Queue::new(asked.queue, asked.codel, asked.red));
        self.asked.push(asked.clone());
    }

    /// Applies new settings to `link`.
    pub fn change(&mut self, link: usize, asked: &Impairment) {
        self.queues[link].change(asked.queue, asked.codel, asked.red);
        self.asked[link] = asked.clone();
    }

    /// Accepts a frame of `link` for transmission at `now` or later.
    pub fn offer(
        &mut self,
        link: usize,
        frame: Carried,
        now: Instant,
        draw: Draw,
        said: &mut Vec<Said>,
    ) {
        let busy = self.busy_until > now;
        if !busy && self.turns.is_empty() {
            return self.serve(link, frame, now, said);
        }
        let own = (busy && self.sending.0 == link).then_some(self.sending.1);
        let (len, place) = (frame.frame.size(), (draw, frame.index));
        let first = self.queues[link].is_empty();
        match self.queues[link].push(frame, len, now, place, own) {
            Ok(()) if first || !self.fair => self.turns.push_back(link as u32),
            Ok(()) => {}
            Err(_) => said.push(Said::Drop(link, Cause::Overflow)),
        }
        self.ask_for_turn(said);
    }

    /// Sends the next queued frame, as requested by [`Said::Turn`].
    pub fn turn(&mut self, now: Instant, said: &mut Vec<Said>) {
        self.turn_asked = false;
        while let Some(link) = self.turns.pop_front().map(|link| link as usize) {
            let next = self.queues[link].pop(now, &mut self.dropped);
            said.extend(self.dropped.drain(..).map(|_| Said::Drop(link, Cause::Overflow)));
            if self.fair && !self.queues[link].is_empty() {
                self.turns.push_back(link as u32);
            }
            if let Some(next) = next {
                self.serve(link, next, now, said);
                break;
            }
        }
        self.ask_for_turn(said);
    }

    fn serve(&mut self, link: usize, frame: Carried, now: Instant, said: &mut Vec<Said>) {
        let len = frame.frame.size();
        let left = self.sender.send(self.asked[link].framing().on_wire(len), now);
        (self.busy_until, self.sending) = (left, (link, len));
        said.push(Said::Left(link, frame, left));
    }

    fn ask_for_turn(&mut self, said: &mut Vec<Said>) {
        if !self.turn_asked && !self.turns.is_empty() {
            self.turn_asked = true;
            said.push(Said::Turn(self.busy_until));
        }
    }
}
