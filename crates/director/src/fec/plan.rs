//! How much is sent when: bursts, slots, and the pace.

use super::code::{even, symbols};
use super::frame::{ACKNOWLEDGEMENT, FEW, HEADER, SHORT, UP_MEMBERS};
use crate::Nanos;
use crate::bound::{frames_for_all, frames_while};

/// How a group paces itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FecSettings {
    /// Bytes of a datagram at most.
    pub datagram: usize,
    /// Bytes on the air that go with a datagram: the headers below.
    pub below: usize,
    /// What the channel that all share carries, in bit/s.
    pub rate_bit_s: f64,
    /// The share of frames that a receiver is thought to lose, 0 to 1.
    pub loss: f64,
    /// A round trip without waiting, in ns.
    pub round_trip: Nanos,
    /// Bytes of an answer, as far as is known.
    pub answer: usize,
    /// Members of the group, which hub and members set themselves: the numbers of very many are longer.
    pub members: u16,
    /// The share of the channel that is free, 0 to 1, for frames that may save somebody a wait;
    /// none where bytes are counted.
    pub spare: f64,
}

impl Default for FecSettings {
    fn default() -> Self {
        Self {
            datagram: 1_200,
            below: 42,
            rate_bit_s: 10e6,
            loss: 0.02,
            round_trip: 50_000_000,
            answer: 100,
            members: 1,
            spare: 0.0,
        }
    }
}

/// More loss than this is not made up for in advance.
const MOST_LOSS: f64 = 0.9;
/// By such a share at most a member's slot is longer than an answer takes on average: repairs of
/// others and what the hub asks have to pass too, the more of it the more is lost.
const ROOM: f64 = 0.03;
/// More symbols than this beyond what is usual are not told.
const MOST_MORE: u8 = 127;
/// So many standard deviations less than it takes on average is sent unasked: what is
/// missing is asked for exactly, what is too much is lost.
const LESS: f64 = 0.8;

impl FecSettings {
    fn loss(&self) -> f64 {
        self.loss.clamp(0.0, MOST_LOSS)
    }

    /// How long `bytes` in a datagram are on the air, in ns.
    pub fn airtime(&self, bytes: usize) -> Nanos {
        ((bytes + self.below) as f64 * 8e9 / self.rate_bit_s.max(1.0)).ceil() as Nanos
    }

    /// Bytes before a symbol of a message of so many bytes, and of a symbol at most, with `code`
    /// bytes after each frame; 0 if there is no room.
    pub fn symbol(&self, bytes: usize, code: usize) -> (usize, usize) {
        let room = |header| self.datagram.saturating_sub(header + code);
        let few = symbols(bytes, room(SHORT)) <= FEW && self.members <= UP_MEMBERS;
        let header = if few { SHORT } else { HEADER };
        (header, room(header))
    }

    /// Symbols that the hub sends at first: all of `members` have the message with them
    /// with an even chance.
    pub fn first_burst(&self, symbols: usize, members: usize) -> u16 {
        to_u16(frames_for_all(symbols as u64, members as u64, self.loss(), 0.5))
    }

    /// Symbols that bring so many to somebody on average.
    pub fn enough(&self, symbols: usize) -> u16 {
        to_u16((symbols as f64 / (1.0 - self.loss())).ceil() as u64)
    }

    /// `least` symbols, and more as long as each saves a receiver of so many more waiting than it
    /// takes: what lacks is there a round trip later, and one symbol more holds up `others`
    /// times its time on the air, the more the fuller the channel is.
    pub fn worth(&self, symbols: usize, least: u16, others: f64) -> u16 {
        if self.spare <= 0.0 {
            return least;
        }
        let takes = self.airtime(self.datagram) as f64 * others / self.spare;
        let saves = (self.round_trip + 2 * self.airtime(self.datagram)) as f64;
        to_u16(frames_while(symbols as u64, least.into(), self.loss(), takes / saves))
    }

    /// How many symbols more than usual each of `members` sends unasked.
    pub fn more(&self, members: u16, code: usize) -> u8 {
        let symbols = self.answer_symbols(code);
        let least = self.answer_burst(symbols);
        // On average half of the others are behind somebody.
        let others = (f64::from(members) + 1.0) / 2.0;
        u8::try_from(self.worth(symbols, least, others) - least)
            .map_or(MOST_MORE, |more| more.min(MOST_MORE))
    }

    /// Symbols that a member sends for so many that it is asked for: fewer than it may take
    /// cost another turn, more cost the channel.
    pub fn repair(&self, symbols: usize) -> u16 {
        to_u16((symbols as f64 / (1.0 - self.loss())).round() as u64)
    }

    /// Symbols that a member sends unasked for an answer of so many.
    pub fn answer_burst(&self, symbols: usize) -> u16 {
        let (needed, loss) = (symbols as f64, self.loss());
        let deviation = (needed * loss).sqrt() / (1.0 - loss);
        to_u16((needed / (1.0 - loss) - LESS * deviation).round().max(needed) as u64)
    }

    /// Symbols that an answer has.
    pub fn answer_symbols(&self, code: usize) -> usize {
        symbols(self.answer, self.symbol(self.answer, code).1)
    }

    /// How long a frame of an answer is on the air, in ns.
    pub fn answer_frame(&self, code: usize) -> Nanos {
        let (header, symbol) = self.symbol(self.answer, code);
        self.airtime(header + code + even(self.answer, symbol))
    }

    /// How long an acknowledgement is on the air, in ns.
    pub fn acknowledgement(&self, code: usize) -> Nanos {
        self.airtime(ACKNOWLEDGEMENT + code)
    }

