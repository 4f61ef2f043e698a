//! Departure time of frames: at once, from a queue at a rate, or from a link that computes
//! it on arrival.

use super::{LinkPipe, Radio};
use crate::Direction;
use crate::departure_queue::DepartureQueue;
use crate::server::Server;
use crate::states::Reachable;
use crate::step::{Cause, Step, TransitFrame};
use units::Instant;

/// Maximum number of frames that wait for a device to receive; a network keeps few of them.
const MAX_ASLEEP: usize = 1_000;

impl LinkPipe {
    /// Sends the next frame that waits.
    pub(crate) fn turn(
        &mut self,
        now: Instant,
        channel: bool,
        radio: Option<Radio<'_>>,
        steps: &mut Vec<Step>,
    ) {
        self.follow_ramps(now);
        if let Some(radio) = radio {
            return self.wake(now, channel, radio, steps);
        }
        // Of a queue that has been cleared since.
        if now < self.turn_at {
            return;
        }
        self.turn_at = Instant::NEVER;
        let next = self.queue.pop(now, &mut self.dropped);
        self.record.totals.overflow += self.dropped.len() as u64;
        steps.extend(self.dropped.drain(..).map(|_| Step::Drop(Cause::Overflow)));
        if let Some(next) = next {
            self.serve(next, now, channel, steps);
        }
        self.request_turn(steps);
    }

    /// The radio in front of it goes off: what waits is lost, and the sender begins anew. Frames whose
    /// departure is known are still offered to the channel, which drops them. Returns the number of others.
    pub fn clear(&mut self, now: Instant) -> usize {
        let waiting = self.queue.clear();
        self.record.totals.outage += waiting as u64;
        self.server = Server::new(self.config.transmission.scheduler.as_ref());
        self.ahead = DepartureQueue::default();
        (self.busy_until, self.turn_at) = (self.busy_until.min(now), Instant::NEVER);
        waiting
    }

    pub(super) fn enter(
        &mut self,
        frame: TransitFrame,
        now: Instant,
        channel: bool,
        radio: &mut Option<Radio<'_>>,
        steps: &mut Vec<Step>,
    ) {
        if radio.is_some() || self.server.as_ref().is_some_and(Server::looks_ahead) {
            return self.look_ahead(frame, now, channel, radio, steps);
        }
        if self.server.is_none() && self.queue.is_empty() {
            return match channel {
                true => steps.push(Step::Offer(frame, now)),
                false => self.depart(frame, now, steps),
            };
        }
        let busy = self.busy_until > now;
        if !busy && self.queue.is_empty() {
            return self.serve(frame, now, channel, steps);
        }
        let (len, place) = (frame.frame.len(), frame.place);
        let in_service = busy.then_some(self.sending);
        match self.queue.push(frame, len, now, self.draw, place, in_service) {
            Ok(()) => self.request_turn(steps),
            Err(_) => {
                self.record.totals.overflow += 1;
                steps.push(Step::Drop(Cause::Overflow));
            }
        }
    }

    /// Sends frames to a device that receives now.
    fn wake(&mut self, now: Instant, channel: bool, mut radio: Radio<'_>, steps: &mut Vec<Step>) {
        // A receive window of class A carries one frame: the device then no longer receives.
        while !radio.asleep.is_empty() && self.woken_at(&mut radio, now) == Some(now) {
            let Some(frame) = radio.asleep.pop_front() else { break };
            self.carry(frame, now, channel, &mut Some(&mut radio), steps);
        }
        if !radio.asleep.is_empty() {
            steps.extend(self.woken_at(&mut radio, now).map(Step::Turn));
        }
    }

    /// When the device of `radio` receives next, `now` at the earliest; `None` if it must send first.
    pub(crate) fn woken_at(&self, radio: &mut Radio<'_>, now: Instant) -> Option<Instant> {
        // A radio's time starts with the impairments.
        let since = Instant::START + (now - self.epoch);
        match radio.states.reachable(radio.direction, since) {
            Reachable::Now => Some(now),
            Reachable::At(at) => Some(self.epoch + at.since_start()),
            Reachable::Never => None,
        }
    }

