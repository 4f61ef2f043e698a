//! A message on its way to a group, and what is awaited of each member.

use super::code::{Decoder, Encoder};
use super::frame::{DOWN_NUMBERS, Frame, Want, after};
use super::plan::{FecSettings, Wanted, rank};
use crate::Nanos;
use crate::switch::MessageId;
use std::collections::BTreeMap;

/// A member from whom something is awaited.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    pub answer: Option<Decoder>,
    /// The greatest number of a symbol that came.
    pub greatest: u16,
    /// When its answer should be there, and is asked for if it is not.
    pub due: Nanos,
    /// How often it was asked and nothing came.
    pub vain: u32,
    /// Whether anything of it has come at all.
    pub heard: bool,
    /// How often it has said to lack symbols, when it could know of all that went.
    pub lacked: u32,
    /// Whether symbols went to it alone.
    pub served: bool,
    /// Whether it has said that it hears nothing by multicast.
    pub unreached: bool,
    /// Symbols of the message that still go to it alone: multicast does not reach it.
    pub alone: u16,
}

/// A message on its way.
#[derive(Debug)]
pub(super) struct Sending {
    pub encoder: Encoder,
    pub wanted: Wanted,
    pub slot: Nanos,
    /// Symbols of answers beyond what loss asks for.
    pub more_unasked: u8,
    pub next: u16,
    /// Symbols of this burst that are still to go.
    pub left: u16,
    /// Symbols that members have said to lack since the burst began.
    pub more: u16,
    /// Symbols of the last burst, and when it is over where the sender is.
    pub burst: u16,
    pub over_at: Nanos,
    /// Whether more went than the first burst.
    pub repaired: bool,
    /// The one to whom it goes, if it is one.
    pub only: Option<u16>,
    /// Who is awaited.
    pub awaited: BTreeMap<u16, Awaited>,
    /// Whether somebody has the message by multicast.
    pub reached: bool,
    /// Whose slots are in whose place of the order, set when the first burst is over.
    pub slots_at: Option<Nanos>,
    pub turn: u8,
    pub ask_at: Nanos,
    pub until: Option<Nanos>,
}

/// What all messages of a group have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub settings: FecSettings,
    /// Bytes of a frame's code.
    pub code: usize,
}

/// Copies of what is asked: it is short, and what is not heard costs a turn.
pub(super) const COPIES: usize = 2;

impl Shape {
    /// How long frames of others may hold one up: so many of them at most.
    fn queue(&self, most: u16) -> Nanos {
        let frames = self.settings.members.saturating_add(1).min(most);
        self.settings.airtime(self.settings.datagram) * Nanos::from(frames)
    }
}

impl Sending {
    /// Whether nothing has come of anybody to whom it did not go alone.
    pub fn reaches_nobody(&self) -> bool {
        !self.reached && self.awaited.values().all(|awaited| !awaited.heard || awaited.served)
    }

    /// The share of the channel that slots leave at `now`.
    fn spare(&self, now: Nanos, shape: &Shape) -> f64 {
        let slots = self.slot * Nanos::from(shape.settings.members);
        if self.slots_at.is_none_or(|at| now > at + slots) || self.slot == 0 {
            return 1.0;
        }
        (1.0 - self.answer_takes(shape) as f64 / self.slot as f64).clamp(0.05, 1.0)
    }

    /// How long what somebody sends unasked is on the air.
    fn answer_takes(&self, Shape { settings, code, .. }: &Shape) -> Nanos {
        match self.wanted {
            Wanted::Answers => {
                let burst = settings.answer_burst(settings.answer_symbols(*code));
                Nanos::from(burst + u16::from(self.more_unasked)) * settings.answer_frame(*code)
            }
            Wanted::Acknowledgements => settings.acknowledgement(*code),
        }
    }

    /// The next symbol, of a burst or for one member alone, after which `left` follow.
    fn take(&mut self, message: MessageId, left: u16) -> Frame {
        let symbol = self.next;
        let symbols = self.encoder.symbols();
        self.next = after(symbol, symbols, DOWN_NUMBERS);
        let left = u8::try_from(left).unwrap_or(u8::MAX);
        let data = self.encoder.symbol(symbol);
        Frame::Down { message: message as u16, symbol, symbols: symbols as u16, left, data }
    }

