//! Transmission plan: burst sizes, slots and pacing.

use super::code::{symbol_size, symbols};
use super::frame::{ACKNOWLEDGEMENT, HEADER, MAX_SHORT_SYMBOLS, SHORT, UP_MEMBERS};
use super::short::Added;
use crate::Span;
use crate::bound::{frames_for_all, frames_while};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;

/// Parameters of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FecSettings {
    /// Maximum datagram size, in bytes.
    pub datagram: usize,
    /// Header bytes on the air below a datagram.
    pub below: usize,
    /// Data rate of the shared channel, in bit/s.
    pub rate_bit_s: f64,
    /// Assumed frame loss of a receiver, 0 to 1.
    pub loss: f64,
    /// Round-trip time without queueing.
    pub round_trip: Span,
    /// The shortest known one; zero if none is known.
    pub least_trip: Span,
    /// Size of an answer in bytes, assumed or measured.
    pub answer: usize,
    /// Group size, set by the hub and member constructors; large groups need longer headers.
    pub members: u16,
    /// Share of the channel that is free, 0 to 1, for extra frames that may save a wait; 0 if
    /// bytes are limited.
    pub spare: f64,
    /// Additional time until an answer counts as late: the path may be far slower than
    /// assumed.
    pub patience: Span,
}

impl Default for FecSettings {
    fn default() -> Self {
        Self {
            datagram: 1_200,
            below: 42,
            rate_bit_s: 10e6,
            loss: 0.02,
            round_trip: Span::from_ms(50),
            least_trip: Span::ZERO,
            answer: 100,
            members: 1,
            spare: 0.0,
            patience: Span::ZERO,
        }
    }
}

/// Time in which an end handles a frame: on a faster channel, shorter slots and answers that
/// are due earlier would only cause requests for what is under way (docs/results/adaptive.md,
/// speed).
pub(super) const HANDLING: Span = Span::from_us(10);
/// Higher loss is not compensated in advance.
const MAX_LOSS: f64 = 0.9;
/// Slots are longer than an answer's mean duration by the loss, at most by this share: repairs
/// and requests need room, the more the higher the loss.
const ROOM: f64 = 0.03;
/// Maximum number of extra symbols that a schedule can carry, in seven bits.
const MAX_MORE: u8 = 127;
/// An unrequested answer has fewer symbols than the mean need, by this many standard deviations:
/// missing symbols are requested exactly, surplus symbols are wasted (decision 33).
const LESS: f64 = 0.8;

impl FecSettings {
    fn loss(&self) -> f64 {
        self.loss.clamp(0.0, MAX_LOSS)
    }

    /// Airtime of a datagram of `bytes`; at least the time in which the ends handle it.
    pub fn airtime(&self, bytes: usize) -> Span {
        let air = (bytes + self.below) as f64 * 8e9 / self.rate_bit_s.max(1.0);
        Span::from_ns_f64(air.ceil()).max(HANDLING)
    }

    /// Bytes around a symbol and maximum symbol size in bytes for a message of `bytes`; the symbol
    /// size is 0 if there is no room.
    pub fn symbol(&self, bytes: usize, added: Added) -> (usize, usize) {
        let room = |around| self.datagram.saturating_sub(around);
        let (short, long) = (SHORT + added.short, HEADER + added.long);
        let few = symbols(bytes, room(short)) <= MAX_SHORT_SYMBOLS && self.members <= UP_MEMBERS;
        let around = if few { short } else { long };
        (around, room(around))
    }

    /// Number of symbols in the first burst: all of `members` have the message with a
    /// probability of 50 %.
    pub fn first_burst(&self, symbols: usize, members: usize) -> u16 {
        to_u16(frames_for_all(symbols as u64, members as u64, self.loss(), 0.5))
    }

    /// Number of symbols to send so that `symbols` arrive on average.
    pub fn frames_for(&self, symbols: usize) -> u16 {
        to_u16((symbols as f64 / (1.0 - self.loss())).ceil() as u64)
    }

    /// At least `least` symbols, and more while each saves more waiting time than it costs. A
    /// missing symbol costs a receiver a round trip; an extra symbol delays `others` receivers by
    /// its airtime, and by more on a fuller channel.
    pub fn worthwhile_frames(&self, symbols: usize, least: u16, others: f64) -> u16 {
        if self.spare <= 0.0 {
            return least;
        }
        let takes = self.airtime(self.datagram).as_ns_f64() * others / self.spare;
        let saves = (self.round_trip + 2 * self.airtime(self.datagram)).as_ns_f64();
        to_u16(frames_while(symbols as u64, least.into(), self.loss(), takes / saves))
    }

    /// Number of symbols of the first burst to `members`, with those that save more waiting time than they cost.
    pub fn burst(&self, symbols: usize, members: usize) -> u16 {
        self.worthwhile_frames(symbols, self.first_burst(symbols, members), 1.0)
    }