    /// Computes a frame's departure time on arrival: first the radio's states, then the
    /// link's server.
    fn look_ahead(
        &mut self,
        frame: TransitFrame,
        now: Instant,
        channel: bool,
        radio: &mut Option<Radio<'_>>,
        steps: &mut Vec<Step>,
    ) {
        let len = frame.frame.len();
        let asleep = radio.as_ref().map_or(0, |radio| match radio.direction {
            Direction::Up => 0,
            Direction::Down => radio.asleep.len(),
        });
        let now = match (&mut self.server, &radio) {
            (Some(server), None) => {
                let on_wire = self.config.transmission.framing.on_wire(len);
                server.reach(on_wire, now, self.epoch)
            }
            _ => now,
        };
        if asleep >= MAX_ASLEEP || !self.ahead.has_room(len, self.config.queue.limit, now) {
            self.record.totals.overflow += 1;
            return steps.push(Step::Drop(Cause::Overflow));
        }
        if let Some(radio) = radio {
            let at = self.woken_at(radio, now);
            if asleep > 0 || at != Some(now) {
                // Those before it have asked for a turn.
                steps.extend(at.filter(|_| asleep == 0).map(Step::Turn));
                return radio.asleep.push_back(frame);
            }
        }
        self.carry(frame, now, channel, &mut radio.as_mut(), steps);
    }

    /// Sends a frame whose device receives now.
    fn carry(
        &mut self,
        frame: TransitFrame,
        now: Instant,
        channel: bool,
        radio: &mut Option<&mut Radio<'_>>,
        steps: &mut Vec<Step>,
    ) {
        let len = frame.frame.len();
        let on_wire = self.config.transmission.framing.on_wire(len);
        let (server, epoch) = (&mut self.server, self.epoch);
        let has_radio = radio.is_some();
        // When the frame's transmission at the rate begins and ends.
        let mut sent = None;
        let mut onward = |len: usize, at: Instant| {
            let (begin, end) = match server {
                // Behind the states of a radio; without, the frame has reached the queue.
                Some(server) if has_radio => {
                    let at = server.reach(on_wire, at, epoch);
                    (at.max(server.busy_until()), server.send(len, on_wire, at, epoch))
                }
                Some(server) => (at, server.send(len, on_wire, at, epoch)),
                None => (at, at),
            };
            sent = Some((begin, end));
            end
        };
        let left = match radio {
            // A radio's time starts with the impairments.
            Some(Radio { states, direction, .. }) => {
                let since_epoch = |at: Instant| Instant::START + (at - epoch);
                let mut onward =
                    |len: usize, at: Instant| since_epoch(onward(len, epoch + at.since_start()));
                let left = states.send(*direction, len, since_epoch(now), &mut onward);
                epoch + left.since_start()
            }
            None => onward(len, now),
        };
        // Not what a radio state serves itself, nor what a frame waits for a better state.
        if let Some((begin, end)) = sent {
            self.record.totals.wire_bytes += on_wire;
            // The time that it waited for the frame before counted with that one.
            let begin = if has_radio { begin } else { self.busy_until.max(begin) };
            self.record.totals.busy += end - begin;
        }
        self.busy_until = self.busy_until.max(left);
        self.ahead.add(len, left);
        match channel {
            true => steps.push(self.offer(frame, left)),
            false => self.depart(frame, left, steps),
        }
    }

    /// The offer to the channel of a frame whose transmission ends at `left`.
    fn offer(&self, frame: TransitFrame, left: Instant) -> Step {
        let transmission = self.offers_starts.then_some(&self.config.transmission);
        let on_air = transmission.and_then(|own| own.time_on_air(frame.frame.len()));
        let starts = on_air.and_then(|on_air| left.checked_sub(on_air));
        Step::Offer(frame, starts.unwrap_or(left))
    }

    fn request_turn(&mut self, steps: &mut Vec<Step>) {
        // At most one turn is pending; it requests the next one.
        if self.turn_at == Instant::NEVER && !self.queue.is_empty() {
            self.turn_at = self.busy_until;
            steps.push(Step::Turn(self.busy_until));
        }
    }

    fn serve(&mut self, frame: TransitFrame, now: Instant, channel: bool, steps: &mut Vec<Step>) {
        let bytes = self.config.transmission.framing.on_wire(frame.frame.len());
        let left = match &mut self.server {
            Some(server) => server.send(frame.frame.len(), bytes, now, self.epoch),
            None => now,
        };
        self.record.totals.wire_bytes += bytes;
        // The time that it waited for the frame before counted with that one.
        self.record.totals.busy += left - self.busy_until.max(now);
        (self.busy_until, self.sending) = (left, frame.frame.len());
        match channel {
            true => steps.push(self.offer(frame, left)),
            false => self.depart(frame, left, steps),
        }
    }
}
