//! An outgoing answer: symbols for the member's slot, and symbols that the hub requests later.

use super::code::{Encoder, Refused};
use super::frame::{Frame, UP_NUMBERS, next_symbol};
use crate::Instant;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use alloc::collections::VecDeque;

/// Whether a request round is later than the last one: a repeated request, which can be an attacker's,
/// is served once. Rounds are serial numbers (RFC 1982).
pub fn is_later(turn: u8, last: Option<u8>) -> bool {
    last.is_none_or(|last| (1..128).contains(&turn.wrapping_sub(last)))
}

/// Transmissions: earliest time and number of frames, in order of time. Most answers have one, which needs no
/// memory elsewhere.
#[derive(Debug, Default)]
struct Transmissions {
    first: Option<(Instant, u16)>,
    later: VecDeque<(Instant, u16)>,
}

impl Transmissions {
    fn push(&mut self, at: Instant, frames: u16) {
        match self.first {
            None => self.first = Some((at, frames)),
            Some(_) => self.later.push_back((at, frames)),
        }
    }

    /// Takes a frame of the first; `false` if there is none.
    fn take(&mut self) -> bool {
        let Some((_, frames)) = &mut self.first else { return false };
        *frames = frames.saturating_sub(1);
        if *frames == 0 {
            self.first = self.later.pop_front();
        }
        true
    }

    /// None comes later than `at`.
    fn hasten(&mut self, at: Instant) {
        let all = self.first.iter_mut().chain(&mut self.later);
        all.for_each(|(when, _)| *when = at.min(*when));
    }

    /// Number of frames.
    fn frames(&self) -> u32 {
        self.first.iter().chain(&self.later).map(|(_, frames)| u32::from(*frames)).sum()
    }
}

/// A member's response to a message.
#[derive(Debug)]
pub struct Answer {
    /// The encoded answer; `None` for an acknowledgement.
    coded: Option<Coded>,
    /// What may be sent.
    due: Transmissions,
    /// The last request round that was served.
    turn: Option<u8>,
}

#[derive(Debug)]
struct Coded {
    encoder: Encoder,
    next: u16,
}

impl Answer {
    /// An acknowledgement of the message, to be sent from `at` on.
    pub fn acknowledgement(at: Instant) -> Self {
        let mut due = Transmissions::default();
        due.push(at, 1);
        Self { coded: None, due, turn: None }
    }

    /// An answer in symbols of `symbol` bytes; none may be sent before a [`grant`](Self::grant).
    ///
    /// # Errors
    /// [`Refused`] if it is too long.
    pub fn new(bytes: Vec<u8>, symbol: usize) -> Result<Self, Refused> {
        let encoder = Encoder::new(bytes, symbol)?;
        let coded = Some(Coded { encoder, next: 0 });
        Ok(Self { coded, due: Transmissions::default(), turn: None })
    }

    /// Permits `frames` more frames from `at` on.
    pub fn grant(&mut self, at: Instant, frames: u16) {
        if frames > 0 {
            self.due.push(at, frames);
        }
    }

    /// Number of source symbols; 0 for an acknowledgement.
    pub fn symbols(&self) -> usize {
        self.coded.as_ref().map_or(0, |coded| coded.encoder.symbols())
    }

    /// The hub requests `frames` more frames from `at` on; each round is served once.
    pub fn request(&mut self, turn: u8, frames: u16, at: Instant) {
        if !is_later(turn, self.turn) {
            return;
        }
        self.turn = Some(turn);
        // A request overrides the wait for a slot.
        self.due.hasten(at);
        // Permitted frames that are not sent yet count towards the request.
        let more = u32::from(frames).saturating_sub(self.due.frames());
        self.grant(at, u16::try_from(more).unwrap_or(u16::MAX));
    }

    /// Whether the hub has requested frames of it.
    pub fn was_requested(&self) -> bool {
        self.turn.is_some()
    }

    /// Time of the next frame, if any.
    pub fn next_at(&self) -> Option<Instant> {
        self.due.first.map(|(at, _)| at)
    }

    /// Takes the next frame, which must be due.
    pub fn take(&mut self, message: u16, member: u16) -> Option<Frame<'_>> {
        if !self.due.take() {
            return None;
        }
        Some(match &mut self.coded {
            Some(coded) => {
                let symbol = coded.next;
                let symbols = coded.encoder.symbols();
                coded.next = next_symbol(symbol, symbols, UP_NUMBERS);
                let (data, symbols) = (coded.encoder.symbol(symbol), symbols as u16);
                Frame::Up { message, member, symbol, symbols, data }
            }
            None => Frame::Nack { message, member, symbols: 0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time `ns` nanoseconds after the start.
    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn what_is_asked_for_goes_once_a_turn_and_not_beside_what_waits() {
        let mut answer = Answer::new(vec![7; 299], 100).unwrap();
        answer.grant(at(10), 4);
        assert_eq!((answer.symbols(), answer.next_at()), (3, Some(at(10))));
        let symbols: Vec<u16> = (0..3)
            .map(|_| match answer.take(1, 2) {
                Some(Frame::Up { message: 1, member: 2, symbol, symbols: 3, .. }) => symbol,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(symbols, [0, 1, 2]);
        answer.request(1, 3, at(20));
        answer.request(1, 3, at(20));
        let count = std::iter::from_fn(|| answer.take(1, 2).map(drop)).count();
        assert_eq!(count, 3, "one that waited and two more");
        assert_eq!(answer.next_at(), None);
        answer.request(2, 1, at(30));
        assert_eq!(answer.next_at(), Some(at(30)));
    }

    #[test]
    fn an_acknowledgement_is_one_frame() {
        let mut answer = Answer::acknowledgement(at(5));
        assert_eq!(answer.take(1, 2), Some(Frame::Nack { message: 1, member: 2, symbols: 0 }));
        assert_eq!(answer.take(1, 2), None);
        assert_eq!(answer.symbols(), 0);
    }
}
