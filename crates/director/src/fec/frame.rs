//! The frames of `multicast-fec`. The high nibble of the first byte is the version of the
//! wire format, 1; the low nibble the kind. Numbers are big-endian. Each ends with a code
//! that only members of the session can make ([`crate::keys`]).
//!
//! Frames are as short as they can be told apart: 9 bytes before a symbol, since a frame of
//! IEEE 802.15.4 leaves 85 bytes after IPv4 and UDP.

/// Bytes before the data of a symbol.
pub const HEADER: usize = 9;

const DOWN: u8 = 0x14;
const UP: u8 = 0x15;
pub(crate) const WANT: u8 = 0x16;
const LACK: u8 = 0x17;
const HAD: u8 = 0x18;

/// What a member is asked to send more of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Who.
    pub member: u16,
    /// Symbols that are lacking; 255 when nothing came from it at all.
    pub symbols: u8,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A symbol of the hub's message, to all.
    Down {
        /// The message, by the low half of its number.
        message: u16,
        /// The symbol's number.
        symbol: u16,
        /// Bytes of the message.
        bytes: u16,
        /// Frames of this burst that are still to come, at most 255 are said: whoever lacks
        /// symbols says so when the burst is over.
        left: u8,
        /// The symbol.
        data: Vec<u8>,
    },
    /// A symbol of a member's answer.
    Up {
        /// The message that is answered.
        message: u16,
        /// Who answers.
        member: u16,
        /// The symbol's number.
        symbol: u16,
        /// Bytes of the answer.
        bytes: u16,
        /// The symbol.
        data: Vec<u8>,
    },
    /// What the hub lacks of answers.
    Want {
        /// The message that is answered.
        message: u16,
        /// The turn of asking, so that copies of one asking are answered once.
        turn: u8,
        /// What, of whom.
        wants: Vec<Want>,
    },
    /// A member lacks so many symbols of the hub's message.
    Lack {
        /// The message.
        message: u16,
        /// Who.
        member: u16,
        /// How many.
        symbols: u8,
    },
    /// Whose answers the hub has: a bit for each member from `first` on.
    Had {
        /// The message that is answered.
        message: u16,
        /// The member of the lowest bit of the first byte.
        first: u16,
        /// The bits.
        members: Vec<u8>,
    },
}

/// Takes numbers off the front.
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
}

impl Frame {
    /// As it goes on the wire, without its code.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(96);
        let numbers = |bytes: &mut Vec<u8>, all: &[u16]| {
            all.iter().for_each(|number| bytes.extend_from_slice(&number.to_be_bytes()));
        };
        match self {
            Self::Down { message, symbol, bytes: length, left, data } => {
                bytes.extend_from_slice(&[DOWN, *left]);
                numbers(&mut bytes, &[*message, *symbol, *length]);
                bytes.push(0);
                bytes.extend_from_slice(data);
            }
            Self::Up { message, member, symbol, bytes: length, data } => {
                bytes.push(UP);
                numbers(&mut bytes, &[*message, *member, *symbol, *length]);
                bytes.extend_from_slice(data);
            }
            Self::Want { message, turn, wants } => {
                bytes.push(WANT);
                numbers(&mut bytes, &[*message]);
                bytes.push(*turn);
                for want in wants {
                    numbers(&mut bytes, &[want.member]);
                    bytes.push(want.symbols);
                }
            }
            Self::Lack { message, member, symbols } => {
                bytes.push(LACK);
                numbers(&mut bytes, &[*message, *member]);
                bytes.push(*symbols);
            }
            Self::Had { message, first, members } => {
                bytes.push(HAD);
                numbers(&mut bytes, &[*message, *first]);
                bytes.extend_from_slice(members);
            }
        }
        bytes
    }

    /// What came; nothing if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let frame = match reader.byte()? {
            DOWN => {
                let left = reader.byte()?;
                let (message, symbol) = (reader.number()?, reader.number()?);
                let bytes = reader.number()?;
                // Reserved: what a later version says there is not for this one.
                reader.byte()?;
                Self::Down { message, symbol, bytes, left, data: reader.0.to_vec() }
            }
            UP => Self::Up {
                message: reader.number()?,
                member: reader.number()?,
                symbol: reader.number()?,
                bytes: reader.number()?,
                data: reader.0.to_vec(),
            },
            WANT => {
                let (message, turn) = (reader.number()?, reader.byte()?);
                let mut wants = Vec::new();
                while !reader.0.is_empty() {
                    wants.push(Want { member: reader.number()?, symbols: reader.byte()? });
                }
                Self::Want { message, turn, wants }
            }
            LACK => {
                let (message, member) = (reader.number()?, reader.number()?);
                let symbols = reader.byte()?;
                reader.0.is_empty().then_some(Self::Lack { message, member, symbols })?
            }
            HAD => Self::Had {
                message: reader.number()?,
                first: reader.number()?,
                members: reader.0.to_vec(),
            },
            _ => return None,
        };
        Some(frame)
    }

    /// Who says to have sent a frame that is for the hub, before its code is checked.
    pub fn member(bytes: &[u8]) -> Option<u16> {
        match bytes {
            [UP | LACK, _, _, high, low, ..] => Some(u16::from_be_bytes([*high, *low])),
            _ => None,
        }
    }

    /// The message that it belongs to.
    pub fn message(&self) -> u16 {
        match self {
            Self::Down { message, .. }
            | Self::Up { message, .. }
            | Self::Want { message, .. }
            | Self::Lack { message, .. }
            | Self::Had { message, .. } => *message,
        }
    }
}

