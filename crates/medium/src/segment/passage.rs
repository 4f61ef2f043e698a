//! Path of frames through a segment: up, over the shared channel, down.

use super::Segment;
use crate::calendar::What;
use crate::change::Way;
use crate::channel::Said;
use crate::directory::Receivers;
use crate::membership::{self, Message};
use crate::sky::place;
use crate::step::{Carried, Cause, Step};
use crate::{Decided, Delivery, Frame, Instant};

/// Maximum bytes in flight on one direction, which a delay without a rate does not bound:
/// 64 ms of 8 Gbit/s, or 5 s of 100 Mbit/s. Excess frames are dropped as by a full queue.
const MOST_HELD: u64 = 64 << 20;

impl Segment {
    /// Processes all events until `now`.
    pub(super) fn advance(&mut self, now: Instant) {
        while let Some((at, what)) = self.calendar.take(now) {
            self.clock = self.clock.max(at);
            match what {
                What::Land(frame, arrived, link, way) => {
                    self.land((frame, arrived), link as usize, way, at);
                }
                What::Gather(frame, arrived, link, way) => {
                    self.gather((frame, arrived), link as usize, way, at);
                }
                What::Offer(link, way, frame) => self.offer(link as usize, way, *frame, at),
                What::Turn(link, way) => {
                    let mut steps = std::mem::take(&mut self.steps);
                    let (link, channel) = (link as usize, self.has_channel(way));
                    self.links[link][way as usize].turn(at, channel, &mut steps);
                    self.carry_out(link, way, steps, at);
                }
                What::LineTurn(way) => {
                    let mut said = std::mem::take(&mut self.said);
                    if let Some(line) = &mut self.lines[way as usize] {
                        line.turn(at, &mut said);
                    } else if let Some(air) = &mut self.air {
                        air.turn(at, &mut said);
                    }
                    self.heed(way, said, at);
                }
                What::Change(change) => self.make(*change, at),
                What::Query => self.query(at),
            }
        }
        self.clock = self.clock.max(now);
    }

    pub(super) fn enter(
        &mut self,
        link: usize,
        way: Way,
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
        self.carry_out(link, way, steps, now);
    }

    /// Whether frames in this direction pass a shared channel.
    fn has_channel(&self, way: Way) -> bool {
        self.lines[way as usize].is_some() || (way == Way::Up && self.air.is_some())
    }

    fn carry_out(&mut self, link: usize, way: Way, mut steps: Vec<Step>, now: Instant) {
        for step in steps.drain(..) {
            match step {
                Step::Release(frame, at) => {
                    self.release((frame.frame, frame.arrived), (link, way), at, now);
                }
                Step::Offer(frame, at) if at <= now => self.offer(link, way, frame, now),
                Step::Offer(frame, at) => {
                    self.calendar.add(at, What::Offer(link as u32, way, Box::new(frame)));
                }
                Step::Drop(cause) => self.drop(link, way, cause),
                Step::Decided(index, decision) => {
                    self.decided.push(Decided { endpoint: link as u32, way, index, decision });
                }
                Step::Turn(at) => self.calendar.add(at, What::Turn(link as u32, way)),
            }
        }
        self.steps = steps;
    }

    /// Releases a frame at `at`, if the in-flight limit allows it.
    fn release(
        &mut self,
        (frame, arrived): (Frame, Instant),
        (link, way): (usize, Way),
        at: Instant,
        now: Instant,
    ) {
        let size = frame.size() as u64;
        if self.held[link][way as usize] + size > MOST_HELD {
            if let Frame::Segments(segments) = &frame
                && segments.count() > 1
            {
                let each = segments.each();
                return each
                    .for_each(|one| self.release((one.into(), arrived), (link, way), at, now));
            }
            self.links[link][way as usize].stopped(Cause::Overflow);
            return self.drop(link, way, Cause::Overflow);
        }
        let gathers = self.links[link][way as usize].slots.is_some();
        // A frame due now, with no earlier event pending, can skip the event queue.
        if way == Way::Down
            && !gathers
            && at <= now
            && self.calendar.next().is_none_or(|next| next > at)
        {
            return self.get_ready(Delivery { endpoint: link, frame, arrived, intended: at });
        }
        self.held[link][way as usize] += size;
        self.calendar.fly(at, (frame, arrived), place(link as u32, way, gathers));
    }

