//! An outgoing message and the state of its receivers.

use super::arrivals::Arrivals;
use super::awaited::Awaited;
use super::code::Encoder;
use super::frame::{DOWN_NUMBERS, Frame, HEADER, Request, next_symbol};
use super::hub::Way;
use super::passage::Passage;
use super::plan::{FecSettings, HANDLING, ResponseKind, Schedule, slot_index};
use super::short::Added;
use crate::pace::TICK;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::silence;
use crate::switch::MessageId;
use crate::{Instant, Span};
use alloc::collections::BTreeMap;

/// An outgoing message.
#[derive(Debug)]
pub(super) struct Sending {
    pub encoder: Encoder,
    pub response: ResponseKind,
    pub slot: Span,
    /// Extra symbols of unrequested answers.
    pub extra_symbols: u8,
    pub next: u16,
    /// Remaining symbols of this burst.
    pub left: u16,
    /// Symbols reported missing since the burst began.
    pub more: u16,
    /// Size of the last burst, and the time of its end at the sender.
    pub burst: u16,
    pub over_at: Instant,
    /// When the last symbol of the first burst was sent.
    pub sent_at: Instant,
    /// Whether symbols were sent after the first burst.
    pub repaired: bool,
    /// Members that have not responded completely.
    pub awaited: BTreeMap<u16, Awaited>,
    /// Members that have.
    pub responded: Vec<u16>,
    /// Whether a member has the message by multicast.
    pub reached: bool,
    /// Start of the first slot; set at the end of the first burst.
    pub slots_at: Option<Instant>,
    /// How it passes the path; `None` before its first symbol.
    pub passage: Option<Passage>,
    pub turn: u8,
    pub ask_at: Instant,
    pub until: Option<Instant>,
    /// Arrivals of answers.
    pub arrivals: Arrivals,
}

/// Parameters common to all messages of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub settings: FecSettings,
    /// Length of the authentication code of the hub's frames, in bytes.
    pub code: usize,
    /// What members' frames have with count and code.
    pub added: Added,
    /// Number of awaited answers of all messages.
    pub awaited: usize,
    /// Number of answers under way to messages that went to single members of a group.
    pub singly: u64,
    /// When the last frame has arrived.
    pub heard_at: Instant,
    /// The time that each of the last answers took at least.
    pub delay: Span,
}

/// Requests for a whole answer; as long as no member responds, further ones are for one symbol.
const WHOLE: u32 = 2;
/// Number of members that are asked at a time as long as none responds, also by unicast: if the path has become far slower,
/// answers of all to each request would be a queue that outlasts the message.
pub(super) const PROBED: usize = 6;
/// Copies of a request: it is short, and a lost one costs a round.
pub(super) const COPIES: usize = 2;

impl Shape {
    /// Maximum queueing delay by frames of others: one of each end, as long as this message's frames of
    /// `own` bytes or an answer's; in larger groups `most` datagrams, since messages and answers overlap.
    fn queue(&self, most: u16, own: usize) -> Span {
        let Self { settings, added, .. } = self;
        if settings.members < most {
            let each = settings.airtime(own).max(settings.answer_frame(*added));
            return each * u64::from(settings.members + 1);
        }
        settings.airtime(settings.datagram) * u64::from(most)
    }

    /// Time in which the hub handles the answers to other messages than one, of which `own` answers
    /// are awaited.
    fn others(&self, own: usize) -> Span {
        let others = self.awaited.saturating_sub(own) as u64;
        let symbols = self.settings.answer_symbols(self.added) as u64;
        HANDLING * others * symbols
    }
}

impl Sending {
    /// A message to `awaited` members, with a first burst of `left` symbols.
    pub fn new(
        encoder: Encoder,
        schedule: Schedule,
        left: u16,
        awaited: BTreeMap<u16, Awaited>,
        until: Option<Instant>,
    ) -> Self {
        Self {
            encoder,
            response: schedule.response,
            slot: Span::from_us(schedule.slot_us.into()),
            extra_symbols: schedule.more,
            next: 0,
            left,
            more: 0,
            burst: left,
            over_at: Instant::START,
            sent_at: Instant::START,
            repaired: false,
            awaited,
            responded: Vec::new(),
            reached: false,
            slots_at: None,
            passage: None,
            turn: 0,
            ask_at: Instant::START,
            until,
            arrivals: Arrivals::default(),
        }
    }

    /// What a member lacks of it, in a message to that one alone, with `burst` symbols if it has none.
    pub fn part(&self, member: u16, awaited: Awaited, burst: u16) -> Self {
        let begun = awaited.responded;
        Self {
            encoder: self.encoder.clone(),
            left: if begun { 0 } else { burst },
            burst,
            repaired: true,
            awaited: BTreeMap::from([(member, awaited)]),
            responded: Vec::new(),
            slots_at: self.slots_at.filter(|_| begun),
            arrivals: Arrivals::default(),
            passage: None,
            ..*self
        }
    }

