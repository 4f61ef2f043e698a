//! One direction of one link: decides what happens to each frame.

mod counters;
mod in_flight;
mod radio;
mod sending;

pub(crate) use radio::Radio;

use crate::corrupt::with_flipped_bit;
use crate::decisions::Decision;
use crate::departure_queue::DepartureQueue;
use crate::flow_decisions::{FlowDecisions, Position};
use crate::outage::Gate;
use crate::queue::Queue;
use crate::ramp::Ramps;
use crate::replay::{Recorded, Replay, departure};
use crate::server::Server;
use crate::slot::Slots;
use crate::step::{Cause, StampedFrame, Step, TransitFrame};
use crate::totals::{Interval, Record, Totals};
use crate::{Frame, Impairment, Keys};
use std::sync::Arc;
use units::{Draw, Instant, Span};

/// State of one direction of a link at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkState {
    /// Settings that apply now.
    pub now: Impairment,
    /// Settings after all changes in progress; `None` without such changes.
    pub target: Option<Impairment>,
    /// Whether the link is administratively down.
    pub down: bool,
    /// Counters since impairments began.
    pub totals: Totals,
}

impl LinkState {
    /// Settings after all changes in progress.
    pub fn settled(&self) -> &Impairment {
        self.target.as_ref().unwrap_or(&self.now)
    }
}

/// State of one direction of a link. Each frame reads it, and with hundreds of links it is
/// no longer in the CPU caches by then: rarely used parts are boxed.
#[derive(Debug, Clone)]
pub struct LinkPipe {
    config: Arc<Impairment>,
    draw: Draw,
    decisions: FlowDecisions,
    /// The settings change at times that the experiment gives.
    has_timetable: bool,
    /// The channel takes frames when their transmission begins, not when it ends.
    offers_starts: bool,
    gates: Vec<Gate>,
    /// Administratively down.
    down: bool,
    queue: Queue<TransitFrame>,
    server: Option<Server>,
    /// End of the current transmission, and length of that frame.
    busy_until: Instant,
    sending: usize,
    /// Time of the requested turn; [`Instant::NEVER`]: none.
    turn_at: Instant,
    slots: Option<Box<Slots>>,
    record: Record,
    /// Bytes released and not yet at their end.
    in_flight: u64,
    last_release: Instant,
    /// Start of impairments: origin of outages and traces.
    epoch: Instant,
    /// Settings changes in progress.
    ramps: Option<Box<Ramps>>,
    dropped: Vec<TransitFrame>,
    ahead: DepartureQueue,
    /// Decisions of an earlier run to repeat.
    replay: Option<Box<Replay>>,
    /// Derived from the current settings: whether any decision is random, and whether all
    /// frames get the same decision while the link is up and the queue is empty.
    random: bool,
    alike: bool,
}

impl LinkPipe {
    /// A direction with these settings and random numbers.
    pub fn new(config: impl Into<Arc<Impairment>>, draw: Draw) -> Self {
        let config = config.into();
        let mut pipe = Self {
            decisions: FlowDecisions::new(&config, draw),
            has_timetable: false,
            gates: gates(&config, draw),
            down: false,
            queue: Queue::new(config.queue),
            server: Server::new(config.transmission.scheduler.as_ref()),
            busy_until: Instant::START,
            sending: 0,
            turn_at: Instant::NEVER,
            slots: config.slot.0.map(|slot| Box::new(Slots::new(slot, draw))),
            record: Record::default(),
            in_flight: 0,
            last_release: Instant::START,
            epoch: Instant::START,
            ramps: None,
            dropped: Vec::new(),
            ahead: DepartureQueue::default(),
            replay: None,
            random: false,
            alike: false,
            offers_starts: false,
            config,
            draw,
        };
        pipe.settle();
        pipe
    }

    /// Caches the properties that need not be evaluated per frame.
    fn settle(&mut self) {
        self.random = self.config.is_random();
        self.alike = !self.random
            && self.server.is_none()
            && (self.gates.is_empty() && self.config.handover.0.is_none())
            && !self.has_timetable
            && self.config.path_mtu.0.is_none()
            && self.replay.is_none()
            && !self.decisions.has_state();
    }

    /// Whether the frames of each flow are counted, because decisions about them are random, may
    /// become so, or were recorded. A link that is changed live alone counts from the change on.
    fn counts_flows(&self) -> bool {
        self.random || self.has_timetable || self.replay.is_some()
    }

    /// Counts the frames of flows from the start: settings will change, or the channel decides by
    /// the positions of frames.
    pub fn expect_changes(&mut self) {
        self.has_timetable = true;
        self.settle();
    }