    fn offer(&mut self, link: usize, way: Way, frame: Carried, now: Instant) {
        let mut said = std::mem::take(&mut self.said);
        let draw = self.draws[link][way as usize];
        if let Some(line) = &mut self.lines[way as usize] {
            line.offer(link, frame, now, draw, &mut said);
        } else if let Some(air) = &mut self.air {
            // A ramp may have changed the loss since the last frame.
            air.lose(link, self.links[link][way as usize].asked().mean_loss());
            air.offer(link, frame, now, &mut said);
        }
        self.heed(way, said, now);
    }

    fn heed(&mut self, way: Way, mut said: Vec<Said>, now: Instant) {
        for word in said.drain(..) {
            match word {
                Said::Left(link, frame, at) => {
                    let mut steps = Vec::new();
                    self.links[link][way as usize].depart(frame, at, &mut steps);
                    self.carry_out(link, way, steps, now);
                }
                Said::Drop(link, cause) => {
                    self.links[link][way as usize].stopped(cause);
                    self.drop(link, way, cause);
                }
                Said::Turn(at) => self.calendar.add(at, What::LineTurn(way)),
            }
        }
        self.said = said;
    }

    /// Assigns a frame to its slot.
    fn gather(&mut self, (frame, arrived): (Frame, Instant), link: usize, way: Way, now: Instant) {
        if let Frame::Segments(segments) = &frame
            && segments.count() > 1
        {
            let each = segments.each();
            return each.for_each(|one| self.gather((one.into(), arrived), link, way, now));
        }
        let slots = &mut self.links[link][way as usize].slots;
        let at = slots.as_mut().map_or(now, |slots| slots.send(frame.size() as u64, now));
        self.calendar.fly(at, (frame, arrived), place(link as u32, way, false));
    }

    /// Handles a frame at the end of a direction.
    fn land(&mut self, (frame, arrived): (Frame, Instant), link: usize, way: Way, at: Instant) {
        let held = &mut self.held[link][way as usize];
        *held = held.saturating_sub(frame.size() as u64);
        if way == Way::Down {
            return self.get_ready(Delivery { endpoint: link, frame, arrived, intended: at });
        }
        let message = membership::read(frame.head());
        if let Some(message) = &message {
            self.hear(message, link, at);
        }
        // A report flooded to a thousand nodes would be a storm: only routers get it. The
        // switch knows them from their own messages (RFC 4541, 2.1.1).
        let receivers = match message {
            Some(Message::Report(_) | Message::Other) => {
                let mut routers = self.directory.routers();
                routers.retain(|router| *router != link);
                Receivers::Many(routers.into_iter())
            }
            _ => self.directory.receivers(frame.head(), link),
        };
        if self.querier.sleeps() && membership::group_of(frame.head()).is_some() {
            self.wake_querier(at);
        }
        for endpoint in receivers {
            if self.directory.are_parted(link, endpoint) {
                (0..frame.count()).for_each(|_| self.drop(endpoint, Way::Down, Cause::Parted));
            } else if self.impaired {
                self.enter(endpoint, Way::Down, frame.clone(), arrived, at);
            } else {
                let frame = frame.clone();
                self.get_ready(Delivery { endpoint, frame, arrived, intended: at });
            }
        }
    }

    /// Queues a delivery. Consecutive segments due at the same time are merged.
    #[inline]
    fn get_ready(&mut self, delivery: Delivery) {
        if matches!(delivery.frame, Frame::Segments(_))
            && let Some(last) = self.ready.back_mut()
            && (last.endpoint, last.intended) == (delivery.endpoint, delivery.intended)
            && last.frame.extend(&delivery.frame)
        {
            return;
        }
        self.ready.push_back(delivery);
    }
}
