//! Path of frames through a segment: up, over the shared channel, down.

use super::Segment;
use crate::event_queue::{Event, HeardFrame};
use crate::in_flight::Spot;
use crate::spec::Delivery;
use crate::switch::{Queries, Receivers};
use link::{
    Cause, ChannelEvent, Decided, Direction, Frame, Heard, Recorded, StampedFrame, Step,
    TransitFrame,
};
use std::rc::Rc;
use units::Instant;

impl Segment {
    /// Processes all events until `now`.
    pub(super) fn advance(&mut self, now: Instant) {
        while let Some((at, what)) = self.pending.take(now) {
            self.clock = self.clock.max(at);
            match what {
                Event::Frame(frame, spot) if spot.gathers => self.gather(frame, spot, at),
                Event::Frame(frame, Spot { link, direction, .. }) => {
                    self.land(link as usize, direction, frame, at);
                }
                Event::Heard(link, heard) => self.land_heard(link as usize, *heard, at),
                Event::Offer(link, direction, frame) => {
                    self.offer(link as usize, direction, *frame, at);
                }
                Event::Turn(link, direction) => {
                    // The vector is taken out and put back by `execute`, so that its memory is
                    // reused.
                    let mut steps = std::mem::take(&mut self.steps);
                    let (link, channel) = (link as usize, self.has_channel(direction));
                    self.links[link].turn(direction, at, channel, &mut steps);
                    self.execute(link, direction, steps, at);
                }
                Event::SharedTurn(direction) => {
                    let mut events = std::mem::take(&mut self.channel_events);
                    if let Some(channel) = &mut self.channels[direction as usize] {
                        channel.turn(at, &mut events);
                    }
                    self.handle(direction, events, at);
                }
                Event::SentDown(link, sent) => self.end_downlink(link as usize, *sent, at),
                Event::Change(change) => self.make(*change, at),
                Event::Query => self.query(at),
            }
        }
        self.clock = self.clock.max(now);
    }

    /// Lets a frame from endpoint `sender` enter a direction of a link.
    pub(super) fn enter(
        &mut self,
        link: usize,
        direction: Direction,
        frame: StampedFrame,
        sender: usize,
        now: Instant,
    ) {
        let channel = self.has_channel(direction);
        if !channel && let Some(at) = self.links[link].pass(direction, &frame.frame, now) {
            return self.release(link, direction, frame, at, now);
        }
        let mut steps = std::mem::take(&mut self.steps);
        self.links[link].admit(direction, frame, sender as u32, now, channel, &mut steps);
        self.execute(link, direction, steps, now);
    }

    /// Whether frames in this direction pass a shared channel.
    fn has_channel(&self, direction: Direction) -> bool {
        self.channels[direction as usize].is_some() || self.shares_air
    }

    pub(super) fn execute(
        &mut self,
        link: usize,
        direction: Direction,
        mut steps: Vec<Step>,
        now: Instant,
    ) {
        for step in steps.drain(..) {
            match step {
                Step::Release(frame, at) => self.release(link, direction, frame, at, now),
                Step::Offer(frame, at) if at <= now => self.offer(link, direction, frame, now),
                Step::Offer(frame, at) => {
                    self.pending.add(at, Event::Offer(link as u32, direction, Box::new(frame)));
                }
                Step::Drop(cause) => self.drop(link, direction, cause),
                Step::Decided(Recorded { position, length, decision }, departure) => {
                    let (endpoint, way) = (link as u32, direction);
                    let decided = Decided { endpoint, way, position, length, decision, departure };
                    self.decided.push(decided);
                }
                Step::Turn(at) => self.pending.add(at, Event::Turn(link as u32, direction)),
                Step::TurnOther(at) => {
                    self.pending.add(at, Event::Turn(link as u32, direction.opposite()));
                }
            }
        }
        self.steps = steps;
    }

    /// Releases a frame at `at`, if the in-flight limit allows it.
    fn release(
        &mut self,
        link: usize,
        direction: Direction,
        frame: StampedFrame,
        at: Instant,
        now: Instant,
    ) {
        let (pipe, bytes) = (&mut self.links[link][direction], frame.frame.len() as u64);
        if !pipe.has_room(bytes) {
            return self.drop(link, direction, Cause::Overflow);
        }
        let gathers = pipe.has_slots();
        // A frame due now, with no earlier event pending, can skip the event queue.
        if direction == Direction::Down
            && !gathers
            && at <= now
            && self.pending.next().is_none_or(|next| next > at)
        {
            return self.queue_delivery(link, frame, at);
        }
        pipe.take_off(bytes);
        self.pending.push_frame(at, frame, Spot { link: link as u32, direction, gathers });
    }

    fn offer(&mut self, link: usize, direction: Direction, frame: TransitFrame, now: Instant) {
        if self.shares_air && direction == Direction::Down {
            return self.begin_downlink(link, frame, now);
        }
        let mut events = std::mem::take(&mut self.channel_events);
        let bytes = frame.bytes().get(self.prefix..).unwrap_or_default();
        let to = self.has_stations.then(|| self.switch.receiver(link, bytes)).flatten();
        if let Some(channel) = &mut self.channels[direction as usize] {
            channel.offer(link, &self.links[link][direction], frame, to, now, &mut events);
        }
        self.handle(direction, events, now);
    }

    pub(super) fn handle(
        &mut self,
        direction: Direction,
        mut events: Vec<ChannelEvent>,
        now: Instant,
    ) {
        for event in events.drain(..) {
            match event {
                ChannelEvent::Left(link, frame, at, heard) => {
                    // Not `self.steps`: this may run within an `execute` that has it.
                    let mut steps = Vec::new();
                    self.links[link][direction].depart(frame, at, &mut steps);
                    match heard {
                        Some(heard) => self.release_heard(link, steps, &heard),
                        None => self.execute(link, direction, steps, now),
                    }
                }
                ChannelEvent::Drop(link, cause) => {
                    self.links[link][direction].stopped(cause);
                    self.drop(link, direction, cause);
                }
                ChannelEvent::Turn(at) => self.pending.add(at, Event::SharedTurn(direction)),
            }
        }
        self.channel_events = events;
    }

