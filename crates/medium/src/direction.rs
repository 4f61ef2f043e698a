//! One direction of one link: from a frame and a time to the frame's fate.

use crate::ahead::Ahead;
use crate::fates::{Decision, Fates, Replay};
use crate::outage::Gate;
use crate::queue::Queue;
use crate::server::Server;
use crate::slot::Slots;
use crate::totals::{Record, Totals};
use crate::{Impairment, Instant, States, Way};
use std::rc::Rc;
use std::sync::Arc;
use units::Draw;

/// A frame on its way over a direction.
#[derive(Debug, Clone)]
pub(crate) struct Carried {
    /// The frame, link header included.
    pub frame: Rc<[u8]>,
    /// When it came into the segment.
    pub arrived: Instant,
    /// Its place in the direction that it is on now, and what chance decided
    /// there.
    pub index: u64,
    pub decision: Decision,
}

/// Why a frame went no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The link lost it.
    Lost,
    /// It found the queue full, or the queue's discipline dropped it.
    Overflow,
    /// The link was down.
    Outage,
    /// A channel that all share did not let it through.
    Denied,
    /// Sender and receiver were parted.
    Parted,
    /// It is no frame of this link: too short, too long, or with the source
    /// address of another.
    Rejected,
}

/// What happens next with frames of a direction.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// It goes out at this time.
    Release(Carried, Instant),
    /// It has left the link's own sender at this time and wants the channel.
    Offer(Carried, Instant),
    /// It goes no further.
    Drop(Cause),
    /// Chance has decided this about the frame at this place.
    Decided(u64, Decision),
    /// The direction wants to be called again, to send what waits.
    Turn(Instant),
}

/// The state of one direction of a link.
#[derive(Debug, Clone)]
pub struct Direction {
    asked: Arc<Impairment>,
    draw: Draw,
    fates: Fates,
    gates: Vec<Gate>,
    /// Taken down by hand.
    down: bool,
    queue: Queue<Carried>,
    server: Option<Server>,
    /// Until when the last frame is being sent, and its length.
    busy_until: Instant,
    sending: usize,
    turn_asked: bool,
    pub(crate) slots: Option<Slots>,
    pub(crate) record: Record,
    last_release: Instant,
    /// When impairments began: outages and traces count from there.
    epoch: Instant,
    /// A ramp between what is asked now and then.
    pub(crate) ramp: Option<crate::change::Ramp>,
    dropped: Vec<Carried>,
    ahead: Ahead,
    /// What an earlier run decided, to be decided again.
    replay: Option<Replay>,
}

/// The radio of a link's node, which both its directions share, and the way that
/// they go over it.
pub(crate) type Radio<'a> = Option<(&'a mut States, Way)>;

impl Direction {
    /// A direction that does what `asked` says, by the draws of `draw`.
    pub fn new(asked: Impairment, draw: Draw) -> Self {
        Self {
            fates: Fates::new(&asked, draw),
            gates: gates(&asked, draw),
            down: false,
            queue: Queue::new(asked.queue, asked.codel, asked.red),
            server: Server::new(&asked),
            busy_until: 0,
            sending: 0,
            turn_asked: false,
            slots: asked.slot.map(|slot| Slots::new(slot, draw)),
            record: Record::default(),
            last_release: 0,
            epoch: 0,
            ramp: None,
            dropped: Vec::new(),
            ahead: Ahead::default(),
            replay: None,
            asked: Arc::new(asked),
            draw,
        }
    }

    /// What is asked of this direction now.
    pub fn asked(&self) -> &Impairment {
        &self.asked
    }

    /// What was done so far.
    pub fn totals(&self) -> Totals {
        self.record.totals
    }

    /// Decides as an earlier run did, as far as its record goes.
    pub(crate) fn replay(&mut self, replay: Replay) {
        self.replay = Some(replay);
    }

