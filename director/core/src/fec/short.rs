//! The shortest datagram: one symbol of an answer in the short form, with a count and a code.
//!
//! IEEE 802.15.4 leaves 85 bytes, so a byte of a header can make one symbol of an answer more. The
//! number of the message and the count have 12 bits each here in place of 16, in three bytes after
//! the first. The code is that of the frame with its 16 bits ([`super::frame`]), and of all bits of
//! the count: a number that was restored wrongly has a wrong code.

use super::frame::{Frame, is_short_up, short_place};
use crate::Instant;
use crate::keys::CODE;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::replay::{Checker, Low, Signer};
use crate::window::widen_from;

/// Bits of the message's number, and of the count. What both ends know differs by 1,024 at most:
/// the messages that a hub has open, and the counts that a receiver remembers.
const BITS: u32 = 12;
const MASK: u32 = (1 << BITS) - 1;
/// Bytes of both, and of the message's number in a frame.
const BOTH: usize = 3;
const MESSAGE: usize = 2;

/// Bytes that security adds to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// To a symbol in the short form, alone in a datagram.
    pub short: usize,
    /// To all others.
    pub long: usize,
}

impl Added {
    /// To those of a member, with `code` bytes of count and code where a frame is not short.
    pub fn by_member(code: usize) -> Self {
        Self { short: if code == 0 { 0 } else { CODE + BOTH - MESSAGE }, long: code }
    }

    /// To those of the hub, which have a code of these bytes and no count.
    pub fn by_hub(code: usize) -> Self {
        Self { short: code, long: code }
    }
}

/// Signs a datagram of a member.
pub fn sign(own: &mut Signer, datagram: &mut Vec<u8>) {
    let Some([kind, high, low]) =
        datagram.first_chunk().filter(|first| is_short_up(first[0])).copied()
    else {
        return own.sign(datagram);
    };
    let Some((count, code)) = own.next(datagram) else { return };
    let message = u32::from(u16::from_be_bytes([high, low]));
    let [_, a, b, c] = ((message & MASK) << BITS | (count as u32 & MASK)).to_be_bytes();
    datagram.splice(..=MESSAGE, [kind, a, b, c]);
    datagram.extend_from_slice(&code);
}

/// A datagram that [`sign`] has made short.
pub struct Short<'a> {
    kind: u8,
    both: u32,
    /// Numbers of member and symbol, and the symbol.
    rest: &'a [u8],
    code: &'a [u8; CODE],
}

impl<'a> Short<'a> {
    /// Splits a datagram; `None` if it is not short.
    pub fn of(datagram: &'a [u8]) -> Option<Self> {
        let (content, code) = datagram.split_last_chunk()?;
        let ([kind, a, b, c], rest) = content.split_first_chunk()?;
        let both = u32::from_be_bytes([0, *a, *b, *c]);
        is_short_up(*kind).then_some(Self { kind: *kind, both, rest, code })
    }

    /// The claimed sender; the code is not checked yet.
    pub fn member(&self) -> Option<u16> {
        short_place(self.rest).map(|(member, _)| member)
    }

    /// The frame, if its code is right and it has not arrived before; `newest` is the last message.
    pub fn check(&self, other: &mut Checker, newest: u64, now: Instant) -> Option<Frame<'a>> {
        let message = widen_from((self.both >> BITS).into(), BITS, newest) as u16;
        let [high, low] = message.to_be_bytes();
        let count = Low { bits: BITS, count: (self.both & MASK).into() };
        let is_new = other.is_new([&[self.kind, high, low], self.rest], count, self.code, now);
        is_new.then(|| Frame::short_up(self.kind, message, self.rest)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Keys, Party, Root, Scope, Use};
    use proptest::prelude::*;
    use std::borrow::Cow;

    fn keys(root: &Root) -> Keys {
        root.keys(Scope::new(Use::Frame, 3, Party::Member(7)))
    }

    fn ends() -> (Signer, Checker) {
        let root = Root::new(b"the keys of a handshake", [1; 16]);
        (Signer::new(keys(&root)), Checker::new(keys(&root)))
    }