    /// Whether no member has responded without unicast.
    pub fn no_response(&self) -> bool {
        !self.reached
            && self.awaited.values().all(|awaited| !awaited.responded || awaited.got_unicast)
    }

    /// Maximum size of its frames without their codes, in bytes.
    fn frame(&self) -> usize {
        HEADER + self.encoder.symbol_size()
    }

    /// Whether its first burst has not begun.
    pub fn is_unbegun(&self) -> bool {
        self.next == 0 && (self.left > 0 || self.more > 0)
    }

    /// Time from the first symbol until all responses.
    pub fn needs(&self, shape: &Shape) -> Span {
        let burst = shape.settings.airtime(shape.settings.datagram) * u64::from(self.left);
        let slots = self.slot * u64::from(shape.settings.members);
        // Twice the round trip, because requests and repairs may follow.
        burst + slots + 2 * shape.settings.round_trip
    }

    /// Share of the channel that the slots leave at `now`.
    fn spare(&self, now: Instant, shape: &Shape) -> f64 {
        let slots = self.slot * u64::from(shape.settings.members);
        if self.slots_at.is_none_or(|at| now > at + slots) || self.slot == Span::ZERO {
            return 1.0;
        }
        (1.0 - self.answer_takes(shape).as_ns_f64() / self.slot.as_ns_f64()).clamp(0.05, 1.0)
    }

    /// Airtime of a member's unrequested response.
    fn answer_takes(&self, Shape { settings, added, .. }: &Shape) -> Span {
        match self.response {
            ResponseKind::Answers => {
                let frames = settings.answer_frames(self.extra_symbols, *added);
                u64::from(frames) * settings.answer_frame(*added)
            }
            ResponseKind::Acknowledgements => settings.acknowledgement(*added),
        }
    }

