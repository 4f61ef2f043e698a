//! The frames of `multicast-fec`. In the long form the high nibble of the first byte is the
//! version of the wire format, 1; the low nibble is the kind. Numbers are big-endian. Each frame
//! ends with an authentication code that only members of the session can compute
//! ([`crate::keys`]).
//!
//! Frames are as short as possible, because IEEE 802.15.4 leaves 85 bytes after IPv4 and UDP: the
//! header of a symbol has 5 bytes for messages with few symbols, and 9 at most. The first byte of
//! the short form has the bits 110 (hub) or 111 (member) and the number of symbols minus one. The
//! message number follows, and from a member one 16-bit number: nine bits of member number and
//! seven of symbol number.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use alloc::borrow::Cow;

/// Maximum header size of a symbol, in bytes.
pub const HEADER: usize = 9;
/// Header size in the short form, in bytes.
pub const SHORT: usize = 5;
/// Bytes for a count and a code, which follow a frame.
const ROOM_FOR_CODE: usize = 8;
/// Size of an acknowledgement, in bytes.
pub const ACKNOWLEDGEMENT: usize = 6;
/// Messages with at most this many source symbols always fit the short form.
pub const MAX_SHORT_SYMBOLS: usize = 32;
/// Limits of the short form (exclusive): symbol numbers of the hub, symbol numbers of members,
/// member numbers.
pub const DOWN_NUMBERS: u16 = 1 << 8;
pub const UP_NUMBERS: u16 = 1 << UP_BITS;
pub const UP_MEMBERS: u16 = 1 << (16 - UP_BITS);
const UP_BITS: u32 = 7;

const DOWN_SHORT: u8 = 0xc0;
const UP_SHORT: u8 = 0xe0;
const SHORT_KIND: u8 = 0xe0;
pub(crate) const REQUEST_UNICAST: u8 = 0x13;
const DOWN: u8 = 0x14;
const UP: u8 = 0x15;
const REQUEST: u8 = 0x16;
const NACK: u8 = 0x17;
const ANSWERED: u8 = 0x18;

/// The member has no symbol of a message; it was asked for its answer by multicast.
pub const NO_SYMBOL: u8 = 254;
/// The member has received nothing of a message by multicast; it was asked by unicast.
pub const NOTHING: u8 = 255;

/// A request for a member's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The member.
    pub member: u16,
    /// Number of missing symbols; 255 if none has arrived.
    pub symbols: u8,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A symbol of the hub's message, to all members.
    Down {
        /// Low 16 bits of the message number.
        message: u16,
        /// The symbol's number.
        symbol: u16,
        /// Number of source symbols, not 0.
        symbols: u16,
        /// Remaining frames of this burst, at most 255. A member that lacks symbols reports it
        /// after the burst.
        left: u8,
        /// The symbol.
        data: Cow<'a, [u8]>,
    },
    /// A symbol of a member's answer.
    Up {
        /// The answered message.
        message: u16,
        /// The member.
        member: u16,
        /// The symbol's number.
        symbol: u16,
        /// Number of source symbols of the answer, not 0.
        symbols: u16,
        /// The symbol.
        data: Cow<'a, [u8]>,
    },
    /// Requests of the hub for missing answers.
    Request {
        /// The answered message.
        message: u16,
        /// Request round, so that copies of a request are served once.
        turn: u8,
        /// The requests.
        requests: Vec<Request>,
        /// Whether it is sent by unicast, to a member that multicast does not seem to reach.
        unicast: bool,
    },
    /// A member lacks symbols of the hub's message.
    Nack {
        /// The message.
        message: u16,
        /// The member.
        member: u16,
        /// Number of missing symbols; [`NO_SYMBOL`] or [`NOTHING`] if it has none; 0 if
        /// the message has arrived: an acknowledgement, or the application has not answered yet.
        symbols: u8,
    },
    /// Members whose answers the hub has: one bit per member from `first` on.
    Answered {
        /// The answered message.
        message: u16,
        /// The member of the lowest bit of the first byte.
        first: u16,
        /// The bits.
        members: Cow<'a, [u8]>,
    },
}

/// Parses numbers.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }

    /// A number that is not 0.
    fn count(&mut self) -> Option<u16> {
        self.number().filter(|number| *number > 0)
    }
}

impl<'a> Frame<'a> {
    /// Encodes the frame, without its authentication code.
    pub fn encode(&self) -> Vec<u8> {
        // With a code, in a datagram.
        let content = match self {
            Self::Down { data, .. } | Self::Up { data, .. } => data.len(),
            Self::Answered { members, .. } => members.len(),
            Self::Request { requests, .. } => 3 * requests.len(),
            Self::Nack { .. } => 0,
        };
        let mut bytes = Vec::with_capacity(content + HEADER + ROOM_FOR_CODE);
        self.write(&mut bytes);
        bytes
    }

