//! The member of `multicast-fec`.

use super::answer::Answer;
use super::code::{Decoder, Refused, even};
use super::frame::{Frame, NO_SYMBOL, NOTHING, Want, widen};
use super::plan::{FecSettings, Schedule, Wanted, rank};
use crate::Nanos;
use crate::chance::Chance;
use crate::keys::Keys;
use crate::pace::Pace;
use crate::switch::MessageId;
use crate::window::Window;
use std::collections::BTreeMap;

/// Maximum number of messages with state; the oldest is dropped.
const MOST_OPEN: usize = 32;
/// Number of unanswered `Lack` reports after which a message is dropped.
const MOST_TRIES: u32 = 12;
/// Value of [`Want::symbols`] that requests the whole answer.
const ALL: u8 = 255;

/// An incomplete message.
#[derive(Debug)]
struct Hearing {
    decoder: Option<Decoder>,
    /// Whether its answer was requested by multicast.
    asked: bool,
    /// Time of the next `Lack` report, unless more symbols arrive before.
    lack_at: Nanos,
    tries: u32,
}

/// A complete message and its answer.
#[derive(Debug)]
struct Heard {
    schedule: Schedule,
    /// Start of the first member's slot.
    slots_at: Nanos,
    answer: Option<Answer>,
}

/// A member of a multicast group.
#[derive(Debug)]
pub struct FecMember {
    settings: FecSettings,
    number: u16,
    own: Keys,
    hub: Keys,
    hearing: BTreeMap<MessageId, Hearing>,
    heard: BTreeMap<MessageId, Heard>,
    had: Window,
    newest: MessageId,
    pace: Pace,
    chance: Chance,
}

impl FecMember {
    /// Creates member `number` of `members`. `own` and `hub` are the keys for frames from this
    /// member and from the hub; `seed` seeds the random backoff.
    pub fn new(
        settings: FecSettings,
        (number, members): (u16, u16),
        (own, hub): (Keys, Keys),
        seed: u64,
    ) -> Self {
        Self {
            settings: FecSettings { members, ..settings },
            number,
            own,
            hub,
            hearing: BTreeMap::new(),
            heard: BTreeMap::new(),
            had: Window::new(1 << 14),
            newest: 0,
            pace: Pace::new(settings.rate_bit_s, settings.below),
            chance: Chance::new(seed ^ (u64::from(number) << 32)),
        }
    }

    fn frame_time(&self) -> Nanos {
        self.settings.airtime(self.settings.datagram)
    }

    /// Handles a frame from the hub; returns the message if it is complete.
    pub fn receive(&mut self, bytes: &[u8], now: Nanos) -> Option<(MessageId, Vec<u8>)> {
        let frame = Frame::decode(self.hub.check(bytes)?)?;
        let message = widen(frame.message(), self.newest);
        match frame {
            Frame::Down { symbol, symbols, left, data, .. } => {
                self.down(message, symbol, usize::from(symbols), left, &data, now)
            }
            Frame::Want { turn, wants, alone, .. } => {
                self.want(message, (turn, alone), &wants, now);
                None
            }
            Frame::Had { first, members, .. } => {
                let place = self.number.checked_sub(first).map(usize::from);
                let byte = place.and_then(|place| members.get(place / 8));
                if place.zip(byte).is_some_and(|(place, byte)| byte & (1 << (place % 8)) != 0)
                    && let Some(heard) = self.heard.get_mut(&message)
                {
                    heard.answer = None;
                }
                None
            }
            // These frames are for the hub.
            Frame::Up { .. } | Frame::Lack { .. } => None,
        }
    }

    fn down(
        &mut self,
        message: MessageId,
        symbol: u16,
        symbols: usize,
        left: u8,
        data: &[u8],
        now: Nanos,
    ) -> Option<(MessageId, Vec<u8>)> {
        if self.had.has(message) {
            return None;
        }
        self.newest = self.newest.max(message);
        let burst_ends = now + Nanos::from(left) * self.frame_time();
        let lack_at = burst_ends + self.backoff(0);
        let fresh = Hearing { decoder: None, asked: false, lack_at, tries: 0 };
        self.hearing.entry(message).or_insert(fresh);
        if self.hearing.len() > MOST_OPEN {
            self.hearing.pop_first();
        }
        let hearing = self.hearing.get_mut(&message)?;
        // More symbols are coming: report only after the burst, if they were not enough.
        hearing.lack_at = lack_at;
        hearing.tries = 0;
        if hearing.decoder.is_none() {
            hearing.decoder = Decoder::new(symbols, data.len()).ok();
        }
        let decoder = hearing.decoder.as_mut()?;
        if !decoder.fits(symbols, data.len()) {
            return None;
        }
        let whole = decoder.add(symbol, data)?;
        self.hearing.remove(&message);
        self.had.insert(message);
        let (schedule, rest) = Schedule::decode(&whole)?;
        let slots_at = burst_ends.max(now);
        let mut heard = Heard { schedule, slots_at, answer: None };
        if schedule.wanted == Wanted::Acknowledgements {
            heard.answer = Some(Answer::acknowledgement(self.slot(&heard, message)));
        }
        self.heard.insert(message, heard);
        if self.heard.len() > MOST_OPEN {
            self.heard.pop_first();
        }
        Some((message, rest.to_vec()))
    }

    /// Start of this member's slot for a message; `MAX` without slots, to wait for a request.
    fn slot(&self, heard: &Heard, message: MessageId) -> Nanos {
        if heard.schedule.slot_us == 0 {
            return Nanos::MAX;
        }
        let rank = Nanos::from(rank(self.number, self.settings.members, message));
        heard.slots_at + rank * Nanos::from(heard.schedule.slot_us) * 1_000
    }