    /// The next symbol for all, if some are to go.
    pub fn symbol(&mut self, message: MessageId, shape: &Shape, now: Nanos) -> Option<Frame> {
        if self.left == 0 && self.more > 0 {
            self.burst = std::mem::take(&mut self.more);
            self.left = self.burst;
            self.repaired = true;
        }
        self.left = self.left.checked_sub(1)?;
        let frame = self.take(message, self.left);
        if self.left == 0 {
            self.over_at = now + shape.settings.airtime(frame.encode().len() + shape.code);
            self.end_burst(message, shape);
        }
        Some(frame)
    }

    /// With the end of the first burst the slots begin.
    fn end_burst(&mut self, message: MessageId, shape: &Shape) {
        if self.slots_at.is_some() {
            return;
        }
        // Where there are no slots, who is to answer is asked at once.
        let grace = if self.slot > 0 { shape.settings.round_trip + shape.queue(8) } else { 0 };
        let over = self.over_at;
        self.slots_at = Some(over);
        self.ask_at = over + grace;
        let own = self.slot.max(if self.only.is_some() { self.answer_takes(shape) } else { 0 });
        for (member, awaited) in &mut self.awaited {
            let place = Nanos::from(rank(*member, shape.settings.members, message));
            awaited.due = over + place * self.slot + own + grace;
        }
    }

    /// The next symbol for somebody whom multicast does not reach, and who that is.
    pub fn alone(&mut self, message: MessageId) -> Option<(u16, Frame)> {
        let (member, awaited) = self.awaited.iter_mut().find(|(_, awaited)| awaited.alone > 0)?;
        awaited.alone -= 1;
        awaited.served = true;
        let (member, left) = (*member, awaited.alone);
        Some((member, self.take(message, left)))
    }

    /// Asks for what should be there, if anything is late.
    pub fn ask(&mut self, shape: &Shape, now: Nanos) -> Vec<Want> {
        if self.slots_at.is_none() || self.left > 0 || self.ask_at > now {
            return Vec::new();
        }
        let Shape { settings, code, .. } = shape;
        let late = self.awaited.iter().filter(|(_, awaited)| awaited.due <= now);
        let mut late: Vec<(u32, u16)> =
            late.map(|(member, awaited)| (awaited.vain, *member)).collect();
        // Those first who were last heard of.
        late.sort_unstable();
        late.truncate((settings.datagram.saturating_sub(4 + code) / 3).max(1));
        if late.is_empty() {
            return Vec::new();
        }
        self.turn = self.turn.wrapping_add(1);
        let frame = settings.answer_frame(*code);
        // While others have their slots, what is asked for takes what they leave; all of it where
        // nobody has been heard, and nothing is in the slots.
        let spare = if self.reaches_nobody() { 1.0 } else { self.spare(now, shape) };
        let answer = settings.answer_symbols(*code);
        let mut asked = 0.0;
        let mut wants = Vec::new();
        for (_, member) in &late {
            let Some(awaited) = self.awaited.get_mut(member) else { continue };
            // What was asked in vain was too little, or not heard.
            let symbols = match &awaited.answer {
                Some(decoder) => (decoder.lacks() + awaited.vain as usize / 2).min(254) as u8,
                None => u8::MAX,
            };
            let frames = match (self.wanted, symbols) {
                (Wanted::Acknowledgements, _) => 1,
                (Wanted::Answers, u8::MAX) => settings.answer_burst(answer),
                (Wanted::Answers, lacking) => settings.repair(usize::from(lacking)),
            };
            asked += f64::from(frames) * frame as f64 / spare;
            awaited.vain += 1;
            wants.push(Want { member: *member, symbols });
        }
        let copies = shape.queue(4) + frame * COPIES as Nanos;
        let answered = now + settings.round_trip * 5 / 4 + copies + asked as Nanos;
        for (vain, member) in late {
            if let Some(awaited) = self.awaited.get_mut(&member) {
                // Who is asked in vain again and again is asked less often.
                awaited.due = answered + settings.round_trip * Nanos::from(vain.min(20));
            }
        }
        // Some at a time, so that what asks takes little of the channel.
        let some = if spare < 1.0 { 4 * self.slot } else { 0 };
        self.ask_at = now + (asked as Nanos).max(settings.round_trip).max(some);
        wants
    }
}
