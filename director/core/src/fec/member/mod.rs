//! The member of `multicast-fec`.

mod complete;
mod sending;

use self::complete::{Complete, Scheduled};
use super::answer::{Answer, is_later};
use super::code::{Decoder, Refused, symbol_size, without_end};
use super::frame::{ACKNOWLEDGEMENT, Frame, Request};
use super::plan::{FecSettings, ResponseKind, Schedule};
use super::short::Added;
use super::spacing::Spacing;
use crate::keys::Keys;
use crate::message_map::MessageMap;
use crate::pace::Pace;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::replay::Signer;
use crate::rng::{Rng, Seed};
use crate::switch::MessageId;
use crate::timetable::Timetable;
use crate::window::{self, Window, widen};
use crate::{Instant, Span};

/// Maximum number of incomplete messages; the oldest is dropped, and sent again when the hub asks.
/// Beyond this number of complete messages, one whose answer the hub has is dropped.
const MAX_OPEN: usize = 32;
/// Maximum number of complete messages whose answer the hub may lack: as many as it has open.
const MAX_COMPLETE: usize = 1_024;
/// A slot of this length is that of a single receiver, which answers at once.
const AT_ONCE: Span = Span::from_us(1);
/// Value of [`Request::symbols`] that requests the whole answer.
const ALL: u8 = 255;

/// A frame to send, and whether it may share a datagram with others.
#[derive(Debug)]
struct Taken {
    bytes: Vec<u8>,
    joins: bool,
}

/// A symbol of a message of `symbols`, with `left` more of its burst behind it.
#[derive(Clone, Copy)]
struct Place {
    symbol: u16,
    left: u8,
    symbols: usize,
}

/// An incomplete message.
#[derive(Debug)]
struct Incomplete {
    decoder: Option<Decoder>,
    /// Whether its answer was requested by multicast.
    asked: bool,
    /// Time of the next `Nack` frame, unless more symbols arrive before.
    nack_at: Instant,
    tries: u32,
}

/// A member of a multicast group.
#[derive(Debug)]
pub struct FecMember {
    settings: FecSettings,
    number: u16,
    own: Signer,
    hub: Keys,
    incomplete: MessageMap<Incomplete>,
    complete: MessageMap<Box<Complete>>,
    /// The schedule of the last message that was only acknowledged.
    acknowledged: Option<Schedule>,
    /// Those of them with something to send.
    scheduled: Timetable<Scheduled>,
    window: Window,
    newest: MessageId,
    spacing: Spacing,
    /// Length of the hub's last symbol with its header, in bytes: those to follow are likely as long.
    length: usize,
    pace: Pace,
    rng: Rng,
    /// Whether the hub reads bundles.
    bundles: bool,
    /// The last report that a message is over. The hub sends copies of it, whose codes need no check.
    report: Vec<u8>,
    /// The message that the last datagram has completed, until its content is checked.
    completed: Option<MessageId>,
    /// Messages that are over since the last call of [`Self::next_over`].
    over: Vec<MessageId>,
    /// A frame that had no room in the last datagram.
    taken: Option<Taken>,
    /// A buffer for the next frame.
    spare: Vec<u8>,
}

impl FecMember {
    /// Creates member `number` of `members`. `own` and `hub` are the keys for frames from this
    /// member and from the hub; `seed` seeds the random backoff.
    pub fn new(
        settings: FecSettings,
        (number, members): (u16, u16),
        (own, hub): (Keys, Keys),
        seed: &Seed,
    ) -> Self {
        Self {
            settings: FecSettings { members, ..settings },
            number,
            own: Signer::new(own),
            hub,
            incomplete: MessageMap::default(),
            complete: MessageMap::default(),
            acknowledged: None,
            scheduled: Timetable::default(),
            window: Window::new(window::MESSAGES),
            newest: 0,
            spacing: Spacing::default(),
            length: settings.datagram,
            pace: Pace::new(settings.rate_bit_s, settings.below),
            rng: Rng::new(&seed.child(number.into())),
            bundles: false,
            report: Vec::new(),
            completed: None,
            over: Vec::new(),
            taken: None,
            spare: Vec::new(),
        }
    }

    /// Sets the number of the hub's next message, from which those of its frames are restored.
    pub fn set_next(&mut self, next: MessageId) {
        self.newest = self.newest.max(next);
    }

    /// Interval of the hub's frames, by the rate that it has told, or as those of bursts arrive: the path
    /// may have become far slower since.
    fn interval(&self) -> Span {
        self.settings.airtime(self.length).max(self.spacing.mean())
    }

    /// Updates the round-trip time with queues. The rate is that of slots, or that at which frames
    /// arrive.
    pub fn set_round_trip(&mut self, round_trip: Span) {
        self.settings.round_trip = round_trip;
    }