    /// Number of extra symbols that each of `members` sends unrequested.
    pub fn extra_frames(&self, members: u16, added: Added) -> u8 {
        let symbols = self.answer_symbols(added);
        let least = self.answer_burst(symbols);
        // On average half of the other members wait behind a member.
        let others = (f64::from(members) + 1.0) / 2.0;
        u8::try_from(self.worthwhile_frames(symbols, least, others) - least)
            .map_or(MAX_MORE, |more| more.min(MAX_MORE))
    }

    /// Number of symbols that a member sends for `symbols` requested ones: too few cost another
    /// round, too many cost channel time.
    pub fn repair(&self, symbols: usize) -> u16 {
        to_u16((symbols as f64 / (1.0 - self.loss())).round() as u64)
    }

    /// Number of symbols that a member sends unrequested for an answer of `symbols`.
    pub fn answer_burst(&self, symbols: usize) -> u16 {
        let (needed, loss) = (symbols as f64, self.loss());
        if loss == 0.0 {
            return to_u16(symbols as u64);
        }
        // The standard deviation of the negative binomial number of frames of which `needed`
        // arrive. Rounded, not cut off: missing symbols are requested only after the slots.
        let deviation = (needed * loss).sqrt() / (1.0 - loss);
        to_u16((needed / (1.0 - loss) - LESS * deviation).round().max(needed) as u64)
    }

    /// Number of source symbols of an answer.
    pub fn answer_symbols(&self, added: Added) -> usize {
        symbols(self.answer, self.symbol(self.answer, added).1)
    }

    /// Number of frames of an unrequested answer, `more` of them extra ones.
    pub fn answer_frames(&self, more: u8, added: Added) -> u16 {
        self.answer_burst(self.answer_symbols(added)) + u16::from(more)
    }

    /// Length of a frame of an answer, in bytes.
    pub fn answer_length(&self, added: Added) -> usize {
        let (around, symbol) = self.symbol(self.answer, added);
        around + symbol_size(self.answer, symbol)
    }

    /// Airtime of a frame of an answer.
    pub fn answer_frame(&self, added: Added) -> Span {
        self.airtime(self.answer_length(added))
    }

    /// Airtime of an acknowledgement.
    pub fn acknowledgement(&self, added: Added) -> Span {
        self.airtime(ACKNOWLEDGEMENT + added.long)
    }

    /// Slot length of a member, with `more` extra symbols.
    pub fn slot(&self, response: ResponseKind, more: u8, added: Added) -> Span {
        let (frames, each) = match response {
            ResponseKind::Answers => (self.answer_symbols(added), self.answer_frame(added)),
            ResponseKind::Acknowledgements => (1, self.acknowledgement(added)),
        };
        Span::from_ns_f64((self.slot_frames(frames, more) * each.as_ns_f64()).ceil())
    }

    /// Length of a slot for an answer of `symbols` symbols, in frames.
    fn slot_frames(&self, symbols: usize, more: u8) -> f64 {
        let room = 1.0 + self.loss().min(ROOM);
        let sent = f64::from(self.answer_burst(symbols)) + f64::from(more);
        // The mean duration, or that of the whole burst if it has extra symbols.
        let takes = if more > 0 { sent } else { symbols as f64 / (1.0 - self.loss()) };
        takes * room
    }

    /// The data rate in bit/s for which the hub has made slots of this length, for an answer of
    /// `symbols` symbols in frames of `bytes`, `more` of them extra ones.
    pub fn rate_of_slot(&self, slot: Span, symbols: usize, more: u8, bytes: usize) -> f64 {
        let bits = (bytes + self.below) as f64 * 8e9;
        self.slot_frames(symbols, more) * bits / slot.max(Span::from_ns(1)).as_ns_f64()
    }
}

fn to_u16(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Expected response of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseKind {
    /// An acknowledgement.
    Acknowledgements,
    /// An answer, which also acknowledges the message.
    Answers,
}

/// The prefix of a message: when and how members respond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Expected response.
    pub response: ResponseKind,
    /// Slot length per member in us; 0 if members wait for a request.
    pub slot_us: u32,
    /// Frame loss on the return path as measured by the hub, in 255ths.
    pub loss: u8,
    /// Extra symbols of an answer beyond those for the loss, 127 at most.
    pub more: u8,
}

impl Schedule {
    /// Encoded size, in bytes.
    pub const LENGTH: usize = 6;

