//! Path of frames through a segment: up, over the shared channel, down.

use super::Segment;
use crate::change::Direction;
use crate::channel::ChannelEvent;
use crate::event_queue::Event;
use crate::forwarding_table::Receivers;
use crate::in_flight::place;
use crate::membership::{self, Message};
use crate::step::{Cause, Step, TransitFrame};
use crate::{Decided, Delivery, Frame, Instant, Recorded};

/// Maximum bytes in flight on one direction, which a delay without a rate does not bound:
/// 64 ms of 8 Gbit/s, or 5 s of 100 Mbit/s. Excess frames are dropped as by a full queue.
const MAX_IN_FLIGHT: u64 = 64 << 20;

impl Segment {
    /// Processes all events until `now`.
    pub(super) fn advance(&mut self, now: Instant) {
        while let Some((at, what)) = self.events_due.take(now) {
            self.clock = self.clock.max(at);
            match what {
                Event::Land(frame, arrived, link, way) => {
                    self.land((frame, arrived), link as usize, way, at);
                }
                Event::Gather(frame, arrived, link, way) => {
                    self.gather((frame, arrived), link as usize, way, at);
                }
                Event::Offer(link, way, frame) => self.offer(link as usize, way, *frame, at),
                Event::Turn(link, way) => {
                    let mut steps = std::mem::take(&mut self.steps);
                    let (link, channel) = (link as usize, self.has_channel(way));
                    self.links[link][way as usize].turn(at, channel, &mut steps);
                    self.execute(link, way, steps, at);
                }
                Event::SharedTurn(way) => {
                    let mut events = std::mem::take(&mut self.events);
                    if let Some(line) = &mut self.shared_links[way as usize] {
                        line.turn(at, &mut events);
                    } else if let Some(medium) = &mut self.medium {
                        medium.turn(at, &mut events);
                    }
                    self.handle(way, events, at);
                }
                Event::Change(change) => self.make(*change, at),
                Event::Query => self.query(at),
            }
        }
        self.clock = self.clock.max(now);
    }

    pub(super) fn enter(
        &mut self,
        link: usize,
        way: Direction,
        frame: Frame,
        arrived: Instant,
        now: Instant,
    ) {
        let channel = self.has_channel(way);
        if !channel
            && self.radios[link].is_none()
            && let Some(at) = self.links[link][way as usize].pass(&frame, now)
        {
            return self.release((frame, arrived), (link, way), at, now);
        }
        let mut steps = std::mem::take(&mut self.steps);
        let radio = self.radios[link].as_mut().map(|radio| (radio, way));
        let direction = &mut self.links[link][way as usize];
        direction.admit(frame, arrived, now, (channel, radio), &mut steps);
        self.execute(link, way, steps, now);
    }

    /// Whether frames in this direction pass a shared channel.
    fn has_channel(&self, way: Direction) -> bool {
        self.shared_links[way as usize].is_some() || (way == Direction::Up && self.medium.is_some())
    }

    fn execute(&mut self, link: usize, way: Direction, mut steps: Vec<Step>, now: Instant) {
        for step in steps.drain(..) {
            match step {
                Step::Release(frame, at) => {
                    self.release((frame.frame, frame.arrived), (link, way), at, now);
                }
                Step::Offer(frame, at) if at <= now => self.offer(link, way, frame, now),
                Step::Offer(frame, at) => {
                    self.events_due.add(at, Event::Offer(link as u32, way, Box::new(frame)));
                }
                Step::Drop(cause) => self.drop(link, way, cause),
                Step::Decided(Recorded { position, length, decision }, departure) => {
                    let endpoint = link as u32;
                    let decided = Decided { endpoint, way, position, length, decision, departure };
                    self.decided.push(decided);
                }
                Step::Turn(at) => self.events_due.add(at, Event::Turn(link as u32, way)),
            }
        }
        self.steps = steps;
    }