    fn answer(message: u16, data: &[u8]) -> Frame<'_> {
        Frame::Up { message, member: 7, symbol: 3, symbols: 23, data: Cow::from(data) }
    }

    fn signed(signer: &mut Signer, frame: &Frame<'_>) -> Vec<u8> {
        let mut bytes = frame.encode();
        sign(signer, &mut bytes);
        bytes
    }

    fn opened(datagram: &[u8], checker: &mut Checker, newest: u64) -> Option<Frame<'static>> {
        let frame = Short::of(datagram)?.check(checker, newest, Instant::START)?;
        Frame::decode(&frame.encode()).map(|frame| match frame {
            Frame::Up { message, member, symbol, symbols, data } => {
                let data = data.into_owned().into();
                Frame::Up { message, member, symbol, symbols, data }
            }
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_symbol_is_a_byte_shorter_and_counts_once() {
        let (mut signer, mut checker) = ends();
        let frame = answer(0xabcd, &[5; 75]);
        let datagram = signed(&mut signer, &frame);
        let added = Added::by_member(signer.code_len());
        assert_eq!(
            (datagram.len(), added),
            (frame.encode().len() + 5, Added { short: 5, long: 6 })
        );
        assert_eq!(datagram.len(), 85, "the room of IEEE 802.15.4");
        for at in 0..datagram.len() {
            let mut forged = datagram.clone();
            forged[at] ^= 1;
            assert_eq!(opened(&forged, &mut checker, 0xabcd), None, "byte {at}");
        }
        assert_eq!(opened(&datagram[..8], &mut checker, 0xabcd), None);
        assert_eq!(Short::of(&datagram).and_then(|short| short.member()), Some(7));
        // A hub that knows only much later messages takes it for that of another one.
        assert_eq!(opened(&datagram, &mut checker, 0xabcd + 3_000), None);
        assert_eq!(opened(&datagram, &mut checker, 0xabcd + 1_024), Some(frame));
        assert_eq!(opened(&datagram, &mut checker, 0xabcd + 1_024), None, "again");
    }

    #[test]
    fn other_frames_have_a_count_of_two_bytes_and_none_has_one_without_security() {
        let (mut signer, mut checker) = ends();
        let nack = Frame::Nack { message: 1, member: 7, symbols: 2 }.encode();
        let mut datagram = nack.clone();
        sign(&mut signer, &mut datagram);
        assert!(Short::of(&datagram).is_none());
        assert_eq!(checker.check(&datagram, Instant::START), Some(&nack[..]));
        let mut insecure = Signer::new(keys(&Root::insecure([1; 16])));
        let frame = answer(1, b"plain");
        assert_eq!(signed(&mut insecure, &frame), frame.encode());
        assert_eq!(Added::by_member(insecure.code_len()), Added::by_hub(0));
    }

    proptest! {
        /// Answers to the messages that a hub has open, in datagrams that overtake each other, among
        /// others of the same member.
        #[test]
        fn what_is_open_is_read_in_any_order(
            newest in 0_u64..1 << 40,
            ages in prop::collection::vec((0_u64..1_024, any::<bool>()), 1..200),
            turn in any::<prop::sample::Index>()
        ) {
            let (mut signer, mut checker) = ends();
            let mut sent: Vec<_> = ages.iter().map(|(age, is_short)| {
                let message = newest.saturating_sub(*age) as u16;
                let frame = if *is_short {
                    answer(message, b"symbol")
                } else {
                    Frame::Nack { message, member: 7, symbols: 1 }
                };
                (signed(&mut signer, &frame), frame)
            }).collect();
            let place = turn.index(sent.len());
            sent.rotate_left(place);
            for (datagram, frame) in sent {
                let found = match Short::of(&datagram) {
                    Some(short) => short.check(&mut checker, newest, Instant::START),
                    None => checker.check(&datagram, Instant::START).and_then(Frame::decode),
                };
                prop_assert_eq!(found, Some(frame));
            }
        }

        #[test]
        fn anything_is_a_datagram_or_none(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let (_, mut checker) = ends();
            if let Some(short) = Short::of(&bytes) {
                prop_assert!(short.check(&mut checker, 5, Instant::START).is_none());
                let _ = short.member();
            }
        }
    }
}