    /// The channel takes frames of a LoRa radio when their transmission begins.
    pub(crate) fn share_air(&mut self) {
        self.offers_starts = true;
    }

    /// Current settings of this direction.
    pub fn config(&self) -> &Impairment {
        &self.config
    }

    /// Random numbers of this direction.
    pub(crate) fn draw(&self) -> Draw {
        self.draw
    }

    /// State at `now`, with or without traffic.
    pub fn state(&self, now: Instant) -> LinkState {
        let ramps = self.ramps.as_ref();
        LinkState {
            now: ramps.map_or_else(|| (*self.config).clone(), |ramps| ramps.at(now)),
            // Frames end a finished ramp, but there may be none.
            target: ramps.filter(|ramps| !ramps.are_over(now)).map(|ramps| ramps.target().clone()),
            down: self.down,
            totals: self.record.totals,
        }
    }

    /// Minimum delay of any frame, while settings do not change.
    pub fn least_delay(&self) -> Span {
        if self.replay.is_some() {
            return Span::ZERO;
        }
        match &self.ramps {
            Some(ramps) => ramps.least_delay(),
            None => self.config.least_delay(),
        }
    }

    /// Counters so far.
    pub fn totals(&self) -> Totals {
        self.record.totals
    }

    /// Repeats the decisions of an earlier run as long as its record lasts.
    pub(crate) fn replay(&mut self, replay: Replay) {
        self.replay = Some(Box::new(replay));
        self.settle();
    }