    /// Releases a frame at `at`, if the in-flight limit allows it.
    fn release(
        &mut self,
        (frame, arrived): (Frame, Instant),
        (link, way): (usize, Direction),
        at: Instant,
        now: Instant,
    ) {
        let size = frame.len() as u64;
        if self.in_flight[link][way as usize] + size > MAX_IN_FLIGHT {
            self.links[link][way as usize].stopped(Cause::Overflow);
            return self.drop(link, way, Cause::Overflow);
        }
        let gathers = self.links[link][way as usize].slots.is_some();
        // A frame due now, with no earlier event pending, can skip the event queue.
        if way == Direction::Down
            && !gathers
            && at <= now
            && self.events_due.next().is_none_or(|next| next > at)
        {
            return self.queue_delivery(link, frame, arrived, at);
        }
        self.in_flight[link][way as usize] += size;
        self.events_due.push_frame(at, (frame, arrived), place(link as u32, way, gathers));
    }

    fn offer(&mut self, link: usize, way: Direction, frame: TransitFrame, now: Instant) {
        let mut events = std::mem::take(&mut self.events);
        let draw = self.draws[link][way as usize];
        if let Some(line) = &mut self.shared_links[way as usize] {
            line.offer(link, frame, now, draw, &mut events);
        } else if let Some(medium) = &mut self.medium {
            // A ramp may have changed the loss since the last frame.
            medium.set_loss(link, self.links[link][way as usize].config().mean_loss());
            medium.offer(link, frame, now, &mut events);
        }
        self.handle(way, events, now);
    }

    fn handle(&mut self, way: Direction, mut events: Vec<ChannelEvent>, now: Instant) {
        for event in events.drain(..) {
            match event {
                ChannelEvent::Left(link, frame, at) => {
                    let mut steps = Vec::new();
                    self.links[link][way as usize].depart(frame, at, &mut steps);
                    self.execute(link, way, steps, now);
                }
                ChannelEvent::Drop(link, cause) => {
                    self.links[link][way as usize].stopped(cause);
                    self.drop(link, way, cause);
                }
                ChannelEvent::Turn(at) => self.events_due.add(at, Event::SharedTurn(way)),
            }
        }
        self.events = events;
    }

    /// Assigns a frame to its slot.
    fn gather(
        &mut self,
        (frame, arrived): (Frame, Instant),
        link: usize,
        way: Direction,
        now: Instant,
    ) {
        let slots = &mut self.links[link][way as usize].slots;
        let at = slots.as_mut().map_or(now, |slots| slots.send(frame.len() as u64, now));
        self.events_due.push_frame(at, (frame, arrived), place(link as u32, way, false));
    }

    /// Handles a frame at the end of a direction.
    fn land(
        &mut self,
        (frame, arrived): (Frame, Instant),
        link: usize,
        way: Direction,
        at: Instant,
    ) {
        let in_flight = &mut self.in_flight[link][way as usize];
        *in_flight = in_flight.saturating_sub(frame.len() as u64);
        if way == Direction::Down {
            return self.queue_delivery(link, frame, arrived, at);
        }
        let bytes = frame.get(self.prefix..).unwrap_or_default();
        let message = membership::read(bytes);
        if let Some(message) = &message {
            self.on_membership(message, link, at);
        }
        // A report flooded to a thousand nodes would be a storm: only routers get it. The
        // switch knows them from their own messages (RFC 4541, 2.1.1).
        let receivers = match message {
            Some(Message::Report(_) | Message::Other) => {
                let mut routers = self.table.routers();
                routers.retain(|router| *router != link);
                Receivers::Many(routers.into_iter())
            }
            _ => self.table.receivers(bytes, link),
        };
        if self.querier.sleeps() && membership::group_of(bytes).is_some() {
            self.wake_querier(at);
        }
        for endpoint in receivers {
            if self.table.are_partitioned(link, endpoint) {
                self.drop(endpoint, Direction::Down, Cause::Partitioned);
            } else if self.impaired {
                self.enter(endpoint, Direction::Down, frame.clone(), arrived, at);
            } else {
                self.queue_delivery(endpoint, frame.clone(), arrived, at);
            }
        }
    }

    #[inline]
    pub(super) fn queue_delivery(
        &mut self,
        endpoint: usize,
        frame: Frame,
        arrived: Instant,
        intended: Instant,
    ) {
        let prefix = self.prefix;
        self.ready.push_back(Delivery { endpoint, frame, prefix, arrived, intended });
    }
}