    /// Handles a frame from the hub; returns the message if it is complete.
    pub fn receive(&mut self, bytes: &[u8], now: Instant) -> Option<(MessageId, Vec<u8>)> {
        if self.report == bytes {
            return None;
        }
        let frame = Frame::decode(self.hub.check(bytes)?)?;
        let message = widen(frame.message(), self.newest);
        match frame {
            Frame::Down { symbol, symbols, left, data, .. } => {
                self.length = bytes.len();
                let place = Place { symbol, left, symbols: usize::from(symbols) };
                self.down(message, place, &data, now)
            }
            Frame::Request { turn, requests, unicast, .. } => {
                self.request(message, (turn, unicast), &requests, now);
                self.schedule(message);
                self.trim();
                None
            }
            Frame::Answered { first, members, .. } => {
                let place = self.number.checked_sub(first).map(usize::from);
                let byte = place.and_then(|place| members.get(place / 8));
                if place.zip(byte).is_some_and(|(place, byte)| byte & (1 << (place % 8)) != 0)
                    && self.complete.remove(message).is_some()
                {
                    self.scheduled.remove(message);
                    self.report.clear();
                    self.report.extend_from_slice(bytes);
                    self.over.push(message);
                }
                None
            }
            // These frames are for the hub.
            Frame::Up { .. } | Frame::Nack { .. } => None,
        }
    }

    /// A message whose answer the hub has, once.
    pub fn next_over(&mut self) -> Option<MessageId> {
        self.over.pop()
    }

    /// The last complete message was opened as this one. If it is another, or none, a member may have made
    /// up its symbols, which all members can: those of the hub are awaited again.
    pub fn opened(&mut self, number: Option<MessageId>) {
        if let Some(message) = self.completed.take()
            && number != Some(message)
        {
            self.complete.remove(message);
            self.scheduled.remove(message);
            self.window.remove(message);
        }
    }

    fn down(
        &mut self,
        message: MessageId,
        place: Place,
        data: &[u8],
        now: Instant,
    ) -> Option<(MessageId, Vec<u8>)> {
        let Place { symbol, left, .. } = place;
        // Also a symbol that anyone has repeated: it must not put off a report.
        let decoder = self.incomplete.get(message).and_then(|known| known.decoder.as_ref());
        if self.window.has(message) || decoder.is_some_and(|known| known.has(symbol)) {
            return None;
        }
        self.newest = self.newest.max(message);
        self.spacing.add(message, symbol, left, now);
        let drawn = self.draw();
        let mut whole = self.add(message, place, data, drawn, now)?;
        // A member may have made it up: it counts as received only as a whole.
        let schedule = Schedule::decode(&whole)?;
        self.window.insert(message);
        // Each frame says how many follow, so all members find about the same start without a
        // common clock, whichever frame completes the message.
        let slots_at = match left {
            0 => now,
            // As those of this burst arrive: its rate can be another than that of the last one.
            _ => {
                let each = self.spacing.of(message);
                now + u64::from(left) * each.unwrap_or(self.settings.airtime(self.length))
            }
        };
        let frame = ACKNOWLEDGEMENT + self.own.code_len();
        let mut complete = Complete::new(schedule, slots_at, frame);
        if schedule.response == ResponseKind::Acknowledgements {
            self.acknowledged = Some(schedule);
            complete.answer = Some(Answer::acknowledgement(self.slot(&complete, message)));
        }
        self.complete.insert(message, Box::new(complete));
        self.schedule(message);
        self.trim();
        whole.drain(..Schedule::LENGTH);
        self.completed = Some(message);
        Some((message, whole))
    }

    /// Adds a symbol of an incomplete message, which is reported without another one, after a backoff;
    /// returns the message if it is complete.
    fn add(
        &mut self,
        message: MessageId,
        Place { symbol, left, symbols }: Place,
        data: &[u8],
        drawn: f64,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let is_whole = (symbol, symbols) == (0, 1) && self.incomplete.len() < MAX_OPEN;
        if is_whole && !self.incomplete.contains(message) {
            // Most short messages.
            return without_end(data.to_vec());
        }
        let nack_at = now + u64::from(left) * self.interval() + self.backoff(0, drawn);
        let fresh = || Incomplete { decoder: None, asked: false, nack_at, tries: 0 };
        self.incomplete.get_or_insert_with(message, fresh);
        if self.incomplete.len() > MAX_OPEN {
            self.incomplete.pop_first();
        }
        let incomplete = self.incomplete.get_mut(message)?;
        // More symbols are coming: report only after the burst, if they were not enough.
        incomplete.nack_at = nack_at;
        // The hub still sends: what had no answer was lost.
        incomplete.tries = 0;
        if incomplete.decoder.is_none() {
            incomplete.decoder = Decoder::new(symbols, data.len()).ok();
        }
        let decoder = incomplete.decoder.as_mut()?;
        if !decoder.fits(symbols, data.len()) {
            return None;
        }
        let whole = decoder.add(symbol, data.to_vec())?;
        self.incomplete.remove(message);
        Some(whole)
    }