    /// A member's slot in ns, when it sends so many symbols `more`.
    pub fn slot(&self, wanted: Wanted, more: u8, code: usize) -> Nanos {
        let (frames, each) = match wanted {
            Wanted::Answers => (self.answer_symbols(code), self.answer_frame(code)),
            Wanted::Acknowledgements => (1, self.acknowledgement(code)),
        };
        let room = 1.0 + self.loss().min(ROOM);
        let sent = f64::from(self.answer_burst(frames)) + f64::from(more);
        // On average, if all that goes is not more.
        let takes = if more > 0 { sent } else { frames as f64 / (1.0 - self.loss()) };
        (takes * each as f64 * room).ceil() as Nanos
    }
}

fn to_u16(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// What members send back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// That they have the message.
    Acknowledgements,
    /// An answer each, which says that too.
    Answers,
}

/// What goes before a message: how it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// What is sent back.
    pub wanted: Wanted,
    /// A member's slot in us; 0 when members wait to be asked.
    pub slot_us: u32,
    /// Loss on the way back as the hub sees it, in 255ths.
    pub loss: u8,
    /// Symbols of an answer beyond those that the loss asks for, 127 at most.
    pub more: u8,
}

impl Schedule {
    /// Bytes before a message.
    pub const LENGTH: usize = 6;

    /// As it goes before a message.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let [a, b, c, d] = self.slot_us.to_be_bytes();
        let wanted = u8::from(self.wanted == Wanted::Answers) | (self.more.min(MOST_MORE) << 1);
        [wanted, a, b, c, d, self.loss]
    }

    /// The schedule and the message after it.
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let ([wanted, a, b, c, d, loss], rest) = bytes.split_first_chunk()?;
        let more = wanted >> 1;
        let wanted = match wanted & 1 {
            0 => Wanted::Acknowledgements,
            _ => Wanted::Answers,
        };
        let slot_us = u32::from_be_bytes([*a, *b, *c, *d]);
        Some((Self { wanted, slot_us, loss: *loss, more }, rest))
    }
}

/// The slot that a member has for a message: another with each message, so that it is not
/// always the same who is last.
pub fn rank(member: u16, members: u16, message: u64) -> u16 {
    let members = u64::from(members.max(1));
    let turn = (message % members).wrapping_mul(0x9E37_79B9) % members;
    ((u64::from(member) + turn) % members) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// 127-byte frames at 250 kbit/s, of which 30 % are lost.
    pub(crate) fn physical() -> FecSettings {
        FecSettings {
            datagram: 85,
            below: 42,
            rate_bit_s: 250_000.0,
            loss: 0.3,
            round_trip: 60_000_000,
            answer: 1_699,
            members: 300,
            spare: 0.0,
        }
    }

    #[test]
    fn bursts_are_about_what_it_takes() {
        let settings = physical();
        assert_eq!(settings.airtime(85), 4_064_000);
        assert_eq!((settings.symbol(1_699, 4), settings.symbol(4_000, 4)), ((5, 76), (9, 72)));
        assert_eq!(FecSettings { members: 513, ..settings }.symbol(1_699, 4), (9, 72));
        let burst = settings.first_burst(24, 300);
        assert!((45..55).contains(&burst), "{burst}");
        assert_eq!(settings.enough(24), 35);
        assert_eq!((settings.answer_burst(24), settings.repair(1), settings.repair(2)), (31, 1, 3));
        let quiet = FecSettings { loss: 0.0, ..settings };
        assert_eq!((quiet.first_burst(24, 300), quiet.answer_burst(24)), (24, 24));
        let dead = FecSettings { loss: 1.0, ..settings };
        assert!(dead.first_burst(24, 300) < 1_000);
    }

    #[test]
    fn more_goes_where_waiting_costs_more_than_sending() {
        // One member, 2 symbols of 500 B at 1 Mbit/s, a tenth lost, a round trip of 120 ms.
        let one = FecSettings {
            datagram: 458,
            rate_bit_s: 1e6,
            loss: 0.1,
            round_trip: 120_000_000,
            answer: 700,
            members: 1,
            spare: 1.0,
            ..physical()
        };
        assert_eq!((one.worth(2, 2, 1.0), one.more(1, 4)), (3, 1));
        // Three hundred wait for each other, and a channel that is full has no room.
        assert_eq!(one.more(300, 4), 0);
        assert_eq!(FecSettings { spare: 0.05, ..one }.worth(2, 2, 1.0), 2);
        assert_eq!(FecSettings { spare: 0.0, ..one }.worth(2, 2, 1.0), 2);
        let slots = [0, 1].map(|more| one.slot(Wanted::Answers, more, 4));
        assert!(slots[1] > slots[0] * 5 / 4, "{slots:?}");
    }

    #[test]
    fn each_has_a_slot_of_its_own_and_another_next_time() {
        for (members, message) in [(1, 0), (300, 0), (300, 7), (17, 1 << 40)] {
            let ranks: BTreeSet<u16> =
                (0..members).map(|member| rank(member, members, message)).collect();
            assert_eq!(ranks.len(), usize::from(members));
            assert!(ranks.into_iter().all(|rank| rank < members));
        }
        assert_ne!(rank(3, 300, 1), rank(3, 300, 2));
    }

    #[test]
    fn schedules_read_back() {
        for (wanted, more) in
            [(Wanted::Answers, 0), (Wanted::Acknowledgements, 3), (Wanted::Answers, 127)]
        {
            let schedule = Schedule { wanted, slot_us: 146_000, loss: 77, more };
            let bytes = [&schedule.encode()[..], b"rest"].concat();
            assert_eq!(Schedule::decode(&bytes), Some((schedule, &b"rest"[..])));
        }
        assert_eq!(Schedule::decode(&[0; 5]), None);
    }
}