    /// Releases a frame that only some stations received from its uplink.
    fn release_heard(&mut self, link: usize, steps: Vec<Step>, heard: &Rc<Heard>) {
        for step in steps {
            match step {
                Step::Release(frame, at) => {
                    let pipe = &mut self.links[link][Direction::Up];
                    let (bytes, gathers) = (frame.frame.len() as u64, pipe.has_slots());
                    if !pipe.has_room(bytes) {
                        self.drop(link, Direction::Up, Cause::Overflow);
                        continue;
                    }
                    pipe.take_off(bytes);
                    let frame = HeardFrame { frame, heard: Rc::clone(heard), gathers };
                    self.pending.add(at, Event::Heard(link as u32, Box::new(frame)));
                }
                Step::Drop(cause) => self.drop(link, Direction::Up, cause),
                // A frame that has left needs no other steps.
                _ => {}
            }
        }
    }

    /// Handles a frame that only some stations received, at the end of its uplink.
    fn land_heard(&mut self, link: usize, mut heard: HeardFrame, at: Instant) {
        let (pipe, bytes) = (&mut self.links[link][Direction::Up], heard.frame.frame.len() as u64);
        if heard.gathers {
            heard.gathers = false;
            let at = pipe.slot(bytes, at);
            return self.pending.add(at, Event::Heard(link as u32, Box::new(heard)));
        }
        pipe.land(bytes);
        self.forward(link, heard.frame, Some(&heard.heard), at);
    }

    /// Assigns a frame to its slot.
    fn gather(&mut self, frame: StampedFrame, spot: Spot, now: Instant) {
        let pipe = &mut self.links[spot.link as usize][spot.direction];
        let at = pipe.slot(frame.frame.len() as u64, now);
        self.pending.push_frame(at, frame, Spot { gathers: false, ..spot });
    }

    /// Handles a frame at the end of a direction.
    fn land(&mut self, link: usize, direction: Direction, frame: StampedFrame, at: Instant) {
        self.links[link][direction].land(frame.frame.len() as u64);
        if direction == Direction::Down {
            return self.queue_delivery(link, frame, at);
        }
        self.forward(link, frame, None, at);
    }

    /// Sends a frame of a link down to its receivers: those that heard it, if not all did.
    fn forward(&mut self, link: usize, frame: StampedFrame, heard: Option<&Heard>, at: Instant) {
        let bytes = frame.frame.get(self.prefix..).unwrap_or_default();
        let forwarding = self.switch.forward(link, bytes, at);
        let mut reframed = self.switch.reframed(link, &frame.frame, self.prefix);
        if let Some(first) = forwarding.first_query {
            self.pending.add(first, Event::Query);
        }
        let receivers = match &mut self.filter {
            None => forwarding.receivers,
            Some(filter) => {
                let concerns = filter.concerns(link, bytes);
                let concerned: Vec<_> = forwarding.receivers.filter(|end| concerns(*end)).collect();
                Receivers::Many(concerned.into_iter())
            }
        };
        for endpoint in receivers {
            let Some(sent) = reframed.at(self.switch.vlans(endpoint)) else { continue };
            if self.is_unpowered(endpoint) {
                self.links[endpoint][Direction::Down].missed(frame.frame.len(), Cause::Outage);
                self.drop(endpoint, Direction::Down, Cause::Outage);
            } else if self.switch.are_partitioned(link, endpoint) {
                self.drop(endpoint, Direction::Down, Cause::Partitioned);
            } else if let Some(cause) = heard.and_then(|heard| heard.missed(endpoint)) {
                self.links[endpoint][Direction::Down].missed(frame.frame.len(), cause);
                self.drop(endpoint, Direction::Down, cause);
            } else {
                let frame = StampedFrame { frame: sent, arrived: frame.arrived };
                self.send_down(endpoint, frame, link, at);
            }
        }
    }

    /// Sends a frame of endpoint `sender` from the network to a node.
    fn send_down(&mut self, endpoint: usize, frame: StampedFrame, sender: usize, now: Instant) {
        match self.impaired {
            true => self.enter(endpoint, Direction::Down, frame, sender, now),
            false => self.queue_delivery(endpoint, frame, now),
        }
    }

    /// Sends the switch's membership queries to all hosts, over their links.
    fn query(&mut self, now: Instant) {
        let Queries { frames, next } = self.switch.queries(now);
        self.pending.add(next, Event::Query);
        let prefix = vec![0; self.prefix];
        let channel = self.channels[Direction::Up as usize].as_ref();
        let is_carried = |frame: &Vec<u8>| channel.is_none_or(|channel| channel.accepts(frame));
        let frames: Vec<_> = frames.into_iter().filter(is_carried).collect();
        for query in frames {
            let frame = Frame::from([&prefix[..], &query[..]].concat());
            for endpoint in 0..self.links.len() {
                let frame = StampedFrame { frame: frame.clone(), arrived: now };
                // The switch is no endpoint: the receiver, which sends itself nothing, counts.
                self.send_down(endpoint, frame, endpoint, now);
            }
        }
    }

    #[inline]
    fn queue_delivery(&mut self, endpoint: usize, frame: StampedFrame, intended: Instant) {
        let (prefix, StampedFrame { frame, arrived }) = (self.prefix, frame);
        self.ready.push_back(Delivery { endpoint, frame, prefix, arrived, intended });
    }
}