    /// Drops a complete message if there are too many.
    fn trim(&mut self) {
        if self.complete.len() > MAX_OPEN {
            // First those whose answer the hub does not need.
            let over =
                self.complete.iter().take(MAX_OPEN).find(|(_, complete)| complete.is_spare());
            let many = self.complete.len() > MAX_COMPLETE;
            let oldest = self.complete.first().filter(|_| many);
            if let Some(dropped) = over.or(oldest).map(|(message, _)| message) {
                self.complete.remove(dropped);
                self.scheduled.remove(dropped);
            }
        }
    }

    /// Answers a received message, until a time at which the hub no longer waits for it; `false` if it has
    /// no open answer.
    ///
    /// # Errors
    /// [`Refused`] if the answer is too long, or frames are too small.
    pub fn answer(
        &mut self,
        message: MessageId,
        bytes: Vec<u8>,
        until: Option<Instant>,
        now: Instant,
    ) -> Result<bool, Refused> {
        let added = Added::by_member(self.own.code_len());
        let (around, symbol) = self.settings.symbol(bytes.len(), added);
        if symbol == 0 {
            return Err(Refused::Small(self.settings.datagram));
        }
        let Some(complete) = self.complete.get(message) else { return Ok(false) };
        if complete.schedule.response != ResponseKind::Answers || complete.answer.is_some() {
            return Ok(false);
        }
        let at = self.slot(complete, message).max(now);
        let loss = f64::from(complete.schedule.loss) / 255.0;
        let seen = FecSettings { loss, ..self.settings };
        let symbol = symbol_size(bytes.len(), symbol);
        let mut answer = Answer::new(bytes, symbol)?;
        let more = u16::from(complete.schedule.more);
        let slot = Span::from_us(complete.schedule.slot_us.into());
        let frame = around + symbol;
        // Slots tell the data rate, which the hub measures, and may change with each message.
        if slot > AT_ONCE {
            let more = complete.schedule.more;
            let rate = seen.rate_of_slot(slot, answer.symbols(), more, frame);
            self.settings.rate_bit_s = rate;
            self.pace.set_rate(rate);
        }
        answer.grant(at, seen.answer_burst(answer.symbols()).saturating_add(more));
        if let Some(complete) = self.complete.get_mut(message) {
            (complete.answer, complete.frame, complete.until) = (Some(answer), frame, until);
        }
        self.schedule(message);
        Ok(true)
    }

    /// Handles a request of the hub. Members answer in the order of the request, each after the
    /// expected end of the previous ones.
    fn request(
        &mut self,
        message: MessageId,
        (turn, unicast): (u8, bool),
        requests: &[Request],
        now: Instant,
    ) {
        let Some(place) = requests.iter().position(|request| request.member == self.number) else {
            return;
        };
        // The hub asks for none of these, but a member may have made up a number far ahead: no application has
        // them for certain.
        if self.window.is_below(message) {
            return;
        }
        if !self.window.has(message) {
            // The requested message has not arrived.
            self.newest = self.newest.max(message);
            let nack = || Incomplete { decoder: None, asked: false, nack_at: now, tries: 0 };
            let incomplete = self.incomplete.get_or_insert_with(message, nack);
            incomplete.asked |= !unicast;
            incomplete.nack_at = incomplete.nack_at.min(now + Span::from_ns(1));
            return;
        }
        if let Some(schedule) = self.acknowledged.filter(|_| !self.complete.contains(message)) {
            // Its acknowledgement was lost, and the member has dropped the rest.
            let frame = ACKNOWLEDGEMENT + self.own.code_len();
            let mut complete = Complete::new(schedule, now, frame);
            complete.answer = Some(Answer::acknowledgement(Instant::NEVER));
            self.complete.insert(message, Box::new(complete));
        }
        let Some(complete) = self.complete.get_mut(message) else { return };
        // Those of the others are likely as long.
        let frame = self.settings.airtime(complete.frame);
        let loss = f64::from(complete.schedule.loss) / 255.0;
        let seen = FecSettings { loss, ..self.settings };
        let Some(answer) = &mut complete.answer else {
            // The hub sends copies of a request: one reply is enough.
            if !complete.is_over && is_later(turn, complete.asked) {
                complete.asked = Some(turn);
                complete.say_at = Some(now + frame * place as u64);
            }
            return;
        };
        let symbols = answer.symbols();
        let frames = |request: &Request| match (request.symbols, symbols) {
            (_, 0) => 1,
            (ALL, symbols) => seen.answer_burst(symbols),
            (lacking, _) => seen.repair(usize::from(lacking)),
        };
        let before: u64 = requests[..place].iter().map(|request| u64::from(frames(request))).sum();
        answer.request(turn, frames(&requests[place]), now + before * frame);
    }
}
