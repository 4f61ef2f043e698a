//! One half-duplex channel that all links share by unslotted CSMA-CA.
//!
//! IEEE 802.15.4-2011, 5.1.1.4: a sender waits a random number of backoff units and senses
//! the channel for the CCA time. If the channel is idle, the sender switches to
//! transmission (turnaround) and sends. Two transmissions collide if the second sender's
//! CCA ended before the first transmission began: both CCAs ended within one turnaround of
//! each other. A CCA also fits into the gap between a frame and its acknowledgement; that
//! transmission then collides with the acknowledgement.
//!
//! Without a [`Reception`], all nodes hear each other, at once and equally well: there are no
//! hidden nodes, and all overlapping transmissions are destroyed. The model then does not
//! identify the sender of the acknowledgement, which follows one turnaround after the
//! frame, and only collisions destroy an acknowledgement.
//!
//! With a [`Reception`], a sender senses only those that it hears, and a transmission collides
//! at a receiver that hears another one or sends itself at the same time. The receiver sends
//! the acknowledgement, which its hearers sense, and which can be lost.
//!
//! With [`crate::PathLoss::capture`], a transmission survives weaker ones at a receiver: an earlier
//! one that is stronger than the sum of the others by the threshold, and a later one that begins while
//! the headers of all others that the receiver hears are on the air.
//!
//! Pure: takes times and random numbers, returns outcomes.

use units::Instant;
mod attempt;
mod on_air;
mod spec;

#[cfg(test)]
mod reception_tests;
#[cfg(test)]
mod saturation;
#[cfg(test)]
mod tests;

pub use attempt::{Arrival, ArrivalKind, Attempt, Ending, Usage};
pub use spec::CsmaSpec;

use crate::radios::Radios;
use crate::reception::Reception;
use attempt::Frame;
use on_air::{Air, Kind, OnAir};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use units::{Draw, Purpose, Span};

/// Events, ordered within one instant. Intervals are half open: a CCA does not detect a
/// transmission that ends when the CCA begins or begins when the CCA ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    FrameEnds,
    AckEnds,
    AnswerEnds,
    AckMissed,
    CcaEnds,
    FrameStarts,
    AckStarts,
    AnswerStarts,
}

#[derive(Debug, Default)]
struct Link {
    usage: Usage,
    frame: Option<Frame>,
    /// End of the interframe space.
    free: Instant,
    /// Bytes of the acknowledgements that the station itself makes and that have not begun.
    answers: VecDeque<usize>,
}

/// Time, kind, link. A link has at most one pending event of its frame; those of its answers have no
/// order among themselves.
type Event = Reverse<(Instant, Step, usize)>;

/// A running channel.
#[derive(Debug)]
pub struct Csma {
    spec: CsmaSpec,
    draw: Draw,
    links: Vec<Link>,
    /// Events that end no frame and deliver nothing; kept separately so that the caller
    /// does not wake for them.
    silent: BinaryHeap<Event>,
    reporting: BinaryHeap<Event>,
    air: Air,
    clock: Instant,
    #[cfg(test)]
    trace: Vec<tests::Transmission>,
}

impl Csma {
    /// An idle channel for `links` links, numbered from 0. `spec` must have passed
    /// [`CsmaSpec::check`]. Random numbers depend on link, frame, attempt and backoff, not
    /// on other links.
    pub fn new(spec: &CsmaSpec, links: usize, draw: Draw) -> Self {
        Self {
            spec: spec.clone(),
            draw,
            links: (0..links).map(|_| Link::default()).collect(),
            silent: BinaryHeap::new(),
            reporting: BinaryHeap::new(),
            air: Air::new(links, spec.airtime(0)),
            clock: Instant::START,
            #[cfg(test)]
            trace: Vec::new(),
        }
    }

    /// Sets which links' stations hear each other; without it, all do. Those that exist must not change
    /// after the first frame.
    pub fn set_reception(&mut self, reception: Option<Arc<Reception>>) {
        self.air.reception = reception;
    }

    /// Adds a link, numbered after the others.
    pub fn attach(&mut self) {
        self.links.push(Link::default());
        self.air.attach(self.clock);
    }

    /// Switches the radio of a link's station off or on. While it is off it does not receive, acknowledge
    /// or sense, and a frame that was ready before it came on again ends with [`Ending::Off`].
    ///
    /// # Panics
    /// If `link` does not exist.
    pub fn set_power(&mut self, link: usize, is_on: bool, now: Instant) {
        self.air.set_power(link, is_on, now.max(self.clock));
    }

    /// Which links' radios are off.
    pub fn radios(&self) -> &Radios {
        &self.air.radios
    }