    /// Random backoff before a `Lack` report, doubled with each try. The distribution (truncated
    /// exponential, RFC 5401, 3.2.2) lets few members of a large group report early, and the
    /// repair suppresses the other reports. A single member reports at once.
    fn backoff(&mut self, tries: u32) -> Nanos {
        if self.settings.members <= 1 {
            return (2 * self.frame_time()) << tries.min(6);
        }
        let most = self.settings.round_trip.max(8 * self.frame_time()) as f64;
        let lambda = f64::from(self.settings.members.max(1)).ln() + 1.0;
        let spread = lambda.exp() - 1.0;
        let wait = most / lambda * (self.chance.share() * spread + 1.0).ln();
        (2 * self.frame_time() + wait as Nanos) << tries.min(6)
    }

    /// Answers a received message; `false` if it has no open answer.
    ///
    /// # Errors
    /// [`Refused`] if the answer is too long, or frames are too small.
    pub fn answer(
        &mut self,
        message: MessageId,
        bytes: &[u8],
        now: Nanos,
    ) -> Result<bool, Refused> {
        let (_, symbol) = self.settings.symbol(bytes.len(), self.own.code_len());
        if symbol == 0 {
            return Err(Refused::Small(self.settings.datagram));
        }
        let Some(heard) = self.heard.get(&message) else { return Ok(false) };
        if heard.schedule.wanted != Wanted::Answers || heard.answer.is_some() {
            return Ok(false);
        }
        let at = self.slot(heard, message).max(now);
        let loss = f64::from(heard.schedule.loss) / 255.0;
        let seen = FecSettings { loss, ..self.settings };
        let mut answer = Answer::new(bytes, even(bytes.len(), symbol))?;
        let more = u16::from(heard.schedule.more);
        answer.grant(at, seen.answer_burst(answer.symbols()).saturating_add(more));
        if let Some(heard) = self.heard.get_mut(&message) {
            heard.answer = Some(answer);
        }
        Ok(true)
    }

    /// Handles a request of the hub. Members answer in the order of the request, each after the
    /// expected end of the previous ones.
    fn want(&mut self, message: MessageId, (turn, alone): (u8, bool), wants: &[Want], now: Nanos) {
        let Some(place) = wants.iter().position(|want| want.member == self.number) else { return };
        if !self.had.has(message) {
            // The requested message has not arrived.
            self.newest = self.newest.max(message);
            let lack = Hearing { decoder: None, asked: false, lack_at: now, tries: 0 };
            let hearing = self.hearing.entry(message).or_insert(lack);
            hearing.asked |= !alone;
            hearing.lack_at = hearing.lack_at.min(now + 1);
            return;
        }
        let frame = self.frame_time();
        let Some(heard) = self.heard.get_mut(&message) else { return };
        let loss = f64::from(heard.schedule.loss) / 255.0;
        let seen = FecSettings { loss, ..self.settings };
        let Some(answer) = &mut heard.answer else { return };
        let symbols = answer.symbols();
        let frames = |want: &Want| match (want.symbols, symbols) {
            (_, 0) => 1,
            (ALL, symbols) => seen.answer_burst(symbols),
            (lacking, _) => seen.repair(usize::from(lacking)),
        };
        let before: Nanos = wants[..place].iter().map(|want| Nanos::from(frames(want))).sum();
        answer.want(turn, frames(&wants[place]), now + before * frame);
    }

    /// The next datagram to the hub at `now`, and the time of the next poll.
    pub fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        let Some((at, message, lacks)) = self.next() else { return (None, None) };
        let at = at.max(self.pace.next_at());
        if at > now {
            return (None, Some(at));
        }
        let low = message as u16;
        let frame = if lacks {
            self.lack(message, now)
        } else {
            let answer = self.heard.get_mut(&message).and_then(|heard| heard.answer.as_mut());
            answer.and_then(|answer| answer.take(low, self.number))
        };
        let Some(frame) = frame else { return (None, Some(now)) };
        let mut bytes = frame.encode();
        self.own.sign(&mut bytes);
        self.pace.sent(bytes.len(), now);
        (Some(bytes), Some(self.pace.next_at()))
    }

    /// The next transmission: time, message, and whether it is a `Lack` report.
    fn next(&self) -> Option<(Nanos, MessageId, bool)> {
        let lacks = self.hearing.iter().map(|(id, hearing)| (hearing.lack_at, *id, true));
        let answers = self.heard.iter().filter_map(|(id, heard)| {
            let at = heard.answer.as_ref()?.next_at()?;
            (at != Nanos::MAX).then_some((at, *id, false))
        });
        lacks.chain(answers).min()
    }

    fn lack(&mut self, message: MessageId, now: Nanos) -> Option<Frame> {
        let tries = self.hearing.get(&message)?.tries + 1;
        if tries > MOST_TRIES {
            // The sender is gone.
            self.hearing.remove(&message);
            return None;
        }
        let wait = self.settings.round_trip + self.backoff(tries);
        let hearing = self.hearing.get_mut(&message)?;
        hearing.tries = tries;
        hearing.lack_at = now + wait;
        let some = |decoder: &Decoder| decoder.lacks().min(usize::from(NO_SYMBOL) - 1) as u8;
        let none = if hearing.asked { NO_SYMBOL } else { NOTHING };
        let symbols = hearing.decoder.as_ref().map_or(none, some);
        Some(Frame::Lack { message: message as u16, member: self.number, symbols })
    }
}