    /// Impairments begin.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.epoch = now;
        self.record.begin(now);
    }

    /// Asks for something else from now on; ends the interval.
    pub(crate) fn change(&mut self, asked: Impairment, now: Instant) {
        self.end_interval(now);
        self.fates.change(&self.asked, &asked);
        Server::change(&mut self.server, &self.asked, &asked);
        if (self.asked.queue, self.asked.codel, self.asked.red)
            != (asked.queue, asked.codel, asked.red)
        {
            self.queue.change(asked.queue, asked.codel, asked.red);
        }
        if self.asked.slot != asked.slot {
            self.slots = asked.slot.map(|slot| Slots::new(slot, self.draw));
        }
        if self.asked.outages != asked.outages {
            self.gates = gates(&asked, self.draw);
        }
        self.asked = Arc::new(asked);
    }

    /// Takes the link down or up by hand.
    pub(crate) fn set_down(&mut self, down: bool) {
        self.down = down;
    }

    /// Writes down what was done since the last time, if anything was.
    pub(crate) fn end_interval(&mut self, now: Instant) {
        self.record.end_interval(&self.asked, self.ramp.is_some(), now);
    }

    /// Counts a frame that was delivered so much later than meant.
    pub(crate) fn released(&mut self, late: u64) {
        self.record.totals.released += 1;
        self.record.totals.late_sum += late;
    }

    /// Counts what came and was no frame of this link.
    pub(crate) fn rejected(&mut self) {
        self.record.totals.rejected += 1;
    }

    /// Counts a frame that went no further on a channel behind this direction.
    pub(crate) fn stopped(&mut self, cause: Cause) {
        match cause {
            Cause::Lost => self.record.totals.lost += 1,
            Cause::Overflow => self.record.totals.overflow += 1,
            _ => self.record.totals.denied += 1,
        }
    }

    /// Takes `frame` (link header included), which came into the segment at
    /// `arrived` and to this direction at `now`. With a
    /// `channel` it is then offered to that. Times must not decrease between
    /// calls of this and [`Self::turn`].
    pub(crate) fn admit(
        &mut self,
        frame: Rc<[u8]>,
        arrived: Instant,
        now: Instant,
        (channel, mut radio): (bool, Radio<'_>),
        steps: &mut Vec<Step>,
    ) {
        self.follow_ramp(now);
        let index = self.record.totals.frames;
        self.record.totals.frames += 1;
        self.record.totals.bytes += frame.len() as u64;
        let decision = match self.replay.as_mut().and_then(|replay| replay.take(index)) {
            Some(recorded) => recorded,
            None => self.fates.decide(&self.asked, index, &frame, now),
        };
        if self.asked.is_chancy() {
            steps.push(Step::Decided(index, decision));
        }
        let copy = decision.duplicated.then(|| {
            let decision = self.fates.decide_copy(&self.asked, index);
            Carried { frame: frame.clone(), arrived, index, decision }
        });
        let frame = Carried { frame, arrived, index, decision };
        self.enter(frame, now, channel, &mut radio, steps);
        if let Some(copy) = copy {
            self.record.totals.duplicated += 1;
            self.enter(copy, now, channel, &mut radio, steps);
        }
    }

    /// Sends what waits, as asked for by [`Step::Turn`].
    pub(crate) fn turn(&mut self, now: Instant, channel: bool, steps: &mut Vec<Step>) {
        self.turn_asked = false;
        self.follow_ramp(now);
        let next = self.queue.pop(now, &mut self.dropped);
        self.record.totals.overflow += self.dropped.len() as u64;
        steps.extend(self.dropped.drain(..).map(|_| Step::Drop(Cause::Overflow)));
        if let Some(next) = next {
            self.serve(next, now, channel, steps);
        }
        self.ask_for_turn(steps);
    }

    fn enter(
        &mut self,
        frame: Carried,
        now: Instant,
        channel: bool,
        radio: &mut Radio<'_>,
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
        let (len, place) = (frame.frame.len(), (self.draw, frame.index));
        match self.queue.push(frame, len, now, place, busy.then_some(self.sending)) {
            Ok(()) => self.ask_for_turn(steps),
            Err(_) => {
                self.record.totals.overflow += 1;
                steps.push(Step::Drop(Cause::Overflow));
            }
        }
    }

    /// Gives a frame its time to leave at once: through the radio's states, then
    /// by the link's own means.
    fn look_ahead(
        &mut self,
        frame: Carried,
        now: Instant,
        channel: bool,
        radio: &mut Radio<'_>,
        steps: &mut Vec<Step>,
    ) {
        let len = frame.frame.len();
        if !self.ahead.has_room(len, self.asked.queue, now) {
            self.record.totals.overflow += 1;
            return steps.push(Step::Drop(Cause::Overflow));
        }
        let on_wire = self.asked.framing().on_wire(len);
        let (server, epoch) = (&mut self.server, self.epoch);
        let mut onward = |len: usize, at: Instant| match server {
            Some(server) => server.send(len, on_wire, at, epoch),
            None => at,
        };
        let left = match radio {
            // A radio's time begins with the impairments.
            Some((states, way)) => {
                let mut since = |len: usize, at: Instant| onward(len, at + epoch) - epoch;
                epoch + states.send(*way, len, now.saturating_sub(epoch), &mut since)
            }
            None => onward(len, now),
        };
        self.record.totals.wire_bytes += on_wire;
        self.record.totals.busy += left.saturating_sub(self.busy_until.max(now));
        self.busy_until = self.busy_until.max(left);
        self.ahead.add(len, left);
        match channel {
            true => steps.push(Step::Offer(frame, left)),
            false => self.depart(frame, left, steps),
        }
    }

    fn ask_for_turn(&mut self, steps: &mut Vec<Step>) {
        if !self.turn_asked && !self.queue.is_empty() {
            self.turn_asked = true;
            steps.push(Step::Turn(self.busy_until));
        }
    }

    fn serve(&mut self, frame: Carried, now: Instant, channel: bool, steps: &mut Vec<Step>) {
        let bytes = self.asked.framing().on_wire(frame.frame.len());
        let left = match &mut self.server {
            Some(server) => server.send(frame.frame.len(), bytes, now, self.epoch),
            None => now,
        };
        self.record.totals.wire_bytes += bytes;
        self.record.totals.busy += left.saturating_sub(self.busy_until.max(now));
        (self.busy_until, self.sending) = (left, frame.frame.len());
        match channel {
            true => steps.push(Step::Offer(frame, left)),
            false => self.depart(frame, left, steps),
        }
    }

    /// Decides on a frame whose last bit has left at `left`.
    pub(crate) fn depart(&mut self, mut frame: Carried, left: Instant, steps: &mut Vec<Step>) {
        let since = left.saturating_sub(self.epoch);
        // Each is asked, since each keeps up with the time.
        let down = self.gates.iter_mut().fold(false, |down, gate| gate.is_down(since) | down);
        if down || self.down {
            self.record.totals.outage += 1;
            return steps.push(Step::Drop(Cause::Outage));
        }
        let decision = frame.decision;
        if decision.lost {
            self.record.totals.lost += 1;
            return steps.push(Step::Drop(Cause::Lost));
        }
        if let Some(place) = decision.corrupt {
            self.record.totals.corrupted += 1;
            frame.frame = turned_over(&frame.frame, place);
        }
        self.record.totals.reordered += u64::from(decision.overtakes);
        let mut release = left + decision.delay;
        if self.asked.keep_order && !decision.overtakes {
            release = release.max(self.last_release);
            self.last_release = release;
        }
        self.record.totals.delay_sum += release - left;
        self.record.totals.delay_max = self.record.totals.delay_max.max(release - left);
        steps.push(Step::Release(frame, release));
    }

    fn follow_ramp(&mut self, now: Instant) {
        let Some(ramp) = &self.ramp else { return };
        let (asked, over) = (ramp.at(now), ramp.is_over(now));
        self.fates.change(&self.asked, &asked);
        Server::change(&mut self.server, &self.asked, &asked);
        self.asked = Arc::new(asked);
        if over {
            self.end_interval(now);
            self.ramp = None;
        }
    }
}

fn gates(asked: &Impairment, draw: Draw) -> Vec<Gate> {
    let outages = asked.outages.iter().enumerate();
    outages.map(|(number, outage)| Gate::new(*outage, draw, number as u64)).collect()
}

/// The frame with one bit turned over, at `place` of 2^32 parts of its length.
fn turned_over(frame: &[u8], place: u32) -> Rc<[u8]> {
    let mut bytes = frame.to_vec();
    let bit = (u64::from(place) * (8 * frame.len() as u64)) >> 32;
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
    bytes.into()
}

#[cfg(test)]
#[path = "direction_tests.rs"]
mod tests;