    /// Whether the radio of `link` has been off since its frame became ready, so that the frame is lost.
    fn has_lost_power(&self, link: usize) -> bool {
        let frame = self.links[link].frame.as_ref();
        frame.is_some_and(|frame| self.air.radios.was_off_since(link, frame.ready))
    }

    /// Parameters of the channel.
    pub fn spec(&self) -> &CsmaSpec {
        &self.spec
    }

    /// Airtime of a frame of `len` bytes.
    pub fn airtime(&self, len: usize) -> Span {
        self.spec.airtime(len)
    }

    /// Starts contention for the frame at the head of a link's queue. `len` is its length
    /// in bytes, including the link header. Contention starts at `now`, or at the end of
    /// the interframe space after the link's previous frame, and ends in one [`Attempt`].
    ///
    /// `now` may be earlier than a time passed to [`Self::step`], but not earlier than the
    /// result of that call: pass the `at` of the [`Attempt`] to send the next frame of a
    /// queue without a gap.
    ///
    /// # Panics
    /// If `link` does not exist or already contends.
    pub fn ready(&mut self, link: usize, len: usize, now: Instant) {
        let frame = Frame { len, acknowledged: self.spec.acknowledge, ..Frame::default() };
        self.contend(link, frame, now);
    }

    /// As [`Self::ready`], for a frame to the station of link `to`, which acknowledges it.
    ///
    /// # Panics
    /// As [`Self::ready`].
    pub fn ready_for(&mut self, link: usize, to: usize, len: usize, now: Instant) {
        let acknowledged = self.spec.acknowledge;
        self.contend(link, Frame { len, to: Some(to), acknowledged, ..Frame::default() }, now);
    }

    /// As [`Self::ready`], for a multicast or broadcast frame. Receivers do not acknowledge
    /// it (5.1.6.4), so it is sent once.
    ///
    /// # Panics
    /// As [`Self::ready`].
    pub fn ready_for_all(&mut self, link: usize, len: usize, now: Instant) {
        self.contend(link, Frame { len, ..Frame::default() }, now);
    }

    /// Sends an acknowledgement of `len` bytes that the station of `link` itself makes: one
    /// turnaround after `now`, without contention. It ends in one [`Attempt`] of an answer.
    ///
    /// # Panics
    /// If `link` does not exist.
    pub fn answer(&mut self, link: usize, len: usize, now: Instant) {
        self.links[link].answers.push_back(len);
        let starts = now.max(self.clock) + self.spec.turnaround;
        self.silent.push(Reverse((starts, Step::AnswerStarts, link)));
    }

    /// Whether a frame of `link` contends.
    ///
    /// # Panics
    /// If `link` does not exist.
    pub fn contends(&self, link: usize) -> bool {
        self.links[link].frame.is_some()
    }

    /// Usage of each link so far.
    pub fn usage(&self) -> Vec<Usage> {
        let all = self.links.iter().zip(self.air.times());
        all.map(|(link, (sending, receiving))| Usage { sending, receiving, ..link.usage }).collect()
    }

    /// Time of the next call of [`Self::step`]: nothing ends and nothing arrives before.
    /// That call also processes the backoffs and CCAs due until then.
    pub fn next(&self) -> Option<Instant> {
        let reporting = self.reporting.peek().map(|Reverse((at, ..))| *at);
        // A CCA or a transmission start has its first effect after another CCA, or after
        // the airtime of a header.
        let least = self.spec.cca.min(self.spec.airtime(0));
        let silent = self.silent.peek().map(|Reverse((at, ..))| *at + least);
        [reporting, silent].into_iter().flatten().min()
    }