/// The whole number of which `low` is the low half and that is nearest to `near`.
pub fn widen(low: u16, near: u64) -> u64 {
    let base = near & !0xffff;
    let candidates = [base.checked_sub(0x1_0000), Some(base), base.checked_add(0x1_0000)];
    let numbers = candidates.into_iter().flatten().map(|base| base | u64::from(low));
    numbers.min_by_key(|number| number.abs_diff(near)).unwrap_or(u64::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames() -> impl Strategy<Value = Frame> {
        let data = || prop::collection::vec(any::<u8>(), 0..90);
        prop_oneof![
            (any::<(u16, u16, u16, u8)>(), data()).prop_map(
                |((message, symbol, bytes, left), data)| {
                    Frame::Down { message, symbol, bytes, left, data }
                }
            ),
            (any::<(u16, u16, u16, u16)>(), data()).prop_map(
                |((message, member, symbol, bytes), data)| Frame::Up {
                    message,
                    member,
                    symbol,
                    bytes,
                    data
                }
            ),
            (any::<(u16, u8)>(), prop::collection::vec(any::<(u16, u8)>(), 0..26)).prop_map(
                |((message, turn), wants)| {
                    let wants = wants.into_iter().map(|(member, symbols)| Want { member, symbols });
                    Frame::Want { message, turn, wants: wants.collect() }
                }
            ),
            any::<(u16, u16, u8)>().prop_map(|(message, member, symbols)| Frame::Lack {
                message,
                member,
                symbols
            }),
            (any::<(u16, u16)>(), data()).prop_map(|((message, first), members)| Frame::Had {
                message,
                first,
                members
            }),
        ]
    }

    proptest! {
        #[test]
        fn frames_read_back(frame in frames()) {
            prop_assert_eq!(Frame::decode(&frame.encode()), Some(frame));
        }

        #[test]
        fn anything_is_a_frame_or_none(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            if let Some(frame) = Frame::decode(&bytes) {
                let again = frame.encode();
                prop_assert_eq!(again.len(), bytes.len());
            }
        }

        #[test]
        fn numbers_widen_to_the_nearest(near in 0_u64..1 << 40, off in -30_000_i64..30_000) {
            let number = near.saturating_add_signed(off);
            prop_assert_eq!(widen(number as u16, near), number);
        }
    }

    #[test]
    fn symbols_have_nine_bytes_before_them() {
        let data = vec![0; 72];
        let down = Frame::Down { message: 1, symbol: 2, bytes: 3, left: 4, data: data.clone() };
        let up = Frame::Up { message: 1, member: 2, symbol: 3, bytes: 4, data };
        assert_eq!((down.encode().len(), up.encode().len()), (72 + HEADER, 72 + HEADER));
    }
}
