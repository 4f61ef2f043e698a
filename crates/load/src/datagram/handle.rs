//! What tokens and message ids of CoAP stand for.

use std::fmt;

/// Bits of a token that are the operation's number; the two above them are the purpose, and
/// the 16 above those the run's nonce.
const NUMBER_BITS: u32 = 46;
const NUMBER: u64 = (1 << NUMBER_BITS) - 1;
/// Bits of a number that are kept of a message id.
const SHORT_BITS: u32 = 30;
const SHORT: u32 = (1 << SHORT_BITS) - 1;

/// What messages are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// An operation, and the notifications of its observation.
    Operation,
    /// The further blocks of a notification: its token is in use (RFC 7959, section 2.6).
    Blocks,
    /// The end of an observation; it has the token of the operation.
    Deregistration,
}

/// An operation, and what messages about it are for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Handle(u64);

impl Handle {
    pub fn new(purpose: Purpose, number: u64) -> Self {
        Self((purpose as u64) << NUMBER_BITS | number & NUMBER)
    }

    /// An operation's.
    pub fn of(number: u64) -> Self {
        Self::new(Purpose::Operation, number)
    }

    pub fn number(self) -> u64 {
        self.0 & NUMBER
    }

    pub fn purpose(self) -> Purpose {
        match self.0 >> NUMBER_BITS {
            0 => Purpose::Operation,
            1 => Purpose::Blocks,
            _ => Purpose::Deregistration,
        }
    }

    /// Its token in a run of this nonce.
    pub fn token(self, nonce: u16) -> u64 {
        u64::from(nonce) << 48 | self.0
    }

    /// What a token of the run of this nonce stands for; nothing if it is another's.
    pub fn from_token(token: u64, nonce: u16) -> Option<Self> {
        (token >> 48 == u64::from(nonce)).then_some(Self(token & 0xffff_ffff_ffff))
    }

    fn short(self) -> u32 {
        (self.0 >> NUMBER_BITS << SHORT_BITS) as u32 | self.0 as u32 & SHORT
    }

    /// The latest of its short form before the operation `next`.
    fn from_short(short: u32, next: u64) -> Self {
        let low = u64::from(short & SHORT);
        let high = next & !u64::from(SHORT);
        let number = if high | low < next {
            high | low
        } else {
            (high | low).saturating_sub(1 << SHORT_BITS)
        };
        Self(u64::from(short >> SHORT_BITS) << NUMBER_BITS | number)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.purpose(), self.number())
    }
}

/// The message ids of a sender, given in turn, and what the messages were about.
#[derive(Debug)]
pub(crate) struct MessageIds {
    next: u16,
    about: Vec<u32>,
}

impl MessageIds {
    /// Ids that begin at `first`.
    pub fn new(first: u16) -> Self {
        Self { next: first, about: vec![u32::MAX; 1 << 16] }
    }

    /// The id of the next message.
    #[inline]
    pub fn assign(&mut self, handle: Handle) -> u16 {
        let id = self.next;
        self.about[usize::from(id)] = handle.short();
        self.next = id.wrapping_add(1);
        id
    }

    /// What the last message of this id was about; `next` is the number of the next operation.
    pub fn find(&self, id: u16, next: u64) -> Option<Handle> {
        let short = self.about[usize::from(id)];
        (short != u32::MAX).then(|| Handle::from_short(short, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_stand_for_operations_of_this_run() {
        for purpose in [Purpose::Operation, Purpose::Blocks, Purpose::Deregistration] {
            let handle = Handle::new(purpose, 123_456_789_012);
            assert_eq!((handle.purpose(), handle.number()), (purpose, 123_456_789_012));
            let token = handle.token(0xabcd);
            assert_eq!(Handle::from_token(token, 0xabcd), Some(handle));
            assert_eq!(Handle::from_token(token, 0xabce), None);
        }
    }

    #[test]
    fn message_ids_stand_for_their_last_message() {
        let mut ids = MessageIds::new(65_530);
        assert_eq!(ids.find(65_530, 1), None);
        let far = (1 << 33) + 5;
        for number in far..far + 70_000 {
            ids.assign(Handle::new(Purpose::Blocks, number));
        }
        let next = far + 70_000;
        let last = ids.next.wrapping_sub(1);
        assert_eq!(ids.find(last, next), Some(Handle::new(Purpose::Blocks, next - 1)));
        assert_eq!(ids.find(ids.next, next), Some(Handle::new(Purpose::Blocks, next - 65_536)));
        // Across a multiple of what is kept.
        let mut ids = MessageIds::new(0);
        ids.assign(Handle::of((1 << 30) - 1));
        ids.assign(Handle::of(1 << 30));
        let next = (1 << 30) + 1;
        assert_eq!(ids.find(0, next).unwrap().number(), (1 << 30) - 1);
        assert_eq!(ids.find(1, next).unwrap().number(), 1 << 30);
    }
}