    /// Takes the next symbol, of a burst or for unicast; `left` more follow.
    fn take(&mut self, message: MessageId, left: u16) -> Frame<'static> {
        let symbol = self.next;
        let symbols = self.encoder.symbols();
        self.next = next_symbol(symbol, symbols, DOWN_NUMBERS);
        let left = u8::try_from(left).unwrap_or(u8::MAX);
        let data = self.encoder.symbol(symbol).into_owned().into();
        Frame::Down { message: message as u16, symbol, symbols: symbols as u16, left, data }
    }

    /// The next symbol for all members, if any.
    pub fn symbol(&mut self, way: Way, shape: &Shape, now: Instant) -> Option<Frame<'static>> {
        if self.left == 0 && self.more > 0 {
            // One burst for all reports so far: any symbols serve each member.
            self.burst = core::mem::take(&mut self.more);
            self.left = self.burst;
            self.repaired = true;
        }
        self.left = self.left.checked_sub(1)?;
        let frame = self.take(way.message, self.left);
        if self.left == 0 {
            self.over_at = now + shape.settings.airtime(frame.encode().len() + shape.code);
            self.end_burst(way, shape, now);
        }
        Some(frame)
    }

    /// The slots begin at the end of the first burst.
    fn end_burst(&mut self, way: Way, shape: &Shape, now: Instant) {
        if self.slots_at.is_some() {
            return;
        }
        self.sent_at = now;
        // Without slots, answers are requested at once.
        // A path that is slower than known, and the hub's own work for other messages, must not
        // make answers count as late: requests for what is under way fill the channel.
        let grace = if self.slot > Span::ZERO {
            shape.settings.round_trip.max(TICK)
                + shape.queue(if way.only.is_some() { 2 } else { 8 }, self.frame())
                + shape.settings.patience
                + shape.others(self.awaited.len())
        } else {
            Span::ZERO
        };
        let over = self.over_at;
        self.slots_at = Some(over);
        self.ask_at = over + grace;
        if self.slot > Span::ZERO && self.response == ResponseKind::Answers {
            let each = shape.settings.answer_frames(self.extra_symbols, shape.added);
            self.arrivals.asked = f64::from(each) * self.awaited.len() as f64;
        }
        // The slot of a single receiver is only a sign to answer at once (`AT_ONCE`).
        let own =
            self.slot.max(if way.only.is_some() { self.answer_takes(shape) } else { Span::ZERO });
        // Others answer at the same time.
        let grace = grace + shape.singly * self.answer_takes(shape);
        for (member, awaited) in &mut self.awaited {
            let place = u64::from(slot_index(*member, shape.settings.members, way.message));
            let slot_at = over + place * self.slot;
            awaited.due = slot_at + own + grace;
            (awaited.first_at, awaited.asked_at) = (Some(slot_at), slot_at);
        }
    }

    /// A member begins to answer. Returns the time since it was asked, or had the message.
    pub fn begins(&mut self, member: u16, now: Instant) -> Option<Span> {
        // Requests had no response until now: the path is slower than known, also for the others.
        if let Some(at) = self.slots_at.filter(|_| self.turn > 0 && self.no_response()) {
            let until = now + (now - at);
            self.awaited.values_mut().for_each(|awaited| awaited.due = awaited.due.max(until));
        }
        let asked_at = self.awaited.get(&member)?.first_at?;
        let repaired_at = if self.repaired { self.over_at.min(now) } else { asked_at };
        Some(now - asked_at.max(repaired_at))
    }

    /// The next unicast symbol for a member that multicast does not reach, and that member.
    pub fn unicast(&mut self, message: MessageId) -> Option<(u16, Frame<'static>)> {
        let (member, awaited) = self.awaited.iter_mut().find(|(_, awaited)| awaited.unicast > 0)?;
        awaited.unicast -= 1;
        awaited.got_unicast = true;
        let (member, left) = (*member, awaited.unicast);
        Some((member, self.take(message, left)))
    }

    /// Requests late answers, if any.
    pub fn ask(&mut self, only: Option<u16>, shape: &Shape, now: Instant) -> Vec<Request> {
        if self.slots_at.is_none() || self.left > 0 || self.ask_at > now {
            return Vec::new();
        }
        let Shape { settings, added, .. } = shape;
        let slot = self.slot / u64::try_from(settings.answer_symbols(*added)).unwrap_or(1).max(1);
        let expected = settings.answer_frame(*added).max(slot);
        if let Some(until) = self.arrivals.wait_until(expected, settings.loss)
            && until > now
        {
            self.ask_at = until;
            return Vec::new();
        }
        // Answers that take as long as each of the last ones did are not late.
        for awaited in self.awaited.values_mut() {
            awaited.due = awaited.due.max(awaited.asked_at + shape.delay);
        }
        let is_silent = self.no_response();
        let late = self.awaited.iter().filter(|(_, awaited)| awaited.due <= now);
        let mut late: Vec<(u32, u16)> =
            late.map(|(member, awaited)| (awaited.unanswered, *member)).collect();
        // Recently active members first.
        late.sort_unstable();
        // A frame has four bytes before the requests, which have three bytes each.
        let room = (settings.datagram.saturating_sub(4 + shape.code) / 3).max(1);
        late.truncate(if is_silent { room.min(PROBED) } else { room });
        if late.is_empty() {
            return Vec::new();
        }
        self.turn = self.turn.wrapping_add(1);
        let frame = settings.answer_frame(*added);
        // Requested answers use the channel time that the slots leave; all of it if no member
        // responds, because the slots are then unused.
        let spare = if is_silent { 1.0 } else { self.spare(now, shape) };
        let answer = settings.answer_symbols(*added);
        let mut asked = 0.0;
        let mut requests = Vec::new();
        for (_, member) in &late {
            let Some(awaited) = self.awaited.get_mut(member) else { continue };
            let symbols = match awaited.requested(settings, answer) {
                // The path may have become far slower: a whole answer to each request would be a queue
                // that outlasts the message.
                u8::MAX if is_silent && awaited.unanswered >= WHOLE => 1,
                symbols => symbols,
            };
            let frames = match (self.response, symbols) {
                (ResponseKind::Acknowledgements, _) => 1,
                (ResponseKind::Answers, u8::MAX) => settings.answer_burst(answer),
                (ResponseKind::Answers, lacking) => settings.repair(usize::from(lacking)),
            };
            self.arrivals.asked += f64::from(frames);
            asked += f64::from(frames) * frame.as_ns_f64() / spare;
            awaited.unanswered += 1;
            awaited.asked_at = now;
            awaited.first_at.get_or_insert(now);
            requests.push(Request { member: *member, symbols });
        }
        let singly = shape.singly * self.answer_takes(shape);
        let most = if only.is_some() { 2 } else { 4 };
        let queue = shape.queue(most, self.frame()) + shape.others(self.awaited.len()) + singly;
        let copies = queue + frame * COPIES as u64;
        // Not before a timer's tick: the ends can be late by that.
        let answered = now
            + (settings.round_trip * 5 / 4).max(TICK)
            + settings.patience
            + copies
            + Span::from_ns_f64(asked);
        // Another member's answer shows that the path works: it is the member's loss.
        let others = only.is_some() && shape.settings.members > 1 && shape.heard_at > self.over_at;
        let silent = is_silent && !others;
        for (unanswered, member) in late {
            if let Some(awaited) = self.awaited.get_mut(&member) {
                // Back off for members that do not respond.
                let backoff = settings.round_trip * u64::from(unanswered.min(20));
                // If others have responded, it is the member's loss.
                let silent = if silent { awaited.unanswered } else { 0 };
                awaited.due = answered + backoff.max(silence::least_timeout(silent));
            }
        }
        // Request from some members at a time, to limit the channel time of requests.
        let some = if spare < 1.0 { 4 * self.slot } else { Span::ZERO };
        self.ask_at = now + Span::from_ns_f64(asked).max(settings.round_trip).max(some).max(TICK);
        requests
    }
}