    /// Encodes the schedule.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let [a, b, c, d] = self.slot_us.to_be_bytes();
        let response =
            u8::from(self.response == ResponseKind::Answers) | (self.more.min(MAX_MORE) << 1);
        [response, a, b, c, d, self.loss]
    }

    /// Decodes the schedule before a message.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [response, a, b, c, d, loss] = bytes.first_chunk()?;
        let more = response >> 1;
        let response = match response & 1 {
            0 => ResponseKind::Acknowledgements,
            _ => ResponseKind::Answers,
        };
        let slot_us = u32::from_be_bytes([*a, *b, *c, *d]);
        Some(Self { response, slot_us, loss: *loss, more })
    }
}

/// The slot of a member for a message. The order rotates with each message, so that no member
/// is always the last.
pub fn slot_index(member: u16, members: u16, message: u64) -> u16 {
    let members = u64::from(members.max(1));
    // The factor is 2^32 divided by the golden ratio (Knuth's multiplicative hashing), so that a
    // member's slots in consecutive messages are far apart.
    let turn = (message % members).wrapping_mul(0x9E37_79B9) % members;
    ((u64::from(member) + turn) % members) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// 127-byte frames at 250 kbit/s, 30 % loss.
    pub(crate) fn physical() -> FecSettings {
        FecSettings {
            datagram: 85,
            below: 42,
            rate_bit_s: 250_000.0,
            loss: 0.3,
            round_trip: Span::from_ms(60),
            least_trip: Span::ZERO,
            answer: 1_699,
            members: 300,
            spare: 0.0,
            patience: Span::ZERO,
        }
    }

    #[test]
    fn bursts_are_about_what_it_takes() {
        let settings = physical();
        assert_eq!(settings.airtime(85), Span::from_us(4_064));
        let of = |settings: FecSettings, bytes| settings.symbol(bytes, Added::by_hub(4));
        assert_eq!((of(settings, 1_699), of(settings, 4_000)), ((9, 76), (13, 72)));
        assert_eq!(of(FecSettings { members: 513, ..settings }, 1_699), (13, 72));
        // An answer of 1,699 B with its envelope of 25 B, and the end marker.
        let secure = FecSettings { answer: 1_724, ..settings };
        assert_eq!(secure.answer_symbols(Added::by_member(6)), 23);
        let burst = settings.first_burst(24, 300);
        assert!((45..55).contains(&burst), "{burst}");
        assert_eq!(settings.frames_for(24), 35);
        assert_eq!((settings.answer_burst(24), settings.repair(1), settings.repair(2)), (31, 1, 3));
        let quiet = FecSettings { loss: 0.0, ..settings };
        assert_eq!((quiet.first_burst(24, 300), quiet.answer_burst(24)), (24, 24));
        let dead = FecSettings { loss: 1.0, ..settings };
        assert!(dead.first_burst(24, 300) < 1_000);
    }

    #[test]
    fn more_goes_where_waiting_costs_more_than_sending() {
        // One member, 2 symbols of 500 B at 1 Mbit/s, 10 % loss, RTT 120 ms.
        let one = FecSettings {
            datagram: 458,
            rate_bit_s: 1e6,
            loss: 0.1,
            round_trip: Span::from_ms(120),
            answer: 700,
            members: 1,
            spare: 1.0,
            ..physical()
        };
        let added = Added::by_hub(4);
        assert_eq!((one.worthwhile_frames(2, 2, 1.0), one.extra_frames(1, added)), (3, 1));
        // Three hundred members wait for each other; a full channel has no room.
        assert_eq!(one.extra_frames(300, added), 0);
        assert_eq!(FecSettings { spare: 0.05, ..one }.worthwhile_frames(2, 2, 1.0), 2);
        assert_eq!(FecSettings { spare: 0.0, ..one }.worthwhile_frames(2, 2, 1.0), 2);
        let slots = [0, 1].map(|more| one.slot(ResponseKind::Answers, more, added));
        assert!(slots[1] > slots[0] * 5 / 4, "{slots:?}");
    }

    #[test]
    fn each_has_a_slot_of_its_own_and_another_next_time() {
        for (members, message) in [(1, 0), (300, 0), (300, 7), (17, 1 << 40)] {
            let ranks: BTreeSet<u16> =
                (0..members).map(|member| slot_index(member, members, message)).collect();
            assert_eq!(ranks.len(), usize::from(members));
            assert!(ranks.into_iter().all(|slot_index| slot_index < members));
        }
        assert_ne!(slot_index(3, 300, 1), slot_index(3, 300, 2));
    }

    #[test]
    fn schedules_read_back() {
        for (response, more) in [
            (ResponseKind::Answers, 0),
            (ResponseKind::Acknowledgements, 3),
            (ResponseKind::Answers, 127),
        ] {
            let schedule = Schedule { response, slot_us: 146_000, loss: 77, more };
            let bytes = [&schedule.encode()[..], b"rest"].concat();
            assert_eq!(Schedule::decode(&bytes), Some(schedule));
        }
        assert_eq!(Schedule::decode(&[0; 5]), None);
    }
}