    /// Starts impairments.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.epoch = now;
        self.record.begin(now);
    }

    /// Changes these keys from now on, at once or linearly over a span. Ramps of other keys
    /// continue.
    ///
    /// # Errors
    /// If a key is unknown or a value has the wrong type. Nothing changes then.
    pub fn set(&mut self, set: &Keys, over: Span, now: Instant) -> Result<(), String> {
        self.follow_ramps(now);
        let changing = self.ramps.is_some();
        let mut ramps = match self.ramps.take() {
            Some(ramps) => *ramps,
            None => Ramps::at_rest((*self.config).clone()),
        };
        let made = ramps.target().with(set).map(|target| {
            // Before the change: the counters so far belong to the former settings.
            self.record.end_interval(&self.config, changing, now);
            ramps.set(set.0.keys().map(String::as_str), target, now, over);
            self.configure(ramps.at(now));
        });
        if !ramps.settle(now) {
            self.ramps = Some(Box::new(ramps));
        }
        made
    }

    /// Applies these settings. Frames already sent are not affected.
    fn configure(&mut self, config: Impairment) {
        self.decisions.change(&config);
        Server::change(&mut self.server, &self.config.transmission, &config.transmission);
        // Parts whose settings stay keep their state: frames that wait, the progress of slots.
        if self.config.queue != config.queue {
            self.queue.change(config.queue);
        }
        if self.config.slot != config.slot {
            self.slots = config.slot.0.map(|slot| Box::new(Slots::new(slot, self.draw)));
        }
        if self.config.outage != config.outage {
            self.gates = gates(&config, self.draw);
        }
        self.config = Arc::new(config);
        self.settle();
    }

    /// Takes the direction administratively down or up, and ends an interval of counters.
    pub fn set_down(&mut self, down: bool, now: Instant) {
        self.end_interval(now);
        self.down = down;
    }

    /// The senders with too many flows, and how many of each were forgotten.
    pub fn forgotten_flows(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.decisions.forgotten()
    }

    /// Takes the recorded intervals.
    pub fn take_intervals(&mut self) -> Vec<Interval> {
        std::mem::take(&mut self.record.intervals)
    }

    /// Records the counters since the last interval, if anything happened.
    pub(crate) fn end_interval(&mut self, now: Instant) {
        self.record.end_interval(&self.config, self.ramps.is_some(), now);
    }

    /// See [`crate::Link::admit`].
    pub(crate) fn admit(
        &mut self,
        frame: StampedFrame,
        sender: u32,
        now: Instant,
        channel: bool,
        mut radio: Option<Radio<'_>>,
        steps: &mut Vec<Step>,
    ) {
        let StampedFrame { frame, arrived } = frame;
        self.follow_ramps(now);
        self.record.totals.frames += 1;
        self.record.totals.bytes += frame.len() as u64;
        let (position, decision) = self.decide(&frame, sender, now, steps);
        // After the decision, which also counts the frames of the flow.
        if self.config.path_mtu.drops(&frame) {
            self.record.totals.too_long += 1;
            return steps.push(Step::Drop(Cause::TooLong));
        }
        let place = position.number();
        let copy = decision.duplicated.then(|| {
            let decision = self.decisions.decide_copy(&self.config, position);
            // Queues and channels draw for a duplicate separately, too.
            TransitFrame { frame: frame.clone(), arrived, place: units::mix(place), decision }
        });
        let frame = TransitFrame { frame, arrived, place, decision };
        self.enter(frame, now, channel, &mut radio, steps);
        if let Some(copy) = copy {
            self.record.totals.duplicated += 1;
            self.enter(copy, now, channel, &mut radio, steps);
        }
    }

    /// The position of `frame` and the decision about it: the recorded one, if there is one.
    fn decide(
        &mut self,
        frame: &Frame,
        sender: u32,
        now: Instant,
        steps: &mut Vec<Step>,
    ) -> (Position, Decision) {
        if !self.counts_flows() {
            let delay = self.config.delay.mean;
            return (Position::default(), Decision { delay, ..Decision::default() });
        }
        let position = self.decisions.position(frame, sender);
        let recorded = self.replay.as_mut().and_then(|replay| replay.take(position));
        let decision = match recorded {
            Some(recorded) => recorded.decision,
            None => self.decisions.decide(&self.config, position, frame, now),
        };
        if self.random {
            let departure = self.replay.as_ref().and_then(|replay| {
                departure(frame, position, recorded, replay.has_ended(position.flow))
            });
            let length = frame.len() as u32;
            steps.push(Step::Decided(Recorded { position, length, decision }, departure));
        }
        (position, decision)
    }

    /// See [`crate::Link::pass`].
    #[inline]
    pub(crate) fn pass(&mut self, frame: &Frame, now: Instant) -> Option<Instant> {
        if self.ramps.is_some() || !self.alike || self.down || !self.queue.is_empty() {
            return None;
        }
        let decision = Decision { delay: self.config.delay.mean, ..Decision::default() };
        self.record.totals.frames += 1;
        self.record.totals.bytes += frame.len() as u64;
        let release = self.release_time(&decision, now);
        self.delayed(release - now);
        Some(release)
    }

    /// Decides about a frame whose last bit left at `left`.
    pub fn depart(&mut self, mut frame: TransitFrame, left: Instant, steps: &mut Vec<Step>) {
        let since = left - self.epoch;
        // Call every gate: each advances its state.
        let down = self.gates.iter_mut().fold(false, |down, gate| gate.is_down(since) | down);
        if down || self.down {
            self.record.totals.outage += 1;
            return steps.push(Step::Drop(Cause::Outage));
        }
        let decision = frame.decision;
        // Loss takes effect behind the serialisation, as on a wire (decision 13).
        if decision.lost {
            self.record.totals.lost += 1;
            return steps.push(Step::Drop(Cause::Lost));
        }
        if let Some(place) = decision.corrupt {
            self.record.totals.corrupted += 1;
            frame.frame = with_flipped_bit(&frame.frame, place);
        }
        self.record.totals.reordered += u64::from(decision.overtakes);
        let release = self.release_time(&decision, left);
        self.delayed(release - left);
        let frame = StampedFrame { frame: frame.frame, arrived: frame.arrived };
        steps.push(Step::Release(frame, release));
    }

    /// Release time of a frame that left at `left`.
    fn release_time(&mut self, decision: &Decision, left: Instant) -> Instant {
        let handover = self.config.handover.delay(self.draw, left - self.epoch);
        let mut release = left + decision.delay + handover;
        if self.config.delay.keep_order && !decision.overtakes {
            release = release.max(self.last_release);
            self.last_release = release;
        }
        release
    }

    /// Counts a frame with this delay.
    fn delayed(&mut self, delay: Span) {
        self.record.totals.passed += 1;
        self.record.totals.delay_sum += delay;
        self.record.totals.delay_max = self.record.totals.delay_max.max(delay);
    }

    /// Applies the ramps in progress as of `now`.
    pub(crate) fn follow_ramps(&mut self, now: Instant) {
        let Some(mut ramps) = self.ramps.take() else { return };
        self.configure(ramps.at(now));
        match ramps.settle(now) {
            // The interval of the change ends here.
            true => self.record.end_interval(&self.config, true, now),
            false => self.ramps = Some(ramps),
        }
    }
}

fn gates(config: &Impairment, draw: Draw) -> Vec<Gate> {
    let outages = config.outage.0.iter().enumerate();
    outages.map(|(number, outage)| Gate::new(*outage, draw, number as u64)).collect()
}

#[cfg(test)]
#[path = "link_pipe_tests.rs"]
mod tests;
