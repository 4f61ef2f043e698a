//! What links share: a channel that one frame at a time passes.

use crate::queue::Queue;
use crate::step::{Carried, Cause};
use crate::{CsmaSpec, Endpoint, Impairment, Instant, Serialiser};
use std::collections::VecDeque;
use units::{Bytes, Draw, Rate};

/// How the members of a segment share it.
#[derive(Debug, Clone, PartialEq)]
pub enum Channel {
    /// Each link by itself, full duplex.
    Switch,
    /// One half-duplex channel for all at this rate: one frame at a time,
    /// whoever sends it, first come first served.
    Shared(Rate),
    /// A capacity that all share on the way up and one on the way down; links
    /// that have frames get their turn one after another.
    Cell {
        /// From the nodes.
        up: Rate,
        /// To them.
        down: Rate,
    },
    /// One half-duplex channel that all contend for.
    Csma(CsmaSpec),
}

/// What a line has to say.
#[derive(Debug)]
pub(crate) enum Said {
    /// This link's frame has left at this time.
    Left(usize, Carried, Instant),
    /// A frame of this link goes no further.
    Drop(usize, Cause),
    /// It wants to be called again.
    Turn(Instant),
}

/// One sender for all links, in one way.
#[derive(Debug)]
pub(crate) struct Line {
    sender: Serialiser,
    queues: Vec<Queue<Carried>>,
    asked: Vec<Impairment>,
    /// Whose turn it is: a link once for each frame, or once while it has any.
    turns: VecDeque<u32>,
    fair: bool,
    busy_until: Instant,
    /// The link of the frame that is being sent, and its length.
    sending: (usize, usize),
    turn_asked: bool,
    dropped: Vec<Carried>,
}

impl Line {
    /// The lines of a channel: up, then down, where links share that way.
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

    /// One more link, of which this is asked.
    pub fn attach(&mut self, asked: &Impairment) {
        self.queues.push(Queue::new(asked.queue, asked.codel, asked.red));
        self.asked.push(asked.clone());
    }

    /// Goes on with what is asked of `link` now.
    pub fn change(&mut self, link: usize, asked: &Impairment) {
        self.queues[link].change(asked.queue, asked.codel, asked.red);
        self.asked[link] = asked.clone();
    }

    /// Takes a frame of `link` that wants to be sent from `now`.
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

    /// Sends what waits, as asked for by [`Said::Turn`].
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