    /// Appends the frame, without its authentication code.
    pub fn write(&self, bytes: &mut Vec<u8>) {
        let numbers = |bytes: &mut Vec<u8>, all: &[u16]| {
            all.iter().for_each(|number| bytes.extend_from_slice(&number.to_be_bytes()));
        };
        match self {
            Self::Down { message, symbol, symbols, left, data } => {
                match (few(*symbols), u8::try_from(*symbol)) {
                    (Some(few), Ok(symbol)) => {
                        bytes.push(DOWN_SHORT | few);
                        numbers(bytes, &[*message]);
                        bytes.extend_from_slice(&[*left, symbol]);
                    }
                    _ => {
                        bytes.extend_from_slice(&[DOWN, *left]);
                        numbers(bytes, &[*message, *symbol, *symbols]);
                    }
                }
                bytes.extend_from_slice(data);
            }
            Self::Up { message, member, symbol, symbols, data } => {
                let short = *member < UP_MEMBERS && *symbol < UP_NUMBERS;
                if let Some(few) = few(*symbols).filter(|_| short) {
                    bytes.push(UP_SHORT | few);
                    numbers(bytes, &[*message, (member << UP_BITS) | symbol]);
                } else {
                    bytes.push(UP);
                    numbers(bytes, &[*message, *member, *symbol, *symbols]);
                }
                bytes.extend_from_slice(data);
            }
            Self::Request { message, turn, requests, unicast } => {
                bytes.push(if *unicast { REQUEST_UNICAST } else { REQUEST });
                numbers(bytes, &[*message]);
                bytes.push(*turn);
                for request in requests {
                    numbers(bytes, &[request.member]);
                    bytes.push(request.symbols);
                }
            }
            Self::Nack { message, member, symbols } => {
                bytes.push(NACK);
                numbers(bytes, &[*message, *member]);
                bytes.push(*symbols);
            }
            Self::Answered { message, first, members } => {
                bytes.push(ANSWERED);
                numbers(bytes, &[*message, *first]);
                bytes.extend_from_slice(members);
            }
        }
    }

    /// Decodes a frame without its code; `None` if it is invalid.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let frame = match reader.byte()? {
            kind if kind & SHORT_KIND == DOWN_SHORT => {
                let message = reader.number()?;
                let (left, symbol) = (reader.byte()?, reader.byte()?.into());
                let symbols = u16::from(kind & !SHORT_KIND) + 1;
                Self::Down { message, symbol, symbols, left, data: reader.0.into() }
            }
            kind if is_short_up(kind) => {
                let message = reader.number()?;
                Self::short_up(kind, message, reader.0)?
            }
            DOWN => {
                let (left, message) = (reader.byte()?, reader.number()?);
                let (symbol, symbols) = (reader.number()?, reader.count()?);
                Self::Down { message, symbol, symbols, left, data: reader.0.into() }
            }
            UP => Self::Up {
                message: reader.number()?,
                member: reader.number()?,
                symbol: reader.number()?,
                symbols: reader.count()?,
                data: reader.0.into(),
            },
            kind @ (REQUEST | REQUEST_UNICAST) => {
                let (message, turn) = (reader.number()?, reader.byte()?);
                let mut requests = Vec::with_capacity(reader.0.len().div_ceil(3));
                while !reader.0.is_empty() {
                    requests.push(Request { member: reader.number()?, symbols: reader.byte()? });
                }
                Self::Request { message, turn, requests, unicast: kind == REQUEST_UNICAST }
            }
            NACK => {
                let (message, member) = (reader.number()?, reader.number()?);
                let symbols = reader.byte()?;
                reader.0.is_empty().then_some(Self::Nack { message, member, symbols })?
            }
            ANSWERED => Self::Answered {
                message: reader.number()?,
                first: reader.number()?,
                members: reader.0.into(),
            },
            _ => return None,
        };
        Some(frame)
    }

    /// A symbol of an answer in the short form, from what follows the message's number.
    pub fn short_up(kind: u8, message: u16, rest: &'a [u8]) -> Option<Self> {
        let (member, symbol) = short_place(rest)?;
        let symbols = u16::from(kind & !SHORT_KIND) + 1;
        Some(Self::Up { message, member, symbol, symbols, data: rest[2..].into() })
    }

    /// The claimed sender of a frame for the hub; its code is not checked yet.
    pub fn member(bytes: &[u8]) -> Option<u16> {
        match bytes {
            [UP | NACK, _, _, high, low, ..] => Some(u16::from_be_bytes([*high, *low])),
            [kind, _, _, rest @ ..] if is_short_up(*kind) => short_place(rest).map(|place| place.0),
            _ => None,
        }
    }

    /// Low 16 bits of the message number.
    pub fn message(&self) -> u16 {
        match self {
            Self::Down { message, .. }
            | Self::Up { message, .. }
            | Self::Request { message, .. }
            | Self::Nack { message, .. }
            | Self::Answered { message, .. } => *message,
        }
    }
}

/// Whether a frame is a symbol of an answer in the short form, by its first byte.
pub fn is_short_up(kind: u8) -> bool {
    kind & SHORT_KIND == UP_SHORT
}