    /// Advances to the next end of a frame's transmission, at most to `now`; call it until
    /// it returns `None`. `received` is called for each frame and answer that did not collide, with
    /// a [`Reception`] also for each such acknowledgement; it returns `false` if it is lost.
    pub fn step(
        &mut self,
        now: Instant,
        received: &mut dyn FnMut(Arrival<'_>) -> bool,
    ) -> Option<Attempt> {
        loop {
            // The larger of two reversed events is the earlier; `None` is the smallest.
            let heap = match self.reporting.peek() > self.silent.peek() {
                true => &mut self.reporting,
                false => &mut self.silent,
            };
            let Reverse((at, step, link)) = *heap.peek()?;
            if at > now {
                return None;
            }
            heap.pop();
            self.clock = at;
            let attempt = match step {
                Step::CcaEnds => self.on_cca_end(link, at),
                Step::FrameStarts => {
                    self.start(link, at);
                    None
                }
                Step::FrameEnds => self.on_frame_end(link, at, received),
                Step::AckStarts => {
                    self.start_ack(link, at);
                    None
                }
                Step::AckEnds => self.on_ack_end(link, at, received),
                Step::AnswerStarts => {
                    self.start_answer(link, at);
                    None
                }
                Step::AnswerEnds => self.on_answer_end(link, at, received),
                Step::AckMissed => self.retry(link, at),
            };
            if attempt.is_some() {
                return attempt;
            }
        }
    }

    fn contend(&mut self, link: usize, frame: Frame, now: Instant) {
        let sender = &mut self.links[link];
        assert!(sender.frame.is_none(), "link {link} has a frame that contends");
        sender.usage.frames += 1;
        sender.frame = Some(Frame { ready: now, ..frame });
        // Events up to `clock` are processed; one before it would come out of order.
        let from = now.max(sender.free).max(self.clock);
        self.back_off(link, from);
    }

    /// Waits a random number of units from `from`, then senses the channel.
    fn back_off(&mut self, link: usize, from: Instant) {
        let Link { usage, frame: Some(frame), .. } = &self.links[link] else { return };
        let exponent = (self.spec.min_be + frame.backoff).min(self.spec.max_be);
        // 16 bits of link, 40 of frame, 4 of attempt (at most 7), 4 of backoff (at most 5):
        // a unique index for each draw.
        let place = (link as u64) << 48
            | (usage.frames & 0xff_ffff_ffff) << 8
            | u64::from(frame.attempt) << 4
            | u64::from(frame.backoff);
        let units = self.draw.uniform(Purpose::Backoff, place) * f64::from(1u32 << exponent);
        let wait = units as u64 * self.spec.unit_backoff + self.spec.cca;
        // Only the last CCA can end the attempt, so the caller need not wake for the others.
        let last = frame.backoff == self.spec.max_backoffs;
        match last {
            true => self.report_at(from + wait, Step::CcaEnds, link),
            false => self.silent.push(Reverse((from + wait, Step::CcaEnds, link))),
        }
    }

    fn report_at(&mut self, at: Instant, step: Step, link: usize) {
        self.reporting.push(Reverse((at, step, link)));
    }

    fn on_cca_end(&mut self, link: usize, at: Instant) -> Option<Attempt> {
        if self.has_lost_power(link) {
            return self.finish(link, at, Ending::Off, at);
        }
        // A transmission that ended within the CCA was detected too. A station that is about to answer
        // does not send.
        let answers = !self.links[link].answers.is_empty();
        if !answers && self.air.was_idle(link, at - self.spec.cca) {
            let starts = at + self.spec.turnaround;
            self.silent.push(Reverse((starts, Step::FrameStarts, link)));
            return None;
        }
        let frame = self.links[link].frame.as_mut()?;
        frame.backoff += 1;
        if frame.backoff > self.spec.max_backoffs {
            self.links[link].usage.access_failures += 1;
            // Nothing was sent, so there is no interframe space.
            return self.finish(link, at, Ending::NoAccess, at);
        }
        self.back_off(link, at);
        None
    }

    fn start(&mut self, link: usize, at: Instant) {
        let Some(frame) = &self.links[link].frame else { return };
        if self.has_lost_power(link) {
            // Its end is reported there.
            return self.report_at(at, Step::AckMissed, link);
        }
        let ends = at + self.spec.airtime(frame.len);
        self.air.start(link, frame.to, at);
        self.links[link].usage.transmissions += 1;
        self.report_at(ends, Step::FrameEnds, link);
    }

    fn start_ack(&mut self, link: usize, at: Instant) {
        let to = self.links[link].frame.as_ref().and_then(|frame| frame.to);
        if to.is_some_and(|to| self.air.radios.was_off_since(to, at - self.spec.turnaround)) {
            let missed = at + (self.spec.ack_wait - self.spec.turnaround);
            return self.report_at(missed, Step::AckMissed, link);
        }
        self.air.start_ack(link, to, at);
        self.report_at(at + self.spec.ack_airtime(), Step::AckEnds, link);
    }

    fn start_answer(&mut self, link: usize, at: Instant) {
        let Some(len) = self.links[link].answers.pop_front() else { return };
        // One whose radio has gone off meanwhile breaks off at once.
        self.air.start_answer(link, at);
        self.report_at(at + self.spec.airtime(len), Step::AnswerEnds, link);
    }

    fn on_answer_end(
        &mut self,
        link: usize,
        at: Instant,
        received: &mut dyn FnMut(Arrival<'_>) -> bool,
    ) -> Option<Attempt> {
        let sent = self.leave(link, Kind::Answer, at)?;
        let clean = self.air.reception.as_ref().map(|_| sent.clean(self.radios()));
        let (stations, kind) = (clean.as_deref(), ArrivalKind::Answer);
        let arrival = Arrival { link, attempt: 0, at, duplicate: false, stations, kind };
        let outcome = match sent.collided_for_all() {
            _ if sent.broke_off(self.radios()) => Ending::Off,
            true => Ending::Collided,
            false if received(arrival) => Ending::Sent,
            false => Ending::Lost,
        };
        let delivered = (outcome == Ending::Sent).then_some(at);
        Some(Attempt { link, at, outcome, delivered, is_answer: true })
    }

    /// Ends the transmission of `link`, and counts it.
    fn leave(&mut self, link: usize, kind: Kind, at: Instant) -> Option<OnAir> {
        let sent = self.air.leave(link, kind, at)?;
        let usage = &mut self.links[link].usage;
        usage.airtime += at - sent.since;
        usage.collisions += u64::from(sent.collided());
        #[cfg(test)]
        self.trace.push(tests::Transmission {
            link,
            since: sent.since,
            until: at,
            collided: sent.collided(),
        });
        Some(sent)
    }

    fn on_frame_end(
        &mut self,
        link: usize,
        at: Instant,
        received: &mut dyn FnMut(Arrival<'_>) -> bool,
    ) -> Option<Attempt> {
        let sent = self.leave(link, Kind::Own, at)?;
        let to = self.links[link].frame.as_ref()?.to;
        let is_deaf = to.is_some_and(|to| self.radios().was_off_since(to, sent.since));
        let was_off = sent.broke_off(self.radios());
        let clean = self.air.reception.as_ref().map(|_| sent.clean(self.radios()));
        let frame = self.links[link].frame.as_mut()?;
        let (collided, duplicate) = (sent.collided_for_all(), frame.delivered.is_some());
        let stations = clean.as_deref();
        let (attempt, kind) = (frame.attempt, ArrivalKind::Frame);
        let arrival = Arrival { link, attempt, at, duplicate, stations, kind };
        let arrived = !collided && !is_deaf && !was_off && received(arrival);
        (frame.collided, frame.is_deaf) = (collided, is_deaf);
        if arrived && !duplicate {
            frame.delivered = Some(at);
        }
        if !frame.acknowledged {
            let outcome = match (arrived, collided) {
                (true, _) => Ending::Sent,
                (false, _) if was_off => Ending::Off,
                (false, true) => Ending::Collided,
                (false, false) if is_deaf => Ending::Off,
                (false, false) => Ending::Lost,
            };
            let free = at + self.spec.interframe(frame.len);
            return self.finish(link, at, outcome, free);
        }
        match arrived {
            true => {
                let starts = at + self.spec.turnaround;
                self.silent.push(Reverse((starts, Step::AckStarts, link)));
            }
            false => self.report_at(at + self.spec.ack_wait, Step::AckMissed, link),
        }
        None
    }

    fn on_ack_end(
        &mut self,
        link: usize,
        at: Instant,
        received: &mut dyn FnMut(Arrival<'_>) -> bool,
    ) -> Option<Attempt> {
        let sent = self.leave(link, Kind::Own, at)?;
        let (collided, broke_off) = (sent.collided(), sent.broke_off(self.radios()));
        let frame = self.links[link].frame.as_mut()?;
        let (stations, attempt) = (Some(&[link][..]), frame.attempt);
        let kind = ArrivalKind::Acknowledgement;
        let arrival = Arrival { link, attempt, at, duplicate: true, stations, kind };
        let is_lost = !collided && self.air.reception.is_some() && !received(arrival);
        if collided || is_lost || broke_off {
            frame.collided = collided;
            let took = self.spec.turnaround + self.spec.ack_airtime();
            // The wait counts from the end of the frame, which was this long ago.
            let missed = at + (self.spec.ack_wait - took);
            self.report_at(missed, Step::AckMissed, link);
            return None;
        }
        let free = at + self.spec.interframe(frame.len);
        self.finish(link, at, Ending::Sent, free)
    }

    fn retry(&mut self, link: usize, at: Instant) -> Option<Attempt> {
        if self.has_lost_power(link) {
            return self.finish(link, at, Ending::Off, at);
        }
        let frame = self.links[link].frame.as_mut()?;
        if frame.attempt == self.spec.retries {
            let outcome = match (frame.collided, frame.is_deaf) {
                (true, _) => Ending::Collided,
                (false, true) => Ending::Off,
                (false, false) => Ending::Lost,
            };
            return self.finish(link, at, outcome, at);
        }
        frame.attempt += 1;
        frame.backoff = 0;
        self.links[link].usage.retries += 1;
        self.back_off(link, at);
        None
    }

    fn finish(
        &mut self,
        link: usize,
        at: Instant,
        outcome: Ending,
        free: Instant,
    ) -> Option<Attempt> {
        let sender = &mut self.links[link];
        let delivered = sender.frame.take()?.delivered;
        sender.free = free;
        Some(Attempt { link, at, outcome, delivered, is_answer: false })
    }
}