/// The numbers of member and symbol of a symbol of an answer in the short form, from what follows the
/// message's number.
pub fn short_place(rest: &[u8]) -> Option<(u16, u16)> {
    let both = u16::from_be_bytes(*rest.first_chunk()?);
    Some((both >> UP_BITS, both % UP_NUMBERS))
}

/// The number of symbols as in the short form, if it fits.
fn few(symbols: u16) -> Option<u8> {
    let few = u8::try_from(symbols.checked_sub(1)?).ok()?;
    (usize::from(few) < MAX_SHORT_SYMBOLS).then_some(few)
}

/// Whether a datagram can be a frame, by its first byte.
pub(crate) fn is_frame(first: u8) -> bool {
    matches!(first, REQUEST_UNICAST..=ANSWERED | DOWN_SHORT..)
}

/// The symbol number after `number`. For messages with few symbols, repair symbol numbers wrap
/// so that they stay below `short`.
pub fn next_symbol(number: u16, symbols: usize, short: u16) -> u16 {
    let next = number.wrapping_add(1);
    // They wrap to the first repair symbol: the source symbols were all sent before.
    if symbols <= MAX_SHORT_SYMBOLS && next >= short { symbols as u16 } else { next }
}

/// Messages with keys of one epoch: further ones need other keys, since [`widen`](crate::window::widen) could take an early
/// frame, which anyone can repeat, for one of a late message. The messages that are open while keys
/// change are in the rest of the 2^15.
pub const MAX_MESSAGES: u64 = 3 << 13;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Number of symbols, and one of their numbers: few and many.
    fn of() -> impl Strategy<Value = (u16, u16)> {
        prop_oneof![(1_u16..40, 0_u16..300), (1_u16.., any::<u16>())]
    }

    fn frames() -> impl Strategy<Value = Frame<'static>> {
        let data = || prop::collection::vec(any::<u8>(), 0..90).prop_map(Cow::from);
        prop_oneof![
            (any::<(u16, u8)>(), of(), data()).prop_map(
                |((message, left), (symbols, symbol), data)| {
                    Frame::Down { message, symbol, symbols, left, data }
                }
            ),
            (any::<u16>(), prop_oneof![0_u16..600, any::<u16>()], of(), data()).prop_map(
                |(message, member, (symbols, symbol), data)| Frame::Up {
                    message,
                    member,
                    symbol,
                    symbols,
                    data
                }
            ),
            (any::<(u16, u8, bool)>(), prop::collection::vec(any::<(u16, u8)>(), 0..26)).prop_map(
                |((message, turn, unicast), requests)| {
                    let requests =
                        requests.into_iter().map(|(member, symbols)| Request { member, symbols });
                    Frame::Request { message, turn, requests: requests.collect(), unicast }
                }
            ),
            any::<(u16, u16, u8)>().prop_map(|(message, member, symbols)| Frame::Nack {
                message,
                member,
                symbols
            }),
            (any::<(u16, u16)>(), data()).prop_map(|((message, first), members)| Frame::Answered {
                message,
                first,
                members
            }),
        ]
    }

    proptest! {
        #[test]
        fn frames_read_back(frame in frames()) {
            let bytes = frame.encode();
            prop_assert_eq!(Frame::decode(&bytes), Some(frame));
        }

        #[test]
        fn anything_is_a_frame_or_none(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Some(frame) = Frame::decode(&bytes) {
                // In the short form.
                let again = frame.encode();
                prop_assert!(again.len() <= bytes.len());
                prop_assert_eq!(Frame::decode(&again), Some(frame));
            }
        }
    }

    #[test]
    fn few_symbols_have_five_bytes_before_them_and_others_nine_at_most() {
        let before = |member, symbol, symbols| {
            let data = Cow::from(vec![0; 72]);
            let down = Frame::Down { message: 1, symbol, symbols, left: 4, data: data.clone() };
            let up = Frame::Up { message: 1, member, symbol, symbols, data };
            [down, up].map(|frame| {
                let bytes = frame.encode();
                assert!(Frame::member(&bytes).is_none_or(|output| output == member));
                bytes.len() - 72
            })
        };
        assert_eq!((before(511, 127, 32), before(511, 128, 1)), ([SHORT; 2], [SHORT, HEADER]));
        assert_eq!((before(512, 0, 9), before(0, 256, 9)), ([SHORT, HEADER], [8, HEADER]));
        assert_eq!(before(0, 0, 33), [8, HEADER]);
    }

    #[test]
    fn of_few_symbols_no_number_is_long() {
        assert_eq!(
            (next_symbol(126, MAX_SHORT_SYMBOLS, 128), next_symbol(127, MAX_SHORT_SYMBOLS, 128)),
            (127, MAX_SHORT_SYMBOLS as u16)
        );
        assert_eq!(
            (
                next_symbol(127, MAX_SHORT_SYMBOLS + 1, 128),
                next_symbol(u16::MAX, MAX_SHORT_SYMBOLS + 1, 128)
            ),
            (128, 0)
        );
    }
}
